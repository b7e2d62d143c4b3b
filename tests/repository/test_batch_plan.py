"""Lesson 8's SQL claims what `build_batch` of lesson 9 says; its plan; and batches that run at the same time."""

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb
from sqlalchemy import Connection, Engine, create_engine, text

from helpers.db import database_url, engine, use_engine
from helpers.exercises.build_batch.answers import build_batch
from helpers.lab import rebuild
from helpers.models import PRIORITIES
from helpers.repository.batch import claim_batch, mark_as_completed, renew_leases
from helpers.scripts import run_script
from tests.repository.plans import first_statement, plan_of

QUOTAS = {"HIGH": 5, "MEDIUM": 3, "LOW": 2}
START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
PAST, FUTURE = "2026-01-01 00:00+00", "2126-01-01 00:00+00"
PUT = "INSERT INTO backend_training.tasks SELECT * FROM jsonb_populate_recordset(NULL::backend_training.tasks, %s)"

# What a task can be like: its columns in the table, and the status that `build_batch` sees.
KINDS: dict[str, tuple[dict[str, Any], str]] = {
    "new": ({"status": "pending"}, "pending"),
    "due": ({"status": "pending", "attempts": 1, "retry_at": PAST}, "pending"),
    "locked": ({"status": "pending"}, "pending"),
    "abandoned": ({"status": "processing", "attempts": 2, "lease_until": PAST}, "pending"),
    "in work": ({"status": "processing", "attempts": 1, "lease_until": FUTURE}, "processing"),
    "not yet due": ({"status": "pending", "attempts": 1, "retry_at": FUTURE}, "waiting"),
    "spent": ({"status": "processing", "attempts": 3, "lease_until": PAST}, "spent"),
    "done": ({"status": "completed", "attempts": 1}, "completed"),
}
COLUMNS = {"type": "generate_report", "attempts": 0, "max_attempts": 3}

tasks_of_a_case = st.lists(
    st.tuples(
        st.integers(1, 99),
        st.sampled_from(PRIORITIES),
        st.integers(0, 3),
        st.sampled_from([*KINDS, "new", "new", "new"]),
    ),
    max_size=12,
    unique_by=lambda task: task[0],
)
quotas_of_a_case = st.dictionaries(st.sampled_from(PRIORITIES), st.integers(0, 4))


@pytest.fixture(scope="module")
def hasty() -> Iterator[Engine]:
    """Lesson 8's tables, without their ledger; and an engine whose commits do not wait for the disk."""
    rebuild(9)
    with engine().begin() as connection:
        connection.execute(text("ALTER TABLE backend_training.tasks DISABLE TRIGGER tasks_are_noted"))
    own = create_engine(database_url(), connect_args={"options": "-c timezone=UTC -c synchronous_commit=off"})
    yield own
    own.dispose()


@pytest.fixture(scope="module")
def sessions(hasty: Engine) -> Iterator[tuple[psycopg.Connection, psycopg.Connection]]:
    """Two sessions without SQLAlchemy, since there are thousands of cases: one writes the rows, one locks some."""
    url = database_url().set(drivername="postgresql").render_as_string(hide_password=False)
    options = "-c synchronous_commit=off"
    with psycopg.connect(url, autocommit=True, options=options) as writer, psycopg.connect(url) as other:
        yield writer, other


@pytest.mark.timeout(900)
@settings(max_examples=2_000, derandomize=True, deadline=None, database=None)
@given(tasks=tasks_of_a_case, quotas=quotas_of_a_case, batch_size=st.integers(0, 14))
def test_the_sql_claims_what_build_batch_says_in_the_same_order(
    hasty: Engine,
    sessions: tuple[psycopg.Connection, psycopg.Connection],
    tasks: Sequence[tuple[int, str, int, str]],
    quotas: dict[str, int],
    batch_size: int,
) -> None:
    rows, plain, locked = [], [], []
    for task_id, priority, minute, kind in tasks:
        columns, status = KINDS[kind]
        created_at = START + timedelta(minutes=minute)
        both = {"id": task_id, "priority": priority}
        rows.append({**COLUMNS, **both, **columns, "created_at": created_at.isoformat()})
        plain.append({**both, "status": status, "locked": kind == "locked", "created_at": created_at})
        if kind == "locked":
            locked.append(task_id)
    before = {row["id"]: row for row in rows}

    writer, other = sessions
    writer.execute("DELETE FROM backend_training.tasks")
    writer.execute(PUT, [Jsonb(rows)])
    with other.transaction(force_rollback=True), use_engine(hasty):
        if locked:
            other.execute("SELECT FROM backend_training.tasks WHERE id = ANY (%s) FOR UPDATE", [locked])
        batch = claim_batch(batch_size, quotas, 60)

    assert [task["id"] for task in batch] == build_batch(plain, quotas, batch_size)
    assert [task["attempts"] for task in batch] == [before[task["id"]]["attempts"] + 1 for task in batch]
    claimed = {task["id"] for task in batch}
    for task_id, status, attempts in writer.execute("SELECT id, status, attempts FROM backend_training.tasks"):
        row = before[task_id]
        spent = row["status"] == "processing" and row["attempts"] == 3
        expected = "processing" if task_id in claimed else "failed" if spent else row["status"]
        assert (status, attempts) == (expected, row["attempts"] + (task_id in claimed))


