"""The database of the checks: beside the lab's, so that a check does not touch the rows of a lesson.

Its name is the lab's with `_check` behind it, which the guard of `lab_sql/` allows. Each check builds its tables
afresh.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from time import monotonic, sleep

import psycopg
from sqlalchemy import URL, text

from helpers.db import database_url, engine
from helpers.scripts import migrations_before, run_script
from helpers.servers.server import check_name, connect

SUFFIX = "_check"
END_OF_SESSIONS = 5.0  # seconds

OTHERS = """
    SELECT pid FROM pg_stat_activity
    WHERE datname = {database} AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
END_OTHERS = "SELECT count(pg_terminate_backend(pid)) FROM ({others}) AS others"
COUNT_OTHERS = "SELECT count(*) FROM ({others}) AS others"


def check_url() -> URL:
    """The URL of the checks' database. It connects to no such database yet.

    Raises ServerError where no server is found, or the name is too long.
    """
    lab = database_url()
    return lab.set(database=check_name(f"{lab.database}{SUFFIX}", "the database of the checks"))


def server_start() -> datetime:
    """When the server of the lab was started. Raises psycopg.Error where it does not answer."""
    with connect(database_url()) as connection:
        row = connection.execute("SELECT pg_postmaster_start_time()").fetchone()
    assert row is not None
    started: datetime = row[0]
    return started


def end_sessions(url: URL) -> None:
    """End all sessions of the checks' database, from outside. Where the server is away, there are none."""
    try:
        with connect(url.set(database=database_url().database)) as connection:
            _end(connection, OTHERS.format(database="%(name)s"), {"name": str(url.database)})
    except psycopg.Error:
        pass


def build(lesson: int, scripts: Sequence[str] = ()) -> None:
    """Build the tables as `lesson` leaves them, then run `scripts`, in the database of this process.

    Only for the process of a check.
    """
    check_is_own_database()
    end_other_sessions()
    planner()  # a check that was ended may have left its settings
    with engine().begin() as connection:
        connection.execute(text("DROP SCHEMA IF EXISTS document_service CASCADE"))  # as the drop script does the lab's
    for script in ("00_base/00_drop.sql", "00_base/01_migrate.sql", *migrations_before(lesson + 1), *scripts):
        run_script(script)


def check_is_own_database() -> None:
    """Raise RuntimeError where this process is not connected to a database of the checks."""
    if not str(database_url().database).endswith(SUFFIX):
        raise RuntimeError("A check changes only the database of the checks.")


def end_other_sessions() -> None:
    """End what a learner's function has left open: sessions, and the locks they hold."""
    check_is_own_database()
    engine().dispose()
    with connect(database_url()) as connection:
        _end(connection, OTHERS.format(database="current_database()"), {})


def open_transactions() -> int:
    """How many sessions of this process's database stand in an open transaction and do nothing."""
    with engine().connect() as connection:
        count = connection.scalar(
            text(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                "AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'"
            )
        )
    return count or 0


def set_rows(sql: str) -> None:
    """Put the rows in place; where a session of an earlier call is in the way, end it first."""
    end_other_sessions()
    with engine().begin() as connection:
        for statement in sql.split(";"):
            if statement.strip():
                connection.exec_driver_sql(statement)


def read_rows(columns: str = "*") -> list[dict[str, object]]:
    """The tasks as they are committed now, in order of `id`. `columns` is text of this project, never a user's."""
    return read(f"SELECT {columns} FROM backend_training.tasks ORDER BY id")  # noqa: S608


def read(sql: str) -> list[dict[str, object]]:
    """What the query finds now. `sql` is text of this project, never a user's."""
    with engine().connect() as connection:
        return [dict(row) for row in connection.execute(text(sql)).mappings()]


def planner(*switched_off: str) -> None:
    """For all new sessions of the checks' database: do not use these kinds of plan. Without a name: use all again."""
    check_is_own_database()
    engine().dispose()
    with connect(database_url()) as connection:
        name = psycopg.sql.Identifier(str(database_url().database))
        connection.execute(psycopg.sql.SQL("ALTER DATABASE {} RESET ALL").format(name))
        for kind in switched_off:
            setting = psycopg.sql.Identifier(f"enable_{kind}")
            connection.execute(psycopg.sql.SQL("ALTER DATABASE {} SET {} = off").format(name, setting))


@contextmanager
def without_plans(*kinds: str) -> Iterator[None]:
    """For all sessions that begin in this block: PostgreSQL does not use these kinds of plan."""
    planner(*kinds)
    try:
        yield
    finally:
        planner()


def _end(connection: psycopg.Connection, others: str, parameters: dict[str, str]) -> None:
    connection.execute(END_OTHERS.format(others=others).encode(), parameters)
    deadline = monotonic() + END_OF_SESSIONS
    while monotonic() < deadline:
        row = connection.execute(COUNT_OTHERS.format(others=others).encode(), parameters).fetchone()
        if row is None or row[0] == 0:
            return
        sleep(0.005)
