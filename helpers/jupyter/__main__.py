"""The process of JupyterLab: `python -m helpers.jupyter OPTIONS`, started by the command `lab`.

Its standard input is a pipe of which the command alone holds the other end. When the command dies, in whatever way,
the system closes that end, here and on macOS and on Windows alike, and this process ends itself with all its
descendants: kernels and workers, which have sessions of their own and which nobody else would end.
"""

import os
import signal
import sys
import threading
from contextlib import suppress

import psutil

from helpers.inherited import restore


def main() -> None:
    restore(own_session=True)
    threading.Thread(target=_end_with_the_command, daemon=True).start()
    from jupyterlab.labapp import main as jupyterlab

    sys.exit(jupyterlab())


def _end_with_the_command() -> None:
    while os.read(0, 1):  # not sys.stdin, whose lock would be held when the interpreter ends
        pass
    end_descendants()
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))  # on Windows, too, this ends it at once


def end_descendants() -> None:
    """Kill all descendants of this process, also those that are frozen or have sessions of their own."""
    frozen: set[psutil.Process] = set()
    while new := set(psutil.Process().children(recursive=True)) - frozen:
        frozen |= new
        for process in new:  # what is frozen starts nothing more, so that the family is complete
            with suppress(psutil.Error):
                process.suspend()
    for process in frozen:
        with suppress(psutil.Error):
            process.kill()


if __name__ == "__main__":
    main()
