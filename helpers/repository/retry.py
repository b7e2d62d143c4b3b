"""Lesson 5: a task that fails is tried again later, and not for ever."""

from datetime import timedelta

from sqlalchemy import ColumnElement, RowMapping, and_, case, func, or_, select, update
from tenacity import RetryCallState, Retrying, wait_random_exponential

from helpers.db import SessionFactory
from helpers.models import Task
from helpers.repository.lease import (
    StaleClaimError,
    checked_lease_seconds,
    database_clock,
)
from helpers.repository.renewal import current_claim

NEVER_CAME_BACK = "The worker of the last attempt did not come back."

# Exponential backoff with full jitter: between 0 and 2, 4, 8 … seconds, never above
# five minutes. (M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog.)
BACKOFF = wait_random_exponential(multiplier=2, exp_base=2, max=300)


class NotFailedError(RuntimeError):
    """The task is not failed, so there is nothing to requeue: nothing was changed."""


def claim_task(lease_seconds: float) -> RowMapping | None:
    """Claim the first available task for `lease_seconds` seconds.

    Available is a task that is pending and whose retry time has come, or whose lease
    has expired. A task whose lease has expired in its last attempt is set to `failed`
    instead, and the next one is looked at: this is how a task ends that kills every
    worker.

    Returns a mapping with `id`, `type`, `attempts` (this claim's number, from 1) and
    `lease_until` (UTC), or None where no task is available.
    Raises ValueError where `lease_seconds` is not above 0, or above a day.
    """
    lease = timedelta(seconds=checked_lease_seconds(lease_seconds))
    candidate = (
        select(Task.id, Task.attempts, Task.max_attempts)
        .where(or_(due(), abandoned()))
        .order_by(Task.id)
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
                    lease_until=database_clock() + lease,
                    retry_at=None,
                ).returning(Task.id, Task.type, Task.attempts, Task.lease_until)
                return session.execute(claim).mappings().one()
            give_up = locked.values(
                status="failed", lease_until=None, last_error=NEVER_CAME_BACK
            )
            session.execute(give_up)
        # Leaving the block commits, in each of the three cases.


def fail_task(task_id: int, attempts: int, error: str) -> str:
    """Note that attempt number `attempts` has failed, and with which error.

    The task becomes `pending` again and waits for its retry time; after its last
    attempt it becomes `failed`, a dead letter.

    Returns the new status.
    Raises StaleClaimError, and changes nothing, where the claim is out of date: the
    failure of an old attempt must not stop a newer one.
    """
    last = Task.attempts >= Task.max_attempts
    pause = timedelta(seconds=backoff_seconds(attempts))
    failure = (
        update(Task)
        .where(current_claim(task_id, attempts))
        .values(
            status=case((last, "failed"), else_="pending"),
            lease_until=None,
            retry_at=case((last, None), else_=database_clock() + pause),
            last_error=error,
        )
        .returning(Task.status)
    )

    with SessionFactory.begin() as session:
        status = session.scalar(failure)
        if status is None:
            raise StaleClaimError(task_id, attempts, refused="failure")
        return status


def return_task(task_id: int, attempts: int) -> None:
    """Give the task back unfinished, because its worker has to stop.

    The attempt number is a fence, so it is not given back: the next claim gets the next
    number. `max_attempts` grows by one instead, since nothing has failed.

    Raises StaleClaimError, and changes nothing, where the claim is out of date.
    """
    giving_back = (
        update(Task)
        .where(current_claim(task_id, attempts))
        .values(status="pending", lease_until=None, max_attempts=Task.max_attempts + 1)
        .returning(Task.id)
    )

    with SessionFactory.begin() as session:
        if session.scalar(giving_back) is None:
            raise StaleClaimError(task_id, attempts, refused="return")


def requeue_task(task_id: int, more_attempts: int = 1) -> None:
    """Let a failed task be claimed again, `more_attempts` times at most.

    `attempts` goes on from where it is, so that no number is used twice.

    Raises NotFailedError, and changes nothing, where the task is not failed.
    Raises ValueError where `more_attempts` is below 1.
    """
    if more_attempts < 1:
        raise ValueError(f"more_attempts is {more_attempts}, but must be at least 1.")
    requeue = (
        update(Task)
        .where(Task.id == task_id, Task.status == "failed")
        .values(status="pending", max_attempts=Task.attempts + more_attempts)
        .returning(Task.id)
    )

    with SessionFactory.begin() as session:
        if session.scalar(requeue) is None:
            raise NotFailedError(f"Task #{task_id} is not failed.")


def is_completed_by(task_id: int, attempts: int) -> bool:
    """Whether attempt number `attempts` has completed the task.

    For a worker whose completion was not answered. When it tries again it is refused,
    and this tells why: no other worker completes under its number.
    """
    completed = select(Task.id).where(
        Task.id == task_id, Task.status == "completed", Task.attempts == attempts
    )
    with SessionFactory.begin() as session:
        return session.scalar(completed) is not None


def seconds_until_due() -> float | None:
    """How long until the next task can be claimed, in seconds; 0 where one is due now.

    None where no task ever will be: each is completed, failed, or without a lease.
    """
    next_time = case(
        (Task.status == "pending", func.coalesce(Task.retry_at, database_clock())),
        (Task.status == "processing", Task.lease_until),
    )
    seconds = func.extract("epoch", func.min(next_time) - database_clock())
    with SessionFactory.begin() as session:
        found = session.scalar(select(seconds))
    return None if found is None else max(float(found), 0.0)


def backoff_seconds(attempts: int) -> float:
    """A random pause after attempt number `attempts`, in seconds. See BACKOFF."""
    state = RetryCallState(Retrying(), fn=None, args=(), kwargs={})
    state.attempt_number = attempts
    return BACKOFF(state)


def due() -> ColumnElement[bool]:
    """The condition that a task waits for a worker, and its retry time has come."""
    return and_(
        Task.status == "pending",
        or_(Task.retry_at.is_(None), Task.retry_at <= database_clock()),
    )


def abandoned() -> ColumnElement[bool]:
    """The condition that a task was claimed, and its lease has expired."""
    return and_(Task.status == "processing", Task.lease_until <= database_clock())
