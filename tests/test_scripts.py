"""The scripts of lab_sql: the guard, idempotence, and never hanging behind somebody's lock."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import create_engine, text

from helpers import scripts
from helpers.db import database_url, engine
from helpers.errors import LabError
from helpers.lab import rebuild
from helpers.paths import LAB_SQL
from helpers.scripts import find_script, migrations_before, run_script, script_that_adds

ALL = [path.relative_to(LAB_SQL).as_posix() for path in sorted(LAB_SQL.glob("*/*.sql"))]


def dump() -> list[tuple[object, ...]]:
    """Everything in the lab's schema that a script could change."""
    with engine().connect() as connection:
        parts = []
        for sql in (
            "SELECT table_name, column_name, data_type, column_default, is_nullable "
            "FROM information_schema.columns WHERE table_schema = 'backend_training' ORDER BY 1, 2",
            "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint "
            "WHERE connamespace = to_regnamespace('backend_training') ORDER BY 1",
            "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1",
            "SELECT to_jsonb(t) - 'lease_until' - 'created_at' FROM backend_training.tasks AS t ORDER BY id",
        ):
            parts += [tuple(row) for row in connection.execute(text(sql))]
        return parts


def test_every_transaction_of_every_script_begins_with_one_and_the_same_guard() -> None:
    guards = set()
    for name in ALL:
        sql = find_script(name).read_text(encoding="utf-8")
        begun = re.findall(
            r"^BEGIN;\n\nSET LOCAL lock_timeout = '4s';[^\n]*\n\n(DO \$guard\$.*?\$guard\$;)", sql, re.M | re.S
        )
        assert len(begun) == len(re.findall(r"^BEGIN;", sql, re.M)) == len(re.findall(r"^COMMIT;", sql, re.M)), name
        guards.update(begun)
    assert len(guards) == 1


@pytest.mark.parametrize("name", [name for name in ALL if name != "00_base/00_drop.sql"])
def test_a_second_run_changes_nothing(name: str) -> None:
    rebuild(99)  # after the last migration
    run_script(name)
    once = dump()
    run_script(name)
    assert dump() == once


def test_a_reset_makes_exactly_three_pending_tasks(lesson4: None) -> None:
    with engine().begin() as connection:
        connection.execute(text("UPDATE backend_training.tasks SET status = 'completed', attempts = 9"))
        connection.execute(text("INSERT INTO backend_training.tasks (id, type) VALUES (7, 'other')"))
    run_script("04_lease_and_attempts/02_reset.sql")
    with engine().connect() as connection:
        rows = connection.execute(text("SELECT * FROM backend_training.tasks ORDER BY id")).all()
        events = connection.scalars(text("SELECT event FROM backend_training.task_events")).all()
    assert [tuple(row) for row in rows] == [(i, "generate_report", "pending", None, 0) for i in (42, 43, 44)]
    assert events == ["insert"] * 3, "the ledger begins with the reset"


def test_a_status_that_nobody_knows_is_refused_by_the_table(lesson4: None) -> None:
    with engine().connect() as connection, pytest.raises(Exception, match="tasks_status_is_known"):
        connection.execute(text("UPDATE backend_training.tasks SET status = 'done'"))


