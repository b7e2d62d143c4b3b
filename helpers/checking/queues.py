"""Queues that are made for a check, with priorities, ages and histories; and what must be true of a claim in them.

For the exercises of the lessons 7 and 8. The sentences are those of the exercise, in its `[why]`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias

from helpers.checking import database
from helpers.checking.calls import CALL_SECONDS, Outcome
from helpers.checking.orders import sqlstate
from helpers.checking.tasks import CLEAR, EMPTY, Rows, changed, not_a_task, rows_by_id
from helpers.models import PRIORITIES

KEYS = ("id", "type", "attempts", "lease_until")

Texts: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True)
class Made:
    """A task of a made queue. Times are in seconds from now: what is below 0 of `lease` and `retry` has passed."""

    id: int
    priority: str
    age: int
    status: str = "pending"
    attempts: int = 0
    lease: int | None = None
    retry: int | None = None
    max_attempts: int = 3

    @property
    def rank(self) -> int:
        """0 for the most urgent priority."""
        return PRIORITIES.index(self.priority)

    @property
    def spent(self) -> bool:
        """Nobody is at work on it, and no attempt is left: it is to be given up."""
        abandoned = self.status == "processing" and self.lease is not None and self.lease < 0
        return self.attempts >= self.max_attempts and (self.status == "pending" or abandoned)

    @property
    def free(self) -> bool:
        """It can be claimed, unless another session has locked it."""
        if self.status == "processing":
            return self.lease is not None and self.lease < 0 and not self.spent
        return self.status == "pending" and (self.retry is None or self.retry < 0) and not self.spent

    def shown(self) -> dict[str, str]:
        """For a table: what decides about a claim."""
        lease = "" if self.lease is None else f"{self.lease} s"
        retry = "" if self.retry is None else f"in {self.retry} s" if self.retry > 0 else f"{-self.retry} s ago"
        facts = {"id": self.id, "priority": self.priority, "status": self.status, "created": f"{self.age} s ago"}
        facts |= {"attempts": f"{self.attempts} of {self.max_attempts}", "lease": lease, "retry": retry}
        return {name: str(fact) for name, fact in facts.items()}


def made(tasks: Sequence[Made], clear: str = EMPTY) -> str:
    """The SQL that puts these tasks in place, and no others. They stand in the table's file in this order.

    Their times are whole seconds, so that two ages which should be equal are equal also where one is computed.
    """
    if not tasks:
        return clear
    rows = ", ".join(_values(task) for task in tasks)
    return f"""{clear}
        INSERT INTO backend_training.tasks
            (id, type, priority, created_at, status, attempts, max_attempts, lease_until, retry_at)
        VALUES {rows}"""  # noqa: S608 - the tasks are this project's


def _values(task: Made) -> str:
    def in_seconds(seconds: int | None) -> str:
        return "NULL" if seconds is None else f"clock_timestamp() + {seconds} * interval '1 second'"

    created_at = f"date_trunc('second', now()) - {task.age} * interval '1 second'"
    return (
        f"({task.id}, 'generate_report', '{task.priority}', {created_at}, '{task.status}', "
        f"{task.attempts}, {task.max_attempts}, {in_seconds(task.lease)}, {in_seconds(task.retry)})"
    )


def made_behind_the_planner(tasks: Sequence[Made]) -> str:
    """The same, while PostgreSQL plans with the statistics of a time at which the table had one row.

    Then it thinks that running a subquery again for each row costs nothing. What comes of that is seen where the tasks
    stand in the order in which they are claimed.
    """
    return f"{made(tasks[:1])}; ANALYZE backend_training.tasks; {made(tasks[1:], clear='')}"


def put(tasks: Sequence[Made]) -> None:
    database.set_rows(made(tasks))


# For the schedules. The order in the file is not the one in which they are claimed.
THREE_PRIORITIES = made([Made(42, "LOW", 50), Made(43, "MEDIUM", 40), Made(44, "HIGH", 30)], CLEAR)

# Every state a task can have. Free are #56, #57 and #58.
STATES = (
    Made(51, "HIGH", 900, "completed", 1),
    Made(52, "HIGH", 800, "failed", 3),
    Made(53, "HIGH", 700, retry=3600, attempts=1),
    Made(54, "HIGH", 600, "processing", 1, lease=3600),
    Made(55, "HIGH", 500, "processing", 1),
    Made(56, "MEDIUM", 400, retry=-5, attempts=1),
    Made(57, "LOW", 300, "processing", 2, lease=-5),
    Made(58, "LOW", 30),
    Made(59, "HIGH", 450, "processing", 3, lease=-5),
    Made(60, "MEDIUM", 350, attempts=3),
)


# The rows


def is_free(row: Mapping[str, Any]) -> bool:
    return _is_waiting(row) and row["attempts"] < row["max_attempts"] and not _waits_for_retry(row)


def is_spent(row: Mapping[str, Any]) -> bool:
    return _is_waiting(row) and row["attempts"] >= row["max_attempts"]


def _is_waiting(row: Mapping[str, Any]) -> bool:
    """Pending, or with a lease that has ended."""
    if row["status"] == "processing":
        return row["lease_until"] is not None and row["lease_until"] <= row["now"]
    return bool(row["status"] == "pending")


def _waits_for_retry(row: Mapping[str, Any]) -> bool:
    return row["status"] == "pending" and row["retry_at"] is not None and row["retry_at"] > row["now"]


def is_given_up(was: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """A task without an attempt left was set to failed: a claim may do that on its way."""
    failed: bool = row["status"] == "failed" and row["lease_until"] is None and row["attempts"] == was["attempts"]
    return is_spent(was) and failed


def wrong_claims(tasks: Sequence[Any], before: Rows, seconds: float, why: Texts, others_open: int = 0) -> str:
    """The sentence on what is wrong with these claims, which one call has returned; or nothing.

    What a task is, and what the rows say now. Not whether they are the right ones among those that were free.
    `others_open`: how many transactions the check itself has left open, to hold locks.
    """
    if database.open_transactions() > others_open:
        return str(why["open"])
    for task in tasks:
        if wrong := not_a_task(task, KEYS, why):
            return wrong
    after, ids = rows_by_id(), [task["id"] for task in tasks]
    for task_id in ids:
        if task_id not in before:
            return str(why["no_such_task"]).format(id=task_id)
        if ids.count(task_id) > 1:
            return str(why["twice"]).format(id=task_id)
        if not is_free(before[task_id]):
            return not_free(before[task_id], why)
    other = [n for n in changed(before, after) if not is_given_up(before[n], after[n])]
    if others := [f"#{task_id}" for task_id in other if task_id not in ids]:
        lost = [n for n in other if n not in ids and is_spent(before[n])]
        if lost and len(lost) == len(others):
            return str(why["given_up"]).format(id=lost[0], status=after[lost[0]]["status"])
        return str(why["others"]).format(others=", ".join(others))
    for task in tasks:
        if task["id"] not in other:
            return str(why["uncommitted"]).format(id=task["id"])
        if wrong := wrong_row(before[task["id"]], after[task["id"]], task, seconds, why):
            return wrong
    return ""


def not_free(row: Mapping[str, Any], why: Texts) -> str:
    """Why the task should not have been claimed."""
    if is_spent(row):
        key = "spent"
    elif row["status"] == "pending":
        key = "retry"
    elif row["status"] == "processing":
        key = "no_lease" if row["lease_until"] is None else "in_force"
    else:
        key = "finished"
    return str(why[key]).format(id=row["id"], status=row["status"], most=row["max_attempts"])


def wrong_row(was: Mapping[str, Any], row: Mapping[str, Any], task: Any, seconds: float, why: Texts) -> str:
    """The sentence on what is wrong with the row of a claimed task, or with what was returned of it."""
    if row["status"] != "processing":
        return str(why["status"]).format(id=row["id"], status=row["status"])
    if (row["attempts"], task["attempts"]) != (was["attempts"] + 1, was["attempts"] + 1):
        numbers = {"before": was["attempts"], "row": row["attempts"], "mapping": task["attempts"]}
        return str(why["attempts"]).format(id=row["id"], **numbers)
    if row["lease_until"] is None:
        return str(why["lease_null"]).format(id=row["id"])
    if row["lease_until"] <= row["now"]:
        return str(why["lease_old"]).format(id=row["id"])
    # The claim was made a moment ago, at most the time limit of a call.
    left = (row["lease_until"] - row["now"]) / timedelta(seconds=1)
    if not seconds - 2 * CALL_SECONDS < left <= seconds:
        return str(why["lease_length"]).format(id=row["id"], seconds=seconds)
    if row["retry_at"] is not None:
        return str(why["retry_left"]).format(id=row["id"])
    claimed = {"status", "attempts", "lease_until", "retry_at", "now"}
    if names := [name for name in row if name not in claimed and row[name] != was[name]]:
        return str(why["columns"]).format(names=", ".join(names))
    if task["lease_until"] != row["lease_until"]:
        return str(why["other_lease"]).format(id=row["id"])
    return ""


def why_raised(outcome: Outcome, why: Texts) -> str:
    """A sentence on the exception with which a call ended; nothing where it ended with none."""
    if outcome.error is None:
        return ""
    if sqlstate(outcome.error) == "42703":
        return str(why["column"])
    if isinstance(outcome.error, TypeError) and "offset-naive" in str(outcome.error):
        return str(why["naive_and_aware"])
    return outcome.why_raised


# For the schedules: when the clock is moved, a retry time comes and a lease ends; both are due by the database's clock.
LATER = made((Made(42, "HIGH", 30), Made(43, "MEDIUM", 40, retry=3600), Made(44, "LOW", 50, "processing", 1, 3600)))
