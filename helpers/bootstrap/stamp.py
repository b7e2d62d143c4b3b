"""The stamp in `.venv`: it was completed, from which requirements, by which Python and in which folder."""

import hashlib
import json
import os
import sys
import sysconfig
from pathlib import Path

from helpers.bootstrap.environment import folder, read_project

UNFINISHED = {"unfinished": "yes"}


def wanted_stamp(root: Path) -> dict[str, str]:
    """Return the stamp of an environment that is complete, current, made by this Python and for this folder."""
    project = read_project(root)
    parts = [project.get("build-system"), project["project"].get("requires-python"), project["project"]["dependencies"]]
    requirements = (root / "requirements.txt").read_bytes() + json.dumps(parts, sort_keys=True).encode()
    return {
        "requirements": hashlib.sha256(requirements.replace(b"\r\n", b"\n")).hexdigest(),
        "python": f"{sys.implementation.name} {sys.version_info[0]}.{sys.version_info[1]} {sysconfig.get_platform()}",
        # The editable installation and the scripts hold this path. Its bytes are the same in every locale.
        "root": os.fsencode(root).decode("utf-8", "surrogateescape"),
    }


def read_stamp(root: Path) -> dict[str, str]:
    """Return the environment's stamp, or {} where there is none (no environment, or one that a person made)."""
    try:
        text = (folder(root) / "lab-stamp.json").read_text(encoding="utf-8")
    except OSError:
        return {}
    try:
        stamp = json.loads(text)
    except ValueError:
        return UNFINISHED
    return stamp if isinstance(stamp, dict) and wanted_stamp(root).keys() <= stamp.keys() else UNFINISHED


def write_stamp(root: Path, stamp: dict[str, str]) -> None:
    """Write it as a whole or not at all."""
    draft = folder(root) / "lab-stamp.json.new"
    draft.write_text(json.dumps(stamp, indent=1), encoding="utf-8")
    draft.replace(folder(root) / "lab-stamp.json")
