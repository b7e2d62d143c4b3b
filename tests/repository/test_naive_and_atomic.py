"""Lesson 1's two claims: right when alone, and in every order of two workers' calls to the database."""

from collections.abc import Callable

import pytest

from helpers import lab
from helpers.repository import atomic, naive
from helpers.schedules import Program, Run, explore, invariant, replay
from helpers.schedules.rule import Offence
from helpers.scripts import find_script

RESET = find_script("01_race_condition/02_reset.sql").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def base_tables() -> None:
    lab.rebuild(1)


@invariant("one worker gets the task, and the ledger notes one claim")
def one_claim(run: Run) -> Offence | None:
    got = [name for name, result in run.results.items() if result == 42]
    claims = [row for row in run.ledger if row["new_status"] == "processing"]
    return Offence(f"{got} got it", tuple(claims)) if len(got) != 1 or len(claims) != 1 else None


def two(claim: Callable[[int], object]) -> Program:
    return Program({"A": lambda: claim(42), "B": lambda: claim(42)}, RESET, [one_claim])


@pytest.mark.parametrize("claim", [naive.try_claim_task, atomic.try_claim_task])
def test_alone_a_claim_is_committed_when_it_returns_and_a_second_one_gets_none(
    claim: Callable[[int], int | None],
) -> None:
    assert claim(42) == 42
    assert lab.task(42)["status"] == "processing", "another session sees it"
    assert claim(42) is None
    assert lab.task(43)["status"] == "pending"


@pytest.mark.parametrize("claim", [naive.try_claim_task, atomic.try_claim_task])
@pytest.mark.parametrize("status", ["processing", "completed"])
def test_a_task_that_is_not_pending_is_not_claimed(claim: Callable[[int], int | None], status: str) -> None:
    naive.set_status(42, status)
    assert claim(42) is None
    assert lab.task(42)["status"] == status


@pytest.mark.parametrize("claim", [naive.try_claim_task, atomic.try_claim_task])
def test_a_task_that_does_not_exist_is_not_claimed(claim: Callable[[int], int | None]) -> None:
    assert claim(7) is None
    assert naive.read_status(7) is None


def test_in_every_order_of_two_workers_one_atomic_claim_succeeds() -> None:
    report = explore(two(atomic.try_claim_task))
    assert report.exhausted
    assert report.violation is None, report


def test_in_some_order_two_naive_claims_succeed() -> None:
    report = explore(two(naive.try_claim_task))
    assert report.violation is not None
    assert report.violation.sentence == "['A', 'B'] got it" or report.violation.sentence == "['B', 'A'] got it"


def test_after_a_rollback_the_atomic_claim_that_waited_succeeds() -> None:
    first = ["BEGIN", "UPDATE backend_training.tasks SET status = 'processing' WHERE id = 42", "ROLLBACK"]
    run = replay(Program({"A": first, "B": lambda: atomic.try_claim_task(42)}, RESET), "A B A B")
    assert [step.what for step in run.steps if step.actor == "B"][:2] == ["waits", "continues"]
    assert run.results["B"] == 42


def test_process_task_works_once_when_alone() -> None:
    worked: list[int] = []
    assert naive.process_task(42, worked.append)
    assert not naive.process_task(42, worked.append)
    assert worked == [42]
    assert lab.task(42)["status"] == "completed"


def test_the_naive_update_is_too_late_where_the_work_comes_first() -> None:
    """The other worker reads while the work is done, and works as well."""
    worked: list[str] = []

    def work_of_a(task_id: int) -> None:
        worked.append("A")
        naive.process_task(task_id, lambda _: worked.append("B"))

    assert naive.process_task(42, work_of_a)
    assert worked == ["A", "B"]
