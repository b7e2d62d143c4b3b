"""The worker of lessons 5 and 6 as a process: it renews, tries again, gives up, drains, and stops when it is asked."""

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic

import pytest
from sqlalchemy import create_engine, text

from helpers import lab
from helpers.db import database_url, engine, use_engine
from helpers.lab.actors.documents import DocumentService
from helpers.lab.actors.workers import Worker
from helpers.repository.lease import claim_task, mark_as_completed
from helpers.repository.retry import NEVER_CAME_BACK
from helpers.worker.faults import Faults
from helpers.worker.journal import Journal
from helpers.worker.life import AWAY_SECONDS, Life
from helpers.worker.options import parse
from helpers.worker.queues import WITH_RETRY
from helpers.worker.stopping import Stopping

Row = Callable[..., dict[str, object]]
Expire = Callable[..., None]

needs_signals = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM between processes")

RENEWED = """
    EXISTS (SELECT FROM backend_training.task_events WHERE old_status = 'processing' AND new_status = 'processing')
"""
BREAK_SESSIONS = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'worker:A' AND datname = :database
"""
RESTS = """
    EXISTS (SELECT FROM pg_stat_activity
            WHERE application_name = 'worker:A' AND datname = current_database() AND state = 'idle'
              AND state_change < clock_timestamp() - interval '0.1 s')
"""
MORE_TASKS = "generate_series(50, 69) AS id"
COMPLETIONS = """
    SELECT count(*), count(DISTINCT task_id) FROM backend_training.task_events
    WHERE event = 'update' AND new_status = 'completed'
"""
COMPLETED = "SELECT id FROM backend_training.task_events WHERE event = 'update' AND new_status = 'completed'"
NOBODY = "http://127.0.0.1:9"  # port 9 (discard) is free on every machine


@pytest.fixture(autouse=True)
def tables(lesson6: None) -> None:
    """Lesson 6's tables, in every test of this module."""


def events(kind: str) -> list[tuple[str, int | None, int | None]]:
    sql = text("SELECT actor, task_id, attempt FROM backend_training.task_events WHERE event = :kind ORDER BY id")
    with engine().connect() as connection:
        return [tuple(row) for row in connection.execute(sql, {"kind": kind})]


def change(what: str, where: str = "id = 42") -> None:
    with engine().begin() as connection:
        connection.execute(text(f"UPDATE backend_training.tasks SET {what} WHERE {where}"))


def value(column: str, task_id: int = 42) -> object:
    return lab.value(f"SELECT {column} FROM backend_training.tasks WHERE id = :id", id=task_id)


def start_in_background(*arguments: str | float, until: str) -> Worker:
    """Worker A, once the event `until` is in the ledger."""
    worker = lab.start_worker("A", *arguments, follow=False)
    lab.wait_until("EXISTS (SELECT FROM backend_training.task_events WHERE event = :until)", until=until)
    return worker


# -- renewing ----------------------------------------------------------------------------------------------------------


def test_work_that_is_longer_than_its_lease_is_refused_in_the_end(row: Row) -> None:
    worker = lab.start_worker("A", "--lease-seconds", 0.5, "--work-seconds", 0.6)
    assert worker.returncode == 2
    assert row() == {"status": "processing", "attempts": 1, "lease_expired": True}


def test_with_renew_it_is_completed_and_nobody_else_gets_the_task(row: Row) -> None:
    worker = start_in_background("--renew", "--lease-seconds", 3, "--work-seconds", 4, until="claimed")
    lab.wait_until(RENEWED)
    other = claim_task(60)
    assert other is not None and other["id"] == 43
    worker.follow()
    assert worker.returncode == 0
    assert row() == {"status": "completed", "attempts": 1, "lease_expired": None}


@needs_signals
def test_a_worker_that_was_frozen_for_longer_than_its_lease_has_no_effect(
    row: Row, expire: Expire, capsys: pytest.CaptureFixture[str]
) -> None:
    frozen = lab.start_worker("A", "--renew", "--retry", "--lease-seconds", 60, "--hold-at", "in-work")
    frozen.freeze()
    expire()
    claim_task(60)
    frozen.wake()
    frozen.press_enter()
    assert frozen.returncode == 2
    assert "the renewal was refused" in capsys.readouterr().out
    assert events("effect") == events("failed") == []
    assert row() == {"status": "processing", "attempts": 2, "lease_expired": False}


