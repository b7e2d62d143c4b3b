"""Makes `.venv`, or makes it again, or brings it up to date."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

from helpers.bootstrap.environment import ROOT, SetupError, folder, python
from helpers.bootstrap.lock import hold_lock, keep
from helpers.bootstrap.pip import FREE_SPACE, find_cure, install, runs_pip
from helpers.bootstrap.stamp import UNFINISHED, read_stamp, wanted_stamp, write_stamp

ENSUREPIP_BYTES = 50_000_000  # what pip takes in a new environment, and some more

# What a person reads.
MAKING = "Setting up the environment in {folder} (once; it takes some minutes and about 1 GB)."
MAKING_AGAIN = "Making the environment in {folder} again: {why}."
INSTALLING = "Bringing the environment in {folder} up to date."
DONE = "The environment is ready."
NO_VENV = (
    "This Python cannot make environments: its module {module} is missing. "
    "On Debian or Ubuntu: sudo apt install python3-venv. Then run the same command again."
)
WHY_UNFINISHED = "its installation was interrupted"
WHY_MOVED = "the project's folder was moved from {old}"
WHY_PYTHON = "it was made by another Python ({old})"
WHY_BROKEN = "its Python does not run"
VENV_FAILED = "The environment in {folder} could not be made:\n{cause}\n{cure}"
IN_USE = (
    "The environment in {folder} could not be removed: {error}.\n"
    "End the programs that use it (JupyterLab, a terminal where it is active), delete the folder and try again."
)


def prepare(root: Path = ROOT) -> None:
    """Make `.venv` or bring it up to date, and stamp it. One call at a time: a second one waits for the first.

    Raises SetupError where that fails; the next call then starts again.
    """
    with hold_lock(root) as lock:
        stamp, wanted = read_stamp(root), wanted_stamp(root)
        if stamp == wanted and python(root).exists():
            return  # made by the call that was waited for
        why = _why_again(root, stamp, wanted)
        if not folder(root).exists():
            print(MAKING.format(folder=folder(root)), flush=True)
            _make(root, lock)
        elif why:
            print(MAKING_AGAIN.format(folder=folder(root), why=why), flush=True)
            _make(root, lock)
        else:
            print(INSTALLING.format(folder=folder(root)), flush=True)
        install(root, lock)
        print(DONE, flush=True)


def _why_again(root: Path, stamp: dict[str, str], wanted: dict[str, str]) -> str:
    """Return why the environment must be made from nothing, or '' where pip can bring it up to date."""
    if stamp.get("unfinished"):
        return WHY_UNFINISHED  # pip takes a half-copied package for an installed one
    if stamp and stamp["root"] != wanted["root"]:
        return WHY_MOVED.format(old=stamp["root"])
    if stamp and stamp["python"] != wanted["python"]:
        return WHY_PYTHON.format(old=stamp["python"])
    return "" if runs_pip(root) else WHY_BROKEN


def _make(root: Path, lock: int) -> None:
    """Make an empty environment with pip in it."""
    for module in ("venv", "ensurepip"):
        if importlib.util.find_spec(module) is None:
            raise SetupError(NO_VENV.format(module=module))
    try:
        if folder(root).exists():
            shutil.rmtree(folder(root))
        folder(root).mkdir()
    except OSError as error:
        raise SetupError(IN_USE.format(folder=folder(root), error=error)) from error
    write_stamp(root, UNFINISHED)  # first, so that an interruption leaves nothing that looks complete
    command = [sys.executable, "-I", "-X", "utf8", "-m", "venv", str(folder(root))]
    done = subprocess.run(command, check=False, capture_output=True, encoding="utf-8", errors="replace", **keep(lock))
    if done.returncode != 0:
        cause = (done.stdout + done.stderr).strip()
        full = shutil.disk_usage(root).free < ENSUREPIP_BYTES  # venv does not pass on what ensurepip said
        cure = FREE_SPACE if full else find_cure(cause.splitlines())
        raise SetupError(VENV_FAILED.format(folder=folder(root), cause=cause, cure=cure))
