"""Lesson 4's exercise: a claim with a lease, and a completion that an old claim cannot pass."""

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
    call,
    database,
    texts_of,
    tried,
    written,
)
from helpers.checking.calls import CALL_SECONDS, Tried
from helpers.checking.rules import CLAIMS_DO_NOT_WAIT, asks_for_the_id_alone, calls, is_update, locks
from helpers.checking.tasks import (
    CLEAR,
    EMPTY,
    IN_ORDER,
    LEASE,
    LONG_LEASE,
    ONE_TASK,
    THREE_TASKS,
    Rows,
    not_a_task,
    rows_by_id,
)
from helpers.exercises.lease import LESSON
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

TEXTS = texts_of(__package__)
WHY: dict[str, str] = TEXTS["why"]

INSERT = (
    "INSERT INTO backend_training.tasks (id, type, status, attempts, lease_until) "
    "VALUES (42, 'generate_report', {values})"
)
WITHOUT_A_LEASE = "UPDATE backend_training.tasks SET status = 'processing', lease_until = NULL WHERE id = 42"
KEYS = ("id", "type", "attempts", "lease_until")
COLUMNS = "id, status, attempts, extract(epoch FROM lease_until - clock_timestamp())::float AS seconds_left"

Claim: TypeAlias = Callable[[float], Any]
Complete: TypeAlias = Callable[[int, int], object]


# One call after another


def claims(functions: Functions) -> Iterator[Calling | Finding]:
    """Three claims of ten minutes: three tasks, in order, each as attempt 1; then none is left."""
    database.set_rows(THREE_TASKS.replace(CLEAR, EMPTY))
    for expected in (42, 43, 44, None):
        wanted = "None" if expected is None else f"id {expected}, type generate_report, attempts 1"
        wrong = partial(wrong_claim, expected, rows_by_id(COLUMNS))
        if not (yield from claim_alone(functions, wrong, wanted)):
            return


def claim_alone(functions: Functions, wrong: Callable[[Outcome], str | None], expected: str) -> Tried:
    called = written("claim_task", LONG_LEASE)
    return tried(called, functions[0], LONG_LEASE, wrong=wrong, expected=expected)


def wrong_claim(expected: int | None, before: Rows, outcome: Outcome) -> str | None:
    """The sentence on what is wrong with one claim, or None."""
    task = outcome.value
    if outcome.error is not None:
        return outcome.why_raised
    if task is None:
        return None if expected is None else WHY["none"].format(expected=f"#{expected}")
    if why := not_a_task(task, KEYS, WHY):
        return why
    if database.open_transactions():
        return WHY["open"]
    after, got = rows_by_id(COLUMNS), task["id"]
    changed = [task_id for task_id in after if facts(after[task_id]) != facts(before[task_id])]
    if before[got]["status"] == "processing":
        return WHY["in_force"].format(got=got)
    if others := [f"#{task_id}" for task_id in changed if task_id != got]:
        return WHY["others"].format(others=", ".join(others))
    if got != expected:
        return WHY["order"].format(got=got, expected=expected)
    if not changed:
        return WHY["uncommitted"].format(id=got)
    return wrong_row(after[got], task)


def wrong_row(row: dict[str, Any], task: Any) -> str | None:
    if row["status"] != "processing":
        return WHY["status"].format(id=row["id"], status=row["status"])
    if (row["attempts"], task["attempts"]) != (1, 1):
        return WHY["attempts"].format(row=row["attempts"], mapping=task["attempts"])
    if row["seconds_left"] is None:
        return WHY["lease_null"]
    # The claim was made a moment ago, at most the time limit of a call.
    if not LONG_LEASE - 2 * CALL_SECONDS < row["seconds_left"] <= LONG_LEASE:
        return WHY["lease_length"].format(seconds=LONG_LEASE)
    return None


def facts(row: dict[str, Any]) -> tuple[object, ...]:
    """What does not change by the mere passing of time."""
    return row["status"], row["attempts"], row["seconds_left"] is None