# -- at the same time --------------------------------------------------------------------------------------------------


def test_batches_that_are_claimed_at_the_same_time_share_no_task_and_leave_none(hasty: Engine) -> None:
    run_script("08_batches_and_quotas/04_many_tasks.sql")

    def work(_: int) -> list[tuple[int, int]]:
        done = []
        with use_engine(hasty):
            while batch := claim_batch(100, QUOTAS, 60):
                claims = [(task["id"], task["attempts"]) for task in batch]
                assert renew_leases(claims, 60) == mark_as_completed(claims) == sorted(task["id"] for task in batch)
                done += claims
        return done

    with ThreadPoolExecutor(4) as workers:
        done = [claim for part in workers.map(work, range(4)) for claim in part]
    assert Counter(done) == Counter((task_id, 1) for task_id in range(1, 10_001))


# -- the plan ----------------------------------------------------------------------------------------------------------

ACTIVE = "id BETWEEN 9000001 AND 9020000"


@pytest.fixture
def autocommit() -> Iterator[Connection]:
    with engine().connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        yield connection


@pytest.fixture
def finished(hasty: Engine, autocommit: Connection) -> Iterator[None]:
    """A hundred thousand finished tasks, and 20,000 more that a test makes active; the statistics are fresh."""
    run_script("08_batches_and_quotas/03_thirty_tasks.sql")
    run_script("07_priorities/04_finished_tasks.sql")
    autocommit.execute(text("ALTER TABLE backend_training.tasks DISABLE TRIGGER tasks_are_noted"))
    autocommit.execute(text("ALTER TABLE backend_training.tasks SET (autovacuum_enabled = false)"))
    autocommit.execute(
        text(
            "INSERT INTO backend_training.tasks (id, type, status, priority) SELECT n, 'x', 'completed', "
            "(ARRAY['HIGH', 'MEDIUM', 'LOW'])[1 + mod(n, 3)]::backend_training.priority "
            "FROM generate_series(9000001, 9020000) AS n"
        )
    )
    autocommit.execute(text("VACUUM ANALYZE backend_training.tasks"))
    yield
    autocommit.execute(text("TRUNCATE backend_training.tasks"))


def test_no_plan_reads_the_whole_table_with_fresh_or_stale_statistics(finished: None, autocommit: Connection) -> None:
    claims = [(task_id, 1) for task_id in range(101, 111)]
    statements = {
        "claim": first_statement(lambda: claim_batch(10, QUOTAS, 60)),
        "complete": first_statement(lambda: mark_as_completed(claims)),
        "renew": first_statement(lambda: renew_leases(claims, 60)),
    }
    analyze = "ANALYZE backend_training.tasks"
    for what, change in [
        ("fresh, few tasks wait", analyze),
        ("stale: they say that few wait", f"UPDATE backend_training.tasks SET status = 'pending' WHERE {ACTIVE}"),
        ("fresh, many wait", analyze),
        ("stale: they say that many wait", f"UPDATE backend_training.tasks SET status = 'completed' WHERE {ACTIVE}"),
    ]:
        autocommit.execute(text(change))
        for mode in ("force_custom_plan", "force_generic_plan"):
            for name, statement in statements.items():
                plan = plan_of(autocommit, statement, mode)
                assert not any(node["Node Type"] == "Seq Scan" and node["Relation Name"] == "tasks" for node in plan), (
                    f"{name}, {what}, {mode}"
                )
                used = Counter(node["Index Name"] for node in plan if "Index Name" in node)
                if name == "claim":
                    # Four passes by the index of the claim, also where few tasks wait and a bitmap of it is sorted.
                    # Then the look for what is given up, and two changes of rows by their ids.
                    passes = {"tasks_in_claim_order": 4, "tasks_without_attempts": 1, "tasks_pkey": 2}
                    assert used == passes, f"{what}, {mode}"
                else:
                    assert used == {"tasks_pkey": 2}, f"{name}, {what}, {mode}"
