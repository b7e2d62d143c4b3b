"""Lesson 1: look at a task, and change it afterwards. It looks right, and it is not.

Between the look and the change another worker can look, too, and see the same. A
transaction around both does not prevent that. What does is in `atomic`.
"""

from collections.abc import Callable

from sqlalchemy import select, update

from helpers.db import SessionFactory
from helpers.models import Task


def process_task(task_id: int, work: Callable[[int], object]) -> bool:
    """READ → CHECK → PROCESS → UPDATE. Returns whether the work was done."""
    if read_status(task_id) != "pending":
        return False
    work(task_id)
    set_status(task_id, "completed")
    return True


def try_claim_task(task_id: int) -> int | None:
    """READ → CHECK → UPDATE, in one transaction; the work comes after it.

    Returns the task's id, or None where the task is not pending.
    """
    with SessionFactory.begin() as session:
        status = session.scalar(select(Task.status).where(Task.id == task_id))
        if status != "pending":
            return None
        session.execute(
            update(Task).where(Task.id == task_id).values(status="processing")
        )
        return task_id
    # Leaving the block commits.


def read_status(task_id: int) -> str | None:
    """The task's status as it is committed now; None where there is no such task."""
    with SessionFactory.begin() as session:
        return session.scalar(select(Task.status).where(Task.id == task_id))


def set_status(task_id: int, status: str) -> None:
    """Write the task's status, whatever it was before, and commit."""
    with SessionFactory.begin() as session:
        session.execute(update(Task).where(Task.id == task_id).values(status=status))
