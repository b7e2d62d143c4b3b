"""Which tasks a batch takes, in plain Python; and the mistakes that one makes with quotas and a fallback.

For the exercises of the lessons 8 and 9. A mistake is a diagnosis: where a function gives what the mistake gives in all
probes, the check says what is wrong, in the words of `[misconceptions]` of the exercise.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from helpers.models import PRIORITIES

Task = Mapping[str, Any]
Tasks = Sequence[Task]
Quotas = Mapping[str, int]


def right(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    """The rules of the task, word for word, for arguments that are not refused."""
    available = sorted((task for task in tasks if task["status"] == "pending" and not task["locked"]), key=age)
    waiting = {p: [task["id"] for task in available if task["priority"] == p] for p in PRIORITIES}
    batch: list[int] = []
    for priority in PRIORITIES:
        batch += waiting[priority][: min(quotas.get(priority, 0), batch_size - len(batch))]
    chosen = set(batch)
    for priority in PRIORITIES:
        left = [task_id for task_id in waiting[priority] if task_id not in chosen]
        batch += left[: batch_size - len(batch)]
    return batch


def age(task: Task) -> tuple[datetime, int]:
    created_at: datetime = task["created_at"]
    return (created_at if created_at.tzinfo else created_at.replace(tzinfo=UTC)), task["id"]


def usable(task: Task) -> bool:
    return bool(task["status"] == "pending" and not task["locked"])


def queues(tasks: Tasks, key: Callable[[Task], Any] = age, usable: Callable[[Task], bool] = usable) -> list[list[int]]:
    """The ids of each priority, in the order of `key`: right as it stands, and wrong with another key or condition."""
    ordered = sorted(filter(usable, tasks), key=key)
    return [[task["id"] for task in ordered if task["priority"] == priority] for priority in PRIORITIES]


def filled(waiting: list[list[int]], quotas: Quotas, size: int, default: int = 0) -> list[int]:
    """The two passes, as they should be."""
    batch: list[int] = []
    for priority, ids in zip(PRIORITIES, waiting, strict=True):
        batch += ids[: min(quotas.get(priority, default), size - len(batch))]
    rest = [task_id for ids in waiting for task_id in ids if task_id not in batch]
    return batch + rest[: size - len(batch)]


def quota_as_total(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    batch: list[int] = []
    for priority, ids in zip(PRIORITIES, queues(tasks), strict=True):
        batch += ids[: min(quotas.get(priority, 0), batch_size - len(batch))]
    return batch


def fallback_first(tasks: Tasks, _quotas: Quotas, batch_size: int) -> list[int]:
    return [task_id for ids in queues(tasks) for task_id in ids][:batch_size]


def ties_by_position(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    return filled(queues(tasks, key=lambda task: age(task)[0]), quotas, batch_size)


def locked_taken(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    return filled(queues(tasks, usable=lambda task: bool(task["status"] == "pending")), quotas, batch_size)


def any_status(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    return filled(queues(tasks, usable=lambda task: not task["locked"]), quotas, batch_size)


def past_the_size(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    waiting = queues(tasks)
    batch: list[int] = []
    for priority, ids in zip(PRIORITIES, waiting, strict=True):
        batch += ids[: quotas.get(priority, 0)]
    rest = [task_id for ids in waiting for task_id in ids if task_id not in batch]
    return batch + rest[: max(batch_size - len(batch), 0)]


def taken_twice(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    batch = quota_as_total(tasks, quotas, batch_size)
    return batch + fallback_first(tasks, quotas, batch_size - len(batch))


def newest_first(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    return filled([ids[::-1] for ids in queues(tasks)], quotas, batch_size)


def by_id(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    return filled(queues(tasks, key=lambda task: task["id"]), quotas, batch_size)


def priority_as_text(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    waiting = dict(zip(PRIORITIES, queues(tasks), strict=True))
    batch: list[int] = []
    for priority in sorted(PRIORITIES):
        batch += waiting[priority][: min(quotas.get(priority, 0), batch_size - len(batch))]
    rest = [task_id for priority in sorted(PRIORITIES) for task_id in waiting[priority] if task_id not in batch]
    return batch + rest[: batch_size - len(batch)]


def sorted_in_the_end(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    batch = right(tasks, quotas, batch_size)
    return [task_id for ids in queues(tasks) for task_id in ids if task_id in batch]


def quota_carried_over(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    waiting, spare = queues(tasks), 0
    batch: list[int] = []
    for priority, ids in zip(PRIORITIES, waiting, strict=True):
        quota = quotas.get(priority, 0) + spare
        taken = ids[: min(quota, batch_size - len(batch))]
        batch += taken
        spare = quota - len(taken)
    rest = [task_id for ids in waiting for task_id in ids if task_id not in batch]
    return batch + rest[: batch_size - len(batch)]


def quota_used_up_by_locked(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    batch: list[int] = []
    by_id = {task["id"]: task for task in tasks}
    for priority, ids in zip(PRIORITIES, queues(tasks, usable=lambda _: True), strict=True):
        first = [task_id for task_id in ids[: quotas.get(priority, 0)] if usable(by_id[task_id])]
        batch += first[: batch_size - len(batch)]
    rest = [task_id for ids in queues(tasks) for task_id in ids if task_id not in batch]
    return batch + rest[: batch_size - len(batch)]


def missing_is_unlimited(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    return filled(queues(tasks), quotas, batch_size, default=batch_size)


def zero_means_never(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    return right([task for task in tasks if quotas.get(task["priority"], 0)], quotas, batch_size)


def fallback_by_age(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    batch = quota_as_total(tasks, quotas, batch_size)
    rest = [task["id"] for task in sorted(filter(usable, tasks), key=age) if task["id"] not in batch]
    return batch + rest[: batch_size - len(batch)]


def quotas_again(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    batch: list[int] = []
    left = [task for task in tasks if usable(task)]
    while more := quota_as_total(left, quotas, batch_size - len(batch)):
        batch += more
        left = [task for task in left if task["id"] not in batch]
    return batch + fallback_first(left, quotas, batch_size - len(batch))


MISCONCEPTIONS: dict[str, Callable[[Tasks, Quotas, int], list[int]]] = {
    function.__name__: function
    for function in (
        quota_as_total,
        fallback_first,
        ties_by_position,
        locked_taken,
        any_status,
        past_the_size,
        taken_twice,
        newest_first,
        by_id,
        priority_as_text,
        sorted_in_the_end,
        quota_carried_over,
        quota_used_up_by_locked,
        missing_is_unlimited,
        zero_means_never,
        fallback_by_age,
        quotas_again,
    )
}
