"""What is wrong with a batch, in a sentence: a known mistake, a rule that it breaks, or the first wrong place."""

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

from helpers.checking import Outcome, article, call, texts_of
from helpers.checking.batches import MISCONCEPTIONS, right
from helpers.exercises.build_batch.cases import Case, probes
from helpers.exercises.build_batch.wrong import TIME_MISCONCEPTIONS
from helpers.models import PRIORITIES

TEXTS = texts_of(__package__)
WHY: dict[str, str] = TEXTS["why"]

BuildBatch: TypeAlias = Callable[[list[Any], dict[str, int], int], Any]


def complaint(build_batch: BuildBatch, case: Case, given: Case, full: bool, outcome: Outcome) -> str | None:
    """The sentence on what is wrong, or None. The plainest comes first."""
    value, expected = outcome.value, case.expected
    if outcome.error is not None:
        return why_raised(outcome, case)
    if value is None:
        return WHY["printed" if outcome.printed else "none"]
    if type(value) is not list:
        return WHY["type"].format(kind=article(type(value).__name__))
    if any(type(entry) is not int for entry in value):
        return WHY["entries"]
    if changed := [name for name in ("quotas", "tasks") if getattr(given, name) != getattr(case, name)]:
        sorted_only = given.tasks != case.tasks and all(task in case.tasks for task in given.tasks)
        return WHY["changed_order" if sorted_only else f"changed_{changed[0]}"]
    if value != expected:
        return misconception(build_batch) or broken_rule(value, case) or first_difference(value, case)
    return WHY["also_printed"] if full and outcome.printed else None


def why_raised(outcome: Outcome, case: Case) -> str:
    error = outcome.error
    if isinstance(error, TypeError) and "offset-naive" in str(error):
        return WHY["naive_and_aware"]
    if isinstance(error, KeyError) and error.args and error.args[0] in set(PRIORITIES) - case.quotas.keys():
        return WHY["missing_quota"].format(priority=error.args[0])
    if isinstance(error, RecursionError):
        return WHY["recursion"].format(n=len(case.tasks))
    return outcome.why_raised


def broken_rule(value: list[int], case: Case) -> str | None:
    """The sentence on a rule that the list breaks, whatever it was meant to be."""
    tasks = {task["id"]: task for task in case.tasks}
    for task_id, times in Counter(value).items():
        if task_id not in tasks:
            return WHY["no_such_task"].format(id=task_id)
        if times > 1:
            return WHY["twice"].format(id=task_id)
        if tasks[task_id]["locked"]:
            return WHY["locked"].format(id=task_id)
        if tasks[task_id]["status"] != "pending":
            return WHY["not_pending"].format(id=task_id, status=tasks[task_id]["status"])
    if len(value) > case.batch_size:
        return WHY["too_long"].format(n=len(value), size=case.batch_size)
    missing = [task_id for task_id in case.expected if task_id not in value]
    if len(value) < len(case.expected):
        return WHY["too_short"].format(n=len(value), size=case.batch_size, id=missing[0])
    return None


def first_difference(value: list[int], case: Case) -> str:
    """The first place that holds another task than it should, and by which pass it should."""
    place = next(n for n, pair in enumerate(zip(value, case.expected, strict=True)) if pair[0] != pair[1])
    right = case.expected[place]
    priority = next(task["priority"] for task in case.tasks if task["id"] == right)
    which = WHY["in_the_quota" if place < quota_places(case) else "in_the_fallback"]
    return WHY["place"].format(n=place + 1, id=right, priority=priority, which=which, came=value[place])


def quota_places(case: Case) -> int:
    """How many of the places the quota pass fills."""
    available = Counter(task["priority"] for task in case.tasks if task["status"] == "pending" and not task["locked"])
    return min(case.batch_size, sum(min(case.quotas.get(p, 0), available[p]) for p in PRIORITIES))


def misconception(build_batch: BuildBatch) -> str | None:
    """The sentence on a known mistake, where the function's results are those of the mistake in every probe."""
    for with_times, mistakes in ((False, MISCONCEPTIONS), (True, TIME_MISCONCEPTIONS)):
        came = results(build_batch, with_times)
        if came == results_of_mistake(right, with_times):
            continue  # right in all of them
        for name, mistake in mistakes.items():
            if came == results_of_mistake(mistake, with_times):
                return str(TEXTS["misconceptions"][name])
    return None


def results(build_batch: BuildBatch, with_times: bool) -> list[Any]:
    given = [case.copy() for case in probes(with_times)]
    return [call(build_batch, case.tasks, case.quotas, case.batch_size).value for case in given]


results_of_mistake = cache(results)
