"""Lesson 4's exercise: a claim with a lease, and a completion that an old claim cannot pass."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from helpers.checking import Definition, Orders, Rule, Situation
from helpers.checking.rules import CLAIMS_DO_NOT_WAIT, asks_for_the_id_alone, calls, is_update, locks
from helpers.checking.tasks import IN_ORDER, LEASE, ONE_TASK, THREE_TASKS
from helpers.exercises.lease import LESSON
from helpers.exercises.lease.calls import TEXTS, claims, completes, no_lease, refusals
from helpers.exercises.lease.tables import claims_in_tables, completions_in_tables
from helpers.repository.lease import StaleClaimError
from helpers.schedules import (
    Offence,
    Run,
    Violation,
    attempts_never_repeat,
    claim_committed_before_work,
    invariant,
    lease_in_force,
    mark,
    no_error_but,
    no_task_lost,
    one_current_attempt,
    one_task_a_claim,
    only_current_attempt,
    within_the_lease,
)

Claim: TypeAlias = Callable[[float], Any]
Complete: TypeAlias = Callable[[int, int], object]


def claimer(claim: Claim, _complete: Complete) -> object:
    task = claim(LEASE)
    mark("work")
    return task


def worker(claim: Claim, complete: Complete) -> int | None:
    """One worker of the lesson. Returns the id of the task that it believes to have completed."""
    task = claim(LEASE)
    if task is None:
        return None
    mark("work")
    complete(task["id"], task["attempts"])
    return int(task["id"])


def rescue(claim: Claim, _complete: Complete) -> object:
    return claim(LEASE)


@invariant(TEXTS["offences"]["told_name"])
def refusal_is_told(run: Run) -> Offence | None:
    completed = {(row["actor"], row["task_id"]) for row in run.ledger if row["new_status"] == "completed"}
    for who, result in sorted(run.results.items()):
        if isinstance(result, int) and (f"worker:{who}", result) not in completed:
            return Offence(TEXTS["offences"]["told"].format(who=who, task=result), tuple(run.rows))
    return None


NO_ERROR = no_error_but(StaleClaimError)
OF_CLAIMS = (
    one_task_a_claim,
    one_current_attempt,
    attempts_never_repeat,
    CLAIMS_DO_NOT_WAIT,
    lease_in_force,
    NO_ERROR,
    claim_committed_before_work,
    no_task_lost,
)
OF_ALL = (*OF_CLAIMS[:5], only_current_attempt, within_the_lease, *OF_CLAIMS[5:], refusal_is_told)


def how_it_got_through(key: str, violation: Violation) -> str:
    """What the completion had instead of the condition that was missing, as the end of a key."""
    if "It had looked before" in violation.sentence:
        return f"{key}_looked"
    update = next(filter(is_update, reversed(calls(violation.run))))
    return "current_by_id" if key == "current" and asks_for_the_id_alone(update) else key


orders = Orders(
    TEXTS,
    {
        CLAIMS_DO_NOT_WAIT: lambda violation: "waits" if locks(violation.run) else "waits_unlocked",
        one_current_attempt: "twice",
        only_current_attempt: partial(how_it_got_through, "current"),
        within_the_lease: partial(how_it_got_through, "within"),
    },
)
ALONE = Situation(IN_ORDER, (one_task_a_claim, lease_in_force, NO_ERROR), A=claimer, lease_ends=True)
DYING = Situation(ONE_TASK, (no_task_lost, NO_ERROR), A=claimer, crash=True, rescue=rescue)
STALE = Situation(ONE_TASK, OF_ALL, A=worker, B=worker, lease_ends=True)
CLAIM = frozenset({0})

EXERCISE = Definition(
    package=__package__,
    lesson=LESSON,
    functions=("claim_task", "mark_as_completed"),
    mini=(
        Rule("claims", claims, needs=CLAIM),
        orders.every("three", Situation(THREE_TASKS, OF_CLAIMS, A=claimer, B=claimer), 0),
        orders.slow_clock("clock", ALONE, 0),
        orders.every("moment", ALONE, 0),
        orders.every("takeover", DYING, 0),
        Rule("completes", completes),
        orders.every("stale", STALE),
    ),
    full=(
        Rule("refusals", refusals),
        Rule("no_lease", no_lease, needs=CLAIM),
        Rule("tables", claims_in_tables, needs=CLAIM),
        Rule("all_numbers", completions_in_tables, needs=frozenset({1})),
        orders.other_plans("plans", ALONE, 0),
        orders.every("every", replace(STALE, crash=True, rescue=rescue)),
    ),
    database=True,
)
