"""What a process got from whoever started it, and cannot work with. It is put right once, at the start of a command.

POSIX hands ignored signals, blocked signals and closed streams on to whatever is started: `nohup` ignores SIGHUP, a
shell without job control ignores SIGINT in what it starts with `&`, some CI runners block or ignore more. Whatever a
command starts (JupyterLab, kernels, workers, pytest) inherits from it in turn, so they need nothing of their own.

Standard library only: this runs before the environment stands.
"""

import os
import signal
import sys
from typing import Any

# Ctrl-C and kill are how a command, a cell and a worker are ended; and where SIGCHLD is ignored, the system forgets
# the exit codes of children. SIGPIPE is not here: Python ignores it itself, and `subprocess` restores it in a child.
NEEDED: dict[str, Any] = {"SIGINT": signal.default_int_handler, "SIGTERM": signal.SIG_DFL, "SIGCHLD": signal.SIG_DFL}
# Ignored, it is somebody's wish for a run that survives its terminal; so a command leaves it as it is.
HANG_UP: dict[str, Any] = {"SIGHUP": signal.SIG_DFL}


def restore(own_session: bool = False) -> None:
    """Open the standard streams that are closed, and hear the signals that are ignored or blocked.

    With `own_session` SIGHUP as well: no terminal that is closed reaches such a process, and the shells that it starts
    are ended by this signal. To be called from the main thread, first of all.
    """
    _open_streams()
    for name, handler in (NEEDED | HANG_UP if own_session else NEEDED).items():
        if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) is signal.SIG_IGN:
            signal.signal(getattr(signal, name), handler)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_SETMASK, [])  # last: a Ctrl-C that was held back comes now


def _open_streams() -> None:
    """Let a closed stream lead nowhere. Else the next file that is opened gets its number, and children write into it.

    Python itself has None for such a stream, and print() then says nothing, but `sys.stdout.flush()` fails.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # gets this number: it is the lowest that is free
            os.set_inheritable(opened, True)
        for attribute in (name, f"__{name}__"):
            if getattr(sys, attribute) is None:
                mode = "r" if name == "stdin" else "w"
                setattr(sys, attribute, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