# -- trying again, giving up -------------------------------------------------------------------------------------------


def test_work_that_raises_is_tried_again_until_the_last_attempt(capsys: pytest.CaptureFixture[str]) -> None:
    change("type = 'broken_report', max_attempts = 2")
    worker = lab.start_worker("A", "--retry", "--drain")
    assert worker.returncode == 0
    assert (value("status"), value("attempts")) == ("failed", 2)
    assert value("last_error") == "ValueError: The report's template has no title."
    assert [task for _, task, _ in events("completed")] == [43, 44], "one bad task does not stop the others"
    assert events("retry") == [("worker:A", 42, 1)]
    assert events("given_up") == [("worker:A", 42, 2)]
    assert "Traceback" not in capsys.readouterr().out


def test_without_retry_a_failed_attempt_keeps_its_lease(row: Row, capsys: pytest.CaptureFixture[str]) -> None:
    change("type = 'broken_report'")
    assert lab.start_worker("A", "--lease-seconds", 60).returncode == 0
    assert row() == {"status": "processing", "attempts": 1, "lease_expired": False}
    assert "The work of #42, attempt 1, failed." in capsys.readouterr().out


def test_work_that_ends_its_process_is_failed_after_the_last_attempt_too(expire: Expire) -> None:
    change("type = 'deadly_report', max_attempts = 1")
    assert lab.start_worker("A", "--retry").returncode == 17
    assert value("status") == "processing"
    expire()
    assert lab.start_worker("B", "--retry").returncode == 0
    assert (value("status"), value("attempts"), value("last_error")) == ("failed", 1, NEVER_CAME_BACK)
    assert events("completed") == [("worker:B", 43, 1)]


# -- draining ----------------------------------------------------------------------------------------------------------


def test_a_drain_waits_for_retry_times_and_for_the_leases_of_others() -> None:
    change("retry_at = clock_timestamp() + interval '1 day'", "id > 42")
    worker = lab.start_worker("A", "--retry", "--drain", "--hold-at", "after-completion")
    change("retry_at = clock_timestamp() + interval '1 s'", "id = 43")
    worker.press_enter()
    change("status = 'processing', attempts = 1, lease_until = clock_timestamp() + interval '1 s'", "id = 44")
    worker.press_enter()
    change("status = 'failed'", "id = 42")  # it waits for nobody to requeue a task
    worker.press_enter()
    assert worker.returncode == 0
    assert events("completed") == [("worker:A", 42, 1), ("worker:A", 43, 1), ("worker:A", 44, 2)]


def test_a_refused_completion_does_not_end_a_drain(expire: Expire) -> None:
    worker = lab.start_worker("A", "--retry", "--drain", "--hold-at", "before-completion")
    expire()
    newer = claim_task(60)
    assert newer is not None
    mark_as_completed(newer["id"], newer["attempts"])
    while worker.returncode is None:
        worker.press_enter()
    assert worker.returncode == 0
    assert events("refused") == [("worker:A", 42, 1)]
    assert events("completed") == [("worker:A", 43, 1), ("worker:A", 44, 1)]


