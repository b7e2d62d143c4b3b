"""Lesson 4's exercise: a claim with a lease, and a completion that an old claim cannot pass."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from helpers.checking import database
from helpers.checking.calls import call, written
from helpers.checking.leased import (
    CALL_SECONDS,
    LEASE,
    LONG_LEASE,
    ONE_TASK,
    asks_for_the_id_alone,
    calls,
    in_every_order,
    is_update,
    reason_of_a_dead_lease,
)
from helpers.checking.orders import error_of, explored, replayed_finding, sqlstate
from helpers.checking.parts import Calling, Definition, Finding, Functions, Rule, texts_of
from helpers.checking.tasks import (
    CLEAR,
    DO_NOT_WAIT,
    EMPTY,
    ERRORS,
    IN_ORDER,
    OTHER_PLANS,
    THREE_TASKS,
    not_a_task,
)
from helpers.exercises.lease import LESSON
from helpers.repository.lease import StaleClaimError
from helpers.schedules import (
    Invariant,
    Offence,
    Program,
    Run,
    Violation,
    attempts_never_repeat,
    claim_committed_before_work,
    lease_in_force,
    mark,
    no_error_but,
    no_task_lost,
    one_current_attempt,
    one_task_a_claim,
    only_current_attempt,
    within_the_lease,
)
from helpers.schedules.invariants import comes_back

TEXTS = texts_of(__package__)
WHY = TEXTS["why"]
SAYS = TEXTS["offences"]
EXPECTED = TEXTS["expected"]

INSERT = (
    "INSERT INTO backend_training.tasks (id, type, status, attempts, lease_until) "
    "VALUES (42, 'generate_report', {values})"
)
WITHOUT_A_LEASE = "UPDATE backend_training.tasks SET status = 'processing', lease_until = NULL WHERE id = 42"

KEYS = ("id", "type", "attempts", "lease_until")
COLUMNS = "id, status, attempts, extract(epoch FROM lease_until - clock_timestamp())::float AS seconds_left"


# One call after another


def claims(functions: Functions) -> Iterator[Calling | Finding]:
    """Three claims of ten minutes: three tasks, in order, each as attempt 1; then none is left."""
    claim = functions[0]
    database.set_rows(THREE_TASKS.replace(CLEAR, EMPTY))
    called = written("claim_task", LONG_LEASE)
    for expected in (42, 43, 44, None):
        before = rows_by_id()
        yield Calling(called, CALL_SECONDS)
        outcome = call(claim, LONG_LEASE)
        why = outcome.why_raised if outcome.error is not None else wrong_claim(outcome.value, expected, before)
        wanted = "None" if expected is None else f"id {expected}, type generate_report, attempts 1"
        yield Finding(not why, called, outcome.came, wanted, why or "")
        if why:
            return


def wrong_claim(task: Any, expected: int | None, before: dict[int, dict[str, Any]]) -> str | None:
    """The sentence on what is wrong with one claim, or None."""
    if task is None:
        return None if expected is None else str(WHY["none"]).format(expected=f"#{expected}")
    if why := not_a_task(task, KEYS, WHY):
        return why
    if database.open_transactions():
        return str(WHY["open"])
    after, got = rows_by_id(), task["id"]
    changed = [task_id for task_id in after if facts(after[task_id]) != facts(before[task_id])]
    if before[got]["status"] == "processing":
        return str(WHY["in_force"]).format(got=got)
    if others := [f"#{task_id}" for task_id in changed if task_id != got]:
        return str(WHY["others"]).format(others=", ".join(others))
    if got != expected:
        return str(WHY["order"]).format(got=got, expected=expected)
    if not changed:
        return str(WHY["uncommitted"]).format(id=got)
    return wrong_row(after[got], task)


def wrong_row(row: dict[str, Any], task: Any) -> str | None:
    if row["status"] != "processing":
        return str(WHY["status"]).format(id=row["id"], status=row["status"])
    if (row["attempts"], task["attempts"]) != (1, 1):
        return str(WHY["attempts"]).format(row=row["attempts"], mapping=task["attempts"])
    if row["seconds_left"] is None:
        return str(WHY["lease_null"])
    # The claim was made a moment ago, at most the time limit of a call.
    if not LONG_LEASE - 2 * CALL_SECONDS < row["seconds_left"] <= LONG_LEASE:
        return str(WHY["lease_length"]).format(seconds=LONG_LEASE)
    return None


def facts(row: dict[str, Any]) -> tuple[object, ...]:
    """What does not change by the mere passing of time."""
    return row["status"], row["attempts"], row["seconds_left"] is None


def rows_by_id() -> dict[int, dict[str, Any]]:
    return {int(str(row["id"])): row for row in database.read_rows(COLUMNS)}


def completes(functions: Functions) -> Iterator[Calling | Finding]:
    """A claim and its completion, with nobody else there."""
    claim, complete = functions
    database.set_rows(ONE_TASK)
    yield Calling(written("claim_task", LONG_LEASE), CALL_SECONDS)
    claimed = call(claim, LONG_LEASE)
    called = written("mark_as_completed", 42, 1)
    yield Calling(called, CALL_SECONDS)
    outcome = call(complete, 42, 1)
    row = rows_by_id()[42]
    if claimed.error is not None:
        why = claimed.why_raised
    elif isinstance(outcome.error, StaleClaimError):
        why = WHY["completes_raised"].format(raised=outcome.why_raised)
    elif outcome.error is not None:
        why = outcome.why_raised
    elif database.open_transactions():
        why = WHY["completes_open"]
    elif row["status"] != "completed":
        why = WHY["completes_status"].format(status=row["status"])
    elif row["seconds_left"] is not None:
        why = WHY["completes_lease"]
    elif row["attempts"] != 1:
        why = WHY["completes_attempts"].format(attempts=row["attempts"])
    else:
        why = ""
    lease = "NULL" if row["seconds_left"] is None else "set"
    came = f"{row['status']}, lease {lease}" if outcome.error is None else outcome.came
    yield Finding(not why, called, came, EXPECTED["completes"], why)


CASES: dict[str, tuple[str, int]] = {  # the row before, and the attempt number of the completion
    "completed": ("'completed', 1, NULL", 1),
    "pending": ("'pending', 0, NULL", 1),
    "other": ("'processing', 1, clock_timestamp() + interval '1 hour'", 2),
    "expired": ("'processing', 1, clock_timestamp() - interval '1 s'", 1),
    "zero": ("'processing', 1, clock_timestamp() + interval '1 hour'", 0),
}


def refusals(functions: Functions) -> Iterator[Calling | Finding]:
    """Completions that come too late, too early, or with a wrong number."""
    complete = functions[1]
    for name, (values, attempts) in CASES.items():
        kind = "ValueError" if name == "zero" else "StaleClaimError"
        called = written("mark_as_completed", 42, attempts)
        database.set_rows(CLEAR + INSERT.format(values=values))
        before = facts(rows_by_id()[42])
        yield Calling(called, CALL_SECONDS)
        outcome = call(complete, 42, attempts)
        changed = facts(rows_by_id()[42]) != before
        raised = type(outcome.error).__name__ if outcome.error else ""
        if not raised and name == "zero":
            why = WHY["refusal_value"]
        elif not raised and changed:
            why = WHY["refusal_accepted"].format(id=42, case=TEXTS["cases"][name])
        elif not raised:
            why = WHY["refusal_none"]
        elif raised != kind:
            why = WHY["refusal_kind_value" if name == "zero" else "refusal_kind"].format(expected=kind, kind=raised)
        else:
            why = WHY["refusal_changed"] if changed else ""
        yield Finding(not why, called, raised or outcome.came, kind, why)
        if why:
            return


def no_lease(functions: Functions) -> Iterator[Calling | Finding]:
    """A row that was processing before the migration: no lease, so none that has expired."""
    called = written("claim_task", LONG_LEASE)
    database.set_rows(f"{THREE_TASKS}; {WITHOUT_A_LEASE}")
    yield Calling(called, CALL_SECONDS)
    outcome = call(functions[0], LONG_LEASE)
    if outcome.error is not None:
        why = outcome.why_raised
    elif outcome.value is None:
        why = WHY["none"].format(expected="#43")
    else:
        why = WHY["no_lease"] if outcome.value["id"] == 42 else ""
    yield Finding(not why, called, outcome.came, "id 43, type generate_report, attempts 1", why)


# Workers


def claimer(claim: Callable[[float], Any]) -> object:
    task = claim(LEASE)
    mark("work")
    return task


def worker(claim: Callable[[float], Any], complete: Callable[[int, int], object]) -> int | None:
    """One worker of the lesson. Returns the id of the task that it believes to have completed."""
    task = claim(LEASE)
    if task is None:
        return None
    mark("work")
    complete(task["id"], task["attempts"])
    return int(task["id"])


def _refusal_is_told(run: Run) -> Offence | None:
    completed = {(row["actor"], row["task_id"]) for row in run.ledger if row["new_status"] == "completed"}
    for who, result in sorted(run.results.items()):
        if isinstance(result, int) and (f"worker:{who}", result) not in completed:
            return Offence(SAYS["told"].format(who=who, task=result), tuple(run.rows))
    return None


REFUSAL_IS_TOLD = Invariant(SAYS["told_name"], _refusal_is_told)
NO_ERROR = no_error_but(StaleClaimError)
OF_CLAIMS = (
    one_task_a_claim,
    one_current_attempt,
    attempts_never_repeat,
    DO_NOT_WAIT,
    lease_in_force,
    NO_ERROR,
    claim_committed_before_work,
    no_task_lost,
)
OF_ALL = (*OF_CLAIMS[:5], only_current_attempt, within_the_lease, *OF_CLAIMS[5:], REFUSAL_IS_TOLD)


def one_claim(functions: Functions) -> Program:
    return Program(
        actors={"A": partial(claimer, functions[0])},
        reset=IN_ORDER,
        invariants=(one_task_a_claim, lease_in_force, NO_ERROR),
        expiries=1,
    )


def dying_claim(functions: Functions) -> Program:
    """One worker, which may crash; then, when all leases have ended, somebody claims what there is."""
    return Program(
        actors={"A": partial(claimer, functions[0])},
        reset=ONE_TASK,
        invariants=(no_task_lost, NO_ERROR),
        crashes=1,
        rescue=partial(functions[0], LEASE),
    )


def two_claims(functions: Functions) -> Program:
    one = partial(claimer, functions[0])
    return Program(actors={"A": one, "B": one}, reset=THREE_TASKS, invariants=OF_CLAIMS)


def two_workers(crashes: int, functions: Functions) -> Program:
    claim, complete = functions
    one = partial(worker, claim, complete)
    return Program(
        actors={"A": one, "B": one},
        reset=ONE_TASK,
        invariants=OF_ALL,
        expiries=1,
        crashes=crashes,
        rescue=partial(claim, LEASE) if crashes else None,
    )


REASONS = {
    one_task_a_claim.name: "many",
    DO_NOT_WAIT.name: "waits",
    one_current_attempt.name: "twice",
    attempts_never_repeat.name: "repeat",
    only_current_attempt.name: "current",
    within_the_lease.name: "within",
    no_task_lost.name: "lost",
    claim_committed_before_work.name: "committed",
    REFUSAL_IS_TOLD.name: "told",
    comes_back.name: "comes_back",
}


def why(violation: Violation) -> str:
    error = error_of(violation)
    if violation.invariant == NO_ERROR.name and error is not None:
        key = {**ERRORS, "55P03": "locked", "42703": ""}.get(sqlstate(error) or type(error).__name__, "")
        return str(WHY.get(key, ""))
    if violation.invariant == lease_in_force.name:
        return str(WHY[reason_of_a_dead_lease(violation.run)])
    key = REASONS.get(violation.invariant, "")
    if key in ("current", "within") and "It had looked before" in violation.sentence:
        key += "_looked"
    elif key == "current" and asks_for_the_id_alone(next(filter(is_update, reversed(calls(violation.run))))):
        key += "_by_id"
    elif key == "waits" and not any(s.call and "FOR UPDATE" in s.call.text.upper() for s in violation.run.steps):
        key += "_unlocked"
    return str(WHY.get(key, ""))


every_order = partial(in_every_order, expected=EXPECTED, why=why)


def clock(functions: Functions) -> Iterator[Calling | Finding]:
    """The database's clock is moved on by a day, and Python's is not."""
    yield Calling("", CALL_SECONDS * 3)
    yield replayed_finding(one_claim(functions), "expire", expected=EXPECTED["clock"], why=why)


def other_plans(functions: Functions) -> Iterator[Calling | Finding]:
    """The same claim, while PostgreSQL may not use its better plans: the result must not depend on that."""
    database.planner(*OTHER_PLANS)
    try:
        yield from explored(one_claim(functions), expected=EXPECTED["plans"], why=why)
    finally:
        database.planner()


CLAIM = frozenset({0})

EXERCISE = Definition(
    package=__package__,
    lesson=LESSON,
    functions=("claim_task", "mark_as_completed"),
    mini=(
        Rule("claims", claims, needs=CLAIM),
        every_order("three", two_claims, 0),
        Rule("clock", clock, needs=CLAIM, program=one_claim),
        every_order("moment", one_claim, 0),
        every_order("takeover", dying_claim, 0),
        Rule("completes", completes),
        every_order("stale", partial(two_workers, 0)),
    ),
    full=(
        Rule("refusals", refusals),
        Rule("no_lease", no_lease, needs=CLAIM),
        Rule("plans", other_plans, seconds=400.0, needs=CLAIM, program=one_claim),
        every_order("every", partial(two_workers, 1)),
    ),
    database=True,
)
