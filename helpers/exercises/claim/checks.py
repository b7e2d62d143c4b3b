"""Lesson 3's exercise: a claim that waits for nobody, and is committed before the work."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from helpers.checking import database
from helpers.checking.calls import Outcome, call
from helpers.checking.orders import error_of, explored, sqlstate
from helpers.checking.parts import Calling, Definition, Finding, Functions, Rule, texts_of
from helpers.checking.tasks import (
    CLEAR,
    DO_NOT_WAIT,
    EMPTY,
    ERRORS,
    IN_ORDER,
    LOCKER,
    ONE_TASK,
    OTHER_PLANS,
    THREE_TASKS,
    not_a_task,
)
from helpers.exercises.claim import LESSON
from helpers.schedules import (
    Invariant,
    Offence,
    Program,
    Run,
    Violation,
    claim_committed_before_work,
    claims_do_not_wait,
    mark,
    no_error_but,
    one_current_attempt,
    one_task_a_claim,
)
from helpers.schedules.invariants import changes, comes_back

TEXTS = texts_of(__package__)
WHY = TEXTS["why"]
SAYS = TEXTS["offences"]

CALL_SECONDS = 10.0
LOCKING = (
    "BEGIN",
    "SELECT id FROM backend_training.tasks WHERE id = 42 FOR UPDATE",
    "ROLLBACK",
)


def alone(functions: Functions) -> Iterator[Calling | Finding]:
    """Four calls, one after the other, on three tasks."""
    [claim_task] = functions
    database.set_rows(THREE_TASKS.replace(CLEAR, EMPTY))
    for expected in (42, 43, 44, None):
        before = statuses()
        yield Calling("claim_task()", CALL_SECONDS)
        outcome = call(claim_task)
        why = complaint(outcome, expected, before) or ""
        wanted = "None" if expected is None else f"id {expected}, type generate_report"
        yield Finding(not why, "claim_task()", outcome.came, wanted, why)
        if why:
            return


def complaint(outcome: Outcome, expected: int | None, before: dict[int, str]) -> str | None:
    """The sentence on what is wrong with one call, or None."""
    task = outcome.value
    if outcome.error is not None:
        return str(WHY["column"]) if sqlstate(outcome.error) == "42703" else outcome.why_raised
    if expected is None:
        return None if task is None else str(WHY["not_none"])
    if task is None:
        return str(WHY["none"]).format(expected=f"#{expected}")
    if why := not_a_task(task, ("id", "type"), WHY):
        return why
    if database.open_transactions():
        return str(WHY["open"])
    after, got = statuses(), task["id"]
    if others := [f"#{task_id}" for task_id in after if task_id != got and after[task_id] != before[task_id]]:
        return str(WHY["others"]).format(others=", ".join(others))
    if got != expected:
        return str(WHY["order"]).format(got=got, expected=expected)
    if after[got] == before[got]:
        return str(WHY["uncommitted"]).format(id=got)
    return None if after[got] == "processing" else str(WHY["status"]).format(id=got, status=after[got])


def statuses() -> dict[int, str]:
    return {int(str(row["id"])): str(row["status"]) for row in database.read_rows("id, status")}


# Two at the same time


def worker(claim_task: Callable[[], Any]) -> object:
    """Claims, then works. Returns the id of its task, or None."""
    task = claim_task()
    mark("work")
    return None if task is None else task["id"]


def _free_task_is_found(run: Run) -> Offence | None:
    """A worker that got None found no task that stayed free during the whole run."""
    free = [row for row in run.rows if row["status"] == "pending"]
    for who, result in sorted(run.results.items()):
        if result is None and free and who != LOCKER:
            task = f"#{free[0]['id']}"
            return Offence(SAYS["free"].format(who=who, free=task), tuple(run.rows))
    return None


def _returns_what_it_claimed(run: Run) -> Offence | None:
    claimed = {(change.who, change.row["task_id"]) for change in changes(run) if change.is_claim}
    for who, result in sorted(run.results.items()):
        if isinstance(result, int) and (who, result) not in claimed:
            return Offence(SAYS["returned"].format(who=who, id=result), tuple(run.rows))
    return None


FREE_TASK_IS_FOUND = Invariant(SAYS["free_name"], _free_task_is_found)
RETURNS_WHAT_IT_CLAIMED = Invariant(SAYS["returned_name"], _returns_what_it_claimed)
INVARIANTS = (
    one_task_a_claim,
    one_current_attempt,
    DO_NOT_WAIT,
    no_error_but(),
    RETURNS_WHAT_IT_CLAIMED,
    claim_committed_before_work,
    FREE_TASK_IS_FOUND,
)
REASONS = {
    one_task_a_claim.name: "many",
    claims_do_not_wait.name: "waits",
    one_current_attempt.name: "twice",
    RETURNS_WHAT_IT_CLAIMED.name: "other_row",
    claim_committed_before_work.name: "committed",
    FREE_TASK_IS_FOUND.name: "free",
    comes_back.name: "lost",
}


def beside_a_lock(functions: Functions) -> Program:
    [claim_task] = functions
    return Program(
        actors={LOCKER: LOCKING, "A": partial(worker, claim_task)},
        reset=THREE_TASKS,
        invariants=INVARIANTS,
    )


def two_workers(reset: str, crashes: int, functions: Functions) -> Program:
    [claim_task] = functions
    one = partial(worker, claim_task)
    return Program(actors={"A": one, "B": one}, reset=reset, invariants=INVARIANTS, crashes=crashes)


def one_worker(functions: Functions) -> Program:
    [claim_task] = functions
    return Program(
        actors={"A": partial(worker, claim_task)}, reset=IN_ORDER, invariants=(one_task_a_claim, no_error_but())
    )


def why(violation: Violation) -> str:
    error = error_of(violation)
    if error is not None and violation.invariant not in REASONS:
        return str(WHY.get(ERRORS.get(sqlstate(error) or type(error).__name__, ""), ""))
    key = REASONS.get(violation.invariant, "")
    if key == "twice" and any(s.call and "FOR UPDATE" in s.call.text.upper() for s in violation.run.steps):
        key = "twice_locked"
    return str(WHY.get(key, ""))


def in_every_order(name: str, made: Callable[[Functions], Program]) -> Rule:
    def run(functions: Functions) -> Iterator[Calling | Finding]:
        yield from explored(made(functions), expected=TEXTS["expected"][name], why=why, prefer=INVARIANTS)

    return Rule(name, run, seconds=400.0, program=made)


def other_plans(functions: Functions) -> Iterator[Calling | Finding]:
    """The same claim, while PostgreSQL may not use its better plans: the result must not depend on that."""
    database.planner(*OTHER_PLANS)
    try:
        yield from explored(one_worker(functions), expected=TEXTS["expected"]["plans"], why=why)
    finally:
        database.planner()


EXERCISE = Definition(
    package=__package__,
    lesson=LESSON,
    functions=("claim_task",),
    mini=(
        Rule("alone", alone),
        in_every_order("two", partial(two_workers, THREE_TASKS, 0)),
        in_every_order("locked", beside_a_lock),
    ),
    full=(
        in_every_order("crash", partial(two_workers, THREE_TASKS, 1)),
        in_every_order("last", partial(two_workers, ONE_TASK, 0)),
        Rule("plans", other_plans, seconds=400.0, program=one_worker),
    ),
    database=True,
)
