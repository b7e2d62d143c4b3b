"""A transaction that runs again where the database asks for it."""

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import select, text, update
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.orm import Session

from helpers import lab
from helpers.db import SessionFactory
from helpers.models import Task
from helpers.repository.transaction import run_transaction


@pytest.fixture(autouse=True)
def lesson2() -> Iterator[None]:
    lab.rebuild(2)
    yield


def disturb(status: str) -> None:
    """Another session changes #42 and commits."""
    with SessionFactory.begin() as session:
        session.execute(update(Task).where(Task.id == 42).values(status=status))


def disturbed(times: int, reads: list[str]) -> Callable[[Session], str]:
    """A transaction that notes what it reads, and into which somebody breaks at its first `times` tries."""
    steps = iter(["processing", "pending"] * times)

    def work(session: Session) -> str:
        reads.append(session.scalars(select(Task.status).where(Task.id == 42)).one())
        if len(reads) <= times:
            disturb(next(steps))
        session.execute(update(Task).where(Task.id == 42).values(status="completed"))
        return "done"

    return work


def test_the_whole_transaction_runs_again_and_reads_anew() -> None:
    reads: list[str] = []
    assert run_transaction(disturbed(1, reads)) == "done"
    assert reads == ["pending", "processing"]
    assert lab.task(42)["status"] == "completed"


def test_after_the_last_try_the_error_is_the_callers() -> None:
    reads: list[str] = []
    with pytest.raises(DBAPIError) as caught:
        run_transaction(disturbed(3, reads), tries=3)
    assert getattr(caught.value.orig, "sqlstate", None) == "40001"
    assert len(reads) == 3


def test_another_error_is_not_tried_again() -> None:
    tries: list[int] = []

    def work(session: Session) -> None:
        tries.append(1)
        session.execute(update(Task).where(Task.id == 42).values(status="done"))

    with pytest.raises(IntegrityError):
        run_transaction(work)
    assert len(tries) == 1


def test_the_transaction_is_repeatable_read_and_the_next_one_is_not() -> None:
    level = text("SELECT current_setting('transaction_isolation')")
    assert run_transaction(lambda session: session.scalar(level)) == "repeatable read"
    with SessionFactory.begin() as session:
        assert session.scalar(level) == "read committed"
