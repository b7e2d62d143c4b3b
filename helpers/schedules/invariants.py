"""What must hold at the end of every run of a queue: named rules over the ledger, the rows and the steps.

The ledger says who did what, in the order in which the rows were written: an actor's session calls itself `worker:A`.
Each rule returns None, or a sentence that names the offence, and the rows that show it.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime

from helpers.repository.lease import StaleClaimError
from helpers.schedules.changes import FINISHED, Change, changes
from helpers.schedules.rule import Invariant, Offence, invariant
from helpers.schedules.run import Run, Step
from helpers.schedules.statements import literal

TEXTS = {
    "one_current": "one current attempt a task",
    "never_repeat": "attempts never repeat",
    "only_current": "only the current attempt completes, renews or fails",
    "within": "an attempt completes, renews or fails before its lease ends",
    "in_force": "a claim or a renewal gives a lease in force",
    "not_lost": "no task is lost",
    "finished": "a finished task is not claimed",
    "allowed": "no more attempts than allowed, and no fewer before a task fails",
    "one_task": "a claim takes one task",
    "no_waiting": "claims do not wait",
    "committed": "the claim is committed before the work",
    "comes_back": "every step comes to its end",
    "errors": "no unexpected error",
    "claimed_twice": "{who} claimed #{task}, which {other} had claimed and was still working on",
    "claimed_in_force": "{who} claimed #{task} as attempt {attempt}, while {other}'s lease on it was still in force",
    "reset_in_force": "{who} set #{task} to {status}, while {other}'s lease on it was in force: slow is not dead",
    "number_again": "attempt {attempt} of #{task} was given twice: to {other}, then to {who}",
    "number_less": "the attempt number of #{task} went down from {before} to {attempt}",
    "other_attempt": "{who} {did} #{task}, but its current attempt {attempt} belongs to {other}",
    "after_end": "{who} {did} #{task} as attempt {attempt}, after the lease of that attempt had ended",
    "again": "{who} {did} #{task}, which was {before} already",
    "no_attempt": "{who} {did} #{task}, and nobody had a claim on it",
    "looked": ". It had looked before, in a SELECT: what that saw was true then, and not any more",
    "dead_lease": (
        "{who} claimed #{task} as attempt {attempt} with a lease that had already ended by the database's clock: "
        "it was counted from another time than the moment of the claim"
    ),
    "dead_renewal": (
        "{who} renewed #{task} as attempt {attempt} with a lease that had already ended by the database's clock: "
        "it was counted from another time than the moment of the renewal"
    ),
    "no_lease": "#{task} is processing, and has no lease that could end: no claim will ever find it",
    "endless": "#{task} is processing, and its lease never ends",
    "not_rescued": "#{task} is {status}; all leases have ended, and one more claim still does not get it",
    "claimed_finished": "{who} claimed #{task}, which was {before} already",
    "too_many": "#{task} has had {attempts} attempts, and {most} were allowed",
    "too_few": "#{task} is failed after {attempts} of its {most} attempts: it should be tried again",
    "many": "one statement of {who} claimed {count} tasks",
    "waited": "{who}'s claim waited for {others}: a claim without SKIP LOCKED stands in line behind another's lock",
    "open": "{who} was at {point} inside an open transaction: its claim was not committed yet, and its locks were held",
    "error": "{who} ended with {kind}: {message}",
}


@invariant(TEXTS["one_current"])
def one_current_attempt(run: Run) -> Offence | None:
    """While a claim is in force, nobody else claims its task, or sets it back to pending."""
    for change in changes(run):
        holder = change.holder
        if holder is None or holder.who == change.who or not holder.in_force(change.row["at"]):
            continue
        if change.is_claim:
            return change.offence(TEXTS["claimed_twice" if holder.lease is None else "claimed_in_force"], holder.claim)
        if change.row["new_status"] == "pending" and not change.had_claimed:
            return change.offence(TEXTS["reset_in_force"], holder.claim)
    return None


@invariant(TEXTS["never_repeat"])
def attempts_never_repeat(run: Run) -> Offence | None:
    """Each claim of a task has a higher attempt number than all claims before it, and the number never goes down."""
    highest: dict[int, Change] = {}
    for change in changes(run):
        attempt, before = change.row["attempt"], highest.get(change.row["task_id"])
        if attempt is None:
            continue
        if before and attempt < before.row["attempt"]:
            return change.offence(TEXTS["number_less"], before.row, before=before.row["attempt"])
        if change.is_claim:
            if before and attempt == before.row["attempt"]:
                return change.offence(TEXTS["number_again"], before.row, other=before.who)
            highest[change.row["task_id"]] = change
    return None


@invariant(TEXTS["only_current"])
def only_current_attempt(run: Run) -> Offence | None:
    """Who completes, renews or fails a task, or gives it back, holds its current attempt."""
    for change in changes(run):
        row, holder = change.row, change.holder
        if change.is_claim or change.gives_up:
            continue
        if row["new_status"] == "pending" and (row["old_status"] == "failed" or not change.had_claimed):
            continue  # requeued, or set back by somebody who looks after dead workers: see one_current_attempt
        if row["old_status"] in FINISHED:
            return _who_looked(run, change.who, change.offence(TEXTS["again"]))
        if holder is None or row["old_status"] != "processing":
            return _who_looked(run, change.who, change.offence(TEXTS["no_attempt"]))
        if holder.who != change.who:
            return _who_looked(run, change.who, change.offence(TEXTS["other_attempt"], holder.claim))
    return None


@invariant(TEXTS["within"])
def within_the_lease(run: Run) -> Offence | None:
    """Who completes, renews or fails a task, or gives it back, does it before the lease of its attempt ends."""
    for change in changes(run):
        holder = change.holder
        if change.is_claim or change.gives_up or holder is None or holder.who != change.who:
            continue
        if not holder.in_force(change.row["at"]):
            return _who_looked(run, change.who, change.offence(TEXTS["after_end"], holder.claim))
    return None


@invariant(TEXTS["in_force"])
def lease_in_force(run: Run) -> Offence | None:
    """A lease ends later than the moment of the claim, or of the renewal, by the database's clock."""
    for change in changes(run):
        lease = change.row["lease_until"]
        if lease is None or lease > change.row["at"]:
            continue
        if change.is_claim or (change.renews and not change.ends):
            return change.offence(TEXTS["dead_lease" if change.is_claim else "dead_renewal"])
    return None


