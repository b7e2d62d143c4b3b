"""Right answers to the exercise `transfer`."""

from sqlalchemy import select, update

from helpers.db import SessionFactory
from helpers.models import Task


def transfer(source_id: int, target_id: int) -> bool:
    with SessionFactory.begin() as session:
        both = (
            select(Task.id, Task.status)
            .where(Task.id.in_([source_id, target_id]))
            .order_by(Task.id)  # the same order of locks in both directions
            .with_for_update()
        )
        status = {row.id: row.status for row in session.execute(both)}
        if status.get(source_id) != "processing" or status.get(target_id) != "pending":
            return False
        session.execute(update(Task).where(Task.id == source_id).values(status="pending"))
        session.execute(update(Task).where(Task.id == target_id).values(status="processing"))
        return True


def one_lock_after_the_other(source_id: int, target_id: int) -> bool:
    with SessionFactory.begin() as session:
        status = {}
        for task_id in sorted((source_id, target_id)):
            status[task_id] = session.scalar(select(Task.status).where(Task.id == task_id).with_for_update())
        if source_id == target_id or (status[source_id], status[target_id]) != ("processing", "pending"):
            return False
        session.execute(update(Task).where(Task.id == source_id).values(status="pending"))
        session.execute(update(Task).where(Task.id == target_id).values(status="processing"))
        return True


def conditions_in_the_updates(source_id: int, target_id: int) -> bool:
    """No lock is taken before the UPDATEs.

    A wait needs two sessions that want the same row in the same role, and all take their source before their target: so
    there is no circle.
    """
    if source_id == target_id:
        return False
    with SessionFactory() as session:
        for task_id, before, after in ((source_id, "processing", "pending"), (target_id, "pending", "processing")):
            change = update(Task).where(Task.id == task_id, Task.status == before).values(status=after)
            if session.scalar(change.returning(Task.id)) is None:
                session.rollback()
                return False
        session.commit()
        return True


SOLUTION = (transfer,)
OTHERS = [(one_lock_after_the_other,), (conditions_in_the_updates,)]
