"""The search: what it runs, in which order, where it stops, and that leaving out equal orders loses nothing."""

import math
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select, update

from helpers import schedules as s
from helpers.db import SessionFactory
from helpers.models import Task
from helpers.schedules import Program, Violation, explore, explorer, invariant, replay
from helpers.schedules.invariants import first_offence
from helpers.schedules.program import EXPIRE
from helpers.schedules.rule import Offence
from helpers.schedules.run import Run
from helpers.schedules.scripts import sql_actor
from helpers.schedules.shrinking import shrink
from helpers.schedules.stage import open_stage
from tests.schedules import wrong_workers as wrong
from tests.schedules.programs import ONE_TASK, THREE_TASKS, claim_for_ten_seconds, sessions, two
from tests.schedules.test_isolation import touch

LOOK = "SELECT id FROM backend_training.tasks WHERE status = 'nothing of the kind'"
CLAIM = """
    UPDATE backend_training.tasks
    SET status = 'processing', attempts = attempts + 1, lease_until = clock_timestamp() + interval '10 s'
    WHERE id = 42 AND (status = 'pending' OR lease_until <= clock_timestamp())
"""


class Collector:
    """A rule that is never broken, and remembers all runs."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.rule = invariant("remembers")(self.check)

    def check(self, run: Run) -> Offence | None:
        self.runs.append(run)
        return None


def outcome(run: Run) -> tuple[Any, ...]:
    """What came of a run and what each actor saw, without times, and without who was who."""
    rows = tuple((row["status"], row["attempts"]) for row in run.rows)
    seen = []
    for actor in "AB":
        calls = [step.call for step in run.steps if step.actor == actor and step.call and step.what != "crash"]
        seen.append((actor in run.crashed, tuple(call.rowcount for call in calls)))
    return rows, tuple(sorted(seen))


def test_without_any_reduction_every_order_is_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explorer, "independent", lambda *_: False)
    seen = Collector()
    program = Program(
        {"A": [touch(1)] * 3, "B": [touch(2)] * 3},
        sessions(A=[], B=[]).reset,
        [seen.rule],
        rows="SELECT * FROM public.queue",
        ledger=None,
    )
    report = explore(program)
    assert report.exhausted
    orders = {" ".join(run.moves) for run in seen.runs}
    assert report.runs == len(orders) == math.comb(6, 3)


@pytest.mark.parametrize(
    ("worker", "expiries", "crashes"),
    [
        (sql_actor(["BEGIN", LOOK, "COMMIT", CLAIM]), 1, 0),
        (wrong.claims_without_a_lock, 0, 0),
        (claim_for_ten_seconds, 0, 1),
    ],
    ids=["expiry", "switches", "crash"],
)
def test_leaving_out_equal_orders_loses_no_outcome(
    monkeypatch: pytest.MonkeyPatch, worker: Callable[[], object], expiries: int, crashes: int
) -> None:
    found, runs = [], []
    for reduced in (True, False):
        seen = Collector()
        actors = {"A": worker, "B": worker if reduced else lambda: worker()}  # not known to be the same code
        if not reduced:
            monkeypatch.setattr(explorer, "independent", lambda *_: False)
        report = explore(Program(actors, ONE_TASK, [seen.rule], expiries, crashes), time_limit=200)
        assert report.exhausted
        assert report.diverged == 0
        found.append({outcome(run) for run in seen.runs if not run.redundant})
        runs.append(report.runs)
    assert found[0] == found[1]
    assert len(found[0]) > 1
    assert runs[0] < runs[1]


def test_the_first_schedule_found_has_the_fewest_disturbances() -> None:
    report = explore(two(wrong.claims_without_a_lock, [s.one_current_attempt], expiries=1, crashes=1))
    assert report.violation is not None
    assert report.violation.schedule == "A B"
    assert set(report.by_disturbances) == {0, 1}
    assert str(report).startswith("A rule was broken, in run ")


def test_a_schedule_is_made_simpler_before_it_is_shown() -> None:
    program = two(wrong.claims_without_a_lock, [s.one_current_attempt], reset=THREE_TASKS, expiries=2)
    with open_stage(program) as stage:
        clumsy = stage.follow(["A", EXPIRE, "B", "A", "B", "B", "A"])
        name, offence = first_offence(program.invariants, clumsy) or ("", Offence(""))
        violation = Violation(name, offence.sentence, offence.rows, clumsy)
        assert shrink(program, stage, violation).schedule == "A B"


def test_limits_are_kept_and_said() -> None:
    program = two(wrong.right, reset=THREE_TASKS, expiries=1, crashes=1)
    report = explore(program, max_runs=5, sample=3)
    assert (report.runs, report.sampled, report.exhausted) == (8, 3, False)
    assert report.complete_to == 0
    assert str(report).startswith("No rule was broken in 8 runs, not all orders: all with at most 0 disturbances")
    report = explore(program, max_switches=0, sample=0)
    assert (report.runs, report.complete_to) == (1, 0)
    report = explore(program, time_limit=0)
    assert (report.runs, report.exhausted, report.complete_to) == (0, False, -1)


def test_a_sample_depends_on_its_seed_alone() -> None:
    schedules = []
    for seed in (1, 1, 2):
        seen = Collector()
        explore(two(wrong.right, [seen.rule], expiries=1), max_runs=0, sample=4, seed=seed)
        schedules.append([" ".join(run.moves) for run in seen.runs])
    assert schedules[0] == schedules[1] != schedules[2]


def test_a_program_that_depends_on_more_than_the_rows_is_not_called_exhausted() -> None:
    runs: list[int] = []

    def fickle() -> None:
        runs.append(1)
        if len(runs) < 4:
            wrong.right()

    report = explore(two(fickle, []))
    assert report.diverged > 0
    assert not report.exhausted


def test_orders_with_few_letters_of_the_first_lesson() -> None:
    """READ, then CLAIM, naively: two claims wherever both read before the other claims."""

    def naive() -> bool:
        with SessionFactory.begin() as session:
            status = session.scalar(select(Task.status).where(Task.id == 42))
        if status != "pending":
            return False
        with SessionFactory.begin() as session:
            session.execute(update(Task).where(Task.id == 42).values(status="processing"))
        return True

    claims = {}
    for order in ("AABB", "ABAB", "ABBA", "BBAA"):
        run = replay(two(naive, []), " ".join(f"{letter} {letter}" for letter in order))
        claims[order] = sum(bool(result) for result in run.results.values())
    assert claims == {"AABB": 1, "ABAB": 2, "ABBA": 2, "BBAA": 1}