@invariant(TEXTS["finished"])
def finished_is_finished(run: Run) -> Offence | None:
    """A task that is completed or failed is claimed by nobody. A failed one may be set to pending before."""
    for change in changes(run):
        if change.is_claim and change.row["old_status"] in FINISHED:
            return change.offence(TEXTS["claimed_finished"])
    return None


@invariant(TEXTS["allowed"])
def attempts_are_counted(run: Run) -> Offence | None:
    """A claim counts as an attempt: none beyond `max_attempts`, and only behind the last one a task is failed."""
    for row in (*run.rows, *(run.rescued or ())):
        attempts, most = row.get("attempts"), row.get("max_attempts")  # the second since lesson 5
        if attempts is None or most is None:
            continue
        text = "too_many" if attempts > most else "too_few" if row["status"] == "failed" and attempts < most else None
        if text:
            return Offence(TEXTS[text].format(task=row["id"], attempts=attempts, most=most), (row,))
    return None


@invariant(TEXTS["not_lost"])
def no_task_lost(run: Run) -> Offence | None:
    """When all leases have ended, a claim gets every task that is not finished.

    With `Program.rescue` that is tried; without, a task that is processing must have a lease that ends.
    """
    if run.lost:
        return None
    for row in run.rows:
        lease = row.get("lease_until")
        if row.get("status") == "processing" and lease is None:
            return Offence(TEXTS["no_lease"].format(task=row["id"]), (row,))
        if row.get("status") == "processing" and lease is not None and lease.year == datetime.max.year:
            return Offence(TEXTS["endless"].format(task=row["id"]), (row,))
    if run.rescued is None:
        return None
    after = {row["id"]: row for row in run.rescued}
    for row in run.rows:
        if row.get("status") in ("pending", "processing") and after.get(row["id"]) == row:
            return Offence(TEXTS["not_rescued"].format(task=row["id"], status=row["status"]), (row,))
    return None


