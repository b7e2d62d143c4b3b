"""The calls with which `build_batch` is checked: examples, edge cases, times, errors, and what chance makes."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from functools import cache
from random import Random
from typing import Any

from helpers.checking.batches import right
from helpers.models import PRIORITIES

MOST_ROWS = 12  # of a case that is shown
START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)

TaskRow = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """The arguments of one call. `refused` names the sentence on why they are wrong, where they are."""

    tasks: list[TaskRow]
    quotas: dict[str, int]
    batch_size: int
    refused: str = ""

    @property
    def called(self) -> str:
        tasks = "tasks" if self.tasks else "[]"
        return f"build_batch({tasks}, {json.dumps(self.quotas)}, {self.batch_size})"

    def copy(self) -> "Case":
        return replace(self, tasks=[dict(task) for task in self.tasks], quotas=dict(self.quotas))

    @property
    def expected(self) -> list[int]:
        return right(self.tasks, self.quotas, self.batch_size)

    @property
    def rows(self) -> list[dict[str, str]]:
        """The tasks as a table; none where they are too many to look at."""
        if len(self.tasks) > MOST_ROWS:
            return []
        return [{name: str(value) for name, value in task.items()} for task in self.tasks]


def make(
    task_id: int, priority: str, minute: float = 0, *, status: str = "pending", locked: bool = False, zone: Any = UTC
) -> TaskRow:
    """A task that was created `minute` minutes after START. `zone`: how the time is written; None: naive, in UTC."""
    created_at = START + timedelta(minutes=minute)
    written = created_at.replace(tzinfo=None) if zone is None else created_at.astimezone(zone)
    return {"id": task_id, "priority": priority, "status": status, "locked": locked, "created_at": written}


# The tasks of the table in the exercise's text.
EXAMPLE = [
    make(41, "LOW", 0),
    make(42, "HIGH", 5),
    make(43, "MEDIUM", 1),
    make(44, "HIGH", 3),
    make(45, "HIGH", 2, locked=True),
    make(46, "LOW", -1, status="completed"),
    make(47, "MEDIUM", 4),
    make(48, "HIGH", 6),
]
EXAMPLES = [
    Case(EXAMPLE, {"HIGH": 2, "MEDIUM": 1, "LOW": 1}, 4),
    Case(EXAMPLE, {"HIGH": 2, "MEDIUM": 1, "LOW": 1}, 6),
    Case(EXAMPLE, {"HIGH": 2, "MEDIUM": 1, "LOW": 1}, 3),
    Case(EXAMPLE, {"HIGH": 1, "LOW": 1}, 3),
    Case(EXAMPLE, {}, 2),
    Case([], {"HIGH": 2}, 3),
]

_TIES = [make(9, "HIGH"), make(7, "HIGH"), make(8, "LOW"), make(3, "LOW"), make(5, "HIGH"), make(1, "LOW", 1)]
_ALL = [make(20 + n, priority, -n) for n, priority in enumerate(PRIORITIES * 3)]
EDGES = [
    Case(_TIES, {"HIGH": 2, "LOW": 1}, 3),
    Case(_TIES, {}, 6),
    Case(_ALL, {"HIGH": 2, "MEDIUM": 2, "LOW": 2}, 0),
    Case([{**task, "locked": True} for task in _ALL], {"HIGH": 2, "LOW": 1}, 4),
    Case(_ALL, {"HIGH": 3, "MEDIUM": 3, "LOW": 3}, 4),
    Case(_ALL, {"HIGH": 9, "MEDIUM": 9}, 2),
    Case(_ALL, {"HIGH": 0, "MEDIUM": 0, "LOW": 0}, 5),
    Case(_ALL, {"HIGH": 0, "LOW": 2}, 4),
    Case(_ALL, {"LOW": 1, "MEDIUM": 1, "HIGH": 1}, 3),
    Case(_ALL, {"HIGH": 100, "MEDIUM": 1}, 100),
    Case([task for task in _ALL if task["priority"] == "LOW"], {"HIGH": 2, "MEDIUM": 2}, 2),
]

EAST, WEST = timezone(timedelta(hours=3)), timezone(timedelta(hours=-5))
TIMES = [
    Case([make(n, "HIGH", -n, zone=zone) for n, zone in enumerate((WEST, UTC, EAST, UTC), 1)], {"HIGH": 2}, 3),
    Case([make(n, "LOW", n % 3, zone=None) for n in range(1, 6)], {"LOW": 2}, 4),
    Case([make(n, "HIGH", -n, zone=None if n % 2 else UTC) for n in range(1, 6)], {"HIGH": 2}, 4),
    Case([make(n, "MEDIUM", zone=(None, UTC, EAST)[n % 3]) for n in (6, 4, 2, 5, 1)], {"MEDIUM": 3}, 5),
]

ERRORS = [
    Case(EXAMPLE, {"HIGH": 1}, -1, "negative_size"),
    Case(EXAMPLE, {"HIGH": 1, "LOW": -2}, 3, "negative_quota"),
    Case(EXAMPLE, {"HIGH": 1, "URGENT": 2}, 3, "unknown_quota"),
    Case([*EXAMPLE, make(50, "URGENT")], {"HIGH": 1}, 3, "unknown_priority"),
    Case([], {"HIGH": -1}, 3, "nothing_to_do"),
    Case(EXAMPLE, {"HIGH": -1}, 0, "nothing_to_do"),
]


def random_case(random: Random, most_tasks: int, zones: Sequence[Any] = (UTC,)) -> Case:
    """A case with up to `most_tasks` tasks. Few times, so that there are ties; hours apart, as time zones are."""
    ids = random.sample(range(1, 100), random.randint(0, most_tasks))
    tasks = [
        make(
            task_id,
            random.choice(PRIORITIES),
            60 * random.randint(0, 4),
            status=random.choice(["pending"] * 6 + ["processing", "completed"]),
            locked=random.random() < 0.15,
            zone=random.choice(zones),
        )
        for task_id in ids
    ]
    quotas = {priority: random.randint(0, 3) for priority in PRIORITIES if random.random() < 0.8}
    return Case(tasks, quotas, random.randint(0, len(ids) + 1))


@cache
def probes(with_times: bool) -> tuple[Case, ...]:
    """The cases by whose results a known mistake is recognised."""
    random = Random(7)
    zones = (UTC, None, EAST, WEST) if with_times else (UTC,)
    return tuple(random_case(random, 8, zones) for _ in range(200))
