"""Where things stand: the project's folder, and the folder for all that the lab makes on this machine."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAB_SQL = ROOT / "lab_sql"
NOTEBOOKS = ROOT / "notebooks"


def lab_folder() -> Path:
    """The folder of the lab's own state: `.lab`, or what the environment variable LAB_HOME names. It may be missing."""
    return Path(os.environ.get("LAB_HOME") or ROOT / ".lab").expanduser().resolve()


def lab_home() -> Path:
    """The same folder, made if missing."""
    home = lab_folder()
    home.mkdir(parents=True, exist_ok=True)
    return home
