"""Wrong answers to the exercise `aging`."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import RowMapping, and_, case, cast, func, literal, or_, select, text, update
from sqlalchemy import String as Text
from sqlalchemy.orm import Session

from helpers.db import SessionFactory
from helpers.exercises.aging.answers import my_claim
from helpers.models import Task

NOW = func.clock_timestamp()
DUE = and_(Task.status == "pending", or_(Task.retry_at.is_(None), Task.retry_at <= NOW))
EXPIRED = and_(Task.status == "processing", Task.lease_until <= NOW)
RETURNED = (Task.id, Task.type, Task.attempts, Task.lease_until)
RANK = case((Task.priority == "HIGH", 0), (Task.priority == "MEDIUM", 1), else_=2)
BY_URGENCY = (Task.priority, Task.created_at, Task.id)


def _seconds(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)


def _aged(aging: float, medium: float = 1, low: float = 2, since: Any = Task.created_at) -> Any:
    """What to order by, where a MEDIUM and a LOW task count as so many steps younger."""
    step = _seconds(aging)
    return since + case(
        (Task.priority == "LOW", low * step), (Task.priority == "MEDIUM", medium * step), else_=0 * step
    )


def _found(
    session: Session, order: tuple[Any, ...], where: Any = None, lock: dict[str, Any] | None = None, most: int = 1
) -> Any:
    """The candidates of one claim, locked as `lock` says, or not at all where it is empty."""
    candidate = select(Task.id, Task.attempts, Task.max_attempts, Task.status, Task.retry_at, Task.lease_until)
    candidate = candidate.where(or_(DUE, EXPIRED) if where is None else where).order_by(*order).limit(most)
    lock = {"skip_locked": True} if lock is None else lock
    return session.execute(candidate.with_for_update(**lock) if lock else candidate).first()


def _claimed(session: Session, task_id: int, seconds: float, **other: Any) -> RowMapping:
    new = {
        "status": "processing",
        "attempts": Task.attempts + 1,
        "lease_until": NOW + _seconds(seconds),
        "retry_at": None,
    } | other
    return session.execute(update(Task).where(Task.id == task_id).values(new).returning(*RETURNED)).mappings().one()


def _claim(
    seconds: float,
    aging: float,
    /,
    *,
    order: tuple[Any, ...] | None = None,
    where: Any = None,
    lock: dict[str, Any] | None = None,
    failed: dict[str, Any] | None = None,
    **other: Any,
) -> RowMapping | None:
    """A right claim, where nothing else is given. `failed`: what a task gets that has no attempt left."""
    if aging <= 0:
        raise ValueError
    while True:
        with SessionFactory.begin() as session:
            found = _found(session, order or (_aged(aging), Task.priority, Task.id), where, lock)
            if found is None:
                return None
            if found.attempts < found.max_attempts:
                return _claimed(session, found.id, seconds, **other)
            given_up = {"status": "failed", "lease_until": None} if failed is None else failed
            session.execute(update(Task).where(Task.id == found.id).values(given_up))


# The order


def strict(lease_seconds: float, aging_seconds: float) -> Any:
    return _claim(lease_seconds, aging_seconds, order=BY_URGENCY)


def oldest_first(lease_seconds: float, aging_seconds: float) -> Any:
    return _claim(lease_seconds, aging_seconds, order=(Task.created_at, Task.priority, Task.id))


def priority_as_text(lease_seconds: float, aging_seconds: float) -> Any:
    return _claim(lease_seconds, aging_seconds, order=(cast(Task.priority, Text), Task.created_at, Task.id))


def priority_downwards(lease_seconds: float, aging_seconds: float) -> Any:
    return _claim(lease_seconds, aging_seconds, order=(Task.priority.desc(), Task.created_at, Task.id))


def ages_in_the_wrong_direction(lease_seconds: float, aging_seconds: float) -> Any:
    return _claim(lease_seconds, aging_seconds, order=(_aged(aging_seconds, -1, -2), Task.priority, Task.id))


def one_step_for_both(lease_seconds: float, aging_seconds: float) -> Any:
    return _claim(lease_seconds, aging_seconds, order=(_aged(aging_seconds, 1, 1), Task.priority, Task.id))


def ages_only_low(lease_seconds: float, aging_seconds: float) -> Any:
    return _claim(lease_seconds, aging_seconds, order=(_aged(aging_seconds, 0, 2), Task.priority, Task.id))


def newest_first(lease_seconds: float, aging_seconds: float) -> Any:
    return _claim(lease_seconds, aging_seconds, order=(_aged(aging_seconds).desc(), Task.id))


def whole_steps(lease_seconds: float, aging_seconds: float) -> Any:
    steps = func.floor(func.extract("epoch", NOW - Task.created_at) / literal(aging_seconds))
    return _claim(lease_seconds, aging_seconds, order=(func.greatest(RANK - steps, 0), *BY_URGENCY[1:]))


def ages_by_attempts(lease_seconds: float, aging_seconds: float) -> Any:
    return _claim(lease_seconds, aging_seconds, order=(RANK - Task.attempts, *BY_URGENCY))


def ages_from_the_lease(lease_seconds: float, aging_seconds: float) -> Any:
    since = func.coalesce(Task.lease_until, Task.created_at)
    return _claim(lease_seconds, aging_seconds, order=(_aged(aging_seconds, since=since), Task.priority, Task.id))


def ignores_the_aging(lease_seconds: float, aging_seconds: float) -> Any:
    return _claim(lease_seconds, aging_seconds, order=(_aged(60), Task.priority, Task.id))


def leaves_ties_to_chance(lease_seconds: float, aging_seconds: float) -> Any:
    return _claim(lease_seconds, aging_seconds, order=(_aged(aging_seconds),))


def breaks_ties_by_id(lease_seconds: float, aging_seconds: float) -> Any:
    return _claim(lease_seconds, aging_seconds, order=(_aged(aging_seconds), Task.id))


def breaks_ties_by_age(lease_seconds: float, aging_seconds: float) -> Any:
    return _claim(lease_seconds, aging_seconds, order=(_aged(aging_seconds), Task.created_at, Task.id))


def sorts_by_a_naive_clock(lease_seconds: float, aging_seconds: float) -> Any:
    """Reads all that is free, and lets Python sort it by how long it has waited."""
    with SessionFactory.begin() as session:
        rows = session.execute(select(Task.id, Task.priority, Task.created_at).where(or_(DUE, EXPIRED))).all()
        if not rows:
            return None
        ranks = {"HIGH": 0, "MEDIUM": 1, "LOW": 2}
        now = datetime.now()
        first = min(rows, key=lambda row: ranks[row.priority] * aging_seconds - (now - row.created_at).total_seconds())
        return _claimed(session, first.id, lease_seconds)


# Which tasks


def takes_only_what_is_pending(lease_seconds: float, aging_seconds: float) -> Any:
    return _claim(lease_seconds, aging_seconds, where=DUE)


def ignores_the_retry_time(lease_seconds: float, aging_seconds: float) -> Any:
    return _claim(lease_seconds, aging_seconds, where=or_(Task.status == "pending", EXPIRED))


def takes_what_is_in_force(lease_seconds: float, aging_seconds: float) -> Any:
    return _claim(
        lease_seconds, aging_seconds, where=or_(DUE, and_(Task.status == "processing", Task.lease_until > NOW))
    )


def takes_null_for_expired(lease_seconds: float, aging_seconds: float) -> Any:
    null = and_(Task.status == "processing", Task.lease_until.is_(None))
    return _claim(lease_seconds, aging_seconds, where=or_(DUE, EXPIRED, null))


def claims_without_end(lease_seconds: float, aging_seconds: float) -> Any:
    with SessionFactory.begin() as session:
        found = _found(session, (_aged(aging_seconds), Task.priority, Task.id))
        return None if found is None else _claimed(session, found.id, lease_seconds)


def leaves_the_spent_ones(lease_seconds: float, aging_seconds: float) -> Any:
    left = and_(or_(DUE, EXPIRED), Task.attempts < Task.max_attempts)
    return _claim(lease_seconds, aging_seconds, where=left)


def gives_up_with_a_lease(lease_seconds: float, aging_seconds: float) -> Any:
    return _claim(lease_seconds, aging_seconds, failed={"status": "failed"})


# The claim itself


def keeps_the_retry_time(lease_seconds: float, aging_seconds: float) -> Any:
    return _claim(lease_seconds, aging_seconds, retry_at=Task.retry_at)


def never_ends(lease_seconds: float, aging_seconds: float) -> Any:
    return _claim(lease_seconds, aging_seconds, lease_until=None)


def swaps_the_arguments(lease_seconds: float, aging_seconds: float) -> Any:
    return _claim(aging_seconds, aging_seconds)


def forgets_the_number(lease_seconds: float, aging_seconds: float) -> Any:
    return _claim(lease_seconds, aging_seconds, attempts=Task.attempts)


def claims_without_a_lock(lease_seconds: float, aging_seconds: float) -> Any:
    return _claim(lease_seconds, aging_seconds, lock={})


def waits_for_locks(lease_seconds: float, aging_seconds: float) -> Any:
    return _claim(lease_seconds, aging_seconds, lock={"skip_locked": False})


def stops_at_a_lock(lease_seconds: float, aging_seconds: float) -> Any:
    return _claim(lease_seconds, aging_seconds, lock={"nowait": True})


def claims_in_two_transactions(lease_seconds: float, aging_seconds: float) -> Any:
    with SessionFactory.begin() as session:
        found = _found(session, (_aged(aging_seconds), Task.priority, Task.id))
    if found is None:
        return None
    with SessionFactory.begin() as session:
        if found.attempts < found.max_attempts:
            return _claimed(session, found.id, lease_seconds)
        session.execute(update(Task).where(Task.id == found.id).values(status="failed", lease_until=None))
    return claims_in_two_transactions(lease_seconds, aging_seconds)


_open: list[Session] = []


def leaves_its_session_open(lease_seconds: float, aging_seconds: float) -> Any:
    session = SessionFactory()
    _open.append(session)  # so that nothing closes it
    found = _found(session, (_aged(aging_seconds), Task.priority, Task.id))
    return None if found is None else _claimed(session, found.id, lease_seconds)


def leases_by_its_own_clock(lease_seconds: float, aging_seconds: float) -> Any:
    return _claim(lease_seconds, aging_seconds, lease_until=datetime.now(UTC) + _seconds(lease_seconds))


def compares_with_its_own_clock(lease_seconds: float, aging_seconds: float) -> Any:
    now = datetime.now(UTC)
    due = and_(Task.status == "pending", or_(Task.retry_at.is_(None), Task.retry_at <= now))
    expired = and_(Task.status == "processing", Task.lease_until <= now)
    return _claim(lease_seconds, aging_seconds, where=or_(due, expired))


def leases_from_now(lease_seconds: float, aging_seconds: float) -> Any:
    return _claim(lease_seconds, aging_seconds, lease_until=func.now() + _seconds(lease_seconds))


def limit_under_in(lease_seconds: float, aging_seconds: float) -> Any:
    """Right in all but one thing."""
    if aging_seconds <= 0:
        raise ValueError
    free = """
        (status = 'pending' AND (retry_at IS NULL OR retry_at <= clock_timestamp())
         OR status = 'processing' AND lease_until <= clock_timestamp())
    """
    give_up = text(f"""
        UPDATE backend_training.tasks SET status = 'failed', lease_until = NULL WHERE id IN (
            SELECT id FROM backend_training.tasks WHERE {free} AND attempts >= max_attempts FOR UPDATE SKIP LOCKED)
    """)  # noqa: S608 - the text stands above
    claim = text(f"""
        UPDATE backend_training.tasks SET status = 'processing', attempts = attempts + 1, retry_at = NULL,
               lease_until = clock_timestamp() + make_interval(secs => :seconds)
        WHERE id IN (SELECT id FROM backend_training.tasks WHERE {free} AND attempts < max_attempts
                     ORDER BY created_at + :aging * CASE priority WHEN 'HIGH' THEN 0 WHEN 'MEDIUM' THEN 1 ELSE 2 END
                              * interval '1 second', priority, id
                     LIMIT 1 FOR UPDATE SKIP LOCKED)
        RETURNING id, type, attempts, lease_until
    """)  # noqa: S608
    with SessionFactory.begin() as session:
        session.execute(give_up)
        return session.execute(claim, {"seconds": lease_seconds, "aging": aging_seconds}).mappings().first()


def accepts_no_aging(lease_seconds: float, aging_seconds: float) -> Any:
    return my_claim(lease_seconds, aging_seconds or 1e-6)


def accepts_less_than_no_aging(lease_seconds: float, aging_seconds: float) -> Any:
    if aging_seconds == 0:
        raise ValueError
    return my_claim(lease_seconds, abs(aging_seconds))


WRONG: dict[str, tuple[tuple[Callable[..., Any], ...], str]] = {
    "strict": ((strict,), "The order is strict here"),
    "oldest first": ((oldest_first,), "The order is by age alone here"),
    "priority as text": ((priority_as_text,), "As text, LOW comes before MEDIUM"),
    "ages in the wrong direction": ((ages_in_the_wrong_direction,), "The aging goes in the wrong direction"),
    "one step for both": ((one_step_for_both,), "MEDIUM and LOW are held back equally here"),
    "ages only LOW": ((ages_only_low,), "MEDIUM tasks count as HIGH ones here"),
    "newest first": ((newest_first,), "The youngest tasks come first here"),
    "ages by attempts": ((ages_by_attempts,), "What has failed often comes earlier here"),
    "ages from the lease": ((ages_from_the_lease,), "The waiting is counted from lease_until here"),
    "leaves ties to chance": ((leaves_ties_to_chance,), "what the database takes first then is a matter of chance"),
    "sorts by a naive clock": ((sorts_by_a_naive_clock,), "does not compare or subtract a naive time"),
    "takes only what is pending": ((takes_only_what_is_pending,), "It returned None, and #57 is free"),
    "ignores the retry time": ((ignores_the_retry_time,), "whose retry_at lies ahead"),
    "claims without end": ((claims_without_end,), "A task that kills its workers would do so for ever"),
    "claims without a lock": ((claims_without_a_lock,), "must be locked by the same statement"),
    "waits for locks": ((waits_for_locks,), "stands in line behind the first"),
    "leaves its session open": ((leaves_its_session_open,), "It returned while its transaction was still open"),
    "leases by its own clock": ((leases_by_its_own_clock,), "when it computed the end of the lease"),
    "compares with its own clock": ((compares_with_its_own_clock,), "Let the database compare, with"),
    "leases from now()": ((leases_from_now,), "stand still at the start of the transaction"),
    "LIMIT under IN": ((limit_under_in,), "under IN the planner may run that subquery again"),
    "accepts no aging": ((accepts_no_aging,), "the priorities would mean nothing"),
}
FULL = {"LIMIT under IN", "accepts no aging"}

# More of them, with the rule that finds them: `tests/exercises/test_queues.py` runs that rule alone, which is quicker.
MORE: dict[str, tuple[tuple[Callable[..., Any], ...], str, str]] = {
    "priority downwards": ((priority_downwards,), "order", "The least urgent tasks come first here"),
    "whole steps": ((whole_steps,), "order", "The waiting is counted in whole steps here"),
    "ignores the aging": ((ignores_the_aging,), "order", "The order is the same with 60 s and with 10 s"),
    "breaks ties by id": ((breaks_ties_by_id,), "order", "Here it decides alone"),
    "breaks ties by age": ((breaks_ties_by_age,), "order", "Here the one that was created first comes first"),
    "takes what is in force": ((takes_what_is_in_force,), "states", "Slow is not dead"),
    "takes NULL for expired": ((takes_null_for_expired,), "states", "NULL is not an expired lease"),
    "leaves the spent ones": ((leaves_the_spent_ones,), "states", "so nobody will ever change it again"),
    "gives up with a lease": ((gives_up_with_a_lease,), "states", "#59 has no attempt left, and is failed now"),
    "keeps the retry time": ((keeps_the_retry_time,), "states", "#56 still has its retry_at"),
    "never ends": ((never_ends,), "claims", "a claim without a lease never ends"),
    "swaps the arguments": ((swaps_the_arguments,), "claims", "should last 600 seconds from now"),
    "forgets the number": ((forgets_the_number,), "claims", "both should be one more than before"),
    "stops at a lock": ((stops_at_a_lock,), "locked", "Somebody else's lock is no error here"),
    "claims in two transactions": ((claims_in_two_transactions,), "two", "The lock ended before the row was changed"),
    "accepts less than no aging": ((accepts_less_than_no_aging,), "values", "would turn the priorities around"),
}
