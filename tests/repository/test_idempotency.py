"""The rules of lesson 6's effect that happens once. Each test's name is the rule."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Connection, event, text
from sqlalchemy.exc import DBAPIError

from helpers import lab
from helpers.db import database_url, engine
from helpers.lab.actors.workers import environment_for
from helpers.paths import ROOT
from helpers.repository.idempotency import (
    KeyReusedError,
    create_document,
    create_document_once,
    idempotency_key,
)
from helpers.scripts import run_script

StartBehind = Callable[[Connection, Callable[[], object]], Future[object]]

BODY = {"title": "Report of task #42"}
WAITING_FOR = "SELECT pid FROM pg_stat_activity WHERE :pid = ANY (pg_blocking_pids(pid))"
NO_OTHER_SESSION_WORKS = """
    NOT EXISTS (SELECT FROM pg_stat_activity
                WHERE datname = current_database() AND pid <> pg_backend_pid()
                  AND (wait_event_type = 'Lock' OR xact_start IS NOT NULL))
"""


@pytest.fixture(autouse=True)
def store() -> Iterator[None]:
    """The tables of the document service, here beside the lab's own, and without rows."""
    run_script("06_idempotent_effects/03_document_service.sql")
    run_script("06_idempotent_effects/04_empty_service.sql")
    yield
    with engine().begin() as connection:
        connection.execute(text("DROP SCHEMA document_service CASCADE"))


def documents() -> list[tuple[int, str]]:
    with engine().connect() as connection:
        rows = connection.execute(text("SELECT id, title FROM document_service.documents ORDER BY id"))
        return [(row.id, row.title) for row in rows]


def requests() -> list[tuple[str, Any, Any]]:
    with engine().connect() as connection:
        rows = connection.execute(text("SELECT * FROM document_service.requests ORDER BY idempotency_key"))
        return [(row.idempotency_key, row.body, row.answer) for row in rows]


@pytest.fixture
def held_up() -> Iterator[Connection]:
    """A session that lets nobody insert a document before its transaction ends. (Keys can be inserted.)"""
    with engine().connect() as connection:
        connection.execute(text("LOCK TABLE document_service.documents IN SHARE MODE"))
        yield connection


def pid_of(connection: Connection) -> int:
    return int(connection.scalar(text("SELECT pg_backend_pid()")))


def test_without_a_key_each_call_creates_a_document() -> None:
    assert create_document(BODY) == {"document_id": 1, "title": "Report of task #42"}
    assert create_document(BODY) == {"document_id": 2, "title": "Report of task #42"}
    assert documents() == [(1, "Report of task #42"), (2, "Report of task #42")]
    assert requests() == []


def test_with_a_key_a_repetition_gets_the_first_answer_and_creates_nothing() -> None:
    first = create_document_once("k", BODY)
    assert first == {"document_id": 1, "title": "Report of task #42"}
    assert create_document_once("k", BODY) == first
    assert documents() == [(1, "Report of task #42")]
    assert requests() == [("k", BODY, first)]


def test_another_key_is_another_document() -> None:
    assert create_document_once("k", BODY)["document_id"] == 1
    assert create_document_once("l", BODY)["document_id"] == 2


def test_a_key_that_came_with_another_body_is_refused_and_nothing_changes() -> None:
    create_document_once("k", BODY)
    before = documents(), requests()
    with pytest.raises(KeyReusedError, match="'k'") as refusal:
        create_document_once("k", {"title": "Report of task #43"})
    assert isinstance(refusal.value, ValueError)
    assert (documents(), requests()) == before


def test_the_order_of_a_bodys_entries_does_not_matter() -> None:
    first = create_document_once("k", {"title": "x", "pages": 2, "parts": {"a": 1, "b": [2.5]}})
    assert create_document_once("k", {"parts": {"b": [2.5], "a": 1}, "pages": 2, "title": "x"}) == first
    with pytest.raises(KeyReusedError):
        create_document_once("k", {"title": "x", "pages": 3, "parts": {"a": 1, "b": [2.5]}})


def test_key_document_and_answer_are_one_transaction() -> None:
    seen: list[str] = []
    event.listen(engine(), "before_cursor_execute", lambda _c, _k, statement, *_: seen.append(statement.split()[0]))
    event.listen(engine(), "commit", lambda _: seen.append("COMMIT"))
    create_document_once("k", BODY)
    assert seen == ["INSERT", "INSERT", "UPDATE", "COMMIT"]


