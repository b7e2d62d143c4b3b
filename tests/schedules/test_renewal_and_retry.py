"""Renewals, failures, returns and requeues: in every order, with a lease that ends and a crash at every step."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from sqlalchemy import ColumnElement, and_, func, select, update
from tenacity import wait_fixed

from helpers import schedules as s
from helpers.db import SessionFactory
from helpers.models import Task
from helpers.repository import lease, renewal, retry
from helpers.repository.lease import StaleClaimError, mark_as_completed
from helpers.schedules import LEASED_QUEUE, Invariant, Program, Run, explore, invariant, mark, no_error_but, replay
from helpers.scripts import run_script

LEASE = 600.0  # seconds; the clock is a virtual one
RULES = (*LEASED_QUEUE[:-1], no_error_but(StaleClaimError, retry.NotFailedError))

Action = Callable[[int, int], object]
Claim = Callable[[float], Any]


@pytest.fixture(scope="module", autouse=True)
def lesson_five(lesson_four: None) -> None:
    run_script("05_renewal_and_retries/01_migrate.sql")


# A pause that is drawn at random would make runs differ that should be the same.
@pytest.fixture(autouse=True)
def the_same_pause_in_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "BACKOFF", wait_fixed(2))


def pending(*ids: int, most: int = 3) -> str:
    """SQL that restores these tasks, with so many attempts allowed."""
    rows = ", ".join(f"({task_id}, 'generate_report', {most})" for task_id in ids)
    return f"""
        DELETE FROM backend_training.tasks; DELETE FROM backend_training.task_events;
        INSERT INTO backend_training.tasks (id, type, max_attempts) VALUES {rows};
    """


def claimed_by_a(most: int = 3) -> str:
    """SQL that restores #42 behind the claim of A, which the ledger knows."""
    claim = """
        BEGIN; SET LOCAL application_name = 'worker:A';
        UPDATE backend_training.tasks
        SET status = 'processing', attempts = 1, lease_until = clock_timestamp() + interval '10 minutes'; COMMIT
    """
    return pending(42, most=most) + claim


# Workers


def worker(*actions: Action, claim: Claim = retry.claim_task) -> Callable[[], None]:
    """A worker that claims a task, and does these things with it, one after the other."""

    def run() -> None:
        if task := claim(LEASE):
            goes_on(actions, task["id"], task["attempts"])

    return run


def holder(*actions: Action) -> Callable[[], None]:
    """A worker that has claimed #42 as attempt 1, and goes on with these."""
    return partial(goes_on, actions, 42, 1)


def goes_on(actions: tuple[Action, ...], task_id: int, attempts: int) -> None:
    for action in actions:
        mark("work")
        action(task_id, attempts)


def renews(task_id: int, attempts: int) -> None:
    renewal.renew_lease(task_id, attempts, LEASE)


def fails(task_id: int, attempts: int) -> None:
    retry.fail_task(task_id, attempts, "the work has failed")


def returns(task_id: int, attempts: int) -> None:
    retry.return_task(task_id, attempts)


def requeues_and_works() -> None:
    """Looks for work, which may end in giving #42 up; requeues it, if it is failed; and looks for work again."""
    retry.claim_task(LEASE)
    retry.requeue_task(42)
    worker(mark_as_completed)()


def against(
    a: Callable[[], object], b: Callable[[], object], reset: str, *, expiries: int = 1, crashes: int = 0
) -> Program:
    """A and B, and a lease that may end; the claims of the rescue see to it that no task is lost."""
    return Program({"A": a, "B": b}, reset, RULES, expiries, crashes, rescue=partial(retry.claim_task, LEASE))


# The course's own functions


def ends_of_all_orders(program: Program) -> set[tuple[object, ...]]:
    """Explore, and assert that no rule is broken. Returns how the runs left #42, and what A's last error was.

    That is: status, attempts, max_attempts, the error.
    """
    ends: set[tuple[object, ...]] = set()

    @invariant("remembers")
    def remember(run: Run) -> None:
        row, result = run.rows[0], run.results.get("A")
        error = type(result).__name__ if isinstance(result, Exception) else ""
        ends.add((row["status"], row["attempts"], row["max_attempts"], error))

    report = explore(replace(program, invariants=(*program.invariants, remember)), time_limit=280)
    assert report.violation is None, str(report)
    assert report.exhausted, str(report)
    return ends


STALE = "StaleClaimError"


