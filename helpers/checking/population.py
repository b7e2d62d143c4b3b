"""Tables in which much goes on: tasks of every status, attempt and lease, drawn from a seed.

They also hold rows that no code of today would write: a task in work without a lease, from before the migration; a
lease on a task that is pending or completed; a lease that ends in a year. Around the moments at which a lease turns
there is a minute on each side, and a second behind it: a call takes less than a minute, and what has ended stays so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from helpers.checking.tasks import EMPTY

FIRST_ID = 42
SIZE = 12
YEAR = 366 * 86_400
LEASES = (None, -YEAR, -3_600, -60, -1, 60, 3_600, YEAR)  # seconds until it ends
STATUSES = ("pending", "processing", "processing", "processing", "completed")  # most are in work, or were

TEXTS = {
    "member": "#{id}: {status}, attempts {attempts}, {lease}",
    "none": "no lease",
    "ended": "its lease ended {seconds} s ago",
    "in_force": "its lease ends in {seconds} s",
}


@dataclass(frozen=True)
class Member:
    """One task of a table. `seconds`: until its lease ends, counted from the writing of the row; None: no lease."""

    id: int
    status: str
    attempts: int
    seconds: int | None

    @property
    def expired(self) -> bool:
        return self.seconds is not None and self.seconds <= 0

    @property
    def in_force(self) -> bool:
        return self.seconds is not None and self.seconds > 0

    def __str__(self) -> str:
        key = "none" if self.seconds is None else "ended" if self.expired else "in_force"
        lease = TEXTS[key].format(seconds=abs(self.seconds or 0))
        return TEXTS["member"].format(id=self.id, status=self.status, attempts=self.attempts, lease=lease)

    @property
    def shown(self) -> dict[str, str]:
        """The row as a verdict shows it: what differs from run to run is told in words."""
        words = {"id": self.id, "status": self.status, "attempts": self.attempts, "lease": str(self).split(", ")[-1]}
        return {name: str(value) for name, value in words.items()}


Table: TypeAlias = tuple[Member, ...]


def population(seed: int) -> Table:
    """The table of this seed: the same on every machine."""
    random = Random(seed)
    return tuple(
        Member(FIRST_ID + place, random.choice(STATUSES), random.randrange(4), random.choice(LEASES))
        for place in range(SIZE)
    )


def insert(table: Table) -> str:
    """The SQL that makes the table anew, written from the last id to the first: all of it is text of this module."""
    sql = EMPTY
    for member in sorted(table, key=lambda member: -member.id):
        lease = "NULL" if member.seconds is None else f"clock_timestamp() + {member.seconds} * interval '1 s'"
        sql += (
            "INSERT INTO backend_training.tasks (id, type, status, attempts, lease_until) "  # noqa: S608
            f"VALUES ({member.id}, 'generate_report', '{member.status}', {member.attempts}, {lease});"
        )
    return sql


def shrunk(table: Table, still_wrong: Callable[[Table], bool]) -> Table:
    """The table without all the members that the mistake does not need."""
    for member in table:
        smaller = tuple(other for other in table if other is not member)
        if smaller and still_wrong(smaller):
            table = smaller
    return table


def rows_of(table: Sequence[Member]) -> list[dict[str, str]]:
    return [member.shown for member in table]
