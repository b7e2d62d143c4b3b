"""Wrong answers to the exercise `build_batch`.

Those of MISCONCEPTIONS and TIME_MISCONCEPTIONS are a diagnosis too: where a learner's function gives what one of them
gives in all probes, the check says what that one does wrong.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from helpers.exercises.build_batch.answers import age, build_batch
from helpers.models import PRIORITIES

Task = Mapping[str, Any]
Tasks = Sequence[Task]
Quotas = Mapping[str, int]


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
    batch = build_batch(tasks, quotas, batch_size)
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
    return build_batch([task for task in tasks if quotas.get(task["priority"], 0)], quotas, batch_size)


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


def as_on_the_wall(task: Task) -> tuple[datetime, int]:
    return task["created_at"].replace(tzinfo=UTC), task["id"]


def offset_dropped(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    return filled(queues(tasks, key=as_on_the_wall), quotas, batch_size)


def naive_first(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    return filled(queues(tasks, key=lambda t: (t["created_at"].tzinfo is not None, age(t))), quotas, batch_size)


def naive_as_local(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    return filled(queues(tasks, key=lambda t: (t["created_at"].astimezone(UTC), t["id"])), quotas, batch_size)


TIME_MISCONCEPTIONS: dict[str, Callable[[Tasks, Quotas, int], list[int]]] = {
    function.__name__: function for function in (offset_dropped, naive_first, naive_as_local)
}


def compared_as_they_are(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    return filled(queues(tasks, key=lambda task: (task["created_at"], task["id"])), quotas, batch_size)


def key_error(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    for priority in PRIORITIES:
        assert quotas[priority] >= 0
    return build_batch(tasks, quotas, batch_size)


def sorts_the_list(tasks: list[Task], quotas: Quotas, batch_size: int) -> list[int]:
    tasks.sort(key=age)
    return build_batch(tasks, quotas, batch_size)


def removes_from_the_list(tasks: list[Task], quotas: Quotas, batch_size: int) -> list[int]:
    batch = build_batch(tasks, quotas, batch_size)
    tasks[:] = [task for task in tasks if task["id"] not in batch]
    tasks += [{"id": task_id, "locked": True} for task_id in batch]
    return batch


def counts_the_quotas_down(tasks: Tasks, quotas: dict[str, int], batch_size: int) -> list[int]:
    batch = build_batch(tasks, quotas, batch_size)
    for task in tasks:
        if task["id"] in batch and quotas.get(task["priority"], 0) > 0:
            quotas[task["priority"]] -= 1
    return batch


def one_too_few(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    return build_batch(tasks, quotas, max(batch_size - 1, 0))


def one_too_many(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    return build_batch(tasks, quotas, batch_size + 1)


def fallback_turned_round(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    first = quota_as_total(tasks, quotas, batch_size)
    return first + build_batch(tasks, quotas, batch_size)[len(first) :][::-1]


def returns_the_tasks(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[Task]:
    by_id = {task["id"]: task for task in tasks}
    return [by_id[task_id] for task_id in build_batch(tasks, quotas, batch_size)]


def returns_a_set(tasks: Tasks, quotas: Quotas, batch_size: int) -> set[int]:
    return set(build_batch(tasks, quotas, batch_size))


def yields(tasks: Tasks, quotas: Quotas, batch_size: int) -> Iterator[int]:
    yield from build_batch(tasks, quotas, batch_size)


def prints_the_result(tasks: Tasks, quotas: Quotas, batch_size: int) -> None:
    print(build_batch(tasks, quotas, batch_size))


def prints_as_well(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    print("quotas:", quotas)
    return build_batch(tasks, quotas, batch_size)


def nothing_where_there_are_no_tasks(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int] | None:
    return build_batch(tasks, quotas, batch_size) if tasks else None


def accepts_a_negative_size(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    return build_batch(tasks, quotas, max(batch_size, 0))


def accepts_a_negative_quota(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    return build_batch(tasks, {priority: max(quota, 0) for priority, quota in quotas.items()}, batch_size)


def accepts_any_quota(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    return build_batch(tasks, {p: quota for p, quota in quotas.items() if p in PRIORITIES}, batch_size)


def leaves_unknown_priorities_out(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    return build_batch([task for task in tasks if task["priority"] in PRIORITIES], quotas, batch_size)


def early_return(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    if not tasks or batch_size == 0:
        return []
    return build_batch(tasks, quotas, batch_size)


def asserts(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    assert batch_size >= 0
    return build_batch(tasks, quotas, batch_size)


def recursive(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    def first(ids: list[int], count: int) -> list[int]:
        return [] if count == 0 or not ids else [ids[0], *first(ids[1:], count - 1)]

    return first(build_batch(tasks, quotas, batch_size), batch_size)


def tries_and_tries(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    """For each place it sorts all tasks again."""
    batch: list[int] = []
    for task_id in build_batch(tasks, quotas, batch_size):
        ids = [id_ for waiting in queues(tasks) for id_ in waiting]
        batch.append(ids[ids.index(task_id)])
    return batch


# name → the functions, and a part of the sentence; those below are found by the mini rules, unless they are in FULL.
WRONG: dict[str, tuple[tuple[Callable[..., Any], ...], str]] = {
    "quota as a total": ((quota_as_total,), "A quota is not a limit of the batch"),
    "fallback before quotas": ((fallback_first,), "Here the quotas change nothing"),
    "ties by position": ((ties_by_position,), "Of two tasks that are equally old, the one with the lower id"),
    "locked tasks taken": ((locked_taken,), "Locked tasks are taken here"),
    "any status": ((any_status,), "The status is not looked at here"),
    "past the size": ((past_the_size,), "The quota pass does not stop at batch_size here"),
    "taken twice": ((taken_twice,), "The fallback pass takes tasks again that the quota pass has taken"),
    "newest first": ((newest_first,), "The newest task of a priority comes first here"),
    "by id": ((by_id,), "Within a priority the tasks come by their ids here"),
    "priority as text": ((priority_as_text,), "As text, LOW comes before MEDIUM"),
    "sorted in the end": ((sorted_in_the_end,), "The right tasks are chosen, and then brought into another order"),
    "quota carried over": ((quota_carried_over,), "What one priority does not use of its quota goes to the next one"),
    "locked ones use up the quota": ((quota_used_up_by_locked,), "Tasks that are not available use up the quota"),
    "a missing quota is unlimited": ((missing_is_unlimited,), "A priority without a quota is taken without limit"),
    "quota 0 means never": ((zero_means_never,), "is shut out of the fallback pass here"),
    "fallback by age": ((fallback_by_age,), "The fallback pass goes by age alone here"),
    "quotas again": ((quotas_again,), "The fallback pass applies the quotas once more"),
    "offset dropped": ((offset_dropped,), "The offset of an aware time is dropped here"),
    "naive times first": ((naive_first,), "Naive times are sorted apart from aware ones here"),
    "naive as local": ((naive_as_local,), "A naive time is taken for local time here"),
    "naive and aware compared": ((compared_as_they_are,), "Python does not compare a naive time with an aware one"),
    "a missing quota raises": ((key_error,), "A quota may be missing, and is 0 then"),
    "sorts the list": ((sorts_the_list,), "It brought the list `tasks` into another order"),
    "changes the tasks": ((removes_from_the_list,), "It changed the tasks that it was given"),
    "changes the quotas": ((counts_the_quotas_down,), "It changed the quotas that it was given"),
    "one too few": ((one_too_few,), "The batch has 3 tasks and 4 places, and #41 is available"),
    "one too many": ((one_too_many,), "The batch has 5 tasks, and batch_size is 4"),
    "fallback turned round": ((fallback_turned_round,), "Place 5 belongs to #48"),
    "returns the tasks": ((returns_the_tasks,), "The list holds something else than whole numbers"),
    "returns a set": ((returns_a_set,), "It returned a set"),
    "yields": ((yields,), "It returned a generator"),
    "prints the result": ((prints_the_result,), "It printed something and returned nothing"),
    "prints as well": ((prints_as_well,), "something was printed as well"),
    "nothing where there are no tasks": ((nothing_where_there_are_no_tasks,), "Is there a path through the function"),
    "accepts a negative size": ((accepts_a_negative_size,), "A batch_size below 0 was accepted"),
    "accepts a negative quota": ((accepts_a_negative_quota,), "A quota below 0 was accepted"),
    "accepts any quota": ((accepts_any_quota,), "A quota for a priority that does not exist was accepted"),
    "leaves unknown priorities out": ((leaves_unknown_priorities_out,), "A task with a priority that does not exist"),
    "no check where there is nothing to do": ((early_return,), "also where there is nothing to do"),
    "asserts": ((asserts,), "It raised an AssertionError"),
    "recursive": ((recursive,), "It calls itself once for each task"),
    "far too slow": ((tries_and_tries,), "It had not come back after 5 s"),
}
FULL = {
    "ties by position",
    "past the size",
    "sorted in the end",
    "quota carried over",
    "locked ones use up the quota",
    "quota 0 means never",
    "fallback by age",
    "quotas again",
    "offset dropped",
    "naive times first",
    "naive as local",
    "naive and aware compared",
    "prints as well",
    "accepts a negative size",
    "accepts a negative quota",
    "accepts any quota",
    "leaves unknown priorities out",
    "no check where there is nothing to do",
    "asserts",
    "recursive",
    "far too slow",
}
