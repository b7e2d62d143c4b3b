"""Lesson 5's exercise: a renewal that only the current attempt can make, and only while its lease is in force."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeAlias

from helpers.checking import database
from helpers.checking.calls import Outcome, article, call, sentence_on, written
from helpers.checking.leased import (
    CALL_SECONDS,
    LONG_LEASE,
    ONE_TASK,
    STANDS_STILL,
    asks_for_the_id_alone,
    calls,
    in_every_order,
    is_update,
    reason_of_a_dead_lease,
)
from helpers.checking.orders import error_of, replayed_finding, sqlstate
from helpers.checking.parts import Calling, Definition, Finding, Functions, Rule, texts_of
from helpers.checking.tasks import CLEAR, LOCKER, ROW
from helpers.exercises.renew import LESSON
from helpers.repository.lease import MAX_LEASE_SECONDS, StaleClaimError, claim_task, mark_as_completed
from helpers.schedules import (
    Invariant,
    Offence,
    Program,
    Run,
    Violation,
    claim_committed_before_work,
    lease_in_force,
    mark,
    no_error_but,
    no_task_lost,
    one_current_attempt,
    only_current_attempt,
    within_the_lease,
)
from helpers.schedules.connection import Call
from helpers.schedules.invariants import changes, comes_back
from helpers.schedules.program import EXPIRE

TEXTS = texts_of(__package__)
WHY: dict[str, str] = TEXTS["why"]
SAYS = TEXTS["offences"]
EXPECTED = TEXTS["expected"]

Renew: TypeAlias = Callable[[int, int, float], Any]
Rows: TypeAlias = dict[int, dict[str, Any]]

INSERT = (
    "INSERT INTO backend_training.tasks (id, type, status, attempts, lease_until, last_error) "
    "VALUES ({id}, 'generate_report', {values}, 'an error of an earlier attempt')"
)
HELD = "'processing', 2, clock_timestamp() + interval '5 minutes'"
HELD_FOR_AN_HOUR = "'processing', {attempts}, clock_timestamp() + interval '1 hour'"
TASKS = f"{CLEAR} {INSERT.format(id=42, values=HELD)}; {INSERT.format(id=43, values=HELD)}; {ROW.format(id=44)}"
# An endless lease is none: Python has no such time.
COLUMNS = """
    id, type, status, attempts, max_attempts, retry_at, last_error,
    nullif(lease_until, 'infinity') AS lease_until, clock_timestamp() AS now
"""
# So that the ledger knows whose claim it is.
A_CLAIMS = """
    BEGIN; SET LOCAL application_name = 'worker:A';
    UPDATE backend_training.tasks
    SET status = 'processing', attempts = 1, lease_until = clock_timestamp() + interval '10 minutes'; COMMIT
