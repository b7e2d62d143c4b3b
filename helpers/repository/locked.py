"""Lesson 3: claim a task in one short transaction, for which nobody has to wait."""

from sqlalchemy import RowMapping, select, update

from helpers.db import SessionFactory
from helpers.models import Task


def claim_task() -> RowMapping | None:
    """Claim the first pending task that no other session has locked.

    The claim is committed when this function returns: others see it, and the work can
    start.
    Returns a mapping with `id` and `type`, or None where no such task exists.
    """
    candidate = (
        select(Task.id)
        .where(Task.status == "pending")
        .order_by(Task.id)
        .limit(1)
        .with_for_update(skip_locked=True)
    )

    with SessionFactory.begin() as session:
        task_id = session.scalar(candidate)
        if task_id is None:
            return None
        claim = (
            update(Task)
            .where(Task.id == task_id)
            .values(status="processing")
            .returning(Task.id, Task.type)
        )
        return session.execute(claim).mappings().one()
    # Leaving the block commits.


def mark_as_completed(task_id: int) -> None:
    """Complete a task, whoever asks for it: the row does not know who holds it.

    Lesson 4 mends that.
    """
    with SessionFactory.begin() as session:
        session.execute(
            update(Task).where(Task.id == task_id).values(status="completed")
        )
