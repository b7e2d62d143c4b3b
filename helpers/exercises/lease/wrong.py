"""Wrong answers to the exercise `lease`: a wrong claim with the right completion, or the other way round."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import RowMapping, and_, exists, func, or_, select, text, update
from sqlalchemy.orm import Session, aliased

from helpers.db import SessionFactory
from helpers.exercises.lease.answers import claim_task, mark_as_completed
from helpers.models import Task
from helpers.repository.lease import StaleClaimError

PENDING = Task.status == "pending"
FREE = or_(PENDING, and_(Task.status == "processing", Task.lease_until <= func.clock_timestamp()))
RETURNED = (Task.id, Task.type, Task.attempts, Task.lease_until)


def _lease(seconds: float) -> Any:
    return func.clock_timestamp() + timedelta(seconds=seconds)


def _claim(
    session: Session, seconds: float, *, where: Any = FREE, lock: Any = None, **values: Any
) -> RowMapping | None:
    candidate = select(Task.id).where(where).order_by(Task.id).limit(1)
    candidate = (
        candidate.with_for_update(**({"skip_locked": True} if lock is None else lock)) if lock != {} else candidate
    )
    task_id = session.scalar(candidate)
    if task_id is None:
        return None
    new = {"status": "processing", "attempts": Task.attempts + 1, "lease_until": _lease(seconds)} | values
    return session.execute(update(Task).where(Task.id == task_id).values(new).returning(*RETURNED)).mappings().one()


def claims_without_a_lock(lease_seconds: float) -> RowMapping | None:
    with SessionFactory.begin() as session:
        return _claim(session, lease_seconds, lock={})


def claims_without_skip_locked(lease_seconds: float) -> RowMapping | None:
    with SessionFactory.begin() as session:
        return _claim(session, lease_seconds, lock={"skip_locked": False})


def claims_only_what_is_pending(lease_seconds: float) -> RowMapping | None:
    with SessionFactory.begin() as session:
        return _claim(session, lease_seconds, where=PENDING)


def takes_over_at_half_the_lease(lease_seconds: float) -> RowMapping | None:
    by_now = Task.lease_until - timedelta(seconds=lease_seconds / 2) <= func.clock_timestamp()
    with SessionFactory.begin() as session:
        return _claim(session, lease_seconds, where=or_(PENDING, and_(Task.status == "processing", by_now)))


def waits_half_a_minute_longer(lease_seconds: float) -> RowMapping | None:
    by_now = Task.lease_until + timedelta(seconds=30) <= func.clock_timestamp()
    with SessionFactory.begin() as session:
        return _claim(session, lease_seconds, where=or_(PENDING, and_(Task.status == "processing", by_now)))


def one_of_a_type_at_a_time(lease_seconds: float) -> RowMapping | None:
    other = aliased(Task)
    in_work = exists().where(other.type == Task.type, other.status == "processing", other.id != Task.id)
    ended = and_(Task.status == "processing", Task.lease_until <= func.clock_timestamp(), ~in_work)
    with SessionFactory.begin() as session:
        return _claim(session, lease_seconds, where=or_(PENDING, ended))


def leases_by_its_own_clock(lease_seconds: float) -> RowMapping | None:
    with SessionFactory.begin() as session:
        return _claim(session, lease_seconds, lease_until=datetime.now(UTC) + timedelta(seconds=lease_seconds))


def leases_from_now(lease_seconds: float) -> RowMapping | None:
    with SessionFactory.begin() as session:
        return _claim(session, lease_seconds, lease_until=func.now() + timedelta(seconds=lease_seconds))


def never_ends(lease_seconds: float) -> RowMapping | None:
    with SessionFactory.begin() as session:
        return _claim(session, lease_seconds, lease_until=None)


def ignores_the_argument(_lease_seconds: float) -> RowMapping | None:
    with SessionFactory.begin() as session:
        return _claim(session, 10)


def keeps_the_number_on_takeover(lease_seconds: float) -> RowMapping | None:
    with SessionFactory.begin() as session:
        locked = select(Task.id, Task.status).where(FREE).order_by(Task.id).limit(1).with_for_update(skip_locked=True)
        row = session.execute(locked).one_or_none()
        if row is None:
            return None
        more = 1 if row.status == "pending" else 0
        new = {"status": "processing", "attempts": Task.attempts + more, "lease_until": _lease(lease_seconds)}
        return session.execute(update(Task).where(Task.id == row.id).values(new).returning(*RETURNED)).mappings().one()


def returns_the_old_number(lease_seconds: float) -> dict[str, Any] | None:
    task = claim_task(lease_seconds)
    return None if task is None else {**task, "attempts": task["attempts"] - 1}


def resets_blindly(lease_seconds: float) -> RowMapping | None:
    with SessionFactory.begin() as session:
        session.execute(update(Task).where(Task.status == "processing").values(status="pending", lease_until=None))
    return claim_task(lease_seconds)


def takes_null_for_expired(lease_seconds: float) -> RowMapping | None:
    with SessionFactory.begin() as session:
        return _claim(
            session, lease_seconds, where=or_(FREE, and_(Task.status == "processing", Task.lease_until.is_(None)))
        )


def claims_in_two_transactions(lease_seconds: float) -> RowMapping | None:
    with SessionFactory.begin() as session:
        task_id = session.scalar(
            select(Task.id).where(FREE).order_by(Task.id).limit(1).with_for_update(skip_locked=True)
        )
    if task_id is None:
        return None
    with SessionFactory.begin() as session:
        new = {"status": "processing", "attempts": Task.attempts + 1, "lease_until": _lease(lease_seconds)}
        return session.execute(update(Task).where(Task.id == task_id).values(new).returning(*RETURNED)).mappings().one()


_open: list[Session] = []


def leaves_its_session_open(lease_seconds: float) -> RowMapping | None:
    session = SessionFactory()
    _open.append(session)  # so that nothing closes it
    return _claim(session, lease_seconds)


def limit_under_in(lease_seconds: float) -> RowMapping | None:
    with SessionFactory.begin() as session:
        claim = text("""
            UPDATE backend_training.tasks SET status = 'processing', attempts = attempts + 1,
                   lease_until = clock_timestamp() + make_interval(secs => :seconds)
            WHERE id IN (SELECT id FROM backend_training.tasks
                         WHERE status = 'pending' OR (status = 'processing' AND lease_until <= clock_timestamp())
                         ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
            RETURNING id, type, attempts, lease_until
        """)
        return session.execute(claim, {"seconds": lease_seconds}).mappings().first()


# Completions


def _complete(session: Session, task_id: int, attempts: int, *conditions: Any) -> None:
    done = update(Task).where(Task.id == task_id, *conditions).values(status="completed", lease_until=None)
    if session.scalar(done.returning(Task.id)) is None:
        raise StaleClaimError(task_id, attempts)


def completes_by_id(task_id: int, attempts: int) -> None:
    if attempts < 1:
        raise ValueError
    with SessionFactory.begin() as session:
        _complete(session, task_id, attempts)


def completes_without_the_number(task_id: int, attempts: int) -> None:
    if attempts < 1:
        raise ValueError
    with SessionFactory.begin() as session:
        in_force = Task.lease_until > func.clock_timestamp()
        _complete(session, task_id, attempts, Task.status == "processing", in_force)


def completes_without_the_lease(task_id: int, attempts: int) -> None:
    if attempts < 1:
        raise ValueError
    with SessionFactory.begin() as session:
        _complete(session, task_id, attempts, Task.status == "processing", Task.attempts == attempts)


def completes_after_a_look(task_id: int, attempts: int) -> None:
    if attempts < 1:
        raise ValueError
    with SessionFactory.begin() as session:
        current = and_(
            Task.id == task_id,
            Task.status == "processing",
            Task.attempts == attempts,
            Task.lease_until > func.clock_timestamp(),
        )
        if session.scalar(select(Task.id).where(current)) is None:
            raise StaleClaimError(task_id, attempts)
        _complete(session, task_id, attempts)


def keeps_silent(task_id: int, attempts: int) -> None:
    with suppress(StaleClaimError):
        mark_as_completed(task_id, attempts)


def keeps_the_lease(task_id: int, attempts: int) -> None:
    if attempts < 1:
        raise ValueError
    with SessionFactory.begin() as session:
        current = (Task.status == "processing", Task.attempts == attempts, Task.lease_until > func.clock_timestamp())
        done = update(Task).where(Task.id == task_id, *current).values(status="completed")
        if session.scalar(done.returning(Task.id)) is None:
            raise StaleClaimError(task_id, attempts)


def raises_another_error(task_id: int, attempts: int) -> None:
    try:
        mark_as_completed(task_id, attempts)
    except StaleClaimError as error:
        raise LookupError(str(error)) from None


def accepts_zero(task_id: int, attempts: int) -> None:
    mark_as_completed(task_id, attempts if attempts > 0 else 2_000_000_000)


def _claims(claim: Callable[[float], Any]) -> tuple[Callable[..., Any], ...]:
    return claim, mark_as_completed


def _completes(completion: Callable[[int, int], None]) -> tuple[Callable[..., Any], ...]:
    return claim_task, completion


def completes_what_has_no_lease(task_id: int, attempts: int) -> None:
    if attempts < 1:
        raise ValueError("The first attempt has the number 1.")
    in_time = and_(Task.attempts == attempts, Task.lease_until > func.clock_timestamp())
    current = (Task.id == task_id, Task.status == "processing", or_(Task.lease_until.is_(None), in_time))
    with SessionFactory.begin() as session:
        done = update(Task).where(*current).values(status="completed", lease_until=None).returning(Task.id)
        if session.scalar(done) is None:
            raise StaleClaimError(task_id, attempts)


WRONG: dict[str, tuple[tuple[Callable[..., Any], ...], str]] = {
    "claims without a lock": (_claims(claims_without_a_lock), "Both found the row, one after the other"),
    "claims without SKIP LOCKED": (_claims(claims_without_skip_locked), "With FOR UPDATE alone the second worker"),
    "claims only what is pending": (_claims(claims_only_what_is_pending), "pending is not the only status to look for"),
    "leases by its own clock": (_claims(leases_by_its_own_clock), "The worker's own clock was a day behind"),
    "leases from now()": (_claims(leases_from_now), "now() and CURRENT_TIMESTAMP stand still"),
    "never ends": (_claims(never_ends), "a claim without a lease never ends"),
    "ignores the argument": (_claims(ignores_the_argument), "The lease should last 600 seconds from now"),
    "keeps the number on takeover": (_claims(keeps_the_number_on_takeover), "Also a takeover adds one"),
    "returns the old number": (_claims(returns_the_old_number), "the mapping says attempts 0"),
    "resets blindly": (_claims(resets_blindly), "Slow is not dead, and only a lease"),
    "takes NULL for expired": (_claims(takes_null_for_expired), "NULL is not an expired lease"),
    "takes over at half the lease": (_claims(takes_over_at_half_the_lease), "It took a task that is not free"),
    "waits longer than the lease": (
        _claims(waits_half_a_minute_longer),
        "It did not find a task that is free (#42: processing",
    ),
    "one of a type at a time": (_claims(one_of_a_type_at_a_time), "does not depend on other tasks"),
    "claims in two transactions": (_claims(claims_in_two_transactions), "until the COMMIT of the change"),
    "leaves its session open": (_claims(leaves_its_session_open), "It returned while its transaction was still open"),
    "LIMIT under IN": (_claims(limit_under_in), "under IN the planner may run that subquery again"),
    "completes by id": (_completes(completes_by_id), "The completion asks for the id alone"),
    "completes without the number": (_completes(completes_without_the_number), "does not compare the attempt number"),
    "completes without the lease": (_completes(completes_without_the_lease), "whether the lease is still in force"),
    "completes after a look": (_completes(completes_after_a_look), "Between the SELECT and the UPDATE"),
    "completes what has no lease": (_completes(completes_what_has_no_lease), "no current attempt with a lease"),
    "keeps silent": (_completes(keeps_silent), "and the caller was not told"),
    "keeps the lease": (_completes(keeps_the_lease), "A completed task has no lease"),
    "raises another error": (_completes(raises_another_error), "ended with LookupError"),
    "accepts zero": (_completes(accepts_zero), "It should raise ValueError, and it raised StaleClaimError"),
}
FULL = {
    "takes NULL for expired",
    "LIMIT under IN",
    "accepts zero",
    "takes over at half the lease",
    "waits longer than the lease",
    "one of a type at a time",
    "completes what has no lease",
}