"""
LOCKS_ANOTHER_TASK = (
    "BEGIN",
    "SELECT id FROM backend_training.tasks WHERE id = 43 FOR UPDATE",
    "ROLLBACK",
)


# One call after another


def renews(functions: Functions) -> Iterator[Calling | Finding]:
    """Two renewals by the worker that holds the task, each with five minutes left."""
    [renew] = functions
    for seconds in (LONG_LEASE, 900.5):
        called = written("renew_lease", 42, 2, seconds)
        database.set_rows(TASKS)
        before = rows_by_id()
        yield Calling(called, CALL_SECONDS)
        outcome = call(renew, 42, 2, seconds)
        why = why_raised(outcome) or wrong_row(before, rows_by_id(), seconds) or wrong_value(outcome.value, before)
        yield Finding(not why, called, came(outcome), EXPECTED["renews"], why)
        if why:
            return


def why_raised(outcome: Outcome) -> str:
    if isinstance(outcome.error, StaleClaimError):
        return WHY["raised_stale"].format(raised=outcome.why_raised)
    if sqlstate(outcome.error) == "42703":
        return WHY["column"]
    return outcome.why_raised if outcome.error is not None else ""


def wrong_row(before: Rows, after: Rows, seconds: float) -> str:
    """The sentence on what is wrong with the rows after a renewal of #42, or nothing."""
    was, row = before[42], after[42]
    others = [f"#{task_id}" for task_id in before if facts(after[task_id]) != facts(before[task_id]) and task_id != 42]
    changed = [name for name in row if row[name] != was[name] and name not in ("lease_until", "now")]
    if database.open_transactions():
        return WHY["open"]
    if others:
        return WHY["others"].format(others=", ".join(others))
    if changed:
        key = "attempts" if changed == ["attempts"] else "columns"
        return WHY[key].format(before=was["attempts"], after=row["attempts"], names=", ".join(changed))
    if row["lease_until"] == was["lease_until"]:
        return WHY["unchanged"]
    if row["lease_until"] is None:
        return WHY["endless"]
    length = timedelta(seconds=seconds)
    if row["lease_until"] == was["lease_until"] + length:
        return WHY["added"]
    # The database's time was looked at before the call and after it: the renewal lies between.
    return (
        ""
        if was["now"] + length <= row["lease_until"] <= row["now"] + length
        else WHY["length"].format(seconds=seconds)
    )


def wrong_value(value: object, before: Rows) -> str:
    """The sentence on what is wrong with the returned value, where the row is right; or nothing."""
    lease_until = rows_by_id()[42]["lease_until"]
    if value is None:
        return WHY["returned_none"]
    if not isinstance(value, datetime):
        return WHY["returned_kind"].format(kind=article(type(value).__name__))
    if value == lease_until:
        return ""
    return WHY["returned_old" if value == before[42]["lease_until"] else "returned_other"]


def facts(row: dict[str, Any]) -> dict[str, Any]:
    """What the mere passing of time does not change."""
    return {name: value for name, value in row.items() if name != "now"}


def rows_by_id() -> Rows:
    return {int(str(row["id"])): row for row in database.read_rows(COLUMNS)}


def came(outcome: Outcome) -> str:
    """For the table, without the time itself: it differs from run to run."""
    return str(TEXTS["came"]) if isinstance(outcome.value, datetime) else outcome.came


Cases: TypeAlias = dict[str, tuple[str, int]]  # the row before, and the attempt number of the renewal
ENDED: Cases = {
    "completed": ("'completed', 1, NULL", 1),
    "pending": ("'pending', 1, NULL", 1),
    "failed": ("'failed', 3, NULL", 3),
    "expired": ("'processing', 1, clock_timestamp() - interval '1 s'", 1),
    "null": ("'processing', 1, NULL", 1),
    "by_hand": ("'failed', 1, clock_timestamp() + interval '1 hour'", 1),
    "missing": ("", 1),
}
OF_OTHERS: Cases = {
    "newer": (HELD_FOR_AN_HOUR.format(attempts=2), 1),
    "ahead": (HELD_FOR_AN_HOUR.format(attempts=1), 2),
}


def refusals(cases: Cases, functions: Functions) -> Iterator[Calling | Finding]:
    """Renewals of a claim that is not the current one any more, or never was."""
    [renew] = functions
    for name, (values, attempts) in cases.items():
        called = written("renew_lease", 42, attempts, LONG_LEASE)
        database.set_rows(CLEAR + (INSERT.format(id=42, values=values) if values else ""))
        before = rows_by_id()
        yield Calling(called, CALL_SECONDS)
        outcome = call(renew, 42, attempts, LONG_LEASE)
        why = wrong_refusal(outcome, before, attempts, TEXTS["cases"][name])
        yield Finding(not why, called, raised(outcome), "StaleClaimError", why)
        if why:
            return


