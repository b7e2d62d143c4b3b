"""Lesson 7's exercise: a claim that is strict but for aging."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from helpers.checking import Calling, Definition, Finding, Functions, Orders, Outcome, Rule, Situation, tried, written
from helpers.checking.queues import (
    LATER,
    STATES,
    THREE_PRIORITIES,
    Made,
    is_free,
    is_spent,
    made,
    made_behind_the_planner,
    put,
    why_raised,
    wrong_claims,
)
from helpers.checking.rules import all_due_are_claimed, reason_of_two_claims, returns_what_it_claimed, waits_for_nobody
from helpers.checking.situations import FEW
from helpers.checking.tasks import CLEAR, LEASE, LONG_LEASE, Rows, rows_by_id
from helpers.exercises.aging import LESSON
from helpers.exercises.aging.order import AGING, TEXTS, WHY, Claim, order
from helpers.repository.lease import StaleClaimError, mark_as_completed
from helpers.schedules import (
    attempts_are_counted,
    attempts_never_repeat,
    claim_committed_before_work,
    lease_in_force,
    mark,
    no_error_but,
    no_task_lost,
    one_current_attempt,
    one_task_a_claim,
)

SAYS = TEXTS["offences"]
THREE = (Made(44, "HIGH", 30), Made(43, "MEDIUM", 40), Made(42, "LOW", 50))


def claims(tasks: Sequence[Made], functions: Functions) -> Iterator[Calling | Finding]:
    """Claims until none of these tasks is left: each is right by itself. In which order they come is not asked."""
    [claim] = functions
    put(tasks)
    called = written("my_claim", LONG_LEASE, AGING)
    some: Outcome | None = Outcome(THREE)
    while some and some.value is not None:
        before = rows_by_id()
        free = [task_id for task_id, row in before.items() if is_free(row)]
        wrong = partial(wrong_claim, before, free)
        some = yield from tried(called, claim, LONG_LEASE, AGING, wrong=wrong, expected=either(free))


def wrong_claim(before: Rows, free: Sequence[int], outcome: Outcome) -> str:
    """The sentence on what is wrong with one call, when these tasks were free; or nothing."""
    if outcome.error is not None:
        return why_raised(outcome, WHY)
    if outcome.value is not None:
        return wrong_claims([outcome.value], before, LONG_LEASE, WHY)
    if free:
        return WHY["none"].format(free=f"#{free[0]}")
    if spent := [task_id for task_id, row in rows_by_id().items() if is_spent(row)]:
        return WHY["not_given_up"].format(id=spent[0])
    return ""


def either(free: Sequence[int]) -> str:
    *first, last = [f"#{task_id}" for task_id in free] or ["None"]
    return TEXTS["or"].format(first=", ".join(first), last=last) if first else last


def values(functions: Functions) -> Iterator[Calling | Finding]:
    """An aging that makes no sense."""
    [claim] = functions
    for name, aging in {"zero": 0, "negative": -AGING}.items():
        put(THREE)
        called = written("my_claim", LONG_LEASE, aging)
        wrong = partial(wrong_refusal, name)
        if not (yield from tried(called, claim, LONG_LEASE, aging, wrong=wrong, refused_with="ValueError")):
            return


def wrong_refusal(name: str, outcome: Outcome) -> str:
    if not isinstance(outcome.error, ValueError):
        return WHY[f"value_{name}"].format(came=outcome.refusal)
    return WHY["value_changed"] if any(row["attempts"] for row in rows_by_id().values()) else ""


# Claimers at the same time


def claimer(claim: Claim) -> Any:
    task = claim(LEASE, AGING)
    mark("work")
    return None if task is None else task["id"]


def worker(claim: Claim) -> int | None:
    """Claims with the learner's claim, and completes with the course's."""
    task = claim(LEASE, AGING)
    if task is None:
        return None
    mark("work")
    mark_as_completed(task["id"], task["attempts"])
    return int(task["id"])


def all_claims(claim: Claim) -> list[int]:
    ids: list[int] = []
    while (task := claim(LEASE, AGING)) is not None:
        ids.append(task["id"])
    return ids


def rescue(claim: Claim) -> object:
    return claim(LEASE, AGING)


ALL_DUE = all_due_are_claimed(SAYS)
RETURNS_WHAT_IT_CLAIMED = returns_what_it_claimed(SAYS)
WAITS_FOR_NOBODY = waits_for_nobody(SAYS)
NO_ERROR = no_error_but(StaleClaimError)
OF_CLAIMS = (
    one_task_a_claim,
    one_current_attempt,
    attempts_never_repeat,
    attempts_are_counted,
    WAITS_FOR_NOBODY,
    RETURNS_WHAT_IT_CLAIMED,
    lease_in_force,
    NO_ERROR,
    claim_committed_before_work,
    no_task_lost,
)
ALONE = (one_task_a_claim, lease_in_force, NO_ERROR)
ON_TIME = (lease_in_force, ALL_DUE, NO_ERROR)

# #42 has no attempt left: it is given up by whoever meets it, and the other one finds #43.
A_SPENT_ONE = made((Made(42, "HIGH", 50, "processing", 3, lease=-5), Made(43, "LOW", 30)), CLEAR)
ONE_EXPIRED = made((Made(42, "MEDIUM", 50, "processing", 1, lease=-5),), CLEAR)
TWO_WORKERS = Situation(ONE_EXPIRED, OF_CLAIMS, A=worker, B=worker, lease_ends=True, crash=True, rescue=rescue)

orders = Orders(
    TEXTS,
    {
        WAITS_FOR_NOBODY: "waits",
        one_current_attempt: reason_of_two_claims,
        RETURNS_WHAT_IT_CLAIMED: "other_row",
        ALL_DUE: "own_comparison",
    },
)

EXERCISE = Definition(
    package=__package__,
    lesson=LESSON,
    functions=("my_claim",),
    mini=(
        Rule("claims", partial(claims, THREE)),
        Rule("states", partial(claims, STATES)),
        Rule("order", order),
        orders.every("two", Situation(THREE_PRIORITIES, OF_CLAIMS, A=claimer, B=claimer)),
        orders.every("locked", Situation(THREE_PRIORITIES, OF_CLAIMS, A=claimer, locked=44)),
        orders.slow_clock("clock", Situation(LATER, ON_TIME, A=all_claims, lease_ends=True)),
        orders.every("moment", Situation(THREE_PRIORITIES, ALONE, A=claimer, lease_ends=True)),
    ),
    full=(
        Rule("values", values),
        orders.every("plans", Situation(made_behind_the_planner(THREE), ALONE, A=claimer, lease_ends=True)),
        orders.every("spent", Situation(A_SPENT_ONE, OF_CLAIMS, A=claimer, B=claimer)),
        orders.every("every", TWO_WORKERS, most=FEW),
    ),
    database=True,
)
