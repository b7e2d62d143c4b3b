"""From rows to a story: the one place that interprets the ledger, for the picture and for the text alike."""

from collections import Counter
from collections.abc import Hashable
from typing import Any

import pandas as pd

from helpers.views.frames import rows_of
from helpers.views.story import (
    ABANDONED,
    COMPLETED,
    EXPIRED,
    FAILED,
    PENDING,
    STALE,
    WORKING,
    Fact,
    Lane,
    Mark,
    Story,
    is_worker,
)

Row = dict[Hashable, Any]
ENDS = ("still_working", "nobody_works", "pending_again", "stayed_pending")  # what is said last, in this order


def read_story(ledger: pd.DataFrame, tasks: list[int] | None = None, until: float | None = None) -> Story:
    """The story of all tasks or of `tasks`, up to `until` seconds (else up to the last row)."""
    reader = _Reader()
    rows = [row for row in rows_of(ledger) if until is None or row["seconds"] <= until]
    for row in rows:
        reader.read(row)
    story = reader.finish(max((row["seconds"] for row in rows), default=0.0) if until is None else until)
    if tasks is not None:
        story.lanes = [lane for lane in story.lanes if lane.task in tasks]
        story.statuses = {task: status for task, status in story.statuses.items() if task in tasks}
        actors = {lane.actor for lane in story.lanes}
        story.facts = [f for f in story.facts if f.task in tasks or (f.task is None and f.actor in actors)]
    return story


