"""What the ledger says of each task: who claimed it, whose claim was in force, and who changed it then.

An actor's session calls itself `worker:A`, and the ledger's trigger notes that beside each change.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from helpers.schedules.rule import Offence
from helpers.schedules.run import Row, Run

DID = {"completed": "completed", "processing": "renewed", "failed": "failed", "pending": "gave back"}
FINISHED = ("completed", "failed")


@dataclass
class Holder:
    """Whose attempt is the current one, as far as the ledger has been read."""

    who: str
    attempt: int | None
    lease: datetime | None
    claim: Row

    def in_force(self, at: datetime) -> bool:
        """A claim without a lease, as in the lessons before the fourth, is in force until its task is finished."""
        return self.lease is None or self.lease > at


@dataclass(frozen=True)
class Change:
    """One change of a task by an actor: who it was (`A`), and whose attempt was the current one just before it."""

    row: Row
    who: str
    holder: Holder | None
    is_claim: bool  # or else a renewal, a completion, a failure, a return
    had_claimed: bool  # the actor claimed this task earlier in the run

    @property
    def renews(self) -> bool:
        """The lease is another one, and the status is as before; also where the task is not being processed."""
        same = self.row["old_status"] == self.row["new_status"]
        return same and not self.is_claim and (self.row["lease_until"] is not None or not self.ends)

    @property
    def ends(self) -> bool:
        """Behind this change nobody holds the task."""
        return bool(self.row["new_status"] != "processing")

    @property
    def gives_up(self) -> bool:
        """A claim has found an abandoned task without attempts left, and sets it to failed instead of taking it.

        The ledger does not tell it from a failure that its own worker notes too late, which has the same result.
        """
        abandoned = self.holder is None or not self.holder.in_force(self.row["at"])
        return abandoned and self.row["old_status"] == "processing" and self.row["new_status"] == "failed"

    @property
    def did(self) -> str:
        new = str(self.row["new_status"])
        return DID["processing"] if self.renews else DID.get(new, new)

    def offence(self, sentence: str, *rows: Row, **more: Any) -> Offence:
        """The sentence about this change, with the facts of it in its {places}, and the rows that show it."""
        facts = {"who": self.who, "task": self.row["task_id"], "attempt": self.row["attempt"], "did": self.did}
        facts |= {"status": self.row["new_status"], "before": self.row["old_status"]}
        facts |= {"other": self.holder.who if self.holder else None}
        return Offence(sentence.format(**(facts | more)), (*rows, self.row))


def changes(run: Run) -> Iterator[Change]:
    """The actors' changes of tasks, in the order in which they were written.

    What others change (a script, a person in psql) is nobody's offence. It counts for what comes after it.
    """
    holders: dict[int, Holder] = {}
    claimers: set[tuple[int, str]] = set()
    for row in run.ledger:
        if row["event"] != "update":
            continue
        is_actor = str(row["actor"]).startswith("worker:")
        who, task = str(row["actor"]).removeprefix("worker:"), row["task_id"]
        holder, had_claimed = holders.get(task), (task, who) in claimers
        is_claim = row["new_status"] == "processing"
        if is_claim and row["old_status"] == "processing" and holder and row["attempt"] == holder.attempt:
            # The same number again: a renewal, unless it is an actor that has not claimed the task before.
            is_claim = is_actor and not had_claimed
        change = Change(row, who, holder, is_claim, had_claimed)
        if is_actor:
            yield change
        if is_claim:
            holders[task] = Holder(who, row["attempt"], row["lease_until"], row)
            claimers.add((task, who))
        elif change.ends:
            holders.pop(task, None)
        elif holder is not None:
            holder.lease = row["lease_until"]