@invariant(TEXTS["one_task"])
def one_task_a_claim(run: Run) -> Offence | None:
    """No statement that claims changes more than one row. Not for claims of batches."""
    for step in _returned(run):
        if step.call and step.call.rowcount > 1 and _claims(step):
            return Offence(TEXTS["many"].format(who=step.actor, count=step.call.rowcount), tuple(run.rows))
    return None


@invariant(TEXTS["no_waiting"])
def claims_do_not_wait(run: Run) -> Offence | None:
    """No statement that looks for a task, or claims one, waits for another actor's lock."""
    for step in run.steps:
        if step.what == "waits" and (_claims(step) or _locks(step)):
            return Offence(TEXTS["waited"].format(who=step.actor, others=" and ".join(step.waits_for)))
    return None


@invariant(TEXTS["committed"])
def claim_committed_before_work(run: Run) -> Offence | None:
    """At every `mark(...)` of an actor, its transaction has ended: the claim is visible, and no lock is held."""
    for step in _returned(run):
        if step.call and step.call.kind == "mark" and not step.call.idle:
            return Offence(TEXTS["open"].format(who=step.actor, point=f'mark("{step.call.text}")'))
    return None


@invariant(TEXTS["comes_back"])
def comes_back(run: Run) -> Offence | None:
    """No actor is lost in an endless loop, or behind a lock that nobody releases. Every exploration checks this."""
    return Offence(run.lost) if run.lost else None


def no_error_but(*expected: type[BaseException]) -> Invariant:
    """The rule that no actor ends with an exception of another class than these."""

    def check(run: Run) -> Offence | None:
        for who, result in run.results.items():
            if isinstance(result, BaseException) and not isinstance(result, expected):
                lines = str(result).strip().splitlines() or [""]
                return Offence(TEXTS["error"].format(who=who, kind=type(result).__name__, message=lines[0]))
        return None

    return Invariant(TEXTS["errors"], check)


def _who_looked(run: Run, who: str, offence: Offence) -> Offence:
    """The offence, with a remark where the actor's last UPDATE relied on a SELECT of the same transaction.

    The last one that changed a row: what the offender sends behind its offence is often refused.
    """
    calls = [step.call for step in _returned(run) if step.actor == who and step.call]
    writes = [n for n, call in enumerate(calls) if call.text.lstrip()[:6].upper() == "UPDATE" and call.rowcount]
    before = calls[writes[-1] - 1] if writes and writes[-1] > 0 else None
    if before is None or not re.match(r"\s*SELECT\b(?!.*\bFOR\s+(NO\s+KEY\s+)?UPDATE)", before.text, re.I | re.S):
        return offence
    return replace(offence, sentence=offence.sentence + TEXTS["looked"])


def _returned(run: Run) -> Iterator[Step]:
    return (step for step in run.steps if step.what in ("did", "continues"))


def _claims(step: Step) -> bool:
    text = literal(step.call) if step.call else ""
    return (
        re.search(r"\bupdate\b.*?\bset\b((?!\bwhere\b).)*\bstatus\s*=\s*'(processing|running)'", text, re.I | re.S)
        is not None
    )


def _locks(step: Step) -> bool:
    text = step.call.text if step.call else ""
    return re.search(r"\bselect\b.*\bfor\s+(no\s+key\s+)?(update|share)\b", text, re.I | re.S) is not None


# What the course asks of a queue with leases and attempts.
LEASED_QUEUE = (
    one_current_attempt,
    attempts_never_repeat,
    only_current_attempt,
    within_the_lease,
    lease_in_force,
    finished_is_finished,
    attempts_are_counted,
    one_task_a_claim,
    no_task_lost,
    claims_do_not_wait,
    claim_committed_before_work,
    no_error_but(StaleClaimError),
)


def first_offence(rules: Iterable[Invariant], run: Run) -> tuple[str, Offence] | None:
    """The first of the rules that the run broke, by its name, with the offence; `comes_back` stands before them all."""
    for rule in (comes_back, *rules):
        if offence := rule.check(run):
            return rule.name, offence
    return None