def test_sessions_that_break_again_and_again_cost_no_task_and_no_second_completion(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with engine().begin() as connection:
        connection.execute(text(f"INSERT INTO backend_training.tasks (id, type) SELECT id, 'x' FROM {MORE_TASKS}"))
    worker = start_in_background("--renew", "--retry", "--drain", "--work-seconds", 0.05, until="claimed")
    for done in range(0, 24, 4):
        lab.wait_until(f"(SELECT count(*) >= {done} FROM backend_training.tasks WHERE status = 'completed')")
        assert not lab.query(BREAK_SESSIONS, database=database_url().database).empty
    worker.follow()
    assert worker.returncode == 0
    assert "Traceback" not in capsys.readouterr().out
    assert lab.value("SELECT count(*) FROM backend_training.tasks WHERE status = 'completed'") == 23
    assert lab.query(COMPLETIONS).to_numpy().tolist() == [[23, 23]]


class Wire:
    """A wire between clients and the server. It can lose the answer to the next COMMIT, and the connection with it."""

    def __init__(self) -> None:
        self.lose_next_commit = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def close(self) -> None:
        hang_up(self._listener)
        self._listener.close()

    def _listen(self) -> None:
        with suppress(OSError):  # until it is closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        lost = threading.Event()
        with client, socket.create_connection((database_url().host, database_url().port)) as server:
            answers = threading.Thread(target=self._answer, args=(server, client, lost), daemon=True)
            answers.start()
            with suppress(OSError):
                while data := client.recv(65536):
                    if self.lose_next_commit.is_set() and b"COMMIT" in data:
                        self.lose_next_commit.clear()
                        lost.set()
                    server.sendall(data)
            hang_up(server)
            answers.join()

    def _answer(self, server: socket.socket, client: socket.socket, lost: threading.Event) -> None:
        with suppress(OSError):
            while (data := server.recv(65536)) and not lost.is_set():
                client.sendall(data)
        hang_up(client)


def hang_up(connection: socket.socket) -> None:
    with suppress(OSError):  # it was hung up at the other end
        connection.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def wire() -> Iterator[Wire]:
    wire = Wire()
    yield wire
    wire.close()


@pytest.mark.parametrize("options", [[], ["--outbox"]])
def test_a_completion_whose_answer_was_lost_is_no_refusal(wire: Wire, options: list[str]) -> None:
    journal = Journal("A")
    life = Life(parse(["A", "--retry", *options]), WITH_RETRY, journal, Faults(journal), Stopping(0))
    task = claim_task(60)
    assert task is not None
    through = create_engine(database_url().set(host="127.0.0.1", port=wire.port))
    with use_engine(through):
        wire.lose_next_commit.set()
        life.complete(task)
    through.dispose()
    assert not wire.lose_next_commit.is_set(), "it was lost"
    assert events("away") == [("worker:A", None, None)]
    assert value("status") == "completed"
    assert len(lab.query(COMPLETED)) == 1


# -- stopping ----------------------------------------------------------------------------------------------------------


@needs_signals
def test_asked_to_stop_it_finishes_its_task_in_time_and_claims_no_other(
    row: Row, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = start_in_background("--retry", "--drain", "--work-seconds", 1.5, "--grace-seconds", 600, until="claimed")
    assert repr(worker) == "[A] runs"
    worker.stop()
    assert worker.returncode == 0
    assert capsys.readouterr().out.splitlines()[-2:] == ["[A] Stopped, as asked.", "[A] exit code 0"]
    assert events("completed") == [("worker:A", 42, 1)]
    assert row(43) == {"status": "pending", "attempts": 0, "lease_expired": None}


@needs_signals
def test_a_worker_that_holds_hears_of_it_when_enter_is_pressed(capsys: pytest.CaptureFixture[str]) -> None:
    worker = lab.start_worker("A", "--retry", "--drain", "--hold-at", "before-completion", "--grace-seconds", 600)
    capsys.readouterr()
    worker.stop()
    assert capsys.readouterr().out == "[A] was asked to stop, and still holds\n"
    assert repr(worker) == "[A] holds"
    worker.press_enter()
    assert (repr(worker), worker.returncode) == ("[A] exit code 0", 0)
    assert events("completed") == [("worker:A", 42, 1)]


@needs_signals
def test_when_the_grace_time_is_over_it_gives_the_task_back(row: Row) -> None:
    worker = start_in_background("--renew", "--retry", "--work-seconds", 600, "--grace-seconds", 0.1, until="claimed")
    worker.stop()
    assert worker.returncode == 0
    assert row() == {"status": "pending", "attempts": 1, "lease_expired": None}
    assert value("max_attempts") == 4
    assert value("retry_at") is None, "the next worker may have it at once"
    assert events("effect") == []
    assert events("returned") == [("worker:A", 42, 1)]


@needs_signals
def test_a_second_signal_ends_it_at_once_and_the_lease_brings_the_task_back(row: Row, expire: Expire) -> None:
    worker = start_in_background("--renew", "--retry", "--work-seconds", 600, "--grace-seconds", 600, until="claimed")
    for sent in (signal.SIGTERM, signal.SIGINT):
        os.kill(worker._process.pid, sent)
    worker.follow()
    assert worker.returncode == 130
    assert row() == {"status": "processing", "attempts": 1, "lease_expired": False}
    expire()
    task = claim_task(60)
    assert task is not None and task["id"] == 42


@needs_signals
def test_a_drain_in_which_nothing_is_due_is_stopped_too() -> None:
    change("retry_at = clock_timestamp() + interval '1 day'", "true")
    worker = start_in_background("--retry", "--drain", "--grace-seconds", 600, until="started")
    lab.wait_until(RESTS)
    worker.stop()
    assert worker.returncode == 0
    assert events("stopped") == [("worker:A", None, None)]


@needs_signals
def test_a_worker_whose_service_does_not_answer_gives_its_task_back_as_well(row: Row) -> None:
    worker = start_in_background("--retry", "--documents", NOBODY, "--grace-seconds", 0, until="asking_again")
    worker.stop()
    assert worker.returncode == 0
    assert events("failed") == [], "nothing has failed: it was asked to stop"
    assert row() == {"status": "pending", "attempts": 1, "lease_expired": None}


@contextmanager
def no_server_for_workers() -> Iterator[None]:
    """Worker A's session ends, and nobody gets a new one."""
    database = database_url().database
    admin = create_engine(database_url().set(database="postgres"), isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"ALTER DATABASE {database} ALLOW_CONNECTIONS false"))
        try:
            connection.execute(text(BREAK_SESSIONS), {"database": database})
            yield
        finally:
            connection.execute(text(f"ALTER DATABASE {database} ALLOW_CONNECTIONS true"))
    admin.dispose()


@needs_signals
def test_a_worker_that_waits_for_its_server_is_stopped_within_the_grace_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    change("retry_at = clock_timestamp() + interval '1 day'", "true")
    worker = start_in_background("--retry", "--drain", "--grace-seconds", 0, until="started")
    with no_server_for_workers():
        assert worker.next_line() == "[A] The database does not answer. Trying again."
        asked = monotonic()
        worker.stop()
        assert monotonic() - asked < AWAY_SECONDS / 2
    assert worker.returncode == 69
    assert "Traceback" not in capsys.readouterr().out


# -- documents ---------------------------------------------------------------------------------------------------------


def test_a_lost_answer_is_asked_for_again_with_the_same_key(documents: DocumentService) -> None:
    documents.spoil("drop", "fail")
    assert lab.start_worker("A", "--retry", "--documents", documents.url).returncode == 0
    assert documents.rows() == [{"document_id": 1, "title": "Report of task #42"}]
    assert len(events("asking_again")) == 2
    assert value("status") == "completed"


def test_a_key_of_the_attempt_does_not_make_a_second_attempt_harmless(
    documents: DocumentService, expire: Expire
) -> None:
    """The other kinds of keys are in the test of the crashes."""
    options = "--retry", "--documents", documents.url, "--key", "attempt"
    assert lab.start_worker("A", *options, "--crash-at", "after-effect").returncode == 17
    expire()
    assert lab.start_worker("B", *options).returncode == 0
    assert value("status") == "completed"
    assert [row["title"] for row in documents.rows()] == ["Report of task #42"] * 2


# -- usage -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["--without-lease", "--renew"],
        ["--without-lease", "--retry"],
        ["--without-lease", "--outbox"],
        ["--outbox", "--documents", NOBODY],
        ["--key", "mine"],
        ["--work-seconds", "-1"],
        ["--work-seconds", "nan"],
        ["--work-seconds", "long"],
        ["--work-seconds", "86401"],
        ["--grace-seconds", "-0.5"],
        ["--documents", "127.0.0.1:80"],
        ["--documents", "https://127.0.0.1:80"],
        ["--documents", "http://example.org:80"],
        ["--documents", "http://127.0.0.1"],
        ["--documents", "http://127.0.0.1:80/documents"],
        ["--documents", "http://user:secret@127.0.0.1:80"],
        ["--hold-at", "nowhere"],
        ["--ren"],
    ],
)
def test_wrong_usage_ends_with_64(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        parse(["A", *arguments])
    assert end.value.code == 64
    assert "usage:" in capsys.readouterr().err


def test_all_of_it_together_is_right_usage() -> None:
    arguments = ["A", "--renew", "--retry", "--drain", "--documents", "http://localhost:8080", "--key", "attempt"]
    options = parse([*arguments, "--work-seconds", "0", "--grace-seconds", "0"])
    assert (options.renew, options.retry, options.drain, options.key) == (True, True, True, "attempt")