def wrong_refusal(outcome: Outcome, before: Rows, attempts: int, case: str) -> str:
    """The sentence on what is wrong with a renewal that should have been refused, or nothing."""
    error, changed = outcome.error, list(map(facts, rows_by_id().values())) != list(map(facts, before.values()))
    if error is None:
        return WHY["refusal_accepted" if changed else "refusal_none"].format(case=case)
    if not isinstance(error, StaleClaimError):
        return WHY["refusal_kind"].format(case=case, raised=sentence_on(error))
    if changed:
        return WHY["refusal_changed"]
    if database.open_transactions():
        return WHY["refusal_open"]
    if (error.task_id, error.attempts) != (42, attempts):
        return WHY["refusal_names"].format(task=error.task_id, attempts=error.attempts)
    return ""


def raised(outcome: Outcome) -> str:
    return type(outcome.error).__name__ if outcome.error else came(outcome)


NO_SUCH_CALL = {"zero": (0, LONG_LEASE), "negative": (-1, LONG_LEASE)}  # attempts, lease_seconds
NO_SUCH_LEASE = {"no_time": (2, 0), "before": (2, -5), "too_long": (2, MAX_LEASE_SECONDS + 1)}


def values(functions: Functions) -> Iterator[Calling | Finding]:
    """Arguments that no renewal can have; and the longest lease, which one may have."""
    [renew] = functions
    for name, (attempts, seconds) in {**NO_SUCH_CALL, **NO_SUCH_LEASE, "longest": (2, MAX_LEASE_SECONDS)}.items():
        called = written("renew_lease", 42, attempts, seconds)
        database.set_rows(TASKS)
        before = rows_by_id()
        yield Calling(called, CALL_SECONDS)
        outcome = call(renew, 42, attempts, seconds)
        if name == "longest":
            why = WHY["value_longest"].format(raised=outcome.why_raised) if outcome.error else ""
            yield Finding(not why, called, raised(outcome), EXPECTED["renews"], why)
            return
        why = ""
        if not isinstance(outcome.error, ValueError):
            why = WHY[f"value_{'attempts' if name in NO_SUCH_CALL else name}"].format(came=raised(outcome))
        elif facts(rows_by_id()[42]) != facts(before[42]):
            why = WHY["value_changed"]
        yield Finding(not why, called, raised(outcome), "ValueError", why)
        if why:
            return


# Workers


@dataclass(frozen=True)
class Renewed:
    """What a worker reports whose renewal came back: what it returned, and whether its completion was refused."""

    task_id: int
    lease_until: object
    refused: bool = False


def worker(renew: Renew) -> Renewed | None:
    """Claims with the course's claim, and then see `holder`."""
    task = claim_task(LONG_LEASE)
    return None if task is None else holder(renew, task["attempts"])


def holder(renew: Renew, attempts: int = 1) -> Renewed:
    """Has claimed #42: works, renews, works on, and completes."""
    mark("work")
    lease_until = renew(42, attempts, LONG_LEASE)
    mark("work")
    try:
        mark_as_completed(42, attempts)
    except StaleClaimError:
        return Renewed(42, lease_until, refused=True)
    return Renewed(42, lease_until)


def takeover() -> None:
    """Another worker, which takes what is free."""
    claim_task(LONG_LEASE)


def only_renews(renew: Renew) -> Renewed:
    return Renewed(42, renew(42, 1, LONG_LEASE))


def _renewal_is_told(run: Run) -> Offence | None:
    """Who got a time from its renewal has written that time; who wrote nothing got StaleClaimError."""
    for who, result in sorted(run.results.items()):
        if not isinstance(result, Renewed):
            continue
        written = [change.row["lease_until"] for change in changes(run) if change.who == who and change.renews]
        if not written:
            return Offence(SAYS["told"].format(who=who, task=result.task_id), tuple(run.rows))
        if written[-1] != result.lease_until:
            return Offence(SAYS["returned"].format(who=who, task=result.task_id), tuple(run.rows))
    return None


