"""Wrong answers to the exercise `build_batch`.

Those of `batches` and of TIME_MISCONCEPTIONS are a diagnosis too: where a learner's function gives what one of them
gives in all probes, the check says what that one does wrong.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from helpers.checking.batches import (
    Quotas,
    Task,
    Tasks,
    age,
    any_status,
    by_id,
    fallback_by_age,
    fallback_first,
    filled,
    locked_taken,
    missing_is_unlimited,
    newest_first,
    past_the_size,
    priority_as_text,
    queues,
    quota_as_total,
    quota_carried_over,
    quota_used_up_by_locked,
    quotas_again,
    sorted_in_the_end,
    taken_twice,
    ties_by_position,
    zero_means_never,
)
from helpers.exercises.build_batch.answers import build_batch
from helpers.models import PRIORITIES


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
    "sorted in the end": (
        (sorted_in_the_end,),
        "The right tasks are chosen, and then brought into another order",
    ),
    "quota carried over": (
        (quota_carried_over,),
        "What one priority does not use of its quota goes to the next one",
    ),
    "locked ones use up the quota": (
        (quota_used_up_by_locked,),
        "Tasks that are not available use up the quota",
    ),
    "a missing quota is unlimited": (
        (missing_is_unlimited,),
        "A priority without a quota is taken without limit",
    ),
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
