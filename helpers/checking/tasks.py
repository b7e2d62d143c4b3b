"""Rows for the checks to begin with, and the rows that a learner's function has left."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from helpers.checking import database
from helpers.checking.calls import article

CLEAR = "DELETE FROM backend_training.tasks; DELETE FROM backend_training.task_events;"
EMPTY = (
    "TRUNCATE backend_training.tasks, backend_training.task_events;"  # slower; the next rows stand in order of writing
)
ROW = "INSERT INTO backend_training.tasks (id, type) VALUES ({id}, 'generate_report')"
ONE_TASK = f"{CLEAR} {ROW.format(id=42)}"
# Written from the last to the first: so a claim without ORDER BY finds #44.
THREE_TASKS = f"{CLEAR} {ROW.format(id=44)}; {ROW.format(id=43)}; {ROW.format(id=42)}"
IN_ORDER = f"{EMPTY} {ROW.format(id=42)}; {ROW.format(id=43)}; {ROW.format(id=44)}"
OTHER_PLANS = ("hashjoin", "mergejoin", "material", "hashagg", "sort")  # what is left runs a subquery again and again
LOCKER = "L"  # the session that only holds a lock
LEASE = 10.0  # seconds, of the workers in the schedules: their clock is a virtual one
LONG_LEASE = 600  # seconds, of a call with nobody else there

Rows: TypeAlias = dict[int, dict[str, Any]]  # by id


def not_a_task(task: object, keys: tuple[str, ...], why: Mapping[str, str]) -> str | None:
    """The sentence where this is no mapping with these keys, or None."""
    if not isinstance(task, Mapping):
        return why["not_mapping"].format(kind=article(type(task).__name__))
    missing = [key for key in keys if key not in task]
    return why["keys"].format(key=missing[0]) if missing else None


def locking(task_id: int) -> tuple[str, ...]:
    """What a session does that locks one row for a while."""
    lock = f"SELECT id FROM backend_training.tasks WHERE id = {task_id:d} FOR UPDATE"  # noqa: S608
    return "BEGIN", lock, "ROLLBACK"


def rows_by_id(columns: str = "*, clock_timestamp() AS now") -> Rows:
    """The tasks as they are committed now, and what time it is. `columns` is text of this project."""
    return {int(str(row["id"])): row for row in database.read_rows(columns)}


def facts(row: Mapping[str, Any]) -> dict[str, Any]:
    """What the mere passing of time does not change."""
    return {name: value for name, value in row.items() if name != "now"}


def changed(before: Rows, after: Rows) -> list[int]:
    """The ids of the tasks that are not as they were."""
    return [task_id for task_id in after if facts(after[task_id]) != facts(before[task_id])]
