"""What one claim reads; and what VACUUM has to leave while somebody's snapshot is old."""

import pytest
from sqlalchemy import event

from helpers import lab
from helpers.db import engine
from helpers.errors import LabError
from helpers.scripts import run_script

CLAIM = """
    SELECT id FROM backend_training.tasks WHERE status = 'pending'
    ORDER BY priority, created_at, id LIMIT 1 FOR UPDATE SKIP LOCKED
"""
WITH_PARAMETERS = CLAIM.replace("'pending'", "$1")


@pytest.fixture(autouse=True)
def tables() -> None:
    lab.rebuild(8)
    run_script("07_priorities/02_reset.sql")


@pytest.fixture
def finished() -> None:
    run_script("07_priorities/04_finished_tasks.sql")


def test_without_the_index_the_claim_reads_all_rows_and_with_it_one(finished: None) -> None:
    with_index = lab.explain(CLAIM)
    assert with_index.rows == 1
    assert repr(with_index).splitlines() == [
        "rows given  rows removed  step",
        "         1                Limit",
        "         1                  LockRows",
        "         1             0      Index Scan on tasks using tasks_in_claim_order",
    ]
    run_script("07_priorities/05_without_index.sql")
    without = lab.explain(CLAIM)
    assert without.rows == 100_003
    assert repr(without).splitlines() == [
        "rows given  rows removed  step",
        "         1                Limit",
        "         1                  LockRows",
        "         1                    Sort by priority, created_at, id",
        "         3       100,000        Seq Scan on tasks",
    ]
    assert without.pages > 20 * with_index.pages


def test_a_generic_plan_does_not_know_the_values_of_parameters(finished: None) -> None:
    assert lab.explain_generic(WITH_PARAMETERS, "pending").rows == 100_003
    assert lab.explain_generic(CLAIM).rows == 1
    assert lab.value("SELECT current_setting('plan_cache_mode')") == "auto", "no other statement gets generic plans"


def test_the_explained_statement_is_rolled_back() -> None:
    lab.explain("UPDATE backend_training.tasks SET status = 'completed'")
    lab.explain_generic("UPDATE backend_training.tasks SET status = $1", "completed")
    assert lab.value("SELECT count(*) FROM backend_training.tasks WHERE status = 'pending'") == 3


def test_locks_are_given_back_before_the_session_is_left_to_its_end() -> None:
    """The server may notice the end of a session late, and until then its rows would be locked."""
    order: list[str] = []
    listeners = {"rollback": lambda *_: order.append("rollback"), "invalidate": lambda *_: order.append("invalidate")}
    for name, listener in listeners.items():
        event.listen(engine(), name, listener)
    try:
        lab.explain_generic("SELECT id FROM backend_training.tasks FOR UPDATE")
    finally:
        for name, listener in listeners.items():
            event.remove(engine(), name, listener)
    assert order == ["rollback", "invalidate"]


def test_what_is_sorted_by_is_shown_without_tables_and_schemas() -> None:
    key = "created_at + CASE priority WHEN 'LOW' THEN interval '0.5 s' ELSE interval '0' END"
    lines = repr(lab.explain(f"SELECT id FROM backend_training.tasks ORDER BY {key}, id")).splitlines()
    [sort] = [line for line in lines if "Sort by" in line]
    assert "created_at + CASE priority WHEN 'LOW'::priority THEN '00:00:00.5'::interval" in sort
    assert sort.endswith("END)), id")


def test_values_are_parameters() -> None:
    assert lab.explain("SELECT id FROM backend_training.tasks WHERE id = :id", id=42).rows >= 1


def test_a_statement_that_is_wrong_is_a_sentence() -> None:
    for explain in lab.explain, lab.explain_generic:
        with pytest.raises(LabError, match="division by zero"):
            explain("SELECT 1 / (id - id) FROM backend_training.tasks")


def test_vacuum_leaves_what_an_old_snapshot_might_show(capsys: pytest.CaptureFixture[str]) -> None:
    report = lab.session("R")
    report.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
    report.run("SELECT count(*) FROM tasks")
    run_script("07_priorities/06_dead_rows.sql")
    assert lab.vacuum() == 50_000
    assert capsys.readouterr().out.endswith("VACUUM ran. Dead rows that it had to leave: 50,000\n")
    report.end()
    assert lab.vacuum() == 0


def test_dead_rows_show_in_the_pages_alone(capsys: pytest.CaptureFixture[str]) -> None:
    clean = lab.explain(CLAIM)
    run_script("07_priorities/06_dead_rows.sql")
    dead = lab.explain(CLAIM)
    assert (clean.rows >= 1, dead.rows) == (True, 1)
    lab.vacuum()
    capsys.readouterr()
    lab.pages_chart({"clean": clean, "dead": dead, "vacuumed": lab.explain(CLAIM)})
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "clean: few.",
        "dead: more than 20 times as many.",
        "vacuumed: few.",
    ]
