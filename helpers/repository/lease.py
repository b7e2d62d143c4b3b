"""Lesson 4: claim a task for a limited time, and complete it with a fence."""

from datetime import datetime, timedelta

from sqlalchemy import RowMapping, and_, func, or_, select, update
from sqlalchemy.sql.functions import Function

from helpers.db import SessionFactory
from helpers.models import Task

# A dead worker's task waits as long as its lease: a day is plenty.
MAX_LEASE_SECONDS = 86_400


class StaleClaimError(RuntimeError):
    """The caller's claim is not the current one any more: nothing was changed."""

    def __init__(
        self, task_id: int, attempts: int, refused: str = "completion"
    ) -> None:
        super().__init__(
            f"Task #{task_id}, attempt {attempts}: the {refused} was refused, "
            f"because the task is already completed, or the lease has expired, "
            f"or a newer attempt has started."
        )
        self.task_id = task_id
        self.attempts = attempts
        self.refused = refused


def claim_task(lease_seconds: float) -> RowMapping | None:
    """Claim the first available task for `lease_seconds` seconds.

    Available is a task that is pending, or whose lease has expired. The claim is
    committed when this function returns: others see it, and the work can start.

    Returns a mapping with `id`, `type`, `attempts` (this claim's number, from 1) and
    `lease_until` (UTC), or None where no task is available.
    Raises ValueError where `lease_seconds` is not above 0, or above a day.
    """
    lease = timedelta(seconds=checked_lease_seconds(lease_seconds))
    pending = Task.status == "pending"
    abandoned = and_(Task.status == "processing", Task.lease_until <= database_clock())
    candidate = (
        select(Task.id)
        .where(or_(pending, abandoned))
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
            .where(Task.id == task_id)  # locked from the SELECT to the COMMIT
            .values(
                status="processing",
                attempts=Task.attempts + 1,
                lease_until=database_clock() + lease,
            )
            .returning(Task.id, Task.type, Task.attempts, Task.lease_until)
        )
        return session.execute(claim).mappings().one()
    # Leaving the block commits.


def mark_as_completed(task_id: int, attempts: int) -> None:
    """Complete a task, if attempt number `attempts` is still its current claim.

    The four conditions stand in the UPDATE itself. Where another session is just
    changing the row, PostgreSQL waits for its COMMIT and checks them again, on the
    new version of the row.

    Raises StaleClaimError, and changes nothing, where the claim is out of date.
    Raises ValueError where `attempts` is below 1: no claim has that number.
    """
    if attempts < 1:
        raise ValueError(f"attempts is {attempts}, but the first claim is attempt 1.")
    completion = (
        update(Task)
        .where(
            Task.id == task_id,
            Task.status == "processing",
            Task.attempts == attempts,
            Task.lease_until > database_clock(),
        )
        .values(status="completed", lease_until=None)
        .returning(Task.id)
    )

    with SessionFactory.begin() as session:
        if session.scalar(completion) is None:
            raise StaleClaimError(task_id, attempts)


def checked_lease_seconds(lease_seconds: float) -> float:
    """Return `lease_seconds`; ValueError where it is not above 0, or above a day."""
    if not 0 < lease_seconds <= MAX_LEASE_SECONDS:  # NaN fails both comparisons
        raise ValueError(
            f"A lease lasts more than 0 and at most {MAX_LEASE_SECONDS} seconds, "
            f"not {lease_seconds}."
        )
    return lease_seconds


def database_clock() -> Function[datetime]:
    """The database's time at this moment.

    Not now(), which stands still at the start of the transaction; and not the worker's
    own clock, since each machine's clock is wrong in its own way.
    """
    return func.clock_timestamp()
