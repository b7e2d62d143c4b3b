"""Right answers to the exercise `renew`."""

from datetime import datetime, timedelta

from sqlalchemy import func, select, text, update

from helpers.db import SessionFactory
from helpers.models import Task
from helpers.repository.lease import MAX_LEASE_SECONDS, StaleClaimError


def renew_lease(task_id: int, attempts: int, lease_seconds: float) -> datetime:
    if attempts < 1:
        raise ValueError(f"attempts is {attempts}, but the first claim of a task is attempt 1.")
    if not 0 < lease_seconds <= MAX_LEASE_SECONDS:
        raise ValueError(f"lease_seconds is {lease_seconds}, but must be above 0, and at most a day.")
    renewal = (
        update(Task)
        .where(
            Task.id == task_id,
            Task.status == "processing",
            Task.attempts == attempts,
            Task.lease_until > func.clock_timestamp(),
        )
        .values(lease_until=func.clock_timestamp() + timedelta(seconds=lease_seconds))
        .returning(Task.lease_until)
    )
    with SessionFactory.begin() as session:
        lease_until = session.scalar(renewal)
        if lease_until is None:
            raise StaleClaimError(task_id, attempts)
        return lease_until


def renew_by_sql(task_id: int, attempts: int, lease_seconds: float) -> datetime:
    if attempts < 1 or lease_seconds <= 0 or lease_seconds > 24 * 60 * 60:
        raise ValueError
    renewal = text("""
        UPDATE backend_training.tasks
        SET lease_until = clock_timestamp() + make_interval(secs => :seconds)
        WHERE id = :id AND status = 'processing' AND attempts = :attempts AND lease_until > clock_timestamp()
        RETURNING lease_until
    """)
    session = SessionFactory()
    try:
        row = session.execute(renewal, {"id": task_id, "attempts": attempts, "seconds": lease_seconds}).one_or_none()
        session.commit()
    finally:
        session.close()
    if row is None:
        raise StaleClaimError(task_id, attempts)
    lease_until: datetime = row.lease_until
    return lease_until


def renew_under_a_lock(task_id: int, attempts: int, lease_seconds: float) -> datetime:
    """Looks first, but with a lock: nothing can change between the SELECT and the UPDATE but the time.

    So the time is asked for in the UPDATE.
    """
    if attempts < 1 or not 0 < lease_seconds <= MAX_LEASE_SECONDS:
        raise ValueError
    with SessionFactory.begin() as session:
        look = select(Task.status, Task.attempts).where(Task.id == task_id).with_for_update()
        if session.execute(look).one_or_none() != ("processing", attempts):
            raise StaleClaimError(task_id, attempts)
        in_time = update(Task).where(Task.id == task_id, Task.lease_until > func.clock_timestamp())
        longer = {"lease_until": func.clock_timestamp() + timedelta(seconds=lease_seconds)}
        lease_until: datetime | None = session.scalar(in_time.values(longer).returning(Task.lease_until))
        if lease_until is None:
            raise StaleClaimError(task_id, attempts)
        return lease_until


SOLUTION = (renew_lease,)
OTHERS = [(renew_by_sql,), (renew_under_a_lock,)]
