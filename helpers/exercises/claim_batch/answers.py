"""Right answers to the exercise `claim_batch`."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import RowMapping, and_, func, or_, select, text, update

from helpers.db import SessionFactory
from helpers.models import PRIORITIES, Task


def my_claim_batch(batch_size: int, quotas: Mapping[str, int], lease_seconds: float) -> list[RowMapping]:
    if batch_size < 0 or any(quota < 0 or priority not in PRIORITIES for priority, quota in quotas.items()):
        raise ValueError(f"A batch of {batch_size} with the quotas {dict(quotas)} makes no sense.")
    now = func.clock_timestamp()
    pending, abandoned = Task.status == "pending", and_(Task.status == "processing", Task.lease_until <= now)
    due = or_(and_(pending, or_(Task.retry_at.is_(None), Task.retry_at <= now)), abandoned)
    oldest = (
        select(Task.id)
        .where(due, Task.attempts < Task.max_attempts)
        .order_by(Task.priority, Task.created_at, Task.id)
        .with_for_update(skip_locked=True)
    )
    spent = (
        select(Task.id)
        .where(or_(pending, abandoned), Task.attempts >= Task.max_attempts)
        .with_for_update(skip_locked=True)
    )
    with SessionFactory.begin() as session:
        session.execute(update(Task).where(Task.id.in_(spent)).values(status="failed", lease_until=None))
        chosen: list[int] = []
        for priority in PRIORITIES:  # the quota pass
            places = min(quotas.get(priority, 0), batch_size - len(chosen))
            chosen += session.scalars(oldest.where(Task.priority == priority).limit(places))
        rest = oldest.where(Task.id.not_in(chosen)).limit(batch_size - len(chosen))
        chosen += session.scalars(rest)
        claim = (
            update(Task)
            .where(Task.id.in_(chosen))
            .values(
                status="processing",
                attempts=Task.attempts + 1,
                lease_until=now + timedelta(seconds=lease_seconds),
                retry_at=None,
            )
            .returning(Task.id, Task.type, Task.attempts, Task.lease_until)
        )
        claimed = {task["id"]: task for task in session.execute(claim).mappings()}
    return [claimed[task_id] for task_id in chosen]


def in_one_statement(batch_size: int, quotas: dict[str, int], lease_seconds: float) -> list[dict[str, Any]]:
    """Each part sees what the parts before it have locked, and leaves it out."""
    if batch_size < 0 or min(quotas.values(), default=0) < 0 or not set(quotas) <= {"HIGH", "MEDIUM", "LOW"}:
        raise ValueError
    free = """
        attempts < max_attempts
        AND (status = 'pending' AND (retry_at IS NULL OR retry_at <= clock_timestamp())
             OR status = 'processing' AND lease_until <= clock_timestamp())
    """
    statement = """
        WITH spent AS MATERIALIZED (
            SELECT id FROM backend_training.tasks
            WHERE attempts >= max_attempts
              AND (status = 'pending' OR status = 'processing' AND lease_until <= clock_timestamp())
            FOR UPDATE SKIP LOCKED
        ), given_up AS (
            UPDATE backend_training.tasks SET status = 'failed', lease_until = NULL
            WHERE id IN (SELECT id FROM spent)
        ), high AS MATERIALIZED (
            SELECT id FROM backend_training.tasks WHERE priority = 'HIGH' AND FREE
            ORDER BY created_at, id LIMIT least(:high, :size) FOR UPDATE SKIP LOCKED
        ), medium AS MATERIALIZED (
            SELECT id FROM backend_training.tasks WHERE priority = 'MEDIUM' AND FREE
            ORDER BY created_at, id LIMIT least(:medium, :size - (SELECT count(*) FROM high)) FOR UPDATE SKIP LOCKED
        ), upper AS MATERIALIZED (
            SELECT id FROM high UNION ALL SELECT id FROM medium
        ), low AS MATERIALIZED (
            SELECT id FROM backend_training.tasks WHERE priority = 'LOW' AND FREE
            ORDER BY created_at, id LIMIT least(:low, :size - (SELECT count(*) FROM upper)) FOR UPDATE SKIP LOCKED
        ), quota AS MATERIALIZED (
            SELECT id FROM upper UNION ALL SELECT id FROM low
        ), rest AS MATERIALIZED (
            SELECT id FROM backend_training.tasks WHERE id NOT IN (SELECT id FROM quota) AND FREE
            ORDER BY priority, created_at, id LIMIT :size - (SELECT count(*) FROM quota) FOR UPDATE SKIP LOCKED
        ), claimed AS (
            UPDATE backend_training.tasks AS task
            SET status = 'processing', attempts = attempts + 1, retry_at = NULL,
                lease_until = clock_timestamp() + make_interval(secs => :lease)
            FROM (SELECT id, 1 AS pass FROM quota UNION ALL SELECT id, 2 FROM rest) AS chosen
            WHERE task.id = chosen.id
            RETURNING pass, priority, created_at, task.id, type, attempts, lease_until
        )
        SELECT id, type, attempts, lease_until FROM claimed ORDER BY pass, priority, created_at, id
    """.replace("FREE", free)
    numbers = {priority.lower(): quotas.get(priority, 0) for priority in PRIORITIES}
    with SessionFactory.begin() as session:
        rows = session.execute(text(statement), {"size": batch_size, "lease": lease_seconds, **numbers})
        return [dict(row) for row in rows.mappings()]


def one_place_after_another(batch_size: int, quotas: dict[str, int], lease_seconds: float) -> list[dict[str, Any]]:
    """Claims task by task, in one transaction: what it has claimed is not free any more when it looks again."""
    if batch_size < 0 or [p for p, quota in quotas.items() if p not in PRIORITIES or quota < 0]:
        raise ValueError
    waits = or_(Task.status == "pending", and_(Task.status == "processing", Task.lease_until <= func.clock_timestamp()))
    ready = or_(Task.status == "processing", Task.retry_at.is_(None), Task.retry_at <= func.clock_timestamp())
    spent = select(Task.id).where(waits, Task.attempts >= Task.max_attempts).with_for_update(skip_locked=True)
    batch: list[dict[str, Any]] = []
    with SessionFactory.begin() as session:
        session.execute(update(Task).where(Task.id.in_(spent)).values(status="failed", lease_until=None))
        passes = [(Task.priority == priority, quotas.get(priority, 0)) for priority in PRIORITIES]
        for condition, most in [*passes, (Task.id == Task.id, batch_size)]:
            for _ in range(min(most, batch_size - len(batch))):
                first = (
                    select(Task.id)
                    .where(condition, waits, ready, Task.attempts < Task.max_attempts)
                    .order_by(Task.priority, Task.created_at, Task.id)
                    .limit(1)
                    .with_for_update(skip_locked=True)
                )
                task_id = session.scalar(first)
                if task_id is None:
                    break
                lease_until = func.clock_timestamp() + timedelta(seconds=lease_seconds)
                new = {"status": "processing", "attempts": Task.attempts + 1, "lease_until": lease_until}
                claim = update(Task).where(Task.id == task_id).values(retry_at=None, **new)
                found = session.execute(claim.returning(Task.id, Task.type, Task.attempts, Task.lease_until))
                batch.append(dict(found.mappings().one()))
    return batch


SOLUTION = (my_claim_batch,)
OTHERS = [(in_one_statement,), (one_place_after_another,)]
