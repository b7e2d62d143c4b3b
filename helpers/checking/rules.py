"""Rules that the schedules do not have, and what a run tells about why a rule was broken.

A rule that speaks takes its sentences from `[offences]` of the exercise: `x_name` for its name, `x` for the offence.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from helpers.checking.tasks import LOCKER
from helpers.schedules import (
    Invariant,
    Offence,
    Run,
    Violation,
    attempts_are_counted,
    attempts_never_repeat,
    claim_committed_before_work,
    claims_do_not_wait,
    lease_in_force,
    no_task_lost,
    one_current_attempt,
)
from helpers.schedules.call import Call
from helpers.schedules.changes import changes
from helpers.schedules.program import EXPIRE

STANDS_STILL = re.compile(r"\bnow\(\)|\bcurrent_timestamp\b|\btransaction_timestamp\b", re.IGNORECASE)


def _claims_do_not_wait(run: Run) -> Offence | None:
    """The session that only holds a lock may wait, and so may a worker that has claimed and goes on."""
    claiming, working = [], {LOCKER}
    for step in run.steps:
        if step.actor not in working:
            claiming.append(step)
        if step.actor and step.call and step.call.kind == "mark":
            working.add(step.actor)
    return claims_do_not_wait.check(replace(run, steps=claiming))


CLAIMS_DO_NOT_WAIT = Invariant(claims_do_not_wait.name, _claims_do_not_wait)


def waits_for_nobody(says: Mapping[str, str]) -> Invariant:
    """No step of a claim waits for another session. `waits` has places for {who} and {others}.

    What an actor does behind its first `mark`, when it has claimed, is none of this rule's business.
    """

    def check(run: Run) -> Offence | None:
        at_work: set[str | None] = {LOCKER}
        for step in run.steps:
            if step.what == "waits" and step.actor not in at_work:
                sentence = says["waits"].format(who=step.actor, others=" and ".join(step.waits_for))
                return Offence(sentence, tuple(run.rows))
            if step.call and step.call.kind == "mark":
                at_work.add(step.actor)
        return None

    return Invariant(says["waits_name"], check)


def returns_what_it_claimed(says: Mapping[str, str]) -> Invariant:
    """A result that is an id, or a tuple of ids and attempts, names tasks that its actor has claimed."""

    def check(run: Run) -> Offence | None:
        for who, result in sorted(run.results.items()):
            claims = claimed(run, who)
            ids = [task_id for task_id, _ in claims]
            if isinstance(result, int) and result not in ids:
                return Offence(says["returned"].format(who=who, id=result), tuple(run.rows))
            for task_id, attempts in result if isinstance(result, tuple) else ():
                if (task_id, attempts) not in claims:
                    return Offence(says["returned"].format(who=who, id=task_id, attempts=attempts), tuple(run.rows))
        return None

    return Invariant(says["returned_name"], check)


def all_due_are_claimed(says: Mapping[str, str]) -> Invariant:
    """A result that is a list of ids, of who claimed until nothing came, leaves no task out: all are due."""

    def check(run: Run) -> Offence | None:
        for who, result in run.results.items():
            left = [row for row in run.rows if isinstance(result, list) and row["id"] not in result]
            if left:
                return Offence(says["due"].format(who=who, task=left[0]["id"]), tuple(left))
        return None

    return Invariant(says["due_name"], check)


def rules_of_claims(says: Mapping[str, str], size: Invariant, no_error: Invariant) -> tuple[Invariant, ...]:
    """What holds for claims with a lease, an attempt number and a limit of attempts. `size`: how much one may take."""
    return (
        size,
        one_current_attempt,
        attempts_never_repeat,
        attempts_are_counted,
        waits_for_nobody(says),
        returns_what_it_claimed(says),
        lease_in_force,
        no_error,
        claim_committed_before_work,
        no_task_lost,
    )


def claimed(run: Run, who: str) -> list[tuple[int, int]]:
    """The claims of an actor that were committed: ids and attempts."""
    of_actor = (change for change in changes(run) if change.who == who and change.is_claim)
    return [(change.row["task_id"], change.row["attempt"]) for change in of_actor]


# What the statements of a run tell


def reason_of_a_dead_lease(violation: Violation) -> str:
    """Why a lease that was just written had ended already: now() stood still, or whose clock was it?"""
    if any(STANDS_STILL.search(call.text) for call in calls(violation.run)):
        return "moment"
    return "own_clock" if violation.run.schedule == EXPIRE else "own_time"


def reason_of_two_claims(violation: Violation) -> str:
    """Why two have claimed one task: they looked without a lock, or the lock did not last."""
    return "claimed_twice" if looked_without_a_lock(violation.run) else "claimed_twice_locked"


def looked_without_a_lock(run: Run) -> bool:
    """Whether a statement found tasks and did not lock them."""
    texts = [call.text.upper() for call in calls(run) if "BACKEND_TRAINING.TASKS" in call.text.upper()]
    selects = [text for text in texts if text.lstrip().startswith("SELECT") and "FOR UPDATE" not in text]
    return bool(selects) or not any("FOR UPDATE" in text for text in texts)


def locks(run: Run) -> bool:
    """Whether a statement locks what it finds."""
    return any("FOR UPDATE" in call.text.upper() for call in calls(run))


def asks_for_the_id_alone(update: Call) -> bool:
    """Whether the UPDATE has no condition but the id."""
    conditions = update.text.upper().partition("WHERE")[2].partition("RETURNING")[0]
    return not re.search(r"ATTEMPTS|STATUS|LEASE", conditions)


def is_update(call: Call) -> bool:
    return call.text.lstrip()[:6].upper() == "UPDATE"


def calls(run: Run) -> list[Call]:
    """The calls to the database, in the order of the run."""
    return [step.call for step in run.steps if step.call]
