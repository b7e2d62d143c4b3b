"""Where things stand: the project's folder, and the folder for all that the lab makes on this machine."""

import os
from pathlib import Path

from helpers.errors import LabError

ROOT = Path(__file__).resolve().parent.parent
LAB_SQL = ROOT / "lab_sql"
NOTEBOOKS = ROOT / "notebooks"

NO_HOME = "The lab's own folder {folder} cannot be made: {reason}. Mend that, or set LAB_HOME to another folder."


def lab_folder() -> Path:
    """The folder of the lab's own state: `.lab`, or what the environment variable LAB_HOME names. It may be missing."""
    return Path(os.environ.get("LAB_HOME") or ROOT / ".lab").expanduser().resolve()


def lab_home() -> Path:
    """The same folder, made if missing. Raises LabError where it cannot be made."""
    home = lab_folder()
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(NO_HOME.format(folder=home, reason=error.strerror)) from None
    return home
