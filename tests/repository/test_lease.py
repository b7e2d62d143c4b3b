"""The rules of lesson 4's claim and completion. Each test's name is the rule."""

import threading
from collections.abc import Callable

import pytest
from sqlalchemy import Connection, event, text

from helpers.db import engine
from helpers.repository.lease import MAX_LEASE_SECONDS, StaleClaimError, claim_task, mark_as_completed

Row = Callable[..., dict[str, object]]
Expire = Callable[..., None]
pytestmark = pytest.mark.usefixtures("lesson4")


def claim(lease_seconds: float = 60) -> tuple[int, int] | None:
    task = claim_task(lease_seconds)
    return None if task is None else (task["id"], task["attempts"])


def test_a_claim_returns_id_type_attempts_and_lease_until() -> None:
    task = claim_task(60)
    assert task is not None
    assert {"id": 42, "type": "generate_report", "attempts": 1}.items() <= dict(task).items()
    assert task["lease_until"].utcoffset().total_seconds() == 0


def test_the_claim_is_committed_when_it_returns(row: Row) -> None:
    claim()
    assert row() == {"status": "processing", "attempts": 1, "lease_expired": False}


def test_tasks_are_claimed_in_the_order_of_their_ids_and_each_once() -> None:
    assert [claim() for _ in range(4)] == [(42, 1), (43, 1), (44, 1), None]


def test_a_lease_in_force_is_not_taken_over() -> None:
    claim()
    assert claim() == (43, 1)


def test_an_expired_lease_is_taken_over_with_the_next_attempt(expire: Expire) -> None:
    claim()
    expire()
    assert claim() == (42, 2)
    expire()
    assert claim() == (42, 3)


def test_a_completed_task_is_not_claimed_again() -> None:
    claim()
    mark_as_completed(42, 1)
    assert claim() == (43, 1)


def test_a_processing_task_without_a_lease_is_never_claimed() -> None:
    with engine().begin() as connection:
        connection.execute(text("UPDATE backend_training.tasks SET status = 'processing' WHERE id = 42"))
    assert claim() == (43, 1)


def test_a_claim_skips_a_locked_row_and_does_not_wait(connection: Connection) -> None:
    connection.execute(text("SELECT 1 FROM backend_training.tasks WHERE id = 42 FOR UPDATE"))
    claimed: list[tuple[int, int] | None] = []
    claimer = threading.Thread(target=lambda: claimed.append(claim()), daemon=True)
    claimer.start()
    claimer.join(timeout=20)
    connection.rollback()  # a claimer that waits is let go, so that a failing test ends too
    claimer.join(timeout=20)
    assert claimed == [(43, 1)]


def test_the_lease_is_counted_from_the_moment_of_the_claim(connection: Connection) -> None:
    before = connection.scalar(text("SELECT clock_timestamp()"))
    task = claim_task(60)
    after = connection.scalar(text("SELECT clock_timestamp()"))
    assert task is not None and before is not None and after is not None
    assert before.timestamp() + 60 <= task["lease_until"].timestamp() <= after.timestamp() + 60


def test_a_claim_is_one_transaction_with_two_statements() -> None:
    seen: list[str] = []
    event.listen(engine(), "before_cursor_execute", lambda _c, _k, statement, *_: seen.append(statement.split()[0]))
    event.listen(engine(), "commit", lambda _: seen.append("COMMIT"))
    claim()
    assert seen == ["SELECT", "UPDATE", "COMMIT"]


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), MAX_LEASE_SECONDS + 1])
def test_a_lease_that_makes_no_sense_is_refused(seconds: float, row: Row) -> None:
    with pytest.raises(ValueError, match="lease"):
        claim_task(seconds)
    assert row()["status"] == "pending"


def test_completing_clears_the_lease(row: Row) -> None:
    claim()
    mark_as_completed(42, 1)
    assert row() == {"status": "completed", "attempts": 1, "lease_expired": None}


def assert_refused(task_id: int, attempts: int, row: Row) -> None:
    before = row(task_id)
    with pytest.raises(StaleClaimError) as refusal:
        mark_as_completed(task_id, attempts)
    assert isinstance(refusal.value, RuntimeError)
    for words in (f"#{task_id}", f"attempt {attempts}", "already completed", "lease has expired", "newer attempt"):
        assert words in str(refusal.value)
    assert row(task_id) == before, "a refused completion changes nothing"


def test_another_task_is_not_completed_along(row: Row) -> None:
    claim()
    claim()
    mark_as_completed(42, 1)
    assert row(43)["status"] == "processing"


def test_a_completed_task_is_not_completed_again(row: Row) -> None:
    claim()
    mark_as_completed(42, 1)
    assert_refused(42, 1, row)


def test_a_task_that_is_not_processing_is_not_completed_even_with_number_and_lease(row: Row) -> None:
    claim()
    with engine().begin() as connection:
        connection.execute(text("UPDATE backend_training.tasks SET status = 'pending' WHERE id = 42"))
    assert_refused(42, 1, row)


def test_an_older_attempt_is_refused_while_the_newer_one_works(row: Row, expire: Expire) -> None:
    claim()
    expire()
    claim()
    assert row() == {"status": "processing", "attempts": 2, "lease_expired": False}
    assert_refused(42, 1, row)
    mark_as_completed(42, 2)


def test_an_attempt_that_was_never_made_is_refused(row: Row) -> None:
    claim()
    assert_refused(42, 2, row)


def test_an_expired_lease_is_refused_even_if_nobody_took_the_task_over(row: Row, expire: Expire) -> None:
    claim()
    expire()
    assert_refused(42, 1, row)


@pytest.mark.parametrize("attempts", [0, -1])
def test_an_attempt_below_one_is_a_mistake_of_the_caller(attempts: int) -> None:
    with pytest.raises(ValueError, match="attempt"):
        mark_as_completed(42, attempts)


def test_a_completion_is_one_statement() -> None:
    claim()
    seen: list[str] = []
    event.listen(engine(), "before_cursor_execute", lambda _c, _k, statement, *_: seen.append(statement.split()[0]))
    mark_as_completed(42, 1)
    assert seen == ["UPDATE"]
