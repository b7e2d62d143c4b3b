"""Where things stand: the project's folder, and the folder for all that the lab makes on this machine."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAB_SQL = ROOT / "lab_sql"
NOTEBOOKS = ROOT / "notebooks"


def lab_home() -> Path:
    """The folder of the lab's own state (`.lab`, or the environment variable LAB_HOME); made if missing."""
    home = Path(os.environ.get("LAB_HOME", ROOT / ".lab"))
    home.mkdir(parents=True, exist_ok=True)
    return home