@pytest.mark.parametrize(
    ("actions", "most", "ends"),
    [
        (
            (renews, mark_as_completed),
            3,
            {
                ("completed", 1, 3, ""),
                ("completed", 2, 3, ""),
                ("completed", 2, 3, STALE),
                ("processing", 1, 3, ""),
                ("processing", 1, 3, STALE),
            },
        ),
        (
            (fails,),
            3,
            {
                ("completed", 1, 3, ""),
                ("completed", 2, 3, ""),
                ("completed", 2, 3, STALE),
                ("pending", 1, 3, ""),
                ("pending", 2, 3, ""),
                ("processing", 1, 3, ""),
                ("processing", 1, 3, STALE),
            },
        ),
        (
            (fails,),
            1,  # B gives the task up where A's lease has ended, and A where B's has
            {
                ("completed", 1, 1, ""),
                ("failed", 1, 1, ""),
                ("failed", 1, 1, STALE),
                ("processing", 1, 1, ""),
                ("processing", 1, 1, STALE),
            },
        ),
        (
            (returns,),
            1,  # a return is no failure, so it is paid back
            {
                ("completed", 1, 1, ""),
                ("completed", 2, 2, ""),
                ("failed", 1, 1, ""),
                ("failed", 1, 1, STALE),
                ("pending", 1, 2, ""),
                ("processing", 1, 1, ""),
                ("processing", 1, 1, STALE),
                ("processing", 2, 2, ""),
            },
        ),
    ],
    ids=["renews", "fails", "fails in the last attempt", "returns"],
)
def test_two_workers_pass_every_order(actions: tuple[Action, ...], most: int, ends: set[tuple[object, ...]]) -> None:
    program = against(worker(*actions), worker(mark_as_completed), pending(42, most=most))
    assert ends_of_all_orders(program) == ends


@pytest.mark.parametrize(
    ("actions", "most", "ends"),
    [
        (
            (renews, mark_as_completed),
            3,
            {
                ("completed", 1, 3, ""),
                ("processing", 1, 3, ""),
                ("processing", 1, 3, STALE),
                ("processing", 2, 3, ""),
                ("processing", 2, 3, STALE),
            },
        ),
        (
            (fails,),
            1,
            {("failed", 1, 1, ""), ("failed", 1, 1, STALE), ("processing", 1, 1, ""), ("processing", 1, 1, STALE)},
        ),
        (
            (returns,),
            3,
            {
                ("pending", 1, 4, ""),
                ("processing", 1, 3, ""),
                ("processing", 1, 3, STALE),
                ("processing", 2, 3, ""),
                ("processing", 2, 3, STALE),
                ("processing", 2, 4, ""),
            },
        ),
    ],
    ids=["renews", "fails in the last attempt", "returns"],
)
def test_a_crash_at_every_step_loses_nothing(
    actions: tuple[Action, ...], most: int, ends: set[tuple[object, ...]]
) -> None:
    program = against(holder(*actions), worker(), claimed_by_a(most), crashes=1)
    assert ends_of_all_orders(program) == ends


def test_a_failed_task_is_requeued_and_gets_a_new_number() -> None:
    program = against(holder(fails), requeues_and_works, claimed_by_a(most=1))
    assert ends_of_all_orders(program) == {
        ("completed", 2, 2, ""),  # A had failed, or B had given it up before A came
        ("completed", 2, 2, STALE),
        ("failed", 1, 1, ""),
        ("processing", 1, 1, STALE),
        ("processing", 2, 2, ""),
    }


def test_a_worker_may_give_up_the_task_that_it_held_itself() -> None:
    program = against(worker(lambda *_: retry.claim_task(LEASE)), worker(), pending(42, most=1))
    assert ("failed", 1, 1, "") in ends_of_all_orders(program)


# Each of the four conditions is needed


def fence_without(missing: str) -> Callable[[int, int], ColumnElement[bool]]:
    def current_claim(task_id: int, attempts: int) -> ColumnElement[bool]:
        conditions = {
            "id": Task.id == task_id,
            "status": Task.status == "processing",
            "attempts": Task.attempts == attempts,
            "lease": Task.lease_until > func.clock_timestamp(),
        }
        return and_(*(condition for name, condition in conditions.items() if name != missing))

    return current_claim


def psql(changes: str) -> str:
    """The statement of a person in psql: one transaction, and other columns stay as they are."""
    return f"SET LOCAL application_name = 'psql'; UPDATE backend_training.tasks SET {changes}"


@invariant("what a person has failed is left alone")
def left_alone(run: Run) -> s.Offence | None:
    by_hand = next((n for n, row in enumerate(run.ledger) if row["actor"] == "psql"), len(run.ledger))
    after = run.ledger[by_hand + 1 :]
    return s.Offence(f"{after[0]['actor']} changed it", tuple(after)) if after else None


def program_that_needs(condition: str, action: Action) -> Program:
    """A small program in which nothing but this condition refuses A."""
    match condition:
        case "id":
            return against(worker(action), worker(), pending(42, 43), expiries=0)
        case "status":
            return Program({"A": holder(action), "psql": [psql("status = 'failed'")]}, claimed_by_a(), [left_alone])
        case "attempts":
            return against(holder(action), worker(), claimed_by_a())
        case _:
            return Program({"A": holder(action)}, claimed_by_a(), RULES, expiries=1)


