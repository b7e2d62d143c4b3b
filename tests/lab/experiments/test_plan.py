"""The plan of a statement, on the claim that takes more than it should."""

from collections.abc import Iterator

import pytest

from helpers import lab

CANDIDATE = """
    SELECT id FROM backend_training.many_tasks WHERE status = 'pending' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED
"""
WITH_IN = f"UPDATE backend_training.many_tasks SET status = 'processing' WHERE id IN ({CANDIDATE})"
WITH_EQUALS = f"UPDATE backend_training.many_tasks SET status = 'processing' WHERE id = ({CANDIDATE})"
WITH_CTE = f"""
    WITH picked AS MATERIALIZED ({CANDIDATE})
    UPDATE backend_training.many_tasks SET status = 'processing' FROM picked WHERE many_tasks.id = picked.id
"""


@pytest.fixture(autouse=True)
def many_tasks() -> Iterator[None]:
    lab.rebuild(3)
    lab.run_script("03_skip_locked_worker/03_many_tasks.sql")
    yield
    lab.run_script("03_skip_locked_worker/02_reset.sql")


def test_on_stale_statistics_in_claims_all_fifty() -> None:
    assert lab.rehearse(WITH_IN) == 50


@pytest.mark.parametrize("cure", [WITH_EQUALS, WITH_CTE], ids=["=", "CTE"])
def test_each_cure_claims_one_on_the_same_table(cure: str) -> None:
    assert lab.rehearse(cure) == 1


def test_on_fresh_statistics_in_claims_one_and_looks_harmless() -> None:
    lab.session("A").run("ANALYZE many_tasks")
    assert lab.rehearse(WITH_IN) == 1


def test_a_plan_shows_how_often_each_step_ran(capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    lab.plan(WITH_IN)
    assert capsys.readouterr().out.splitlines() == [
        "times run  step",
        "        1  Update on many_tasks",
        "        1    Nested Loop Semi Join",
        "        1      Seq Scan on many_tasks",
        "       50      Subquery Scan",
        "       50        Limit",
        "       50          LockRows",
        "       50            Sort",
        "        1              Seq Scan on many_tasks",
    ]


def test_a_subquery_that_is_carried_out_on_its_own_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    lab.plan(WITH_EQUALS)
    assert "        1    Limit (on its own)" in capsys.readouterr().out.splitlines()


def test_the_planned_statement_is_rolled_back() -> None:
    lab.plan(WITH_EQUALS)
    assert lab.value("SELECT count(*) FROM backend_training.many_tasks WHERE status <> 'pending'") == 0


def test_values_are_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    lab.plan("SELECT id FROM backend_training.tasks WHERE id = :id", id=42)
    assert "tasks" in capsys.readouterr().out


def test_the_reset_drops_the_second_table() -> None:
    lab.run_script("03_skip_locked_worker/02_reset.sql")
    assert lab.value("SELECT to_regclass('backend_training.many_tasks') IS NULL")
