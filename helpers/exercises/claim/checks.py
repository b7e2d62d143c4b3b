"""Lesson 3's exercise: a claim that waits for nobody, and is committed before the work."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from helpers.checking import (
    Calling,
    Definition,
    Finding,
    Functions,
    Orders,
    Outcome,
    Rule,
    Situation,
    database,
    texts_of,
    tried,
)
from helpers.checking.orders import sqlstate
from helpers.checking.rules import CLAIMS_DO_NOT_WAIT, locks, returns_what_it_claimed
from helpers.checking.tasks import (
    CLEAR,
    EMPTY,
    IN_ORDER,
    LOCKER,
    ONE_TASK,
    THREE_TASKS,
    Rows,
    changed,
    not_a_task,
    rows_by_id,
)
from helpers.exercises.claim import LESSON
from helpers.schedules import (
    Offence,
    Run,
    claim_committed_before_work,
    invariant,
    mark,
    no_error_but,
    one_current_attempt,
    one_task_a_claim,
)

TEXTS = texts_of(__package__)
WHY: dict[str, str] = TEXTS["why"]
SAYS = TEXTS["offences"]
COLUMNS = "id, status"

Claim: TypeAlias = Callable[[], Any]


def alone(functions: Functions) -> Iterator[Calling | Finding]:
    """Four calls, one after the other, on three tasks."""
    database.set_rows(THREE_TASKS.replace(CLEAR, EMPTY))
    for expected in (42, 43, 44, None):
        wrong = partial(wrong_claim, expected, rows_by_id(COLUMNS))
        wanted = "None" if expected is None else f"id {expected}, type generate_report"
        if not (yield from tried("claim_task()", functions[0], wrong=wrong, expected=wanted)):
            return


def wrong_claim(expected: int | None, before: Rows, outcome: Outcome) -> str | None:
    """The sentence on what is wrong with one call, or None."""
    task = outcome.value
    if outcome.error is not None:
        return WHY["column"] if sqlstate(outcome.error) == "42703" else outcome.why_raised
    if expected is None:
        return None if task is None else WHY["not_none"]
    if task is None:
        return WHY["none"].format(expected=f"#{expected}")
    if why := not_a_task(task, ("id", "type"), WHY):
        return why
    if database.open_transactions():
        return WHY["open"]
    after, got = rows_by_id(COLUMNS), task["id"]
    if others := [f"#{task_id}" for task_id in changed(before, after) if task_id != got]:
        return WHY["others"].format(others=", ".join(others))
    if got != expected:
        return WHY["order"].format(got=got, expected=expected)
    if after[got] == before[got]:
        return WHY["uncommitted"].format(id=got)
    status = after[got]["status"]
    return None if status == "processing" else WHY["status"].format(id=got, status=status)


# Two at the same time


def worker(claim_task: Claim) -> object:
    """Claims, then works. Returns the id of its task, or None."""
    task = claim_task()
    mark("work")
    return None if task is None else task["id"]


@invariant(SAYS["free_name"])
def free_task_is_found(run: Run) -> Offence | None:
    """A worker that got None found no task that stayed free during the whole run."""
    free = [row for row in run.rows if row["status"] == "pending"]
    for who, result in sorted(run.results.items()):
        if result is None and free and who != LOCKER:
            return Offence(SAYS["free"].format(who=who, free=f"#{free[0]['id']}"), tuple(run.rows))
    return None


RETURNS_WHAT_IT_CLAIMED = returns_what_it_claimed(SAYS)
OF_CLAIMS = (
    one_task_a_claim,
    one_current_attempt,
    CLAIMS_DO_NOT_WAIT,
    no_error_but(),
    RETURNS_WHAT_IT_CLAIMED,
    claim_committed_before_work,
    free_task_is_found,
)

orders = Orders(
    TEXTS,
    {
        CLAIMS_DO_NOT_WAIT: "waits",
        one_current_attempt: lambda violation: "twice_locked" if locks(violation.run) else "twice",
        RETURNS_WHAT_IT_CLAIMED: "other_row",
        free_task_is_found: "free",
    },
)
TWO = Situation(THREE_TASKS, OF_CLAIMS, A=worker, B=worker)

EXERCISE = Definition(
    package=__package__,
    lesson=LESSON,
    functions=("claim_task",),
    mini=(
        Rule("alone", alone),
        orders.every("two", TWO),
        orders.every("locked", Situation(THREE_TASKS, OF_CLAIMS, A=worker, locked=42)),
    ),
    full=(
        orders.every("crash", replace(TWO, crash=True)),
        orders.every("last", replace(TWO, reset=ONE_TASK)),
        orders.other_plans("plans", Situation(IN_ORDER, (one_task_a_claim, no_error_but()), A=worker)),
    ),
    database=True,
)
