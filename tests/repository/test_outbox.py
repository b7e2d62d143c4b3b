"""The rules of lesson 6's outbox. Each test's name is the rule."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from sqlalchemy import Connection, event, text
from sqlalchemy.exc import DBAPIError, IntegrityError

from helpers import lab
from helpers.db import engine
from helpers.repository.lease import StaleClaimError, claim_task
from helpers.repository.outbox import claim_request, complete_with_request, mark_as_delivered

Row = Callable[..., dict[str, object]]
StartBehind = Callable[[Connection, Callable[[], object]], Future[object]]

REQUEST = {"title": "Report of task #42", "parts": [1, {"b": None}]}


@pytest.fixture(autouse=True)
def tables(lesson6: None) -> None:
    """Lesson 6's tables, in every test of this module."""


def outbox() -> list[dict[str, Any]]:
    with engine().connect() as connection:
        return [dict(row) for row in connection.execute(text("SELECT * FROM backend_training.outbox")).mappings()]


def change(what: str) -> None:
    with engine().begin() as connection:
        connection.execute(text(f"UPDATE backend_training.{what}"))


def note_requests(*keys: str) -> None:
    """Requests in the outbox, in this order."""
    insert = text("INSERT INTO backend_training.outbox (task_id, idempotency_key, request) VALUES (42, :key, '{}')")
    with engine().begin() as connection:
        for key in keys:
            connection.execute(insert, {"key": key})


def claim(lease_seconds: float = 60) -> str | None:
    request = claim_request(lease_seconds)
    return None if request is None else request["idempotency_key"]


# -- complete_with_request ---------------------------------------------------------------------------------------------


def test_a_completion_notes_its_request(row: Row) -> None:
    claim_task(60)
    complete_with_request(42, 1, "k", REQUEST)
    assert row() == {"status": "completed", "attempts": 1, "lease_expired": None}
    [request] = outbox()
    assert (request["task_id"], request["idempotency_key"], request["request"]) == (42, "k", REQUEST)
    assert (request["attempts"], request["lease_until"], request["delivered_at"]) == (0, None, None)


STALE = {
    "completed": "status = 'completed'",
    "pending again": "status = 'pending'",
    "a newer attempt works": "attempts = 2",
    "the lease has ended": "lease_until = clock_timestamp()",
}


@pytest.mark.parametrize("what", STALE.values(), ids=STALE.keys())
def test_an_old_attempt_neither_completes_nor_asks_for_anything(what: str, row: Row) -> None:
    claim_task(60)
    change(f"tasks SET {what} WHERE id = 42")
    before = row()
    with pytest.raises(StaleClaimError, match="#42, attempt 1: the completion was refused"):
        complete_with_request(42, 1, "k", REQUEST)
    assert row() == before
    assert outbox() == []


def test_an_attempt_below_one_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="attempt"):
        complete_with_request(42, 0, "k", REQUEST)


def test_a_request_that_cannot_be_noted_leaves_the_task_uncompleted(row: Row) -> None:
    note_requests("k")
    claim_task(60)
    with pytest.raises(IntegrityError, match="idempotency_key"):
        complete_with_request(42, 1, "k", REQUEST)
    assert row() == {"status": "processing", "attempts": 1, "lease_expired": False}
    assert len(outbox()) == 1


def test_a_connection_that_breaks_between_the_two_leaves_neither(row: Row, start_behind: StartBehind) -> None:
    claim_task(60)
    with engine().connect() as other:
        other.execute(text("LOCK TABLE backend_training.outbox IN SHARE MODE"))
        completion = start_behind(other, lambda: complete_with_request(42, 1, "k", REQUEST))
        holder = other.scalar(text("SELECT pg_backend_pid()"))
        waiting = "SELECT pid FROM pg_stat_activity WHERE :holder = ANY (pg_blocking_pids(pid))"
        assert lab.value(f"SELECT pg_terminate_backend(({waiting}))", holder=holder)
        with pytest.raises(DBAPIError):
            completion.result(timeout=20)
    assert row() == {"status": "processing", "attempts": 1, "lease_expired": False}
    assert outbox() == []


def test_completion_and_request_are_one_transaction() -> None:
    claim_task(60)
    seen: list[str] = []
    event.listen(engine(), "before_cursor_execute", lambda _c, _k, statement, *_: seen.append(statement.split()[0]))
    event.listen(engine(), "commit", lambda _: seen.append("COMMIT"))
    complete_with_request(42, 1, "k", REQUEST)
    assert seen == ["UPDATE", "INSERT", "COMMIT"]


# -- claim_request, mark_as_delivered ----------------------------------------------------------------------------------


def test_a_claimed_request_says_what_to_send() -> None:
    claim_task(60)
    complete_with_request(42, 1, "k", REQUEST)
    request = claim_request(60)
    assert request is not None
    assert dict(request) == {"id": outbox()[0]["id"], "task_id": 42, "idempotency_key": "k", "request": REQUEST}
    assert outbox()[0]["attempts"] == 1
    assert lab.value("SELECT lease_until > clock_timestamp() + interval '30 s' FROM backend_training.outbox")


def test_requests_are_claimed_oldest_first_and_each_once() -> None:
    note_requests("c", "a", "b")
    assert [claim() for _ in range(4)] == ["c", "a", "b", None]


def test_a_request_whose_sender_did_not_come_back_is_claimed_again() -> None:
    note_requests("a", "b")
    claim()
    change("outbox SET lease_until = clock_timestamp() WHERE idempotency_key = 'a'")
    assert [claim(), claim(), claim()] == ["a", "b", None]
    assert [row["attempts"] for row in sorted(outbox(), key=lambda row: str(row["idempotency_key"]))] == [2, 1]


def test_a_delivered_request_is_not_claimed_again() -> None:
    note_requests("a")
    request = claim_request(60)
    assert request is not None
    mark_as_delivered(request["id"])
    assert claim() is None
    [row] = outbox()
    assert row["lease_until"] is None
    assert lab.value("SELECT delivered_at <= clock_timestamp() FROM backend_training.outbox")


def test_a_sender_whose_lease_is_over_may_still_say_that_it_delivered() -> None:
    note_requests("a")
    late = claim_request(60)
    change("outbox SET lease_until = clock_timestamp()")
    assert claim() == "a"
    assert late is not None
    mark_as_delivered(late["id"])
    change("outbox SET lease_until = NULL")
    assert claim() is None


def test_another_request_is_not_marked_along() -> None:
    note_requests("a", "b")
    request = claim_request(60)
    assert request is not None
    mark_as_delivered(request["id"])
    assert claim() == "b"


def test_a_claim_skips_a_locked_request_and_does_not_wait() -> None:
    note_requests("a", "b")
    with engine().connect() as other:
        other.execute(text("SELECT 1 FROM backend_training.outbox WHERE idempotency_key = 'a' FOR UPDATE"))
        other.execute(text("SET LOCAL idle_in_transaction_session_timeout = '20 s'"))  # a failing test ends too
        assert claim() == "b"


@pytest.mark.parametrize("seconds", [0, float("nan"), 86_401])
def test_a_lease_that_makes_no_sense_is_refused(seconds: float) -> None:
    note_requests("a")
    with pytest.raises(ValueError, match="lease"):
        claim_request(seconds)
    assert outbox()[0]["attempts"] == 0
