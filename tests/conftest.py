"""Fixtures on the real database. The server and the database are named by the conftest.py above."""

from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Connection, text

from helpers.db import engine
from helpers.lab import end_workers, rebuild
from helpers.scripts import run_script


@pytest.fixture
def lesson4() -> Iterator[None]:
    """The tables as lesson 4's migration leaves them, with its three pending tasks."""
    rebuild(4)
    run_script("04_lease_and_attempts/01_migrate.sql")
    yield
    end_workers()


@pytest.fixture
def connection(lesson4: None) -> Iterator[Connection]:
    """A connection of its own, for looking at what others committed."""
    with engine().connect() as connection:
        yield connection


@pytest.fixture
def row(lesson4: None) -> Callable[..., dict[str, object]]:
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
def expire(lesson4: None) -> Callable[..., None]:
    """A function that lets a task's lease end at once."""

    def end(task_id: int = 42) -> None:
        with engine().begin() as connection:
            sql = text(
                "UPDATE backend_training.tasks SET lease_until = clock_timestamp() - interval '1 ms' WHERE id = :id"
            )
            connection.execute(sql, {"id": task_id})

    return end
