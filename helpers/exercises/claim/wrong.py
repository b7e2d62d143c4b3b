"""Wrong answers to the exercise `claim`."""

from collections.abc import Callable
from typing import Any

from sqlalchemy import RowMapping, Select, select, text, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from helpers.db import SessionFactory
from helpers.models import Task

PENDING = select(Task.id).where(Task.status == "pending").limit(1)
SKIPPING = PENDING.order_by(Task.id).with_for_update(skip_locked=True)


def _claim(session: Session, candidate: Select[Any]) -> RowMapping | None:
    task_id = session.scalar(candidate)
    if task_id is None:
        return None
    claim = update(Task).where(Task.id == task_id).values(status="processing").returning(Task.id, Task.type)
    return session.execute(claim).mappings().one()


def without_a_lock() -> RowMapping | None:
    with SessionFactory.begin() as session:
        return _claim(session, PENDING.order_by(Task.id))


def without_skip_locked() -> RowMapping | None:
    with SessionFactory.begin() as session:
        return _claim(session, PENDING.order_by(Task.id).with_for_update())


def with_nowait() -> RowMapping | None:
    with SessionFactory.begin() as session:
        return _claim(session, PENDING.order_by(Task.id).with_for_update(nowait=True))


def gives_up_when_locked() -> RowMapping | None:
    try:
        return with_nowait()
    except OperationalError:
        return None


def without_an_order() -> RowMapping | None:
    with SessionFactory.begin() as session:
        return _claim(session, PENDING.with_for_update(skip_locked=True))


def lock_and_change_in_two_transactions() -> RowMapping | None:
    with SessionFactory.begin() as session:
        task_id = session.scalar(SKIPPING)
    if task_id is None:
        return None
    with SessionFactory.begin() as session:
        claim = update(Task).where(Task.id == task_id).values(status="processing").returning(Task.id, Task.type)
        return session.execute(claim).mappings().one()


def without_a_commit() -> RowMapping | None:
    with SessionFactory() as session:
        return _claim(session, SKIPPING)


_open: list[Session] = []


def leaves_its_session_open() -> RowMapping | None:
    session = SessionFactory()
    _open.append(session)  # so that nothing closes it
    return _claim(session, SKIPPING)


def takes_every_row() -> RowMapping | None:
    with SessionFactory.begin() as session:
        claim = update(Task).where(Task.status == "pending").values(status="processing").returning(Task.id, Task.type)
        return session.execute(claim).mappings().first()


def limit_under_in() -> RowMapping | None:
    with SessionFactory.begin() as session:
        claim = text("""
            UPDATE backend_training.tasks SET status = 'processing'
            WHERE id IN (SELECT id FROM backend_training.tasks WHERE status = 'pending'
                         ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
            RETURNING id, type
        """)
        return session.execute(claim).mappings().first()


def returns_the_id() -> int | None:
    with SessionFactory.begin() as session:
        task = _claim(session, SKIPPING)
        return None if task is None else int(task["id"])


def returns_a_row() -> Any:
    with SessionFactory.begin() as session:
        task_id = session.scalar(SKIPPING)
        claim = update(Task).where(Task.id == task_id).values(status="processing").returning(Task.id, Task.type)
        return session.execute(claim).one_or_none()


def returns_the_object() -> Task | None:
    with SessionFactory.begin() as session:
        task = session.scalar(select(Task).where(Task.status == "pending").order_by(Task.id).limit(1).with_for_update())
        if task is not None:
            task.status = "processing"
        return task


def only_looks() -> dict[str, Any] | None:
    with SessionFactory() as session:
        row = session.execute(select(Task.id, Task.type).where(Task.status == "pending").order_by(Task.id)).first()
        return None if row is None else {"id": row.id, "type": row.type}


def sets_another_status() -> RowMapping | None:
    with SessionFactory.begin() as session:
        claim = update(Task).where(Task.id == session.scalar(SKIPPING)).values(status="completed")
        return session.execute(claim.returning(Task.id, Task.type)).mappings().one_or_none()


WRONG: dict[str, tuple[tuple[Callable[..., Any], ...], str]] = {
    "without a lock": ((without_a_lock,), "Both workers saw the row as pending"),
    "without SKIP LOCKED": ((without_skip_locked,), "With FOR UPDATE alone the second worker stands in line"),
    "with NOWAIT": ((with_nowait,), "Somebody else's lock is no error here"),
    "gives up when locked": ((gives_up_when_locked,), "Tasks were free, and it got none of them"),
    "without an order": ((without_an_order,), "Without ORDER BY the database may return any row"),
    "two transactions": ((lock_and_change_in_two_transactions,), "The lock ended before the row was changed"),
    "without a commit": ((without_a_commit,), "the change was not committed"),
    "leaves its session open": ((leaves_its_session_open,), "It returned while its transaction was still open"),
    "takes every row": ((takes_every_row,), "It claimed more than it returned: #42, #43 changed as well"),
    "LIMIT under IN": ((limit_under_in,), "under IN the planner may run that subquery again"),
    "returns the id": ((returns_the_id,), "It returned an int"),
    "returns a row": ((returns_a_row,), "It returned a Row"),
    "returns the object": ((returns_the_object,), "`select(Task)` asks for all columns of the model"),
    "only looks": ((only_looks,), "nothing was changed, or the change was not committed"),
    "sets another status": ((sets_another_status,), "the status of #42 is completed"),
}
FULL = {"LIMIT under IN"}
