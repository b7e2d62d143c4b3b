"""Named points in a worker's life at which it can be told to crash, or to hold until somebody presses Enter."""

import os
import sys
from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import event, select, text
from sqlalchemy.orm import Session

from helpers.db import SessionFactory
from helpers.models import Task
from helpers.processes.exits import EXIT_ABANDONED, EXIT_CRASH
from helpers.worker.journal import Journal

POINTS = (
    "before-claim",
    "before-commit",
    "after-claim",
    "in-work",
    "after-effect",
    "before-completion",
    "after-completion",
)

# The tasks that the open transaction has claimed: xmin is the transaction that wrote this version of the row.
# FOR UPDATE, so that looking takes no kind of lock that the claim has not taken already.
CLAIMED_HERE = (
    select(Task.id, Task.type)
    .where(text("tasks.xmin = pg_current_xact_id_if_assigned()::xid"), Task.status == "processing")
    .order_by(Task.id)
    .with_for_update()
)


class Faults:
    """What one worker was told to suffer, and where."""

    def __init__(self, journal: Journal, *, crash_at: Collection[str] = (), hold_at: Collection[str] = ()) -> None:
        self.journal = journal
        self.crash_at = crash_at
        self.hold_at = hold_at
        self._claim_seen = False
        if "before-commit" in {*crash_at, *hold_at}:
            event.listen(SessionFactory, "before_commit", self._before_commit)

    def reach(self, point: str, task: Mapping[Any, Any] | None = None) -> None:
        """Hold, then crash, if that was asked for at this point. Else do nothing."""
        if point in self.hold_at:
            self.journal.record("holding", task, detail=point)
            if not sys.stdin.readline():  # end of input: nobody is left who could press Enter
                os._exit(EXIT_ABANDONED)
        if point in self.crash_at:
            self.journal.record("crashed", task, detail=point)
            os._exit(EXIT_CRASH)  # no exception handler, no `finally`, no COMMIT: what a real crash looks like

    def _before_commit(self, session: Session) -> None:
        """The point inside of the claiming transaction, for which the claim itself needs no line of code.

        SQLAlchemy calls this whenever a session is about to commit. The first one that has claimed something counts.
        """
        if self._claim_seen:
            return
        tasks = session.execute(CLAIMED_HERE).mappings().all()
        for task in tasks:
            self.journal.record("locked", task)
        if tasks:  # else no task was available, or one was given up
            self._claim_seen = True
            self.reach("before-commit", tasks[0])
