"""What a storm has left behind, rule by rule: read from the rows, from the ledger, and from the service's own rows."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from helpers.schedules.invariants import (
    attempts_never_repeat,
    lease_in_force,
    one_current_attempt,
    only_current_attempt,
    within_the_lease,
)
from helpers.schedules.rule import Offence
from helpers.schedules.run import Row, Run

# The ledger notes a change a moment after the UPDATE has looked at the clock. On a busy machine that may take a while.
SLACK = timedelta(seconds=1)

TEXTS = {
    "completed": "every task is completed",
    "not_completed": "{count} of {all} tasks are not completed; the first is #{task}: {status}, attempts {attempts}",
    "once": "each task was completed once, by its last attempt",
    "completed_twice": "#{task} was completed {times} times",
    "not_last": "#{task} was completed by attempt {attempt}, and its last attempt was {last}",
    "documents": "each task has one document",
    "no_document": "#{task} is completed and has no document",
    "many_documents": "#{task} has {times} documents",
}


@dataclass(frozen=True)
class Ruling:
    """One rule, and how it was broken: `offence` is None where it holds."""

    rule: str
    offence: Offence | None = None


def judge(tasks: Sequence[Row], ledger: Sequence[Row], documents: Mapping[int, int]) -> list[Ruling]:
    """All rules. `documents`: task id → how many documents the service has for it."""
    run = Run(rows=list(tasks), ledger=list(ledger))
    rules = one_current_attempt, attempts_never_repeat, only_current_attempt, lease_in_force
    return [
        Ruling(TEXTS["completed"], _not_completed(tasks)),
        Ruling(TEXTS["once"], _not_once(tasks, ledger)),
        Ruling(TEXTS["documents"], _wrong_documents(tasks, documents)),
        *(Ruling(rule.name, rule.check(run)) for rule in rules),
        Ruling(within_the_lease.name, _too_late(ledger)),
    ]


def _not_completed(tasks: Sequence[Row]) -> Offence | None:
    left = [task for task in tasks if task["status"] != "completed"]
    if not left:
        return None
    first = left[0]
    sentence = TEXTS["not_completed"].format(
        count=len(left), all=len(tasks), task=first["id"], status=first["status"], attempts=first["attempts"]
    )
    return Offence(sentence, tuple(left))


def _too_late(ledger: Sequence[Row]) -> Offence | None:
    """`within_the_lease`, with some slack: as if each change had been noted a little earlier."""
    offence = within_the_lease.check(Run(ledger=[{**row, "at": row["at"] - SLACK} for row in ledger]))
    if offence is None:
        return None
    shown = {row["id"] for row in offence.rows}
    return Offence(offence.sentence, tuple(row for row in ledger if row["id"] in shown))


def _not_once(tasks: Sequence[Row], ledger: Sequence[Row]) -> Offence | None:
    """A task without a completion is the first rule's business."""
    completions: defaultdict[int, list[Row]] = defaultdict(list)
    for row in ledger:
        if row["event"] == "update" and row["new_status"] == "completed":
            completions[row["task_id"]].append(row)
    for task in tasks:
        rows, last = completions[task["id"]], task["attempts"]
        if len(rows) > 1:
            return Offence(TEXTS["completed_twice"].format(task=task["id"], times=len(rows)), tuple(rows))
        if rows and rows[0]["attempt"] != last:
            text = TEXTS["not_last"].format(task=task["id"], attempt=rows[0]["attempt"], last=last)
            return Offence(text, (rows[0], task))
    return None


def _wrong_documents(tasks: Sequence[Row], documents: Mapping[int, int]) -> Offence | None:
    for task in tasks:
        count = documents.get(task["id"], 0)
        if count > 1:
            return Offence(TEXTS["many_documents"].format(task=task["id"], times=count), (task,))
        if count == 0 and task["status"] == "completed":
            return Offence(TEXTS["no_document"].format(task=task["id"]), (task,))
    return None
