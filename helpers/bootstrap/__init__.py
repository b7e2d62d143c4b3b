"""The environment that the lab runs in: found, or made in `.venv`. Standard library only.

`ensure` is the way in. The running interpreter serves if it holds every pinned requirement (a container, the
learner's own environment). Else `.venv` in the project's folder serves; a stamp in it says that it was completed,
from which requirements, by which Python and in which folder. Without a fitting stamp it is made or mended.

    environment   where it lies, and how the command is called
    stamp         what the stamp says, and should say
    pinned        whether an interpreter holds what requirements.txt pins
    lock          one call at a time changes the environment
    making, pip   make it, and fill it
    handing       go on in another interpreter
"""

import importlib
import os
import sys
from pathlib import Path

from helpers import surroundings
from helpers.bootstrap.environment import COMMAND, ROOT, SetupError, folder, is_inside, python
from helpers.bootstrap.handing import HANDED_OVER, hand_over, hand_over_to
from helpers.bootstrap.lock import hold_lock
from helpers.bootstrap.making import prepare
from helpers.bootstrap.pinned import find_missing
from helpers.bootstrap.pip import STILL_MISSING, find_cure, install
from helpers.bootstrap.stamp import read_stamp, wanted_stamp

__all__ = [
    "COMMAND",
    "ROOT",
    "SetupError",
    "ensure",
    "enter_if_ready",
    "find_cure",
    "find_missing",
    "find_ready",
    "hand_over",
]


def ensure(argv: list[str], root: Path = ROOT) -> None:
    """Return if this interpreter can run the lab; else run `python -m helpers argv` in one that can, and end with it.

    Raises SetupError where such an environment cannot be made.
    """
    _find_or_make(argv, root)
    os.environ.pop("PYTHONIOENCODING", None)  # it was for this process's terminal, and not for pipes to children


def _find_or_make(argv: list[str], root: Path) -> None:
    handed_over = os.environ.pop(HANDED_OVER, "")
    wanted, inside = wanted_stamp(root), is_inside(root)
    odd = surroundings.settle_python(root, others=not inside)
    stamp = read_stamp(root)
    trusted = not inside or stamp in ({}, wanted)  # an unfinished .venv may hold every name and yet lack files
    missing = next(find_missing(root), "")
    if odd and not handed_over and (inside or not missing):  # this Python serves, but it was started otherwise
        hand_over_to(Path(sys.executable), argv, root)
    if trusted and not missing:
        return
    if handed_over or (inside and trusted):  # the stamp promises more than is there: somebody removed a package
        if inside:
            with hold_lock(root) as lock:
                install(root, lock)
            importlib.invalidate_caches()
            missing = next(find_missing(root), "")
        if missing:
            raise SetupError(STILL_MISSING.format(folder=folder(root), what=missing))
        return
    if inside:  # a Python cannot replace the environment it runs from: the one that made it does
        hand_over([sys._base_executable, "-m", "helpers", *argv])  # type: ignore[attr-defined]
    if stamp != wanted or not python(root).exists():
        prepare(root)
    hand_over_to(python(root), argv, root)


def enter_if_ready(argv: list[str], root: Path = ROOT) -> None:
    """Run `python -m helpers argv` in the complete environment if there is one; else return. Installs nothing."""
    handed_over = os.environ.pop(HANDED_OVER, "")
    inside = is_inside(root)
    odd = surroundings.settle_python(root, others=not inside)
    if handed_over:
        return
    if odd and inside:  # what is missing cannot be told from an interpreter that was started otherwise
        hand_over_to(Path(sys.executable), argv, root)
    ready = find_ready(root)
    if ready and (odd or (not inside and ready != Path(sys.executable))):
        hand_over_to(ready, argv, root)


def find_ready(root: Path = ROOT) -> Path | None:
    """Return an interpreter whose environment is complete, or None. Makes and installs nothing."""
    trusted = not is_inside(root) or read_stamp(root) in ({}, wanted_stamp(root))
    if trusted and not any(find_missing(root)):
        return Path(sys.executable)
    if not is_inside(root) and read_stamp(root) == wanted_stamp(root) and python(root).exists():
        return python(root)
    return None
