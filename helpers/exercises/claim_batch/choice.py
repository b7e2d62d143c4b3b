"""Which tasks a batch takes, and in which order; and the mistakes that are known by that."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, TypeAlias

from sqlalchemy import select

from helpers.checking import Calling, Finding, Functions, database, shown
from helpers.checking.batches import MISCONCEPTIONS, Tasks, right
from helpers.checking.calls import CALL_SECONDS
from helpers.checking.queues import STATES, Made, made_behind_the_planner, put
from helpers.checking.tasks import LONG_LEASE
from helpers.db import engine
from helpers.exercises.claim_batch.calls import TEXTS, WHY, Came, Case, Quotas, run
from helpers.models import PRIORITIES, Task
from helpers.repository.batch import claim_batch

RANDOM_CASES = 8
WITHOUT_INDEXES = ("indexscan", "indexonlyscan", "bitmapscan")

# The file has them in another order than that of age, and of the ids.
TEN = (
    Made(23, "HIGH", 40),
    Made(42, "LOW", 95, "processing", 1, lease=-5),
    Made(25, "HIGH", 120, "processing", 1, lease=3600),
    Made(31, "MEDIUM", 30),
    Made(24, "HIGH", 60, attempts=1),
    Made(43, "LOW", 20),
    Made(21, "HIGH", 90),
    Made(33, "MEDIUM", 70, retry=-5, attempts=1),
    Made(44, "LOW", 130, "processing", 2, lease=3600),
    Made(41, "LOW", 100),
    Made(22, "HIGH", 10),
    Made(32, "MEDIUM", 50),
)
EQUALLY_OLD = (
    Made(9, "HIGH", 30),
    Made(6, "LOW", 30),
    Made(8, "HIGH", 30),
    Made(5, "LOW", 30),
    Made(7, "HIGH", 30),
)
NO_HIGH = (Made(42, "LOW", 80), Made(31, "MEDIUM", 60), Made(41, "LOW", 90), Made(32, "MEDIUM", 50))
CASES = (
    Case(TEN, 6, {"HIGH": 2, "MEDIUM": 1, "LOW": 1}),
    Case(TEN, 3, {"HIGH": 2, "MEDIUM": 2, "LOW": 2}),
    Case(TEN, 5, {"LOW": 2}),
    Case(TEN, 4, {}),
    Case(TEN, 20, {"HIGH": 1, "MEDIUM": 0, "LOW": 2}),
    Case(TEN, 0, {"HIGH": 2, "LOW": 1}),
    Case(EQUALLY_OLD, 4, {"HIGH": 1, "LOW": 1}),
    Case(NO_HIGH, 3, {"HIGH": 2, "LOW": 1}),
)

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def counts_what_is_in_work(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    """The quota is what may be in work, and not what one batch gets."""
    left = dict(quotas)
    for task in tasks:
        if task["in_work"]:
            left[task["priority"]] = max(left.get(task["priority"], 0) - 1, 0)
    return right(tasks, left, batch_size)


def returned_as_written(tasks: Tasks, quotas: Quotas, batch_size: int) -> list[int]:
    """The order in which an UPDATE meets the rows of the table's file."""
    chosen = right(tasks, quotas, batch_size)
    return [task["id"] for task in tasks if task["id"] in chosen]


NOT_IN_SQL = ("locked_taken", "any_status", "quota_used_up_by_locked")
Choice: TypeAlias = Callable[[Tasks, Quotas, int], list[int]]
MISTAKES: dict[str, Choice] = {name: mistake for name, mistake in MISCONCEPTIONS.items() if name not in NOT_IN_SQL} | {
    "in_work": counts_what_is_in_work,
    "as_written": returned_as_written,
}


def as_lists(case: Case) -> list[dict[str, Any]]:
    """The tasks of a case as `build_batch` gets them."""
    return [
        {
            "id": task.id,
            "priority": task.priority,
            "status": "pending" if task.free else "processing",
            "locked": task.id in case.locked,
            "created_at": START - timedelta(seconds=task.age),
            "in_work": task.status == "processing" and not task.free,
        }
        for task in case.tasks
    ]


