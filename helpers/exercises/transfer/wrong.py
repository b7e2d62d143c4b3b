"""Wrong answers to the exercise `transfer`."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import select, text, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from helpers.db import SessionFactory
from helpers.models import Task


def _write(session: Session, source_id: int, target_id: int) -> bool:
    session.execute(update(Task).where(Task.id == source_id).values(status="pending"))
    session.execute(update(Task).where(Task.id == target_id).values(status="processing"))
    return True


def _look(session: Session, task_id: int, **lock: Any) -> str | None:
    found = select(Task.status).where(Task.id == task_id)
    return session.scalar(found.with_for_update(**lock.get("lock", {})) if "lock" in lock else found)


LOCK: dict[str, Any] = {"lock": {}}


def in_the_order_of_the_arguments(source_id: int, target_id: int) -> bool:
    with SessionFactory.begin() as session:
        source, target = _look(session, source_id, **LOCK), _look(session, target_id, **LOCK)
        if source_id == target_id or (source, target) != ("processing", "pending"):
            return False
        return _write(session, source_id, target_id)


def without_a_lock(source_id: int, target_id: int) -> bool:
    with SessionFactory.begin() as session:
        source, target = _look(session, source_id), _look(session, target_id)
        if (source, target) != ("processing", "pending"):
            return False
        return _write(session, source_id, target_id)


def locks_the_source_only(source_id: int, target_id: int) -> bool:
    with SessionFactory.begin() as session:
        source, target = _look(session, source_id, **LOCK), _look(session, target_id)
        if (source, target) != ("processing", "pending"):
            return False
        return _write(session, source_id, target_id)


def locks_the_target_only(source_id: int, target_id: int) -> bool:
    with SessionFactory.begin() as session:
        target, source = _look(session, target_id, **LOCK), _look(session, source_id)
        if (source, target) != ("processing", "pending"):
            return False
        return _write(session, source_id, target_id)


def nowait(source_id: int, target_id: int) -> bool:
    with SessionFactory.begin() as session:
        both = select(Task.id, Task.status).where(Task.id.in_([source_id, target_id])).order_by(Task.id)
        status = {row.id: row.status for row in session.execute(both.with_for_update(nowait=True))}
        if status.get(source_id) != "processing" or status.get(target_id) != "pending":
            return False
        return _write(session, source_id, target_id)


def nowait_in_a_loop(source_id: int, target_id: int) -> bool:
    while True:
        try:
            return nowait(source_id, target_id)
        except OperationalError:
            continue


def repeats_after_a_deadlock(source_id: int, target_id: int) -> bool:
    while True:
        try:
            return in_the_order_of_the_arguments(source_id, target_id)
        except OperationalError:
            continue


def gives_up_after_a_while(source_id: int, target_id: int) -> bool:
    try:
        with SessionFactory.begin() as session:
            session.execute(text("SET LOCAL lock_timeout = '1s'"))
            both = select(Task.id, Task.status).where(Task.id.in_([source_id, target_id])).order_by(Task.id)
            status = {row.id: row.status for row in session.execute(both.with_for_update())}
            if status.get(source_id) != "processing" or status.get(target_id) != "pending":
                return False
            return _write(session, source_id, target_id)
    except OperationalError:
        return False


def two_transactions(source_id: int, target_id: int) -> bool:
    with SessionFactory.begin() as session:
        both = select(Task.id, Task.status).where(Task.id.in_([source_id, target_id])).order_by(Task.id)
        status = {row.id: row.status for row in session.execute(both.with_for_update())}
        if status.get(source_id) != "processing" or status.get(target_id) != "pending":
            return False
        session.execute(update(Task).where(Task.id == source_id).values(status="pending"))
    with SessionFactory.begin() as session:
        session.execute(update(Task).where(Task.id == target_id).values(status="processing"))
    return True


def forgets_the_commit(source_id: int, target_id: int) -> bool:
    with SessionFactory() as session:
        if (_look(session, source_id), _look(session, target_id)) != ("processing", "pending"):
            return False
        return _write(session, source_id, target_id)


_open: list[Session] = []


def leaves_its_session_open(source_id: int, target_id: int) -> bool:
    session = SessionFactory()
    _open.append(session)  # so that nothing closes it
    if (_look(session, source_id), _look(session, target_id)) != ("processing", "pending"):
        return False
    return _write(session, source_id, target_id)


def moves_whatever_it_finds(source_id: int, target_id: int) -> bool:
    with SessionFactory.begin() as session:
        session.execute(text("SELECT id FROM backend_training.tasks ORDER BY id FOR UPDATE"))
        return _write(session, source_id, target_id)


def returns_the_number_of_rows(source_id: int, target_id: int) -> int:
    return 2 if without_a_lock(source_id, target_id) else 0


WRONG: dict[str, tuple[tuple[Callable[..., Any], ...], str]] = {
    "in the order of the arguments": ((in_the_order_of_the_arguments,), "Each held a row that the other wanted"),
    "without a lock": ((without_a_lock,), "It took no lock before it looked"),
    "locks the source only": ((locks_the_source_only,), "a status that this lock did not hold still"),
    "locks the target only": ((locks_the_target_only,), "one source was given away twice"),
    "NOWAIT, unhandled": ((nowait,), "NOWAIT asks for a lock"),
    "NOWAIT in a loop": ((nowait_in_a_loop,), "Let PostgreSQL do the waiting"),
    "repeats after a deadlock": ((repeats_after_a_deadlock,), "The deadlock was caught and the transfer repeated"),
    "gives up after a while": ((gives_up_after_a_while,), "A limit of time that it has set itself"),
    "two transactions": ((two_transactions,), "A transfer is one transaction"),
    "forgets the commit": ((forgets_the_commit,), "the change was not committed"),
    "leaves its session open": ((leaves_its_session_open,), "while its transaction was still open"),
    "moves whatever it finds": ((moves_whatever_it_finds,), "The rows were #42 pending"),
    "returns the number of rows": ((returns_the_number_of_rows,), "It returned an int"),
}
FULL = {"locks the target only", "two transactions"}
# Their check takes five times as long as most; other answers meet the same rules.
SLOW = {"NOWAIT in a loop"}
