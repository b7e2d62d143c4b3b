"""The rules of lesson 3's claim and completion. Each test's name is the rule."""

import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import event, text

from helpers.db import engine
from helpers.lab import rebuild
from helpers.repository.locked import claim_task, mark_as_completed
from helpers.scripts import run_script


@pytest.fixture(autouse=True, params=[3, 4], ids=["base tables", "with the columns of lesson 4"])
def tables(request: pytest.FixtureRequest) -> Iterator[None]:
    """The tables of lesson 3; and a later lesson's, whose columns must not break this code."""
    rebuild(request.param)
    if request.param == 4:
        run_script("04_lease_and_attempts/01_migrate.sql")
    yield


def claim() -> int | None:
    task = claim_task()
    return None if task is None else task["id"]


def statuses() -> list[str]:
    with engine().connect() as connection:
        return list(connection.scalars(text("SELECT status FROM backend_training.tasks ORDER BY id")))


def test_a_claim_returns_id_and_type() -> None:
    task = claim_task()
    assert task is not None
    assert dict(task) == {"id": 42, "type": "generate_report"}


def test_the_claim_is_committed_when_it_returns() -> None:
    claim()
    assert statuses() == ["processing", "pending", "pending"]


def test_tasks_are_claimed_in_the_order_of_their_ids_and_each_once() -> None:
    assert [claim() for _ in range(4)] == [42, 43, 44, None]


def test_a_claim_skips_locked_rows_and_does_not_wait() -> None:
    with engine().connect() as other:
        other.execute(text("SELECT 1 FROM backend_training.tasks WHERE id IN (42, 43) FOR UPDATE"))
        claimed: list[int | None] = []
        claimer = threading.Thread(target=lambda: claimed.append(claim()), daemon=True)
        claimer.start()
        claimer.join(timeout=20)
        other.rollback()  # a claimer that waits is let go, so that a failing test ends too
        claimer.join(timeout=20)
    assert claimed == [44]


def test_where_all_pending_rows_are_locked_there_is_no_task() -> None:
    with engine().connect() as other:
        other.execute(text("SELECT 1 FROM backend_training.tasks FOR UPDATE"))
        assert claim() is None
        assert statuses() == ["pending"] * 3


def test_a_claim_locks_one_row_and_no_other() -> None:
    skipped: list[list[int]] = []

    def look(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("UPDATE"):  # the claim's SELECT is over, its COMMIT is not
            with engine().connect() as other:
                sql = text("SELECT id FROM backend_training.tasks ORDER BY id FOR UPDATE SKIP LOCKED")
                skipped.append(list(other.scalars(sql)))

    event.listen(engine(), "after_cursor_execute", look)
    try:
        claim()
    finally:
        event.remove(engine(), "after_cursor_execute", look)
    assert skipped == [[43, 44]]


def test_a_claim_is_one_transaction_with_two_statements() -> None:
    seen: list[str] = []

    def statement(_connection: object, _cursor: object, sql: str, *_: object) -> None:
        seen.append(sql.split()[0])

    def commit(_connection: object) -> None:
        seen.append("COMMIT")

    event.listen(engine(), "before_cursor_execute", statement)
    event.listen(engine(), "commit", commit)
    try:
        claim()
    finally:
        event.remove(engine(), "before_cursor_execute", statement)
        event.remove(engine(), "commit", commit)
    assert seen == ["SELECT", "UPDATE", "COMMIT"]


def test_a_completion_concerns_one_task() -> None:
    claim()
    claim()
    mark_as_completed(42)
    assert statuses() == ["completed", "processing", "pending"]


def test_a_completed_task_is_not_claimed_again() -> None:
    claim()
    mark_as_completed(42)
    assert claim() == 43


def test_a_task_that_is_processing_is_never_claimed_again() -> None:
    claim()
    assert [claim() for _ in range(3)] == [43, 44, None]
