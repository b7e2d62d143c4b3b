"""Right answers to the exercise `lease`."""

from datetime import timedelta

from sqlalchemy import RowMapping, and_, func, or_, select, text, update

from helpers.db import SessionFactory
from helpers.models import Task
from helpers.repository.lease import StaleClaimError


def claim_task(lease_seconds: float) -> RowMapping | None:
    expired = and_(Task.status == "processing", Task.lease_until <= func.clock_timestamp())
    candidate = (
        select(Task.id)
        .where(or_(Task.status == "pending", expired))
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
            .values(
                status="processing",
                attempts=Task.attempts + 1,
                lease_until=func.clock_timestamp() + timedelta(seconds=lease_seconds),
            )
            .returning(Task.id, Task.type, Task.attempts, Task.lease_until)
        )
        return session.execute(claim).mappings().one()


def mark_as_completed(task_id: int, attempts: int) -> None:
    if attempts < 1:
        raise ValueError(f"attempts is {attempts}, but the first claim of a task is attempt 1.")
    completion = (
        update(Task)
        .where(
            Task.id == task_id,
            Task.status == "processing",
            Task.attempts == attempts,
            Task.lease_until > func.clock_timestamp(),
        )
        .values(status="completed", lease_until=None)
        .returning(Task.id)
    )
    with SessionFactory.begin() as session:
        if session.scalar(completion) is None:
            raise StaleClaimError(task_id, attempts)


def claim_in_one_statement(lease_seconds: float) -> dict[str, object] | None:
    claim = text("""
        WITH candidate AS (
            SELECT id FROM backend_training.tasks
            WHERE status = 'pending' OR (status = 'processing' AND lease_until <= clock_timestamp())
            ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
        )
        UPDATE backend_training.tasks AS t
        SET status = 'processing', attempts = attempts + 1,
            lease_until = clock_timestamp() + make_interval(secs => :seconds)
        FROM candidate WHERE t.id = candidate.id
        RETURNING t.id, t.type, t.attempts, t.lease_until
    """)
    with SessionFactory.begin() as session:
        row = session.execute(claim, {"seconds": lease_seconds}).mappings().one_or_none()
    return None if row is None else dict(row)


def complete_under_a_lock(task_id: int, attempts: int) -> None:
    """Looks first, but with a lock: nothing can change between the SELECT and the UPDATE but the time.

    So the time is asked for once more, in the UPDATE.
    """
    if attempts < 1:
        raise ValueError("The first attempt has the number 1.")
    with SessionFactory.begin() as session:
        look = select(Task.status, Task.attempts).where(Task.id == task_id).with_for_update()
        if session.execute(look).one_or_none() != ("processing", attempts):
            raise StaleClaimError(task_id, attempts)
        in_time = update(Task).where(Task.id == task_id, Task.lease_until > func.clock_timestamp())
        if session.scalar(in_time.values(status="completed", lease_until=None).returning(Task.id)) is None:
            raise StaleClaimError(task_id, attempts)


SOLUTION = (claim_task, mark_as_completed)
OTHERS = [(claim_in_one_statement, complete_under_a_lock)]
