"""Lesson 8: a bound that holds across workers: numbered slots, one task in each."""

from datetime import timedelta

from psycopg.errors import UniqueViolation
from sqlalchemy import RowMapping, and_, case, func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from helpers.db import SessionFactory
from helpers.models import PRIORITIES, Task
from helpers.repository.lease import checked_lease_seconds
from helpers.repository.priority import PROCESSING, available, claim_or_give_up

# Whether a task is in a slot now. A number that an earlier attempt took, or that was
# left behind when the task was completed or given back, does not count.
IN_A_SLOT = and_(Task.status == PROCESSING, Task.slot_attempt == Task.attempts)


def claim_task(priority: str, slots: int, lease_seconds: float) -> RowMapping | None:
    """Claim the oldest available task of this priority, where a slot is free for it.

    A slot is a number from 1 to `slots`, and is taken by one attempt. A unique index
    holds that, so never more than `slots` tasks of the priority are in progress, if all
    workers claim them here and with the same number. A slot is free again when its task
    is completed, failed or given back. The task of a worker that crashed stays in its
    slot until the lease expires, and is then claimed in it.

    Returns a mapping with `id`, `type`, `priority`, `attempts` (this claim's number,
    from 1) and `lease_until` (UTC), or None where no task is available, or no slot is
    free. The column `slot` has the number.
    Raises ValueError where the priority is unknown, `slots` is below 0, or
    `lease_seconds` is not above 0, or above a day.
    """
    if priority not in PRIORITIES:
        raise ValueError(f"The priority {priority!r} is not one of {PRIORITIES}.")
    if slots < 0:
        raise ValueError(f"slots is {slots}, but must not be below 0.")
    lease = timedelta(seconds=checked_lease_seconds(lease_seconds))
    own_slot = case((and_(IN_A_SLOT, Task.slot <= slots), Task.slot))

    while True:
        try:
            with SessionFactory.begin() as session:
                slot = func.coalesce(own_slot, _free_slot(session, priority, slots))
                candidate = (
                    select(Task.id, Task.attempts, Task.max_attempts)
                    .add_columns(slot.label("slot"))
                    .where(Task.priority == priority, available(), slot.is_not(None))
                    .order_by(Task.created_at, Task.id)
                    .limit(1)
                    .with_for_update(skip_locked=True)
                )
                found = session.execute(candidate).one_or_none()
                if found is None:
                    return None
                taken = {"slot": found.slot, "slot_attempt": found.attempts + 1}
                claimed = claim_or_give_up(session, found, lease, **taken)
            # Leaving the block commits.
        except IntegrityError as error:
            # Another worker has just taken this slot. We could not see that, and the
            # index could. All is rolled back, and we look again.
            if not isinstance(error.orig, UniqueViolation):
                raise
        else:
            if claimed is not None:
                return claimed


def _free_slot(session: Session, priority: str, slots: int) -> int | None:
    """The lowest number in which no task is, as far as this session can see."""
    in_use = session.scalars(
        select(Task.slot).where(Task.priority == priority, IN_A_SLOT)
    )
    return min(set(range(1, slots + 1)) - set(in_use), default=None)
