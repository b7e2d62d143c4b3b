"""Where the environment lies, what it is for, and the error that says why there is none."""

import os
import sys
import tomllib
from pathlib import Path
from typing import Any

from helpers.errors import LabError
from helpers.paths import ROOT

__all__ = ["COMMAND", "ROOT", "SetupError", "folder", "is_inside", "python", "read_project"]

PYTHON = "python" if os.name == "nt" else "python3"
COMMAND = f"{PYTHON} -m helpers"


class SetupError(LabError):
    """The environment could not be made. The message says why, and what to do."""


def folder(root: Path) -> Path:
    """The environment's own folder."""
    return root / ".venv"


def python(root: Path) -> Path:
    """The environment's interpreter, which may be missing."""
    return folder(root) / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def is_inside(root: Path) -> bool:
    """Whether this interpreter is that one."""
    return Path(sys.prefix).resolve() == folder(root).resolve()


def read_project(root: Path) -> dict[str, Any]:
    """What pyproject.toml says."""
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
