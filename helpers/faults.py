"""Named points in a worker's life at which it can be told to crash, or to hold until somebody presses Enter."""

import ctypes
import os
import signal
import sys
from collections.abc import Collection

from sqlalchemy import RowMapping

from helpers.journal import Journal

POINTS = ("before-claim", "after-claim", "before-completion", "after-completion")
EXIT_CRASH = 17
EXIT_ABANDONED = 70
PARENT_PID = "LAB_PARENT_PID"  # set by the lab for the workers that it starts


class Faults:
    """What one worker was told to suffer, and where."""

    def __init__(self, journal: Journal, *, crash_at: Collection[str] = (), hold_at: Collection[str] = ()) -> None:
        self.journal = journal
        self.crash_at = crash_at
        self.hold_at = hold_at

    def reach(self, point: str, task: RowMapping | None = None) -> None:
        """Hold, then crash, if that was asked for at this point. Else do nothing."""
        if point in self.hold_at:
            self.journal.record("holding", task, detail=point)
            if not sys.stdin.readline():  # end of input: nobody is left who could press Enter
                os._exit(EXIT_ABANDONED)
        if point in self.crash_at:
            self.journal.record("crashed", task, detail=point)
            os._exit(EXIT_CRASH)  # no exception handler, no `finally`, no COMMIT: what a real crash looks like


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
