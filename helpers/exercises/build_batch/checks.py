"""Lesson 9's exercise: which tasks a batch takes, in plain Python: quotas first, then what is left.

What is right is compared with the learner's function in examples, edge cases and random cases, and the function
with what lesson 8's SQL claims of the same rows in PostgreSQL.
"""

import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, timezone
from functools import cache
from random import Random
from typing import Any

from helpers.checking.batches import MISCONCEPTIONS, right
from helpers.checking.calls import Outcome, article, call, shown
from helpers.checking.parts import Calling, Definition, Finding, Functions, Rule, texts_of
from helpers.exercises.build_batch import LESSON
from helpers.exercises.build_batch.wrong import TIME_MISCONCEPTIONS
from helpers.models import PRIORITIES

TEXTS = texts_of(__package__)
WHY = TEXTS["why"]

CALL_SECONDS = 5.0
RANDOM_CASES = 3_000
MANY = 5_000
DATABASE_CASES = 20
MOST_ROWS = 12  # of a case that is shown
START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)

TaskRow = dict[str, Any]
BuildBatch = Callable[[list[TaskRow], dict[str, int], int], Any]


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

_EAST, _WEST = timezone(timedelta(hours=3)), timezone(timedelta(hours=-5))
TIMES = [
    Case([make(n, "HIGH", -n, zone=zone) for n, zone in enumerate((_WEST, UTC, _EAST, UTC), 1)], {"HIGH": 2}, 3),
    Case([make(n, "LOW", n % 3, zone=None) for n in range(1, 6)], {"LOW": 2}, 4),
    Case([make(n, "HIGH", -n, zone=None if n % 2 else UTC) for n in range(1, 6)], {"HIGH": 2}, 4),
    Case([make(n, "MEDIUM", zone=(None, UTC, _EAST)[n % 3]) for n in (6, 4, 2, 5, 1)], {"MEDIUM": 3}, 5),
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
    zones = (UTC, None, _EAST, _WEST) if with_times else (UTC,)
    return tuple(random_case(random, 8, zones) for _ in range(200))


def examples(functions: Functions) -> Iterator[Calling | Finding]:
    """One line for each example; what they have in common is said at the first that fails."""
    [build_batch] = functions
    for case in EXAMPLES:
        yield Calling(case.called, CALL_SECONDS)
        yield judged(build_batch, case)


def edges(functions: Functions) -> Iterator[Calling | Finding]:
    yield from until_wrong(functions, EDGES, "edges")


def times(functions: Functions) -> Iterator[Calling | Finding]:
    """In this process the time of this machine is not UTC: who takes a naive time for local time is found anywhere."""
    if hasattr(time, "tzset"):  # not on Windows
        os.environ["TZ"] = "EAST-3"
        time.tzset()
    yield from until_wrong(functions, [*TIMES, *probes(True)], "times")


def errors(functions: Functions) -> Iterator[Calling | Finding]:
    [build_batch] = functions
    for case in ERRORS:
        yield Calling(case.called, CALL_SECONDS)
        yield refusal(build_batch, case)


def random_cases(functions: Functions) -> Iterator[Calling | Finding]:
    """Small cases first, so that the first one that is wrong can be followed by hand."""
    random = Random(42)
    cases = (random_case(random, 2 + n * 10 // RANDOM_CASES) for n in range(RANDOM_CASES))
    yield from until_wrong(functions, cases, "random")


def many(functions: Functions) -> Iterator[Calling | Finding]:
    random = Random(1)
    tasks = [make(n, random.choice(PRIORITIES), random.randint(0, 900)) for n in random.sample(range(1, 10**6), MANY)]
    cases = [Case(tasks, {"HIGH": 500, "MEDIUM": 300, "LOW": 200}, size) for size in (10, 3_000, 2 * MANY)]
    yield from until_wrong(functions, cases, "many")


def database(functions: Functions) -> Iterator[Calling | Finding]:
    """The learner's list beside the tasks that `claim_batch` of lesson 8 claims, in the same order."""
    from helpers.checking.database import build

    [build_batch] = functions
    yield Calling(TEXTS["rules"]["database"], 60.0)
    build(lesson=9)
    random = Random(9)
    for _ in range(DATABASE_CASES):
        case = random_case(random, 12, (UTC, None, _EAST))
        yield Calling(case.called, 30.0)
        claimed = claimed_in_database(case)
        given = case.copy()
        came = call(build_batch, given.tasks, given.quotas, given.batch_size)
        if came.value != claimed:
            why = WHY["database"].format(claimed=claimed)
            yield Finding(False, case.called, came.came, shown(claimed), why, case.rows)
            return
    yield Finding(True, "", TEXTS["came"]["database"].format(n=DATABASE_CASES), TEXTS["expected"]["database"])


def claimed_in_database(case: Case) -> list[int]:
    """The ids that `claim_batch` claims of these tasks, while another session holds those that are locked."""
    from sqlalchemy import delete, insert, select

    from helpers.db import engine
    from helpers.models import Task
    from helpers.repository.batch import claim_batch

    lease = datetime.now(UTC) + timedelta(hours=1)
    rows = [
        {
            "type": "generate_report",
            "lease_until": lease if task["status"] == "processing" else None,
            **{name: value for name, value in task.items() if name != "locked"},
        }
        for task in case.tasks
    ]
    with engine().begin() as connection:
        connection.execute(delete(Task))
        if rows:
            connection.execute(insert(Task), rows)
    locked = [task["id"] for task in case.tasks if task["locked"]]
    with engine().connect() as other:
        other.execute(select(Task.id).where(Task.id.in_(locked)).with_for_update())
        return [task["id"] for task in claim_batch(case.batch_size, case.quotas, lease_seconds=60)]


def until_wrong(functions: Functions, cases: Iterable[Case], rule: str) -> Iterator[Calling | Finding]:
    """The first case that is wrong; or one line that says how many were right."""
    [build_batch] = functions
    calls = 0
    for case in cases:
        yield Calling(case.called, CALL_SECONDS)
        found = judged(build_batch, case, full=True)
        calls += 1
        if not found.ok:
            yield found
            return
    yield Finding(True, "", TEXTS["came"]["right"].format(n=calls), TEXTS["expected"][rule])


def judged(build_batch: BuildBatch, case: Case, full: bool = False) -> Finding:
    given = case.copy()
    outcome = call(build_batch, given.tasks, given.quotas, given.batch_size)
    why = complaint(build_batch, outcome, case, given, full)
    return Finding(why is None, case.called, outcome.came, shown(case.expected), why or "", case.rows if why else ())


def refusal(build_batch: BuildBatch, case: Case) -> Finding:
    """Whether arguments that are wrong are refused with a ValueError."""
    given = case.copy()
    outcome = call(build_batch, given.tasks, given.quotas, given.batch_size)
    why = ""
    if outcome.error is None:
        why = WHY[case.refused]
    elif not isinstance(outcome.error, ValueError):
        why = WHY["other_error"].format(kind=article(type(outcome.error).__name__))
    return Finding(not why, case.called, outcome.came, "ValueError", why)


def complaint(build_batch: BuildBatch, outcome: Outcome, case: Case, given: Case, full: bool) -> str | None:
    """The sentence on what is wrong, or None. The plainest comes first."""
    value, expected = outcome.value, case.expected
    if outcome.error is not None:
        return why_raised(outcome, case)
    if value is None:
        return str(WHY["printed" if outcome.printed else "none"])
    if type(value) is not list:
        return str(WHY["type"]).format(kind=article(type(value).__name__))
    if any(type(entry) is not int for entry in value):
        return str(WHY["entries"])
    if changed := [name for name in ("quotas", "tasks") if getattr(given, name) != getattr(case, name)]:
        sorted_only = given.tasks != case.tasks and all(task in case.tasks for task in given.tasks)
        return str(WHY["changed_order" if sorted_only else f"changed_{changed[0]}"])
    if value != expected:
        return misconception(build_batch) or broken_rule(value, case) or first_difference(value, case)
    return str(WHY["also_printed"]) if full and outcome.printed else None


def why_raised(outcome: Outcome, case: Case) -> str:
    error = outcome.error
    if isinstance(error, TypeError) and "offset-naive" in str(error):
        return str(WHY["naive_and_aware"])
    if isinstance(error, KeyError) and error.args and error.args[0] in set(PRIORITIES) - case.quotas.keys():
        return str(WHY["missing_quota"]).format(priority=error.args[0])
    if isinstance(error, RecursionError):
        return str(WHY["recursion"]).format(n=len(case.tasks))
    return outcome.why_raised


def broken_rule(value: list[int], case: Case) -> str | None:
    """The sentence on a rule that the list breaks, whatever it was meant to be."""
    tasks = {task["id"]: task for task in case.tasks}
    for task_id, times in Counter(value).items():
        if task_id not in tasks:
            return str(WHY["no_such_task"]).format(id=task_id)
        if times > 1:
            return str(WHY["twice"]).format(id=task_id)
        if tasks[task_id]["locked"]:
            return str(WHY["locked"]).format(id=task_id)
        if tasks[task_id]["status"] != "pending":
            return str(WHY["not_pending"]).format(id=task_id, status=tasks[task_id]["status"])
    if len(value) > case.batch_size:
        return str(WHY["too_long"]).format(n=len(value), size=case.batch_size)
    missing = [task_id for task_id in case.expected if task_id not in value]
    if len(value) < len(case.expected):
        return str(WHY["too_short"]).format(n=len(value), size=case.batch_size, id=missing[0])
    return None


def first_difference(value: list[int], case: Case) -> str:
    """The first place that holds another task than it should, and by which pass it should."""
    place = next(n for n, pair in enumerate(zip(value, case.expected, strict=True)) if pair[0] != pair[1])
    right = case.expected[place]
    priority = next(task["priority"] for task in case.tasks if task["id"] == right)
    which = WHY["in_the_quota" if place < quota_places(case) else "in_the_fallback"]
    return str(WHY["place"]).format(n=place + 1, id=right, priority=priority, which=which, came=value[place])


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


EXERCISE = Definition(
    package=__package__,
    lesson=LESSON,
    functions=("build_batch",),
    mini=(Rule("examples", examples),),
    full=(
        Rule("edges", edges),
        Rule("times", times),
        Rule("errors", errors),
        Rule("random", random_cases, seconds=120.0),
        Rule("many", many),
        Rule("database", database, seconds=180.0),
    ),
    database=False,
)
