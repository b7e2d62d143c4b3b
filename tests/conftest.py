"""Fixtures on the real database. The server and the database are named by the conftest.py above."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic, sleep

import psutil
import pytest
from sqlalchemy import Connection, text

from helpers.db import engine
from helpers.lab import end_workers, rebuild, wait_until
from helpers.lab.actors.documents import DocumentService
from helpers.scripts import run_script

DEADLINE_SECONDS = 30.0  # for a fact that comes at once, on a machine that is busy


@pytest.fixture
def lesson4() -> Iterator[None]:
    """The tables as lesson 4's migration leaves them, with its three pending tasks."""
    rebuild(4)
    run_script("04_lease_and_attempts/01_migrate.sql")
    yield
    end_workers()


@pytest.fixture
def lesson5() -> Iterator[None]:
    """The tables as lesson 5's migration leaves them, with their three pending tasks."""
    rebuild(5)
    run_script("05_renewal_and_retries/01_migrate.sql")
    yield
    end_workers()


@pytest.fixture
def lesson6() -> Iterator[None]:
    """The tables as lesson 6's migration leaves them, with their three pending tasks and an empty outbox."""
    rebuild(6)
    run_script("06_idempotent_effects/01_migrate.sql")
    yield
    end_workers()


@pytest.fixture
def tables(lesson4: None) -> None:
    """The tables that the fixtures below look at. A module on a later lesson has a fixture of this name, too."""


@pytest.fixture
def connection(tables: None) -> Iterator[Connection]:
    """A connection of its own, for looking at what others committed."""
    with engine().connect() as connection:
        yield connection


@pytest.fixture
def row(tables: None) -> Callable[..., dict[str, object]]:
    """A function that reads one task as it is committed now."""

    def read(task_id: int = 42) -> dict[str, object]:
        with engine().connect() as connection:
            sql = text(
                "SELECT status, attempts, lease_until <= clock_timestamp() AS lease_expired "
                "FROM backend_training.tasks WHERE id = :id"
            )
            return dict(connection.execute(sql, {"id": task_id}).mappings().one())

    return read


@pytest.fixture
def expire(tables: None) -> Callable[..., None]:
    """A function that lets a task's lease end at once."""

    def end(task_id: int = 42) -> None:
        with engine().begin() as connection:
            sql = text(
                "UPDATE backend_training.tasks SET lease_until = clock_timestamp() - interval '1 ms' WHERE id = :id"
            )
            connection.execute(sql, {"id": task_id})

    return end


@pytest.fixture
def start_behind() -> Iterator[Callable[[Connection, Callable[[], object]], Future[object]]]:
    """A function that starts a call in a thread, and returns when that call waits for a lock of the given session.

    The lock must be released within the test, also where the test fails: `with engine().connect() as …`.
    """
    waits = "EXISTS (SELECT FROM pg_stat_activity WHERE :pid = ANY (pg_blocking_pids(pid)))"
    with ThreadPoolExecutor() as threads:

        def start(holder: Connection, call: Callable[[], object]) -> Future[object]:
            pid = holder.scalar(text("SELECT pg_backend_pid()"))
            result = threads.submit(call)
            wait_until(waits, timeout=DEADLINE_SECONDS, pid=pid)
            return result

        yield start


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], None]:
    """A function that waits until a call returns something true, and fails where it never does."""

    def wait(fact: Callable[[], object]) -> None:
        deadline = monotonic() + DEADLINE_SECONDS
        while not fact():
            assert monotonic() < deadline, "it never came true"
            sleep(0.02)

    return wait


@pytest.fixture
def is_gone() -> Callable[[int], bool]:
    """A function that tells whether a process has ended. A zombie has: in many a container nobody collects orphans."""

    def gone(pid: int) -> bool:
        try:
            return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    return gone


@pytest.fixture(scope="session")
def document_service() -> Iterator[DocumentService]:
    """One document service for all tests, since its process takes a while to start. No test may end it."""
    service = DocumentService()
    yield service
    service.kill()


@pytest.fixture
def documents(document_service: DocumentService) -> DocumentService:
    """The document service, without documents."""
    document_service.empty()
    return document_service