def test_a_document_that_cannot_be_created_leaves_no_key() -> None:
    with pytest.raises(KeyError):
        create_document_once("k", {"no title": "x"})
    assert (documents(), requests()) == ([], [])


def test_of_two_calls_at_once_the_second_waits_and_gets_the_first_ones_answer(
    held_up: Connection, start_behind: StartBehind
) -> None:
    first = start_behind(held_up, lambda: create_document_once("k", BODY))
    first_pid = lab.value(WAITING_FOR, pid=pid_of(held_up))
    with ThreadPoolExecutor(1) as thread:
        second = thread.submit(create_document_once, "k", BODY)
        lab.wait_until(f"EXISTS ({WAITING_FOR})", pid=first_pid)
        held_up.rollback()
        assert first.result(timeout=20) == second.result(timeout=20) == {"document_id": 1, "title": BODY["title"]}
    assert documents() == [(1, "Report of task #42")]


def test_of_two_calls_at_once_with_different_bodies_the_second_is_refused(
    held_up: Connection, start_behind: StartBehind
) -> None:
    first = start_behind(held_up, lambda: create_document_once("k", BODY))
    first_pid = lab.value(WAITING_FOR, pid=pid_of(held_up))
    with ThreadPoolExecutor(1) as thread:
        second = thread.submit(create_document_once, "k", {"title": "another"})
        lab.wait_until(f"EXISTS ({WAITING_FOR})", pid=first_pid)
        held_up.rollback()
        first.result(timeout=20)
        with pytest.raises(KeyReusedError):
            second.result(timeout=20)
    assert documents() == [(1, "Report of task #42")]


def test_where_the_first_is_rolled_back_the_second_creates_the_document(start_behind: StartBehind) -> None:
    with engine().connect() as first:
        reserve = text("INSERT INTO document_service.requests (idempotency_key, body) VALUES ('k', '{}')")
        first.execute(reserve)
        second = start_behind(first, lambda: create_document_once("k", BODY))
        first.rollback()
        assert second.result(timeout=20) == {"document_id": 1, "title": "Report of task #42"}
    assert len(documents()) == len(requests()) == 1


def test_where_the_firsts_connection_breaks_the_second_creates_the_document(
    held_up: Connection, start_behind: StartBehind
) -> None:
    first = start_behind(held_up, lambda: create_document_once("k", BODY))
    first_pid = lab.value(WAITING_FOR, pid=pid_of(held_up))
    with ThreadPoolExecutor(1) as thread:
        second = thread.submit(create_document_once, "k", BODY)
        lab.wait_until(f"EXISTS ({WAITING_FOR})", pid=first_pid)
        lab.value("SELECT pg_terminate_backend(:pid)", pid=first_pid)
        with pytest.raises(DBAPIError):
            first.result(timeout=20)
        held_up.rollback()
        answer = second.result(timeout=20)
    assert documents() == [(answer["document_id"], "Report of task #42")]


def test_calls_with_different_keys_do_not_wait_for_each_other(start_behind: StartBehind) -> None:
    with engine().connect() as other:
        other.execute(text("INSERT INTO document_service.requests (idempotency_key, body) VALUES ('k', '{}')"))
        other.execute(text("SET LOCAL idle_in_transaction_session_timeout = '20 s'"))  # a failing test ends too
        assert create_document_once("l", BODY)["document_id"] == 1
        assert other.scalar(text("SELECT 1")) == 1


def test_a_process_that_is_killed_between_key_and_document_leaves_neither(held_up: Connection) -> None:
    call = f"from helpers.repository.idempotency import *; create_document_once('k', {BODY!r})"
    process = subprocess.Popen([sys.executable, "-c", call], cwd=ROOT, env=environment_for(database_url()))
    lab.wait_until(f"EXISTS ({WAITING_FOR})", pid=pid_of(held_up))
    process.kill()
    process.wait()
    held_up.rollback()
    lab.wait_until(NO_OTHER_SESSION_WORKS)
    assert (documents(), requests()) == ([], [])
    answer = create_document_once("k", BODY)
    assert documents() == [(answer["document_id"], "Report of task #42")]


def test_the_key_is_the_same_in_each_attempt_of_a_task_and_another_for_another_task() -> None:
    assert idempotency_key(42) == idempotency_key(42) == "task-42/report"
    assert idempotency_key(43) != idempotency_key(42)
