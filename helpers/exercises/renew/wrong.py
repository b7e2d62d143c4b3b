"""Wrong answers to the exercise `renew`."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import func, literal, select, text, update
from sqlalchemy.exc import NoResultFound
from sqlalchemy.orm import Session

from helpers.db import SessionFactory
from helpers.exercises.renew.answers import renew_lease
from helpers.models import Task
from helpers.repository.lease import MAX_LEASE_SECONDS, StaleClaimError

PROCESSING = Task.status == "processing"
IN_FORCE = Task.lease_until > func.clock_timestamp()


def _checked(attempts: int, seconds: float) -> None:
    if attempts < 1 or not 0 < seconds <= MAX_LEASE_SECONDS:
        raise ValueError


def _later(seconds: float) -> Any:
    return func.clock_timestamp() + timedelta(seconds=seconds)


def _current(task_id: int, attempts: int) -> tuple[Any, ...]:
    return Task.id == task_id, PROCESSING, Task.attempts == attempts, IN_FORCE


def _update(session: Session, task_id: int, attempts: int, conditions: tuple[Any, ...], /, **new: Any) -> Any:
    lease_until = session.scalars(update(Task).where(*conditions).values(new).returning(Task.lease_until)).first()
    if lease_until is None:
        raise StaleClaimError(task_id, attempts)
    return lease_until


def _renew(task_id: int, attempts: int, seconds: float, /, *conditions: Any, **new: Any) -> Any:
    """One UPDATE with these conditions, which sets these columns, or only the lease, rightly."""
    _checked(attempts, seconds)
    with SessionFactory.begin() as session:
        return _update(session, task_id, attempts, conditions, **(new or {"lease_until": _later(seconds)}))


# A condition is missing, or comes too early


def renews_by_id(task_id: int, attempts: int, lease_seconds: float) -> Any:
    return _renew(task_id, attempts, lease_seconds, Task.id == task_id)


def without_the_lease(task_id: int, attempts: int, lease_seconds: float) -> Any:
    return _renew(task_id, attempts, lease_seconds, Task.id == task_id, PROCESSING, Task.attempts == attempts)


def without_the_number(task_id: int, attempts: int, lease_seconds: float) -> Any:
    return _renew(task_id, attempts, lease_seconds, Task.id == task_id, PROCESSING, IN_FORCE)


def without_the_status(task_id: int, attempts: int, lease_seconds: float) -> Any:
    return _renew(task_id, attempts, lease_seconds, Task.id == task_id, Task.attempts == attempts, IN_FORCE)


def without_the_id(task_id: int, attempts: int, lease_seconds: float) -> Any:
    return _renew(task_id, attempts, lease_seconds, PROCESSING, Task.attempts == attempts, IN_FORCE)


def takes_a_number_ahead(task_id: int, attempts: int, lease_seconds: float) -> Any:
    return _renew(task_id, attempts, lease_seconds, Task.id == task_id, PROCESSING, Task.attempts <= attempts, IN_FORCE)


def looks_first(task_id: int, attempts: int, lease_seconds: float) -> Any:
    _checked(attempts, lease_seconds)
    with SessionFactory.begin() as session:
        if session.scalar(select(Task.id).where(*_current(task_id, attempts))) is None:
            raise StaleClaimError(task_id, attempts)
        return _update(session, task_id, attempts, (Task.id == task_id,), lease_until=_later(lease_seconds))


def looks_for_the_number_first(task_id: int, attempts: int, lease_seconds: float) -> Any:
    """The lease is asked for in the UPDATE; and whose it is, before."""
    _checked(attempts, lease_seconds)
    with SessionFactory.begin() as session:
        if session.scalar(select(Task.attempts).where(Task.id == task_id, PROCESSING)) != attempts:
            raise StaleClaimError(task_id, attempts)
        in_force = (Task.id == task_id, PROCESSING, IN_FORCE)
        return _update(session, task_id, attempts, in_force, lease_until=_later(lease_seconds))


def locks_and_looks_first(task_id: int, attempts: int, lease_seconds: float) -> Any:
    _checked(attempts, lease_seconds)
    with SessionFactory.begin() as session:
        if session.scalar(select(Task.id).where(*_current(task_id, attempts)).with_for_update()) is None:
            raise StaleClaimError(task_id, attempts)
        return _update(session, task_id, attempts, (Task.id == task_id,), lease_until=_later(lease_seconds))


def lets_python_compare(task_id: int, attempts: int, lease_seconds: float) -> Any:
    _checked(attempts, lease_seconds)
    with SessionFactory.begin() as session:
        columns = (Task.status, Task.attempts, Task.lease_until)
        row = session.execute(select(*columns).where(Task.id == task_id).with_for_update()).one_or_none()
        current = row is not None and (row.status, row.attempts) == ("processing", attempts)
        if row is None or not current or row.lease_until is None or row.lease_until <= datetime.now(UTC):
            raise StaleClaimError(task_id, attempts)
        return _update(session, task_id, attempts, (Task.id == task_id,), lease_until=_later(lease_seconds))


def takes_null_for_endless(task_id: int, attempts: int, lease_seconds: float) -> Any:
    in_force = func.coalesce(Task.lease_until, text("'infinity'::timestamptz")) > func.clock_timestamp()
    return _renew(task_id, attempts, lease_seconds, Task.id == task_id, PROCESSING, Task.attempts == attempts, in_force)


# The time


def adds_to_the_old_end(task_id: int, attempts: int, lease_seconds: float) -> Any:
    longer = Task.lease_until + timedelta(seconds=lease_seconds)
    return _renew(task_id, attempts, lease_seconds, *_current(task_id, attempts), lease_until=longer)


def counts_by_its_own_clock(task_id: int, attempts: int, lease_seconds: float) -> Any:
    _checked(attempts, lease_seconds)
    end = datetime.now(UTC) + timedelta(seconds=lease_seconds)
    return _renew(task_id, attempts, lease_seconds, *_current(task_id, attempts), lease_until=end)


def compares_with_its_own_clock(task_id: int, attempts: int, lease_seconds: float) -> Any:
    in_force = Task.lease_until > datetime.now(UTC)
    return _renew(task_id, attempts, lease_seconds, Task.id == task_id, PROCESSING, Task.attempts == attempts, in_force)


def compares_with_now(task_id: int, attempts: int, lease_seconds: float) -> Any:
    _checked(attempts, lease_seconds)
    with SessionFactory.begin() as session:
        if session.scalar(select(Task.id).where(Task.id == task_id)) is None:
            raise StaleClaimError(task_id, attempts)
        current = (Task.id == task_id, PROCESSING, Task.attempts == attempts, Task.lease_until > func.now())
        return _update(session, task_id, attempts, current, lease_until=func.now() + timedelta(seconds=lease_seconds))


def counts_from_now(task_id: int, attempts: int, lease_seconds: float) -> Any:
    _checked(attempts, lease_seconds)
    with SessionFactory.begin() as session:
        if session.scalar(select(Task.attempts).where(Task.id == task_id).with_for_update()) != attempts:
            raise StaleClaimError(task_id, attempts)
        end = func.now() + timedelta(seconds=lease_seconds)
        return _update(session, task_id, attempts, _current(task_id, attempts), lease_until=end)


def says_now_in_one_statement(task_id: int, attempts: int, lease_seconds: float) -> Any:
    current = (Task.id == task_id, PROCESSING, Task.attempts == attempts, Task.lease_until > func.now())
    end = func.now() + timedelta(seconds=lease_seconds)
    return _renew(task_id, attempts, lease_seconds, *current, lease_until=end)


def ignores_the_argument(task_id: int, attempts: int, lease_seconds: float) -> Any:
    _checked(attempts, lease_seconds)
    return renew_lease(task_id, attempts, 30)


def never_ends(task_id: int, attempts: int, lease_seconds: float) -> Any:
    endless = text("'infinity'::timestamptz")
    with suppress(Exception):  # Python has no such time
        _renew(task_id, attempts, lease_seconds, *_current(task_id, attempts), lease_until=endless)
    with SessionFactory.begin() as session:
        session.execute(update(Task).where(*_current(task_id, attempts)).values(lease_until=endless))
    return datetime.max.replace(tzinfo=UTC)


# The other columns


def takes_a_new_number(task_id: int, attempts: int, lease_seconds: float) -> Any:
    new = {"attempts": Task.attempts + 1, "lease_until": _later(lease_seconds)}
    return _renew(task_id, attempts, lease_seconds, *_current(task_id, attempts), **new)


def clears_the_error(task_id: int, attempts: int, lease_seconds: float) -> Any:
    new = {"last_error": None, "lease_until": _later(lease_seconds)}
    return _renew(task_id, attempts, lease_seconds, *_current(task_id, attempts), **new)


# The transaction and its locks


def _one_update(session: Session, task_id: int, attempts: int, lease_seconds: float) -> Any:
    _checked(attempts, lease_seconds)
    return _update(session, task_id, attempts, _current(task_id, attempts), lease_until=_later(lease_seconds))


def never_commits(task_id: int, attempts: int, lease_seconds: float) -> Any:
    with SessionFactory() as session:
        return _one_update(session, task_id, attempts, lease_seconds)


_open: list[Session] = []


def leaves_its_session_open(task_id: int, attempts: int, lease_seconds: float) -> Any:
    session = SessionFactory()
    _open.append(session)  # so that nothing closes it
    return _one_update(session, task_id, attempts, lease_seconds)


def leaves_its_session_open_where_it_raises(task_id: int, attempts: int, lease_seconds: float) -> Any:
    _checked(attempts, lease_seconds)
    session = SessionFactory()
    _open.append(session)
    lease_until = _one_update(session, task_id, attempts, lease_seconds)
    session.commit()
    return lease_until


def skips_what_is_locked(task_id: int, attempts: int, lease_seconds: float) -> Any:
    _checked(attempts, lease_seconds)
    with SessionFactory.begin() as session:
        if session.scalar(select(Task.id).where(Task.id == task_id).with_for_update(skip_locked=True)) is None:
            raise StaleClaimError(task_id, attempts)
        return _one_update(session, task_id, attempts, lease_seconds)


def does_not_wait(task_id: int, attempts: int, lease_seconds: float) -> Any:
    _checked(attempts, lease_seconds)
    with SessionFactory.begin() as session:
        session.execute(select(Task.id).where(Task.id == task_id).with_for_update(nowait=True))
        return _one_update(session, task_id, attempts, lease_seconds)


def locks_every_row(task_id: int, attempts: int, lease_seconds: float) -> Any:
    _checked(attempts, lease_seconds)
    with SessionFactory.begin() as session:
        session.execute(select(Task.id).where(PROCESSING).order_by(Task.id).with_for_update())
        return _one_update(session, task_id, attempts, lease_seconds)


def reads_repeatably(task_id: int, attempts: int, lease_seconds: float) -> Any:
    _checked(attempts, lease_seconds)
    with SessionFactory.begin() as session:
        session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
        return _one_update(session, task_id, attempts, lease_seconds)


def asks_for_every_column(task_id: int, attempts: int, lease_seconds: float) -> Any:
    _checked(attempts, lease_seconds)
    with SessionFactory.begin() as session:
        if session.get(Task, task_id, with_for_update=True) is None:
            raise StaleClaimError(task_id, attempts)
        return _one_update(session, task_id, attempts, lease_seconds)


# What comes back


def keeps_silent(task_id: int, attempts: int, lease_seconds: float) -> Any:
    with suppress(StaleClaimError):
        return renew_lease(task_id, attempts, lease_seconds)
    return None


def raises_another_error(task_id: int, attempts: int, lease_seconds: float) -> Any:
    try:
        return renew_lease(task_id, attempts, lease_seconds)
    except StaleClaimError:
        raise NoResultFound("No row was found when one was required") from None  # as .one() would


def raises_another_error_for_no_task(task_id: int, attempts: int, lease_seconds: float) -> Any:
    _checked(attempts, lease_seconds)
    with SessionFactory.begin() as session:
        if session.scalar(select(Task.id).where(Task.id == task_id)) is None:
            raise LookupError(task_id)
        return _one_update(session, task_id, attempts, lease_seconds)


def names_the_wrong_claim(task_id: int, attempts: int, lease_seconds: float) -> Any:
    try:
        return renew_lease(task_id, attempts, lease_seconds)
    except StaleClaimError:
        raise StaleClaimError(attempts, task_id) from None


def returns_nothing(task_id: int, attempts: int, lease_seconds: float) -> Any:
    renew_lease(task_id, attempts, lease_seconds)


def returns_true(task_id: int, attempts: int, lease_seconds: float) -> Any:
    return renew_lease(task_id, attempts, lease_seconds) is not None


def returns_the_old_end(task_id: int, attempts: int, lease_seconds: float) -> Any:
    with SessionFactory.begin() as session:
        old = session.scalar(select(Task.lease_until).where(Task.id == task_id))
    renew_lease(task_id, attempts, lease_seconds)
    return old


def computes_what_it_returns(task_id: int, attempts: int, lease_seconds: float) -> Any:
    renew_lease(task_id, attempts, lease_seconds)
    with SessionFactory.begin() as session:
        return session.scalar(select(literal(timedelta(seconds=lease_seconds)) + func.clock_timestamp()))


# The arguments


def accepts_zero_attempts(task_id: int, attempts: int, lease_seconds: float) -> Any:
    return renew_lease(task_id, attempts if attempts > 0 else 2_000_000_000, lease_seconds)


def accepts_no_time(task_id: int, attempts: int, lease_seconds: float) -> Any:
    return renew_lease(task_id, attempts, lease_seconds or 1e-6)


def accepts_less_than_no_time(task_id: int, attempts: int, lease_seconds: float) -> Any:
    return renew_lease(task_id, attempts, abs(lease_seconds))


def accepts_two_days(task_id: int, attempts: int, lease_seconds: float) -> Any:
    if lease_seconds <= MAX_LEASE_SECONDS:
        return renew_lease(task_id, attempts, lease_seconds)
    return _renew(task_id, attempts, 1, *_current(task_id, attempts), lease_until=_later(lease_seconds))


def refuses_a_day(task_id: int, attempts: int, lease_seconds: float) -> Any:
    if lease_seconds >= MAX_LEASE_SECONDS:
        raise ValueError("too long")
    return renew_lease(task_id, attempts, lease_seconds)


WRONG: dict[str, tuple[tuple[Callable[..., Any], ...], str]] = {
    "renews by id": ((renews_by_id,), "It does not see that the lease has ended, nor whose lease it is"),
    "without the lease": ((without_the_lease,), "so it brings back a lease that had ended"),
    "without the number": ((without_the_number,), "does not compare the attempt number"),
    "without the status": ((without_the_status,), "set the status to failed by hand"),
    "without the id": ((without_the_id,), "It changed #43 as well, which another worker has"),
    "takes a number ahead": ((takes_a_number_ahead,), "the current attempt is 1, and the renewal said 2"),
    "looks first": ((looks_first,), "A look is old as soon as it is made"),
    "looks for the number first": ((looks_for_the_number_first,), "Between the SELECT and the UPDATE the row has"),
    "locks and looks first": ((locks_and_looks_first,), "it does not stop the time"),
    "lets Python compare": ((lets_python_compare,), "or the worker's own clock decided"),
    "takes NULL for endless": ((takes_null_for_endless,), "the task is processing and has no lease"),
    "adds to the old end": ((adds_to_the_old_end,), "each renewal would move it further away"),
    "counts by its own clock": ((counts_by_its_own_clock,), "when it computed the end of the lease"),
    "compares with its own clock": ((compares_with_its_own_clock,), "It compared the lease with the worker's own"),
    "compares with now()": ((compares_with_now,), "It compared the lease with now()"),
    "counts from now()": ((counts_from_now,), "the lease ends too early by all that has passed"),
    "now() in one statement": ((says_now_in_one_statement,), "Then the UPDATE waited for the other renewal"),
    "ignores the argument": ((ignores_the_argument,), "The lease should last 600 seconds from now"),
    "never ends": ((never_ends,), "Now the lease has no end"),
    "takes a new number": ((takes_a_new_number,), "It changed attempts from 2 to 3"),
    "clears the error": ((clears_the_error,), "It changed more than lease_until: last_error"),
    "never commits": ((never_commits,), "It came back, and lease_until is as before"),
    "leaves its session open": ((leaves_its_session_open,), "It returned while its transaction was still open"),
    "leaves its session open where it raises": (
        (leaves_its_session_open_where_it_raises,),
        "left its transaction open, with its locks",
    ),
    "skips what is locked": ((skips_what_is_locked,), "A lock says nothing about whose claim it is"),
    "does not wait": ((does_not_wait,), "The lock of another session is no refusal"),
    "locks every row": ((locks_every_row,), "Put the id into the WHERE of every statement that locks"),
    "reads repeatably": ((reads_repeatably,), "At this isolation level PostgreSQL ends a transaction"),
    "asks for every column": ((asks_for_every_column,), "ask for all columns of the model"),
    "keeps silent": ((keeps_silent,), "and the caller was not told"),
    "raises another error": ((raises_another_error,), "ended with NoResultFound"),
    "raises another error for no task": ((raises_another_error_for_no_task,), "(there is no such task)"),
    "names the wrong claim": ((names_the_wrong_claim,), "names task #1 and attempt 42"),
    "returns nothing": ((returns_nothing,), "The renewal is right, and it returned None"),
    "returns True": ((returns_true,), "it returned a bool"),
    "returns the old end": ((returns_the_old_end,), "it returned the lease_until of before"),
    "computes what it returns": ((computes_what_it_returns,), "it returned another time than the one in the row"),
    "accepts zero attempts": ((accepts_zero_attempts,), "No claim ever has a number below 1"),
    "accepts no time": ((accepts_no_time,), "A lease of 0 seconds would be over at once"),
    "accepts less than no time": ((accepts_less_than_no_time,), "A lease of less than 0 seconds"),
    "accepts two days": ((accepts_two_days,), "A lease lasts a day at most"),
    "refuses a day": ((refuses_a_day,), "A day is the longest lease, and it is allowed"),
}
FULL = {
    "takes a number ahead",
    "locks every row",
    "accepts zero attempts",
    "accepts no time",
    "accepts less than no time",
    "accepts two days",
    "refuses a day",
}