NEEDED = {
    "id": "#42{did_to}, while B's lease on it was",
    "status": "worker:A changed it",
    "attempts": "A {did} #42, but its current attempt 2 belongs to B",
    "lease": "A {did} #42 as attempt 1, after the lease of that attempt had ended",
}
DID: dict[Action, tuple[str, str]] = {
    renews: ("renewed", " as attempt 1"),
    fails: ("gave back", " to pending"),
    returns: ("gave back", " to pending"),
}


@pytest.mark.parametrize("condition", NEEDED)
@pytest.mark.parametrize("action", DID, ids=lambda action: action.__name__)
def test_each_condition_of_the_fence_is_needed(monkeypatch: pytest.MonkeyPatch, action: Action, condition: str) -> None:
    program = program_that_needs(condition, action)
    report = explore(program, time_limit=140)
    assert report.violation is None, str(report)
    assert report.exhausted
    monkeypatch.setattr(renewal, "current_claim", fence_without(condition))
    monkeypatch.setattr(retry, "current_claim", fence_without(condition))
    report = explore(program, time_limit=140)
    assert report.violation is not None
    did, did_to = DID[action]
    assert NEEDED[condition].format(did=did, did_to=did_to) in report.violation.sentence


# What the rules say about other faults


def by_id(**values: Any) -> Action:
    """Changes the task, and asks for nothing but its id."""

    def change(task_id: int, _attempts: int = 1) -> None:
        with SessionFactory.begin() as session:
            session.execute(update(Task).where(Task.id == task_id).values(values))

    return change


def renews_from_now(task_id: int, _attempts: int) -> None:
    with SessionFactory.begin() as session:
        session.execute(select(Task.id).where(Task.id == task_id))
        session.execute(update(Task).where(Task.id == task_id).values(lease_until=func.now() + timedelta(minutes=1)))


LATER = func.clock_timestamp() + timedelta(minutes=1)
NO_LEASE = {"lease_until": None}
B_COMPLETES = "A expire B B B B B B A"  # and A goes on with a claim that is out of date
FAULTS: dict[str, tuple[dict[str, Any], str, Invariant, str]] = {
    "a late failure revives a completed task": (
        {"A": holder(by_id(status="pending", **NO_LEASE)), "B": worker(mark_as_completed)},
        B_COMPLETES,
        s.only_current_attempt,
        "A gave back #42, which was completed already",
    ),
    "a late renewal of a completed task": (
        {"A": holder(by_id(lease_until=LATER)), "B": worker(mark_as_completed)},
        B_COMPLETES,
        s.only_current_attempt,
        "A renewed #42, which was completed already",
    ),
    "a renewal of a task that was given back": (
        {"A": holder(returns, by_id(lease_until=LATER))},
        "",
        s.only_current_attempt,
        "A renewed #42, and nobody had a claim on it",
    ),
    "a renewal that is counted from now()": (
        {"A": holder(renews_from_now)},
        "A A expire",
        s.lease_in_force,
        "A renewed #42 as attempt 1 with a lease that had already ended",
    ),
    "a claim of a failed task": (
        {
            "A": holder(by_id(status="failed", **NO_LEASE)),
            "B": worker(claim=lambda _: by_id(status="processing")(42, 2)),
        },
        "",
        s.finished_is_finished,
        "B claimed #42, which was failed already",
    ),
    "a claim that does not count": (
        {"A": holder(by_id(max_attempts=1)), "B": worker(claim=lease.claim_task)},
        "A A A expire",
        s.attempts_are_counted,
        "#42 has had 2 attempts, and 1 were allowed",
    ),
    "a failure before the last attempt": (
        {"A": holder(by_id(status="failed", **NO_LEASE))},
        "",
        s.attempts_are_counted,
        "#42 is failed after 1 of its 3 attempts",
    ),
    "a requeue that begins with 0 again": (
        {"A": holder(by_id(status="failed", **NO_LEASE)), "B": partial(by_id(status="pending", attempts=0), 42)},
        "",
        s.attempts_never_repeat,
        "the attempt number of #42 went down from 1 to 0",
    ),
    "giving up a task whose lease is in force": (
        {"A": holder(), "B": partial(by_id(status="failed", **NO_LEASE), 42)},
        "",
        s.only_current_attempt,
        "B failed #42, but its current attempt 1 belongs to A",
    ),
    "a completion behind a lease that was ended by hand": (
        {"psql": [psql("lease_until = clock_timestamp()")], "A": holder(by_id(status="completed", **NO_LEASE))},
        "",
        s.within_the_lease,
        "A completed #42 as attempt 1, after the lease of that attempt had ended",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_rule_says_what_is_wrong(name: str) -> None:
    actors, schedule, rule, sentence = FAULTS[name]
    offence = rule.check(replay(Program(actors, claimed_by_a()), schedule))
    assert offence is not None
    assert sentence in offence.sentence
