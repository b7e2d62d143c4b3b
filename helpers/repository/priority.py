"""Lesson 7: urgent tasks first, and yet no task waits for ever."""

from datetime import datetime, timedelta

from sqlalchemy import (
    ColumnElement,
    Row,
    RowMapping,
    and_,
    case,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.orm import Session

from helpers.db import SessionFactory
from helpers.models import Task
from helpers.repository.lease import checked_lease_seconds, database_clock
from helpers.repository.retry import NEVER_CAME_BACK

# The index of the claim holds pending and processing tasks alone. PostgreSQL uses it
# where it can read in the statement that no other status is asked for. As parameters,
# the statuses would be unknown to a plan that is kept for later executions.
PENDING = literal("pending", literal_execute=True)
PROCESSING = literal("processing", literal_execute=True)


def claim_task(
    lease_seconds: float, aging_seconds: float | None = None
) -> RowMapping | None:
    """Claim the most urgent available task for `lease_seconds` seconds.

    Available is what `retry.claim_task` calls so, and a task without an attempt left is
    set to `failed` as there. The order is HIGH, MEDIUM, LOW; within a priority the
    oldest task comes first, and of two that are equally old the one with the lower id.
    With `aging_seconds` the order is `order_with_aging`.

    Returns a mapping with `id`, `type`, `priority`, `attempts` (this claim's number,
    from 1) and `lease_until` (UTC), or None where no task is available.
    Raises ValueError where `lease_seconds` is not above 0, or above a day; or where
    `aging_seconds` is not above 0.
    """
    lease = timedelta(seconds=checked_lease_seconds(lease_seconds))
    aging = [] if aging_seconds is None else [order_with_aging(aging_seconds)]
    candidate = (
        select(Task.id, Task.attempts, Task.max_attempts)
        .where(available())
        .order_by(*aging, Task.priority, Task.created_at, Task.id)
        .limit(1)
        .with_for_update(skip_locked=True)
    )

    while True:
        with SessionFactory.begin() as session:
            found = session.execute(candidate).one_or_none()
            if found is None:
                return None
            claimed = claim_or_give_up(session, found, lease)
        # Leaving the block commits, in each of the three cases.
        if claimed is not None:
            return claimed


def claim_or_give_up(
    session: Session, found: Row[int, int, int], lease: timedelta, **more: object
) -> RowMapping | None:
    """Claim the task that is locked, or set it to `failed` where no attempt is left.

    `found` has its `id`, `attempts` and `max_attempts`; `more` are further columns to
    set with the claim. Returns the claim, or None where the task is now `failed`.
    """
    locked = update(Task).where(Task.id == found.id)
    if found.attempts >= found.max_attempts:
        session.execute(
            locked.values(status="failed", lease_until=None, last_error=NEVER_CAME_BACK)
        )
        return None
    claim = locked.values(
        status="processing",
        attempts=Task.attempts + 1,
        lease_until=database_clock() + lease,
        retry_at=None,
        **more,
    ).returning(Task.id, Task.type, Task.priority, Task.attempts, Task.lease_until)
    return session.execute(claim).mappings().one()


def available() -> ColumnElement[bool]:
    """The condition that a task can be claimed: it is due, or its lease has expired."""
    now = database_clock()
    return or_(
        and_(
            Task.status == PENDING, or_(Task.retry_at.is_(None), Task.retry_at <= now)
        ),
        and_(Task.status == PROCESSING, Task.lease_until <= now),
    )


def order_with_aging(aging_seconds: float) -> ColumnElement[datetime]:
    """What to order by, so that `aging_seconds` seconds of waiting make up for a step.

    A MEDIUM task counts as created `aging_seconds` later than it was, a LOW task twice
    as much. So while a LOW task is available and not locked, no HIGH task that was
    created more than twice `aging_seconds` after it is claimed before it. All tasks age
    alike, so the order does not change with time, and the clock is not asked.

    The price: no index holds this order. Each claim reads and sorts all tasks that are
    available, while the strict one stops at the first of them in the index. And where
    more tasks come than can be done, HIGH tasks wait too, behind old LOW ones.

    Raises ValueError where `aging_seconds` is not above 0.
    """
    if not aging_seconds > 0:  # NaN fails the comparison
        raise ValueError(f"aging_seconds is {aging_seconds}, but must be above 0.")
    step = timedelta(seconds=aging_seconds)
    return Task.created_at + case(
        (Task.priority == "LOW", 2 * step),
        (Task.priority == "MEDIUM", step),
        else_=0 * step,
    )