class _Reader:
    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self.lanes: list[Lane] = []
        self.statuses: dict[int, str] = {}  # of the tasks that exist
        self.owners: dict[int, Lane] = {}  # the lane that the row in the table belongs to
        self.completed_by: dict[int, Lane] = {}
        self.runs: Counter[str] = Counter()

    def read(self, row: Row) -> None:
        """Take one row in. An event that is not known here is passed over: later lessons may add some."""
        if row["task_id"] in self.owners:
            self.note_lease_end(self.owners[row["task_id"]], row["seconds"])
        if row["event"] == "insert":
            self.inserted(row)
        elif row["event"] == "delete":
            self.deleted(row)
        elif row["event"] == "update":
            {"processing": self.to_processing, "completed": self.to_completed}.get(row["new_status"], self.to_other)(
                row
            )
        elif row["event"] == "started":
            self.runs[row["actor"]] += 1
            if self.runs[row["actor"]] > 1:
                self.facts.append(Fact("restarted", row["actor"]))
        elif row["event"] == "idle":
            self.facts.append(Fact("idle", row["actor"]))
        elif row["event"] in ("holding", "effect", "refused", "failed"):
            self.acted(row)
        elif row["event"] in ("crashed", "killed", "exited", "frozen", "woken", "asked_to_stop"):
            self.process_changed(row)

    # --- changes of the row, noted by the trigger ---

    def inserted(self, row: Row) -> None:
        lane = Lane(row["task_id"])
        self.lanes.append(lane)
        self.statuses[lane.task] = row["new_status"]
        self.completed_by.pop(lane.task, None)
        if row["new_status"] == "pending":
            lane.enter(PENDING, row["seconds"])
        elif row["new_status"] == "processing":  # for example a row from before the migration
            lane.enter(ABANDONED, row["seconds"])
            lane.set_lease(row["lease_end"], row["seconds"])
            self.owners[lane.task] = lane
            self.facts.append(Fact("was_processing", task=lane.task))

    def deleted(self, row: Row) -> None:
        lane = self.owners.get(row["task_id"]) or self.newest(row["task_id"])
        self.lose_row(row)
        self.statuses.pop(row["task_id"], None)
        lane.marks.append(Mark("deleted", row["seconds"], row["actor"]))
        if lane.state in (PENDING, ABANDONED):
            lane.enter(None, row["seconds"])
        self.facts.append(Fact("deleted", row["actor"], row["task_id"]))

    def to_processing(self, row: Row) -> None:
        task, attempt, actor, at = row["task_id"], row["attempt"], row["actor"], row["seconds"]
        owner = self.owners.get(task)
        again = owner is not None and row["old_status"] == "processing" and owner.attempt == attempt
        if owner and again and (owner.actor == actor or (not is_worker(actor) and attempt is not None)):
            self.lease_changed(owner, row)
            return
        by_hand = not is_worker(actor) and not attempt  # a claim of the later lessons raises the attempt number
        kind, detail = ("set_status", "processing") if by_hand else ("claimed", "")
        if owner and row["old_status"] == "processing" and not by_hand:
            kind = "taken_over"
            if attempt is None and owner.open:
                kind = "claimed_too"
            elif owner.lease_end is not None and not owner.lease_over:
                kind = "taken_over_early"
        if kind != "claimed_too":  # two naive claims: neither worker knows of the other, and both go on
            self.lose_row(row)
        lane = self.newest(task)
        if lane.actor is not None or lane.state != PENDING:
            lane = Lane(task)
            self.lanes.append(lane)
        lane.attempt, lane.actor, lane.run, lane.open = attempt or None, actor, self.runs[actor], True
        lane.enter(WORKING, at)
        lane.set_lease(row["lease_end"], at)
        lane.marks.append(Mark(kind, at, actor))
        self.owners[task], self.statuses[task] = lane, "processing"
        self.facts.append(Fact(kind, actor, task, lane.attempt, detail=detail))

    def lease_changed(self, owner: Lane, row: Row) -> None:
        if row["lease_end"] == owner.lease_end:
            return
        later = row["lease_end"] is not None and (owner.lease_end is None or row["lease_end"] > owner.lease_end)
        if later and not owner.lease_over and owner.leases:
            owner.lease_end = row["lease_end"]  # the same band, longer
        else:
            owner.set_lease(row["lease_end"], row["seconds"])
        if row["actor"] == owner.actor and later:
            owner.renewals.append(row["seconds"])
            if len(owner.renewals) == 1:  # how often, and beside what else, depends on the clock
                owner.marks.append(Mark("renewed", row["seconds"], row["actor"]))
                self.facts.append(Fact("renewed", row["actor"], owner.task, owner.attempt))
        else:
            owner.marks.append(Mark("lease_moved", row["seconds"], row["actor"]))
            self.facts.append(Fact("lease_moved", row["actor"], owner.task, owner.attempt))

    def to_completed(self, row: Row) -> None:
        task, actor, at = row["task_id"], row["actor"], row["seconds"]
        owner = self.owners.get(task)
        own = next((lane for lane in reversed(self.lanes) if lane.task == task and lane.actor == actor), None)
        lane = own or owner or self.newest(task)
        stale = bool(owner and own and owner is not own and row["attempt"] is not None)
        kind = "completed"
        if not is_worker(actor) and own is None:
            kind = "set_status"
            if row["old_status"] == "completed":
                return
        elif row["old_status"] == "completed":
            kind = "completed_again"
        elif row["attempt"] is not None and owner and owner.actor != actor:
            kind, lane = "completed_other", owner
        lane.marks.append(Mark(kind, at, actor))
        self.facts.append(Fact(kind, actor, task, (own or lane).attempt, stale=stale, detail="completed"))
        if own:
            own.open = False
            own.enter(None, at)
        if kind != "completed_again":
            if row["attempt"] is None and owner is not None and owner is not lane:
                del self.owners[task]  # two naive claims: the other worker goes on
            else:
                self.lose_row(row)
            self.statuses[task], self.completed_by[task] = "completed", lane
            lane.enter(COMPLETED, at)

    def to_other(self, row: Row) -> None:
        """To pending, to failed, or to a status that is not known here."""
        task, actor, at, status = row["task_id"], row["actor"], row["seconds"], row["new_status"]
        if status == row["old_status"] or status is None:
            return
        owner = self.owners.get(task)
        kind = {"pending": "set_back"}.get(status, "set_status")
        if row["old_status"] == "failed" and status == "pending":
            kind = "requeued"
        elif is_worker(actor):
            kind = {"pending": "returned", "failed": "gave_up"}.get(status, "set_status")
            if kind == "returned" and owner and owner.actor == actor and owner.failed:
                kind = "retry"
            elif kind == "gave_up" and owner and owner.actor != actor:  # the claim of a task that has no attempt left
                kind = "gave_up_other"
        lane = owner or self.newest(task)
        if owner and owner.actor == actor:
            owner.open = False
        lane.marks.append(Mark(kind, at, actor))
        self.facts.append(Fact(kind, actor, task, lane.attempt, detail=status))
        self.lose_row(row)
        self.statuses[task] = status
        if status == "pending":  # the next claim goes on with this lane
            if lane.state not in (WORKING, STALE):
                lane.enter(None, at)
            self.lanes.append(Lane(task))
            self.lanes[-1].enter(PENDING, at)
        elif status == "failed":
            lane.enter(FAILED, at)

    def lose_row(self, row: Row) -> None:
        """The task's row no longer belongs to its owner, who may not know that yet."""
        owner = self.owners.pop(row["task_id"], None)
        if owner is not None:
            owner.set_lease(None, row["seconds"])
            owner.enter(STALE if owner.open else None, row["seconds"])

    # --- what only a process knows ---

    def acted(self, row: Row) -> None:
        lane = self.find(row) if row["task_id"] is not None else None
        if lane is None or lane.actor is None:
            if row["event"] == "holding":  # before its claim
                self.facts.append(Fact("holding", row["actor"]))
            return
        stale = lane.attempt is not None and (self.owners.get(lane.task) is not lane or lane.lease_over)
        kind, detail = row["event"], ""
        lane.waits = lane.waits or kind == "holding"
        lane.failed = lane.failed or kind == "failed"
        if kind == "refused":
            kind = "refused_renewal" if "renewal" in str(row["detail"]) else "refused"
            detail = self.reason(lane)
            self.stop(lane, row["seconds"])
        if kind != "holding":
            lane.marks.append(Mark(kind, row["seconds"], lane.actor))
        self.facts.append(Fact(kind, lane.actor, lane.task, lane.attempt, stale, detail))

    def reason(self, lane: Lane) -> str:
        """Why a completion was refused, as far as the rows show it: the latest of the possible reasons."""
        owner, completed = self.owners.get(lane.task), self.completed_by.get(lane.task)
        if lane.task not in self.statuses:
            return "gone"
        if self.statuses[lane.task] == "completed":
            by = completed.attempt if completed and completed is not lane else None
            return f"completed {by}" if by else "already_completed"
        if owner is not None and owner is not lane:
            return f"newer {owner.attempt}"
        if owner is None:
            return "not_processing"
        return "expired" if lane.lease_over else "unknown"

    def process_changed(self, row: Row) -> None:
        """Crashed, killed, exited, frozen, woken, asked to stop: this concerns all attempts that it has in hand."""
        actor, at, kind = row["actor"], row["seconds"], row["event"]
        lanes = [x for x in self.lanes if x.actor == actor and x.open and x.run == self.runs[actor]]
        if kind == "exited":
            if not lanes:
                return  # the usual end: nothing was left undone
            kind = "ended"
        for lane in lanes:
            self.note_lease_end(lane, at)
            lane.marks.append(Mark(kind, at, actor))
            if kind == "frozen" and lane.state == WORKING:
                lane.enter(ABANDONED, at)
            elif kind == "woken" and lane.state == ABANDONED:
                lane.enter(WORKING, at)
            elif kind in ("crashed", "killed", "ended"):
                self.stop(lane, at)
        detail = (row["detail"] or "") if kind == "crashed" else ""
        attempt = lanes[0].attempt if len(lanes) == 1 else None
        tasks = [lane.task for lane in lanes] if kind == "ended" or len(lanes) == 1 else [row["task_id"]]
        for task in tasks:
            self.facts.append(Fact(kind, actor, task, attempt, detail=detail))

    def stop(self, lane: Lane, at: float) -> None:
        """Nobody works for this attempt any more. Its row stays as it is."""
        lane.open = False
        if lane.state not in (COMPLETED, FAILED):  # where somebody else has given the task up, it stays so
            lane.enter(ABANDONED if self.owners.get(lane.task) is lane else None, at)

    # --- help ---

    def newest(self, task: int) -> Lane:
        lane = next((lane for lane in reversed(self.lanes) if lane.task == task), None)
        if lane is None:  # the task is older than the ledger
            lane = Lane(task)
            self.lanes.append(lane)
        return lane

    def find(self, row: Row) -> Lane | None:
        """The newest lane that fits what the row says of worker, task and attempt."""
        for lane in reversed(self.lanes):
            fits = row["task_id"] == lane.task and row["attempt"] in (None, lane.attempt)
            if lane.actor == row["actor"] and fits:
                return lane
        return None

    def note_lease_end(self, lane: Lane, at: float) -> None:
        if lane.lease_end is None or lane.lease_over or lane.lease_end > at:
            return
        lane.lease_over = True
        lane.leases[-1].end, lane.leases[-1].kind = lane.lease_end, EXPIRED
        lane.marks.append(Mark("lease_ended", lane.lease_end, lane.actor or ""))
        self.facts.append(Fact("lease_ended", lane.actor or "", lane.task, lane.attempt))

    def finish(self, now: float) -> Story:
        for lane in self.owners.values():
            self.note_lease_end(lane, now)
        claimed = {lane.task for lane in self.lanes if lane.actor is not None}
        ends: list[Fact] = []
        for task, status in sorted(self.statuses.items()):
            if status == "processing":
                working = task in self.owners and self.owners[task].state == WORKING
                ends.append(Fact("still_working" if working else "nobody_works", task=task))
            elif status == "pending":
                ends.append(Fact("pending_again" if task in claimed else "stayed_pending", task=task))
        order = {id(lane): number for number, lane in enumerate(self.lanes)}
        lanes = sorted(self.lanes, key=lambda lane: (lane.task, order[id(lane)]))
        for lane in lanes:
            lane.marks.sort(key=lambda mark: mark.at)  # stable: rows of the same moment keep their order
        ends.sort(key=lambda fact: ENDS.index(fact.kind))
        return Story(self.facts + ends, lanes, self.statuses, now)