def choice(functions: Functions) -> Iterator[Calling | Finding]:
    """All that a batch is to take, in the right order: a mistake is known by the results of all cases.

    Without indexes: else one of them could bring tasks into an order that was not asked for, by chance.
    """
    [claim] = functions
    results: list[tuple[Case, Came]] = []
    with database.without_plans(*WITHOUT_INDEXES):
        for case in CASES:
            put(case.tasks)
            yield Calling(case.called, CALL_SECONDS)
            results.append((case, run(claim, case)))
    for case, came in results:
        expected = what_is_right(case)
        why = (
            ""
            if came.ids == expected
            else misconception(results) or came.why or wrong_choice(came.ids or [], expected, case)
        )
        why = why or came.why
        yield Finding(not why, case.called, came.shown, shown(expected), why, case.rows if why else ())
        if why:
            return


def what_is_right(case: Case) -> list[int]:
    return right(as_lists(case), case.quotas, case.batch_size)


def misconception(results: Sequence[tuple[Case, Came]]) -> str:
    """The sentence on a known mistake, where all results are those of the mistake; or nothing."""
    for name, mistake in MISTAKES.items():
        if all(came.ids == mistake(as_lists(case), case.quotas, case.batch_size) for case, came in results):
            return str(TEXTS["misconceptions"][name])
    return ""


def wrong_choice(ids: Sequence[int], expected: Sequence[int], case: Case) -> str:
    if len(ids) < len(expected):
        missing = next(task_id for task_id in expected if task_id not in ids)
        return WHY["too_short"].format(n=len(ids), size=case.batch_size, id=missing)
    if sorted(ids) == sorted(expected):
        return WHY["order"]
    place = next(n for n, pair in enumerate(zip(ids, expected, strict=False)) if pair[0] != pair[1])
    return WHY["place"].format(n=place + 1, id=expected[place], came=ids[place])


def random_case(random: Random) -> Case:
    """Few ages, so that there are ties; and every state a task can have."""
    tasks = []
    for task_id in random.sample(range(1, 100), random.randint(1, 12)):
        state = random.choice(STATES if random.random() < 0.7 else STATES[-3:-2])
        tasks.append(replace(state, id=task_id, priority=random.choice(PRIORITIES), age=60 * random.randint(1, 4)))
    quotas = {priority: random.randint(0, 3) for priority in PRIORITIES if random.random() < 0.8}
    locked = [task.id for task in tasks if random.random() < 0.2]
    return Case(tasks, random.randint(0, len(tasks) + 1), quotas, locked)


def random_cases(functions: Functions) -> Iterator[Calling | Finding]:
    """The learner's batch beside what the course's `claim_batch` takes of the same rows, while some are locked."""
    [claim] = functions
    random = Random(8)
    for _ in range(RANDOM_CASES):
        case = random_case(random)
        yield Calling(case.called, CALL_SECONDS * 2)
        with beside_locks(case):
            expected = [task["id"] for task in claim_batch(case.batch_size, case.quotas, LONG_LEASE)]
        with beside_locks(case):
            came = run(claim, case)
        if why := came.why or ("" if came.ids == expected else wrong_choice(came.ids or [], expected, case)):
            yield Finding(False, case.called, came.shown, shown(expected), why, case.rows)
            return
    yield Finding(True, "", TEXTS["came"]["random"].format(n=RANDOM_CASES), TEXTS["expected"]["random"])


@contextmanager
def beside_locks(case: Case) -> Iterator[None]:
    """The rows of the case, some of which another session holds for as long as the block lasts."""
    put(case.tasks)
    with engine().connect() as other:
        if case.locked:
            other.execute(select(Task.id).where(Task.id.in_(case.locked)).with_for_update())
        yield


FOUR = (Made(43, "LOW", 70), Made(44, "LOW", 60), Made(41, "HIGH", 90), Made(42, "HIGH", 80))


def plans(functions: Functions) -> Iterator[Calling | Finding]:
    """One batch, when PostgreSQL thinks that a subquery may well run once for each row."""
    [claim] = functions
    case = Case(FOUR, 2, {"LOW": 1})
    expected = what_is_right(case)
    database.set_rows(made_behind_the_planner(FOUR))
    yield Calling(case.called, CALL_SECONDS)
    came = run(claim, case)
    why = came.why if came.ids is None else WHY["many"] if came.ids != expected else came.why
    yield Finding(not why, case.called, came.shown, shown(expected), why, case.rows if why else ())
