"""The worker as a process: its lines, its exit codes, and what it leaves in the rows."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text

from helpers.db import engine
from helpers.lab import rebuild, start_worker
from helpers.paths import ROOT
from helpers.worker.options import parse

Row = Callable[..., dict[str, object]]
Expire = Callable[..., None]


def run(*arguments: str, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "helpers.worker", *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def events(kind: str) -> list[tuple[str, int | None, int | None]]:
    sql = text("SELECT actor, task_id, attempt FROM backend_training.task_events WHERE event = :kind ORDER BY id")
    with engine().connect() as connection:
        return [tuple(row) for row in connection.execute(sql, {"kind": kind})]


def test_a_worker_completes_one_task_and_ends_with_0(row: Row) -> None:
    done = run("A")
    assert done.returncode == 0, done.stderr
    assert [line[:4] for line in done.stdout.splitlines()] == ["[A] "] * 3
    assert row() == {"status": "completed", "attempts": 1, "lease_expired": None}
    assert row(43)["status"] == "pending"


def test_it_runs_from_anywhere(lesson4: None, tmp_path: Path) -> None:
    assert run("A", cwd=tmp_path).returncode == 0


def test_nothing_to_do_is_0(lesson4: None) -> None:
    with engine().begin() as connection:
        connection.execute(text("DELETE FROM backend_training.tasks"))
    done = run("A")
    assert (done.returncode, done.stdout) == (0, "[A] No task is available.\n")


def test_the_crash_comes_after_the_commit_and_before_the_work(row: Row) -> None:
    assert run("A", "--crash-after-claim").returncode == 17
    assert row() == {"status": "processing", "attempts": 1, "lease_expired": False}
    assert events("effect") == []
    assert events("crashed") == [("worker:A", 42, 1)]


@pytest.mark.parametrize(
    ("point", "status", "effects"),
    [
        ("before-claim", "pending", 0),
        ("before-commit", "pending", 0),
        ("after-claim", "processing", 0),
        ("before-completion", "processing", 1),
        ("after-completion", "completed", 1),
    ],
)
def test_each_point_is_where_its_name_says(row: Row, point: str, status: str, effects: int) -> None:
    assert run("A", "--crash-at", point).returncode == 17
    assert row()["status"] == status
    assert len(events("effect")) == effects


def test_a_stale_worker_is_refused_with_2_and_says_why(
    row: Row, expire: Expire, capsys: pytest.CaptureFixture[str]
) -> None:
    stale = start_worker("A", "--hold-after-claim", "--lease-seconds", 60)
    assert stale.returncode is None, "it holds"
    expire()
    assert run("B").returncode == 0
    capsys.readouterr()

    stale.press_enter()
    assert stale.returncode == 2
    lines = capsys.readouterr().out.splitlines()
    refusal = next(line for line in lines if "Refused" in line)
    assert refusal.startswith("[A] ")
    for words in ("#42", "attempt 1", "already completed", "lease has expired", "newer attempt"):
        assert words in refusal
    assert row() == {"status": "completed", "attempts": 2, "lease_expired": None}
    assert events("effect") == [("worker:B", 42, 2), ("worker:A", 42, 1)], "the effect happened twice all the same"


def test_the_attempt_number_alone_refuses(row: Row, expire: Expire) -> None:
    stale = start_worker("A", "--hold-after-claim", "--lease-seconds", 60)
    expire()
    current = start_worker("B", "--hold-after-claim", "--lease-seconds", 60)
    assert row() == {"status": "processing", "attempts": 2, "lease_expired": False}
    stale.press_enter()
    assert stale.returncode == 2
    assert row() == {"status": "processing", "attempts": 2, "lease_expired": False}
    current.press_enter()
    assert current.returncode == 0
    assert row()["status"] == "completed"


def test_a_worker_that_holds_has_no_open_transaction(lesson4: None) -> None:
    start_worker("A", "--hold-after-claim")
    with engine().connect() as connection:
        sql = text("SELECT DISTINCT state FROM pg_stat_activity WHERE application_name = 'worker:A'")
        assert connection.scalars(sql).all() == ["idle"]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["not a name"],
        ["A", "--lease-seconds", "0"],
        ["A", "--lease-seconds=-1"],
        ["A", "--lease-seconds", "soon"],
        ["A", "--lease-seconds", "nan"],
        ["A", "--lease-seconds", "1000000000000"],
        ["A", "--crash-at", "nowhere"],
        ["A", "--without-lease", "--lease-seconds", "10"],
        ["A", "--unknown"],
    ],
)
def test_wrong_usage_ends_with_64(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        parse(arguments)
    assert end.value.code == 64
    assert "usage:" in capsys.readouterr().err


def test_after_wrong_usage_nothing_is_claimed(row: Row) -> None:
    done = run("A", "--lease-seconds", "0")
    assert done.returncode == 64
    assert row()["status"] == "pending"


def test_before_the_migration_it_names_the_script() -> None:
    rebuild(4)
    done = run("A")
    assert done.returncode == 69
    assert "lab_sql/04_lease_and_attempts/01_migrate.sql" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_server_it_says_so_in_a_sentence() -> None:
    done = run("A", DATABASE_URL="postgresql+psycopg://lab:secret-word@127.0.0.1:9/backend_training_lab")
    assert done.returncode == 69
    assert done.stderr.startswith("[A] ")
    assert "Traceback" not in done.stderr
    assert "secret-word" not in done.stderr + done.stdout


def test_a_worker_whose_lab_is_gone_ends_and_leaves_no_session(lesson4: None) -> None:
    code = "from helpers.lab import start_worker; import os; start_worker('A', '--hold-after-claim'); os._exit(9)"
    lab = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert lab.returncode == 9, lab.stderr
    with engine().connect() as connection:
        connection = connection.execution_options(isolation_level="AUTOCOMMIT")
        sql = text(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'worker:A' AND datname = current_database()"
        )
        for _ in range(200):
            if connection.scalar(sql) == 0:
                break
            connection.execute(text("SELECT pg_sleep(0.05)"))
        assert connection.scalar(sql) == 0
