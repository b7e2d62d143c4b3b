"""A process that the lab started ends with the lab."""

import ctypes
import os
import signal
import sys

from helpers.processes.exits import EXIT_ABANDONED

PARENT_PID = "LAB_PARENT_PID"  # set by the lab for the processes that it starts


def end_with_parent() -> None:
    """Where the lab started this process, ask the kernel to end it when the lab ends (Linux).

    On other systems a worker that holds notices the end of its input, and one that works ends by itself.
    """
    parent = os.environ.get(PARENT_PID)
    if parent is None or sys.platform != "linux":
        return
    pr_set_pdeathsig = 1  # <linux/prctl.h>
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
    if os.getppid() != int(parent):  # it ended before we asked
        os._exit(EXIT_ABANDONED)
