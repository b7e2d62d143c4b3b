"""Right answers to the exercise `aging`."""

from datetime import timedelta
from typing import Any

from sqlalchemy import RowMapping, and_, case, func, or_, select, text, update

from helpers.db import SessionFactory
from helpers.models import Task


def my_claim(lease_seconds: float, aging_seconds: float) -> RowMapping | None:
    if aging_seconds <= 0:
        raise ValueError(f"aging_seconds is {aging_seconds}, but must be above 0.")
    now = func.clock_timestamp()
    due = and_(Task.status == "pending", or_(Task.retry_at.is_(None), Task.retry_at <= now))
    expired = and_(Task.status == "processing", Task.lease_until <= now)
    step = timedelta(seconds=aging_seconds)
    counts_as_created = Task.created_at + case(
        (Task.priority == "LOW", 2 * step), (Task.priority == "MEDIUM", step), else_=0 * step
    )
    candidate = (
        select(Task.id, Task.attempts, Task.max_attempts)
        .where(or_(due, expired))
        .order_by(counts_as_created, Task.priority, Task.id)
        .limit(1)
        .with_for_update(skip_locked=True)
    )
    while True:
        with SessionFactory.begin() as session:
            found = session.execute(candidate).one_or_none()
            if found is None:
                return None
            locked = update(Task).where(Task.id == found.id)
            if found.attempts < found.max_attempts:
                claim = locked.values(
                    status="processing",
                    attempts=Task.attempts + 1,
                    lease_until=now + timedelta(seconds=lease_seconds),
                    retry_at=None,
                ).returning(Task.id, Task.type, Task.attempts, Task.lease_until)
                return session.execute(claim).mappings().one()
            session.execute(locked.values(status="failed", lease_until=None))


def claim_in_one_statement(lease_seconds: float, aging_seconds: float) -> dict[str, Any] | None:
    """Gives up all tasks without an attempt left, and claims the next one, in one statement."""
    if not aging_seconds > 0:
        raise ValueError
    claim = text("""
        WITH spent AS MATERIALIZED (
            SELECT id FROM backend_training.tasks
            WHERE attempts >= max_attempts
              AND (status = 'pending' OR status = 'processing' AND lease_until <= clock_timestamp())
            FOR UPDATE SKIP LOCKED
        ), given_up AS (
            UPDATE backend_training.tasks SET status = 'failed', lease_until = NULL
            WHERE id IN (SELECT id FROM spent)
        ), next AS MATERIALIZED (
            SELECT id FROM backend_training.tasks
            WHERE attempts < max_attempts
              AND (status = 'pending' AND coalesce(retry_at <= clock_timestamp(), true)
                   OR status = 'processing' AND lease_until <= clock_timestamp())
            ORDER BY extract(epoch FROM created_at)
                   + :aging * (array_position(ARRAY['HIGH', 'MEDIUM', 'LOW'], priority::text) - 1), priority, id
            LIMIT 1 FOR UPDATE SKIP LOCKED
        )
        UPDATE backend_training.tasks AS task
        SET status = 'processing', attempts = attempts + 1, retry_at = NULL,
            lease_until = clock_timestamp() + make_interval(secs => :lease)
        FROM next WHERE task.id = next.id
        RETURNING task.id, task.type, task.attempts, task.lease_until
    """)
    with SessionFactory.begin() as session:
        row = session.execute(claim, {"aging": aging_seconds, "lease": lease_seconds}).mappings().one_or_none()
    return None if row is None else dict(row)


def claim_by_the_time_waited(lease_seconds: float, aging_seconds: float) -> RowMapping | None:
    """Two statements: the tasks without an attempt left first. The order is by the time that each has waited."""
    if aging_seconds <= 0:
        raise ValueError
    give_up = text("""
        UPDATE backend_training.tasks SET status = 'failed', lease_until = NULL
        WHERE id IN (
            SELECT id FROM backend_training.tasks
            WHERE attempts >= max_attempts
              AND (status = 'pending' OR status = 'processing' AND lease_until <= clock_timestamp())
            ORDER BY id FOR UPDATE SKIP LOCKED
        )
    """)
    claim = text("""
        UPDATE backend_training.tasks
        SET status = 'processing', attempts = attempts + 1, retry_at = NULL,
            lease_until = clock_timestamp() + :lease * interval '1 second'
        WHERE id = (
            SELECT id FROM backend_training.tasks
            WHERE attempts < max_attempts
              AND (status = 'pending' AND (retry_at IS NULL OR retry_at <= clock_timestamp())
                   OR status = 'processing' AND lease_until <= clock_timestamp())
            ORDER BY now() - created_at - :aging * interval '1 second' *
                     CASE priority WHEN 'HIGH' THEN 0 WHEN 'MEDIUM' THEN 1 ELSE 2 END DESC, priority, id
            LIMIT 1 FOR UPDATE SKIP LOCKED
        )
        RETURNING id, type, attempts, lease_until
    """)
    with SessionFactory.begin() as session:
        session.execute(give_up)
        return session.execute(claim, {"lease": lease_seconds, "aging": aging_seconds}).mappings().one_or_none()


SOLUTION = (my_claim,)
OTHERS = [(claim_in_one_statement,), (claim_by_the_time_waited,)]
