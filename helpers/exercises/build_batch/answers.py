"""Right answers to the exercise `build_batch`."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from heapq import heapify, heappop
from typing import Any


def build_batch(tasks: Sequence[Mapping[str, Any]], quotas: Mapping[str, int], batch_size: int) -> list[int]:
    if batch_size < 0:
        raise ValueError(f"batch_size is {batch_size}, but must not be below 0.")
    waiting: dict[str, list[int]] = {"HIGH": [], "MEDIUM": [], "LOW": []}  # ids, the oldest first
    for priority, quota in quotas.items():
        if priority not in waiting or quota < 0:
            raise ValueError(f"The quota {quota} for {priority!r} makes no sense.")

    def age(task: Mapping[str, Any]) -> tuple[datetime, int]:
        created_at: datetime = task["created_at"]
        if created_at.utcoffset() is None:  # naive: it is meant in UTC
            created_at = created_at.replace(tzinfo=UTC)
        return created_at, task["id"]

    for task in sorted(tasks, key=age):
        if task["priority"] not in waiting:
            raise ValueError(f"Task #{task['id']} has the unknown priority {task['priority']!r}.")
        if task["status"] == "pending" and not task["locked"]:
            waiting[task["priority"]].append(task["id"])

    batch: list[int] = []
    for priority, ids in waiting.items():  # the quota pass
        places = min(quotas.get(priority, 0), batch_size - len(batch))
        batch += ids[:places]
        del ids[:places]
    for ids in waiting.values():  # the fallback pass
        batch += ids[: batch_size - len(batch)]
    return batch


PRIORITIES = ("HIGH", "MEDIUM", "LOW")


def age(task: Mapping[str, Any]) -> tuple[datetime, int]:
    created_at: datetime = task["created_at"]
    if created_at.utcoffset() is None:  # naive: it is meant in UTC
        created_at = created_at.replace(tzinfo=UTC)
    return created_at, task["id"]


def with_heaps(tasks: Sequence[Mapping[str, Any]], quotas: Mapping[str, int], batch_size: int) -> list[int]:
    """One heap a priority: only the tasks that are taken are brought into order."""
    unknown = {*quotas, *(task["priority"] for task in tasks)} - {*PRIORITIES}
    if unknown or batch_size < 0 or any(quota < 0 for quota in quotas.values()):
        raise ValueError(f"Wrong: {unknown or quotas}, or {batch_size}.")
    heaps: dict[str, list[tuple[datetime, int]]] = {priority: [] for priority in PRIORITIES}
    for task in tasks:
        if task["status"] == "pending" and not task["locked"]:
            heaps[task["priority"]].append(age(task))
    for heap in heaps.values():
        heapify(heap)
    batch: list[int] = []
    limits = [(priority, quotas.get(priority, 0)) for priority in PRIORITIES]
    for priority, limit in [*limits, *((priority, batch_size) for priority in PRIORITIES)]:
        while heaps[priority] and limit > 0 and len(batch) < batch_size:
            batch.append(heappop(heaps[priority])[1])
            limit -= 1
    return batch


def in_two_sorts(tasks: Sequence[Mapping[str, Any]], quotas: Mapping[str, int], batch_size: int) -> list[int]:
    """A task's place in its priority says in which pass it comes; then one sort makes the whole order."""
    rank = {priority: position for position, priority in enumerate(PRIORITIES)}
    if batch_size < 0 or not quotas.keys() <= rank.keys() or min(quotas.values(), default=0) < 0:
        raise ValueError("Wrong size or quotas.")
    if not {task["priority"] for task in tasks} <= rank.keys():
        raise ValueError("Wrong priority.")
    seen = dict.fromkeys(PRIORITIES, 0)
    keys: list[tuple[bool, int, int, int]] = []
    for position, task in enumerate(sorted(tasks, key=age)):
        if task["status"] == "pending" and not task["locked"]:
            priority = task["priority"]
            seen[priority] += 1
            over = seen[priority] > quotas.get(priority, 0)
            keys.append((over, rank[priority], position, task["id"]))
    return [key[-1] for key in sorted(keys)][:batch_size]


SOLUTION = (build_batch,)
OTHERS = [(with_heaps,), (in_two_sorts,)]