@pytest.fixture
def other_database() -> Iterator[str]:
    """The URL of a database that is not the lab's, with a table of the same name in it."""
    admin = create_engine(database_url().set(database="postgres"), isolation_level="AUTOCOMMIT")
    name = f"somebody_elses_{os.getpid()}"
    with admin.connect() as connection:
        connection.execute(text(f"DROP DATABASE IF EXISTS {name}"))
        connection.execute(text(f"CREATE DATABASE {name}"))
    url = database_url().set(database=name, drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(url) as connection:
        connection.execute("CREATE SCHEMA backend_training")
        connection.execute("CREATE TABLE backend_training.tasks (id int PRIMARY KEY, type text, status text)")
        connection.execute("INSERT INTO backend_training.tasks VALUES (1, 'precious', 'processing')")
    yield url
    with admin.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    admin.dispose()


def precious(url: str) -> tuple[object, object]:
    with psycopg.connect(url) as connection:
        columns = connection.execute(
            "SELECT string_agg(table_name || '.' || column_name, ' ' ORDER BY 1) "
            "FROM information_schema.columns WHERE table_schema = 'backend_training'"
        ).fetchone()
        return columns, connection.execute("SELECT * FROM backend_training.tasks").fetchall()


@pytest.mark.parametrize("name", ALL)
def test_a_database_of_another_name_is_refused_and_named(
    name: str, other_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = precious(other_database)
    other = create_engine(other_database.replace("postgresql://", "postgresql+psycopg://"))
    monkeypatch.setattr(scripts, "engine", lambda: other)
    with pytest.raises(LabError) as refusal:
        run_script(name)
    other.dispose()
    assert "somebody_elses_" in str(refusal.value)
    assert "Connect to backend_training_lab" in str(refusal.value)
    assert precious(other_database) == before


@pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")
@pytest.mark.parametrize("name", ALL)
def test_psql_is_refused_too_although_it_goes_on_after_an_error(name: str, other_database: str) -> None:
    before = precious(other_database)
    done = subprocess.run(
        ["psql", "-X", "-d", other_database, "-f", str(find_script(name))], capture_output=True, text=True, check=False
    )
    assert "somebody_elses_" in done.stderr
    assert precious(other_database) == before


@pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")
def test_all_scripts_run_in_psql(lesson4: None) -> None:
    url = database_url().set(drivername="postgresql").render_as_string(hide_password=False)
    for name in ALL:
        done = subprocess.run(
            ["psql", "-X", "-v", "ON_ERROR_STOP=1", "-d", url, "-f", str(find_script(name))],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def test_a_script_gives_up_behind_an_open_transaction_and_names_it(lesson4: None) -> None:
    url = database_url().set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(url, application_name="forgotten notebook") as forgotten:
        forgotten.execute("SELECT * FROM backend_training.tasks")
        with pytest.raises(LabError, match=r'"forgotten notebook".*idle in transaction'):
            run_script("00_base/00_drop.sql")
    run_script("00_base/00_drop.sql")


def test_an_unknown_script_is_answered_with_the_list() -> None:
    with pytest.raises(LabError, match=r"04_lease_and_attempts/01_migrate\.sql"):
        find_script("04/migrate")


def test_migrations_lead_to_a_lesson_in_order() -> None:
    assert migrations_before(4) == ["00_base/01_migrate.sql"]
    assert migrations_before(5)[-1] == "04_lease_and_attempts/01_migrate.sql"


def test_the_script_that_adds_a_column_is_found_by_the_column() -> None:
    assert script_that_adds("lease_until") == "04_lease_and_attempts/01_migrate.sql"
    assert script_that_adds("tasks") == "00_base/01_migrate.sql"
    assert script_that_adds("no_such_column") is None


def test_rebuilding_opens_each_lesson_in_its_own_state() -> None:
    rebuild(4)
    with engine().connect() as connection:
        sql = text(
            "SELECT column_name FROM information_schema.columns "
            "WHERE table_schema = 'backend_training' AND table_name = 'tasks' ORDER BY ordinal_position"
        )
        assert connection.scalars(sql).all() == ["id", "type", "status"]
        connection.rollback()
        rebuild(5)
        assert connection.scalars(sql).all() == ["id", "type", "status", "lease_until", "attempts"]


def test_a_server_that_ends_the_session_in_mid_script_is_one_error_and_no_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "00_base"
    folder.mkdir()
    (folder / "09_end.sql").write_text("SELECT pg_terminate_backend(pg_backend_pid());")
    monkeypatch.setattr(scripts, "LAB_SQL", tmp_path)
    with pytest.raises(LabError, match="ended the connection"):
        run_script("00_base/09_end.sql")
    assert caplog.records == [], "the pool logs a traceback, which a cell would show"
    with engine().connect() as connection:
        assert connection.scalar(text("SELECT 1")) == 1
