"""Lesson 5's exercise: a renewal that only the current attempt can make, and only while its lease is in force."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, TypeAlias

from helpers.checking import Definition, Orders, Rule, Situation
from helpers.checking.orders import error_of, sqlstate
from helpers.checking.rules import STANDS_STILL, asks_for_the_id_alone, calls, is_update
from helpers.checking.situations import ERRORS
from helpers.checking.tasks import CLEAR, LOCKER, LONG_LEASE, ONE_TASK
from helpers.exercises.renew import LESSON
from helpers.exercises.renew.calls import (
    ENDED,
    HELD_FOR_AN_HOUR,
    INSERT,
    OF_OTHERS,
    TEXTS,
    WHY,
    refusals,
    renews,
    values,
)
from helpers.repository.lease import StaleClaimError, claim_task, mark_as_completed
from helpers.schedules import (
    Offence,
    Run,
    Violation,
    claim_committed_before_work,
    invariant,
    lease_in_force,
    mark,
    no_error_but,
    no_task_lost,
    one_current_attempt,
    only_current_attempt,
    within_the_lease,
)
from helpers.schedules.call import Call
from helpers.schedules.changes import changes
from helpers.schedules.program import EXPIRE

SAYS = TEXTS["offences"]

Renew: TypeAlias = Callable[[int, int, float], Any]

HELD_42, HELD_43 = (INSERT.format(id=task_id, values=HELD_FOR_AN_HOUR.format(attempts=1)) for task_id in (42, 43))
# So that the ledger knows whose claim it is.
A_CLAIMS = """
    BEGIN; SET LOCAL application_name = 'worker:A';
    UPDATE backend_training.tasks
    SET status = 'processing', attempts = 1, lease_until = clock_timestamp() + interval '10 minutes'; COMMIT
"""


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


def takeover(_renew: Renew) -> None:
    """Another worker, which takes what is free."""
    claim_task(LONG_LEASE)


def rescue(_renew: Renew) -> object:
    return claim_task(LONG_LEASE)


def only_renews(renew: Renew) -> Renewed:
    return Renewed(42, renew(42, 1, LONG_LEASE))


@invariant(SAYS["told_name"])
def renewal_is_told(run: Run) -> Offence | None:
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


@invariant(SAYS["refused_name"])
def current_is_not_refused(run: Run) -> Offence | None:
    """As long as no lease has ended, nobody's claim is out of date."""
    if EXPIRE in run.moves:
        return None
    for who, result in sorted(run.results.items()):
        if isinstance(result, StaleClaimError):
            return Offence(SAYS["refused"].format(who=who), tuple(run.rows))
        if isinstance(result, Renewed) and result.refused:
            return Offence(SAYS["not_completed"].format(who=who), tuple(run.rows))
    return None


@invariant(SAYS["revived_name"])
def lease_ends_later(run: Run) -> Offence | None:
    """What is written into lease_until lies ahead of the moment at which it is written."""
    for row in run.ledger:
        if row["event"] == "update" and row["lease_until"] is not None and row["lease_until"] <= row["at"]:
            return Offence(SAYS["revived"].format(who=str(row["actor"]).removeprefix("worker:")), (row,))
    return None


@invariant(SAYS["moment_name"])
def time_of_this_moment(run: Run) -> Offence | None:
    """now() is the time of the transaction's start: as good as any, where the UPDATE is its first statement."""
    for step in run.steps:
        if step.call and not step.call.idle and STANDS_STILL.search(step.call.text):
            return Offence(SAYS["moment"].format(who=step.actor))
    return None


@invariant(SAYS["waits_name"])
def waits_for_its_own_row_alone(run: Run) -> Offence | None:
    for step in run.steps:
        if step.what == "waits" and LOCKER in step.waits_for:
            return Offence(SAYS["waits"].format(who=step.actor))
    return None


NO_ERROR = no_error_but(StaleClaimError)
OF_WORKERS = (
    only_current_attempt,
    within_the_lease,
    lease_in_force,
    one_current_attempt,
    renewal_is_told,
    current_is_not_refused,
    claim_committed_before_work,
    no_task_lost,
    time_of_this_moment,
    NO_ERROR,
)
OF_TWINS = (lease_ends_later, current_is_not_refused, NO_ERROR)
BESIDE_A_LOCK = (waits_for_its_own_row_alone, current_is_not_refused, NO_ERROR)


def how_it_got_through(rule: str, violation: Violation) -> str:
    """The key `rule`; and behind it what the renewal had instead of the condition that was missing."""
    run = violation.run
    key = f"{rule}{instead_of_the_condition(run)}"
    return key if key in WHY else rule


def instead_of_the_condition(run: Run) -> str:
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


def reason_of_an_error(violation: Violation) -> str:
    error = error_of(violation.run)
    state = sqlstate(error)
    known = {**ERRORS, "40001": "isolation"}
    return known.get(state or type(error).__name__, "" if state else "other_error")


orders = Orders(
    TEXTS,
    {
        only_current_attempt: partial(how_it_got_through, "current"),
        within_the_lease: partial(how_it_got_through, "within"),
        one_current_attempt: partial(how_it_got_through, "current"),
        claim_committed_before_work: "open",
        no_task_lost: "no_end",
        NO_ERROR: reason_of_an_error,
    },
)
ALONE = Situation(ONE_TASK, OF_WORKERS, A=worker, lease_ends=True)
# B gets #42 only where A has not claimed it, or where A's lease has ended.
STALE = replace(ALONE, B=takeover)
# Behind A's claim, since the crashes make many more orders.
DYING = Situation(
    f"{ONE_TASK}; {A_CLAIMS}", OF_WORKERS, A=holder, B=takeover, lease_ends=True, crash=True, rescue=rescue
)
# Two threads of one worker: the one that keeps the lease, and the one that confirms it before an effect.
TWINS = Situation(CLEAR + HELD_42, OF_TWINS, A=only_renews, B=only_renews, lease_ends=True)
OUTSIDER = Situation(f"{CLEAR} {HELD_42}; {HELD_43}", BESIDE_A_LOCK, A=only_renews, locked=43)

EXERCISE = Definition(
    package=__package__,
    lesson=LESSON,
    functions=("renew_lease",),
    mini=(
        Rule("renews", renews),
        orders.slow_clock("clock", replace(ALONE, rules=(lease_in_force, NO_ERROR))),
        orders.every("moment", ALONE),
        orders.every("twins", TWINS),
        Rule("refusals", partial(refusals, ENDED)),
        orders.every("stale", STALE),
    ),
    full=(
        Rule("numbers", partial(refusals, OF_OTHERS)),
        Rule("values", values),
        orders.every("beside", OUTSIDER),
        orders.every("every", DYING),
    ),
    database=True,
)
