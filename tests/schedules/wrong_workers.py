"""Workers that look right and are wrong, each in its own way: what the explorer has to find."""

from datetime import UTC, datetime, timedelta

from sqlalchemy import RowMapping, and_, func, or_, select, text, update

from helpers.db import SessionFactory
from helpers.models import Task
from helpers.repository.lease import StaleClaimError, claim_task, mark_as_completed
from helpers.schedules import mark

LEASE = timedelta(seconds=10)

PENDING = Task.status == "pending"
ABANDONED = and_(Task.status == "processing", Task.lease_until <= func.clock_timestamp())
RETURNED = (Task.id, Task.attempts)
CANDIDATE = select(Task.id).where(or_(PENDING, ABANDONED)).order_by(Task.id).limit(1)
CLAIM = {"status": "processing", "attempts": Task.attempts + 1, "lease_until": func.clock_timestamp() + LEASE}


def right() -> None:
    task = claim_task(10)
    if task is not None:
        mark("work")
        mark_as_completed(task["id"], task["attempts"])


def claims_without_a_lock() -> None:
    with SessionFactory.begin() as session:
        task_id = session.scalar(CANDIDATE)
        if task_id is not None:
            session.execute(update(Task).where(Task.id == task_id).values(CLAIM))


def claims_without_skipping() -> None:
    with SessionFactory.begin() as session:
        task_id = session.scalar(CANDIDATE.with_for_update())
        if task_id is not None:
            session.execute(update(Task).where(Task.id == task_id).values(CLAIM))


def works_inside_the_claim() -> None:
    with SessionFactory.begin() as session:
        task_id = session.scalar(CANDIDATE.with_for_update(skip_locked=True))
        if task_id is None:
            return
        claim = update(Task).where(Task.id == task_id).values(CLAIM)
        task = session.execute(claim.returning(*RETURNED)).mappings().one()
        mark("work")
    mark_as_completed(task["id"], task["attempts"])


def resets_blindly() -> None:
    with SessionFactory.begin() as session:
        session.execute(update(Task).where(Task.status == "processing").values(status="pending", lease_until=None))
    right()


def completes_by_id() -> None:
    task = claim_task(10)
    if task is not None:
        with SessionFactory.begin() as session:
            done = update(Task).where(Task.id == task["id"]).values(status="completed", lease_until=None)
            session.execute(done)


def completes_without_the_lease() -> None:
    task = claim_task(10)
    if task is not None:
        with SessionFactory.begin() as session:
            fenced = and_(Task.id == task["id"], Task.status == "processing", Task.attempts == task["attempts"])
            session.execute(update(Task).where(fenced).values(status="completed", lease_until=None))


def completes_after_a_look() -> None:
    task = claim_task(10)
    if task is not None:
        with SessionFactory.begin() as session:
            current = and_(
                Task.id == task["id"],
                Task.status == "processing",
                Task.attempts == task["attempts"],
                Task.lease_until > func.clock_timestamp(),
            )
            if session.scalar(select(Task.id).where(current)) is None:
                raise StaleClaimError(task["id"], task["attempts"])
            done = update(Task).where(Task.id == task["id"]).values(status="completed", lease_until=None)
            session.execute(done)


def keeps_the_attempt_on_takeover() -> None:
    with SessionFactory.begin() as session:
        row = session.execute(
            select(Task.id, Task.status).where(or_(PENDING, ABANDONED)).limit(1).with_for_update(skip_locked=True)
        ).one_or_none()
        if row is None:
            return
        raised = Task.attempts + (1 if row.status == "pending" else 0)
        session.execute(update(Task).where(Task.id == row.id).values(CLAIM | {"attempts": raised}))


def _claim_until(lease_until: object) -> RowMapping | None:
    with SessionFactory.begin() as session:
        task_id = session.scalar(CANDIDATE.with_for_update(skip_locked=True))
        if task_id is None:
            return None
        claim = update(Task).where(Task.id == task_id).values(CLAIM | {"lease_until": lease_until})
        return session.execute(claim.returning(*RETURNED)).mappings().one()


def leases_by_its_own_clock() -> None:
    _claim_until(datetime.now(UTC) + LEASE)


def leases_from_the_transactions_start() -> None:
    _claim_until(func.now() + LEASE)


def leases_from_the_keyword() -> None:
    _claim_until(func.current_timestamp() + LEASE)


def leases_for_ever() -> None:
    _claim_until(text("'infinity'"))


def leases_never() -> None:
    _claim_until(None)


def finds_only_pending() -> None:
    finds_only_pending_claim()


def finds_only_pending_claim() -> object:
    with SessionFactory.begin() as session:
        task_id = session.scalar(select(Task.id).where(PENDING).limit(1).with_for_update(skip_locked=True))
        if task_id is not None:
            session.execute(update(Task).where(Task.id == task_id).values(CLAIM))
        return task_id


def renews_by_id() -> None:
    task = claim_task(10)
    if task is not None:
        with SessionFactory.begin() as session:
            longer = {"lease_until": func.clock_timestamp() + LEASE}
            session.execute(update(Task).where(Task.id == task["id"], Task.status == "processing").values(longer))


def gives_its_number_back() -> None:
    task = claim_task(10)
    if task is not None:
        with SessionFactory.begin() as session:
            mine = and_(Task.id == task["id"], Task.attempts == task["attempts"], Task.status == "processing")
            back = {"status": "pending", "attempts": Task.attempts - 1, "lease_until": None}
            session.execute(update(Task).where(mine).values(back))


def claims_under_in() -> None:
    """LIMIT under IN: with this plan the subquery runs once for each row, and each run skips what is locked."""
    with SessionFactory.begin() as session:
        for setting in ("hashjoin", "mergejoin", "material", "hashagg", "sort"):
            session.execute(text(f"SET LOCAL enable_{setting} = off"))
        session.execute(
            text("""
                UPDATE backend_training.tasks
                SET status = 'processing', attempts = attempts + 1, lease_until = clock_timestamp() + interval '10 s'
                WHERE id IN (SELECT id FROM backend_training.tasks WHERE status = 'pending'
                             LIMIT 1 FOR UPDATE SKIP LOCKED)
            """)
        )
