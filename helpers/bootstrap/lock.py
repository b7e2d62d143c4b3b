"""The right to change the environment: one call at a time has it."""

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from helpers.bootstrap.environment import SetupError

# What a person reads.
WAITING = "Another call is setting up the environment; waiting for it."
NOT_WRITABLE = (
    "The environment belongs into the project's folder, and {folder} cannot be written: {reason}.\n"
    "Copy the folder to where you may write, or make it writable, and run the same command again."
)


@contextlib.contextmanager
def hold_lock(root: Path) -> Iterator[int]:
    """Hold the right to change the environment; yield the lock's file descriptor. The system frees it at any death."""
    try:
        (root / ".lab").mkdir(exist_ok=True)
        file = (root / ".lab" / "setup.lock").open("a", encoding="utf-8")
    except OSError as error:
        raise SetupError(NOT_WRITABLE.format(folder=root, reason=error.strerror)) from error
    with file:
        told = False
        while not _try_lock(file.fileno()):
            if not told:
                print(WAITING, flush=True)
                told = True
            time.sleep(0.2)
        yield file.fileno()


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def keep(_lock: int) -> dict[str, Any]:
        return {}  # a lock belongs to one process here

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def keep(lock: int) -> dict[str, Any]:
        """Let a child hold the lock too: a pip whose parent was killed must end before another one starts."""
        return {"pass_fds": (lock,)}