def _current_is_not_refused(run: Run) -> Offence | None:
    """As long as no lease has ended, nobody's claim is out of date."""
    if EXPIRE in run.moves:
        return None
    for who, result in sorted(run.results.items()):
        if isinstance(result, StaleClaimError):
            return Offence(SAYS["refused"].format(who=who), tuple(run.rows))
        if isinstance(result, Renewed) and result.refused:
            return Offence(SAYS["not_completed"].format(who=who), tuple(run.rows))
    return None


def _lease_ends_later(run: Run) -> Offence | None:
    """What is written into lease_until lies ahead of the moment at which it is written."""
    for row in run.ledger:
        if row["event"] == "update" and row["lease_until"] is not None and row["lease_until"] <= row["at"]:
            return Offence(SAYS["revived"].format(who=str(row["actor"]).removeprefix("worker:")), (row,))
    return None


def _time_of_this_moment(run: Run) -> Offence | None:
    """now() is the time of the transaction's start: as good as any, where the UPDATE is its first statement."""
    for step in run.steps:
        if step.call and not step.call.idle and STANDS_STILL.search(step.call.text):
            return Offence(SAYS["moment"].format(who=step.actor))
    return None


def _waits_for_its_own_row(run: Run) -> Offence | None:
    for step in run.steps:
        if step.what == "waits" and LOCKER in step.waits_for:
            return Offence(SAYS["waits"].format(who=step.actor))
    return None


RENEWAL_IS_TOLD = Invariant(SAYS["told_name"], _renewal_is_told)
NOT_REFUSED = Invariant(SAYS["refused_name"], _current_is_not_refused)
ENDS_LATER = Invariant(SAYS["revived_name"], _lease_ends_later)
MOMENT = Invariant(SAYS["moment_name"], _time_of_this_moment)
WAITS_FOR_NOBODY_ELSE = Invariant(SAYS["waits_name"], _waits_for_its_own_row)
NO_ERROR = no_error_but(StaleClaimError)
OF_WORKERS = (
    only_current_attempt,
    within_the_lease,
    lease_in_force,
    one_current_attempt,
    RENEWAL_IS_TOLD,
    NOT_REFUSED,
    claim_committed_before_work,
    no_task_lost,
    MOMENT,
    NO_ERROR,
)


def one_worker(invariants: Sequence[Invariant], functions: Functions) -> Program:
    return Program(
        actors={"A": partial(worker, functions[0])},
        reset=ONE_TASK,
        invariants=invariants,
        expiries=1,
    )


on_a_slow_clock = partial(one_worker, (lease_in_force, NO_ERROR))


def two_workers(functions: Functions) -> Program:
    """A renews, and B claims, which gets #42 only where A has not, or where A's lease has ended."""
    return Program(
        actors={"A": partial(worker, functions[0]), "B": takeover},
        reset=ONE_TASK,
        invariants=OF_WORKERS,
        expiries=1,
    )


def two_dying_workers(functions: Functions) -> Program:
    """The same behind A's claim, since the crashes make many more orders."""
    return Program(
        actors={"A": partial(holder, functions[0]), "B": takeover},
        reset=f"{ONE_TASK}; {A_CLAIMS}",
        invariants=OF_WORKERS,
        expiries=1,
        crashes=1,
        rescue=partial(claim_task, LONG_LEASE),
    )


def twins(functions: Functions) -> Program:
    """Two threads of the same worker: the one that keeps the lease, and the one that confirms it before an effect."""
    one = partial(only_renews, functions[0])
    return Program(
        actors={"A": one, "B": one},
        reset=CLEAR + INSERT.format(id=42, values=HELD_FOR_AN_HOUR.format(attempts=1)),
        invariants=(ENDS_LATER, NOT_REFUSED, NO_ERROR),
        expiries=1,
    )


