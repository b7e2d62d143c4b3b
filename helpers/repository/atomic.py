"""Lesson 1: the check and the change in one statement.

Under READ COMMITTED, where another session is just changing the row, the UPDATE waits
for that session's COMMIT and then checks its condition again, on the new version of
the row. So only one of two claims finds `pending`.
"""

from sqlalchemy import update

from helpers.db import SessionFactory
from helpers.models import Task


def try_claim_task(task_id: int) -> int | None:
    """Claim a task, if it is pending. Returns its id, or None where it is not.

    The claim is committed when this function returns: others see it, and the work can
    start.
    """
    claim = (
        update(Task)
        .where(Task.id == task_id, Task.status == "pending")
        .values(status="processing")
        .returning(Task.id)
    )

    with SessionFactory.begin() as session:
        return session.scalar(claim)
    # Leaving the block commits.
