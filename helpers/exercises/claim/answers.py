"""Right answers to the exercise `claim`."""

from sqlalchemy import RowMapping, select, text, update

from helpers.db import SessionFactory
from helpers.models import Task


def claim_task() -> RowMapping | None:
    candidate = (
        select(Task.id).where(Task.status == "pending").order_by(Task.id).limit(1).with_for_update(skip_locked=True)
    )
    with SessionFactory.begin() as session:
        task_id = session.scalar(candidate)
        if task_id is None:
            return None
        claim = update(Task).where(Task.id == task_id).values(status="processing").returning(Task.id, Task.type)
        return session.execute(claim).mappings().one()


def in_one_statement() -> dict[str, object] | None:
    """= (subquery): its row is found once, whatever the plan."""
    with SessionFactory() as session:
        row = session.execute(
            text("""
                UPDATE backend_training.tasks SET status = 'processing'
                WHERE id = (SELECT id FROM backend_training.tasks WHERE status = 'pending'
                            ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
                RETURNING id, type
            """)
        ).one_or_none()
        session.commit()
        return None if row is None else {"id": row.id, "type": row.type}


SOLUTION = (claim_task,)
OTHERS = [(in_one_statement,)]