def beside_a_lock(functions: Functions) -> Program:
    held = HELD_FOR_AN_HOUR.format(attempts=1)
    return Program(
        actors={LOCKER: LOCKS_ANOTHER_TASK, "A": partial(only_renews, functions[0])},
        reset=f"{CLEAR} {INSERT.format(id=42, values=held)}; {INSERT.format(id=43, values=held)}",
        invariants=(WAITS_FOR_NOBODY_ELSE, NOT_REFUSED, NO_ERROR),
    )


REASONS = {
    only_current_attempt.name: "current",
    within_the_lease.name: "within",
    one_current_attempt.name: "current",
    RENEWAL_IS_TOLD.name: "told",
    NOT_REFUSED.name: "refused",
    ENDS_LATER.name: "revived",
    MOMENT.name: "moment",
    WAITS_FOR_NOBODY_ELSE.name: "waits",
    claim_committed_before_work.name: "open",
    no_task_lost.name: "endless",
    comes_back.name: "comes_back",
}
ERRORS = {"55P03": "locked", "40001": "isolation", "TooManyStatements": "endless_loop", "TimeoutError": "pool"}


def why(violation: Violation) -> str:
    error = error_of(violation)
    if violation.invariant == NO_ERROR.name and error is not None:
        state = sqlstate(error)
        return WHY.get(ERRORS.get(state or type(error).__name__, "" if state else "other_error"), "")
    if violation.invariant == lease_in_force.name:
        return WHY[reason_of_a_dead_lease(violation.run)]
    key = REASONS.get(violation.invariant, "")
    if key in ("current", "within"):
        key += how_it_got_through(violation.run)
    return WHY.get(key, WHY.get(key.partition("_")[0], ""))


def how_it_got_through(run: Run) -> str:
    """What the renewal had instead of the condition that was missing, as the end of a key."""
    if any(STANDS_STILL.search(call.text) for call in calls(run)):
        return "_now"
    steps = [step for step in run.steps if step.what in ("did", "continues", "expire")]
    renewal = next((step for step in steps if step.call and is_renewal(step.call)), None)
    if renewal is None or renewal.call is None:
        return ""
    before = steps[: steps.index(renewal)]
    if not renewal.call.idle:  # the transaction had begun with another statement
        last = next(step for step in reversed(before) if step.actor == renewal.actor)
        if last is before[-1]:
            return "_blind"
        return "_locked" if last.call and "FOR UPDATE" in last.call.text.upper() else "_looked"
    parameters = renewal.call.params if isinstance(renewal.call.params, dict) else {}
    if any(isinstance(value, datetime) for value in parameters.values()):
        return "_own_clock"
    return "_by_id" if asks_for_the_id_alone(renewal.call) else ""


def is_renewal(call: Call) -> bool:
    """An UPDATE of the learner's that changed a row. The course's own claim and completion set the status as well."""
    return is_update(call) and call.rowcount > 0 and "STATUS" not in call.text.upper().partition("WHERE")[0]


def clock(functions: Functions) -> Iterator[Calling | Finding]:
    """The database's clock is moved on by a day, and Python's is not."""
    yield Calling("", CALL_SECONDS * 3)
    yield replayed_finding(on_a_slow_clock(functions), EXPIRE, expected=EXPECTED["clock"], why=why)


every_order = partial(in_every_order, expected=EXPECTED, why=why)

EXERCISE = Definition(
    package=__package__,
    lesson=LESSON,
    functions=("renew_lease",),
    mini=(
        Rule("renews", renews),
        Rule("clock", clock, program=on_a_slow_clock),
        every_order("moment", partial(one_worker, OF_WORKERS)),
        every_order("twins", twins),
        Rule("refusals", partial(refusals, ENDED)),
        every_order("stale", two_workers),
    ),
    full=(
        Rule("numbers", partial(refusals, OF_OTHERS)),
        Rule("values", values),
        every_order("beside", beside_a_lock),
        every_order("every", two_dying_workers),
    ),
    database=True,
)
