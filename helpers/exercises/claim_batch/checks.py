"""Lesson 8's exercise: a batch by quotas and with a fallback, of which all is claimed or nothing."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from helpers.checking import Definition, Orders, Rule, Situation, texts_of
from helpers.checking.queues import LATER, STATES, THREE_PRIORITIES, Made, made
from helpers.checking.rules import (
    all_due_are_claimed,
    claimed,
    reason_of_two_claims,
    returns_what_it_claimed,
    waits_for_nobody,
)
from helpers.checking.situations import FEW
from helpers.checking.tasks import CLEAR, LEASE
from helpers.exercises.claim_batch import LESSON
from helpers.exercises.claim_batch.calls import SIX, ClaimBatch, batches, errors
from helpers.exercises.claim_batch.choice import choice, plans, random_cases
from helpers.repository.batch import claim_batch
from helpers.schedules import (
    Offence,
    Run,
    attempts_are_counted,
    attempts_never_repeat,
    claim_committed_before_work,
    invariant,
    lease_in_force,
    mark,
    no_error_but,
    no_task_lost,
    one_current_attempt,
)

TEXTS = texts_of(__package__)
SAYS = TEXTS["offences"]

SIZE = 2
QUOTAS = {"HIGH": 1, "LOW": 1}
WITH_A_PAST = made(
    (
        Made(42, "LOW", 50, "processing", 1, lease=-5),
        Made(43, "HIGH", 40),
        Made(44, "HIGH", 60, "processing", 3, lease=-5),
    ),
    CLEAR,
)


def batch_of(claim: ClaimBatch) -> list[Mapping[str, Any]]:
    batch: list[Mapping[str, Any]] = claim(SIZE, dict(QUOTAS), LEASE)
    return batch


def one_batch(claim: ClaimBatch) -> tuple[tuple[int, int], ...]:
    """The ids and attempts of one batch."""
    batch = batch_of(claim)
    mark("work")
    return tuple((task["id"], task["attempts"]) for task in batch)


def the_courses(_claim: ClaimBatch) -> tuple[tuple[int, int], ...]:
    return one_batch(claim_batch)


def all_batches(claim: ClaimBatch) -> list[int]:
    """The ids of one batch after another, until nothing is left."""
    ids: list[int] = []
    while batch := batch_of(claim):
        ids += [task["id"] for task in batch]
    return ids


def rescue(claim: ClaimBatch) -> object:
    """None where nothing is left."""
    return batch_of(claim) or None


def of_one_batch(run: Run) -> Iterator[tuple[str, tuple[object, ...]]]:
    return ((who, result) for who, result in sorted(run.results.items()) if isinstance(result, tuple))


@invariant(SAYS["size_name"])
def at_most_its_size(run: Run) -> Offence | None:
    for who, _ in of_one_batch(run):
        if len(found := claimed(run, who)) > SIZE:
            return Offence(SAYS["size"].format(who=who, n=len(found), size=SIZE), tuple(run.rows))
    return None


@invariant(SAYS["part_name"])
def all_or_none(run: Run) -> Offence | None:
    """For an actor that is alone with enough tasks: its batch has SIZE tasks, or none where it crashed before."""
    for who in sorted(run.crashed):
        if len(found := claimed(run, who)) not in (0, SIZE):
            return Offence(SAYS["part"].format(who=who, n=len(found), size=SIZE), tuple(run.rows))
    return None


@invariant(SAYS["free_name"])
def free_tasks_are_found(run: Run) -> Offence | None:
    """Who got less than it wanted has left nothing that nobody took. What a batch locks, it claims."""
    free = [row for row in run.rows if row["status"] == "pending"]
    for who, batch in of_one_batch(run):
        if len(batch) < SIZE and free and not run.crashed:
            return Offence(SAYS["free"].format(who=who, n=len(batch), id=free[0]["id"]), tuple(run.rows))
    return None


ALL_DUE = all_due_are_claimed(SAYS)
RETURNS_WHAT_IT_CLAIMED = returns_what_it_claimed(SAYS)
WAITS_FOR_NOBODY = waits_for_nobody(SAYS)
NO_ERROR = no_error_but()
OF_BATCHES = (
    at_most_its_size,
    one_current_attempt,
    attempts_never_repeat,
    attempts_are_counted,
    WAITS_FOR_NOBODY,
    RETURNS_WHAT_IT_CLAIMED,
    lease_in_force,
    NO_ERROR,
    claim_committed_before_work,
    no_task_lost,
    free_tasks_are_found,
)
ALONE = (at_most_its_size, lease_in_force, NO_ERROR)
ON_TIME = (lease_in_force, ALL_DUE, NO_ERROR)
WHOLE = (all_or_none, no_task_lost, NO_ERROR)

orders = Orders(
    TEXTS,
    {
        at_most_its_size: "many",
        WAITS_FOR_NOBODY: "waits",
        one_current_attempt: reason_of_two_claims,
        RETURNS_WHAT_IT_CLAIMED: "other_row",
        all_or_none: "part",
        ALL_DUE: "own_comparison",
        free_tasks_are_found: "locks_more",
    },
)
# Beside a batch of the course's: two of many statements make too many orders, and those are in "two".
BESIDE_ANOTHER = Situation(WITH_A_PAST, OF_BATCHES, A=one_batch, B=the_courses, crash=True, rescue=rescue)

EXERCISE = Definition(
    package=__package__,
    lesson=LESSON,
    functions=("my_claim_batch",),
    mini=(
        Rule("batches", partial(batches, (3, 3, 3), SIX)),
        Rule("states", partial(batches, (20, 20), STATES)),
        Rule("choice", choice),
        orders.slow_clock("clock", Situation(LATER, ON_TIME, A=all_batches, lease_ends=True)),
        orders.every("moment", Situation(THREE_PRIORITIES, ALONE, A=one_batch, lease_ends=True)),
        orders.every("crash", Situation(THREE_PRIORITIES, WHOLE, A=one_batch, crash=True, rescue=rescue)),
        orders.every("two", Situation(THREE_PRIORITIES, OF_BATCHES, A=one_batch, B=one_batch), most=FEW),
        orders.every("locked", Situation(THREE_PRIORITIES, OF_BATCHES, A=one_batch, locked=44)),
    ),
    full=(
        Rule("errors", errors),
        Rule("random", random_cases, seconds=300.0),
        Rule("plans", plans),
        orders.every("every", BESIDE_ANOTHER, most=1),
    ),
    database=True,
)