def completes(functions: Functions) -> Iterator[Calling | Finding]:
    """A claim and its completion, with nobody else there."""
    claim, complete = functions
    database.set_rows(ONE_TASK)
    yield Calling(written("claim_task", LONG_LEASE), CALL_SECONDS)
    claimed = call(claim, LONG_LEASE)
    wrong = partial(wrong_completion, claimed)
    called, expected = written("mark_as_completed", 42, 1), TEXTS["expected"]["completes"]
    yield from tried(called, complete, 42, 1, wrong=wrong, expected=expected, came=came_of_completion)


def came_of_completion(outcome: Outcome) -> str:
    row = rows_by_id(COLUMNS)[42]
    lease = "NULL" if row["seconds_left"] is None else "set"
    return outcome.came if outcome.error else f"{row['status']}, lease {lease}"


def wrong_completion(claimed: Outcome, outcome: Outcome) -> str:
    row = rows_by_id(COLUMNS)[42]
    if claimed.error is not None:
        return claimed.why_raised
    if isinstance(outcome.error, StaleClaimError):
        return WHY["completes_raised"].format(raised=outcome.why_raised)
    if outcome.error is not None:
        return outcome.why_raised
    if database.open_transactions():
        return WHY["completes_open"]
    if row["status"] != "completed":
        return WHY["completes_status"].format(status=row["status"])
    if row["seconds_left"] is not None:
        return WHY["completes_lease"]
    return "" if row["attempts"] == 1 else WHY["completes_attempts"].format(attempts=row["attempts"])


CASES: dict[str, tuple[str, int]] = {  # the row before, and the attempt number of the completion
    "completed": ("'completed', 1, NULL", 1),
    "pending": ("'pending', 0, NULL", 1),
    "other": ("'processing', 1, clock_timestamp() + interval '1 hour'", 2),
    "expired": ("'processing', 1, clock_timestamp() - interval '1 s'", 1),
    "zero": ("'processing', 1, clock_timestamp() + interval '1 hour'", 0),
}


def refusals(functions: Functions) -> Iterator[Calling | Finding]:
    """Completions that come too late, too early, or with a wrong number."""
    for name, (values, attempts) in CASES.items():
        kind = "ValueError" if name == "zero" else "StaleClaimError"
        called = written("mark_as_completed", 42, attempts)
        database.set_rows(CLEAR + INSERT.format(values=values))
        wrong = partial(wrong_refusal, name, kind, facts(rows_by_id(COLUMNS)[42]))
        if not (yield from tried(called, functions[1], 42, attempts, wrong=wrong, refused_with=kind)):
            return


def wrong_refusal(name: str, kind: str, before: tuple[object, ...], outcome: Outcome) -> str:
    """The sentence on what is wrong with a completion that should have been refused with an exception of this kind."""
    changed = facts(rows_by_id(COLUMNS)[42]) != before
    if outcome.error is None and name == "zero":
        return WHY["refusal_value"]
    if outcome.error is None:
        return WHY["refusal_accepted"].format(id=42, case=TEXTS["cases"][name]) if changed else WHY["refusal_none"]
    if outcome.refusal != kind:
        key = "refusal_kind_value" if name == "zero" else "refusal_kind"
        return WHY[key].format(expected=kind, kind=outcome.refusal)
    return WHY["refusal_changed"] if changed else ""


def no_lease(functions: Functions) -> Iterator[Calling | Finding]:
    """A row that was processing before the migration: no lease, so none that has expired."""
    database.set_rows(f"{THREE_TASKS}; {WITHOUT_A_LEASE}")
    yield from claim_alone(functions, takes_null_for_expired, "id 43, type generate_report, attempts 1")


def takes_null_for_expired(outcome: Outcome) -> str:
    if outcome.error is not None:
        return outcome.why_raised
    if outcome.value is None:
        return WHY["none"].format(expected="#43")
    return WHY["no_lease"] if outcome.value["id"] == 42 else ""


# Workers


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
        refusal_is_told: "told",
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
        orders.other_plans("plans", ALONE, 0),
        orders.every("every", replace(STALE, crash=True, rescue=rescue)),
    ),
    database=True,
)
