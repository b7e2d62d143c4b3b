"""Lesson 9's exercise: which tasks a batch takes, in plain Python: quotas first, then what is left.

What is right is compared with the learner's function in examples, edge cases and random cases, and the function
with what lesson 8's SQL claims of the same rows in PostgreSQL.
"""

import os
import time
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random

from helpers.checking import (
    Calling,
    Definition,
    Finding,
    Functions,
    Outcome,
    Rule,
    article,
    call,
    in_one_line,
    shown,
    tried,
)
from helpers.checking import database as tables
from helpers.checking.calls import Tried
from helpers.exercises.build_batch import LESSON
from helpers.exercises.build_batch.cases import (
    EAST,
    EDGES,
    ERRORS,
    EXAMPLES,
    TIMES,
    Case,
    make,
    probes,
    random_case,
)
from helpers.exercises.build_batch.diagnosis import TEXTS, WHY, BuildBatch, complaint
from helpers.models import PRIORITIES

CALL_SECONDS = 5.0
RANDOM_CASES = 3_000
MANY = 5_000
DATABASE_CASES = 20
REFUSED = "ValueError"


def examples(functions: Functions) -> Iterator[Calling | Finding]:
    """One line for each example; what they have in common is said at the first that fails."""
    for case in EXAMPLES:
        yield from judged(functions[0], case)


def judged(build_batch: BuildBatch, case: Case, full: bool = False) -> Tried:
    given = case.copy()
    return tried(
        case.called,
        build_batch,
        *(given.tasks, given.quotas, given.batch_size),
        wrong=partial(complaint, build_batch, case, given, full),
        expected=shown(case.expected),
        rows=case.rows,
        seconds=CALL_SECONDS,
    )


def until_wrong(rule: str, cases: Iterable[Case], functions: Functions) -> Iterator[Calling | Finding]:
    """The first case that is wrong; or one line that says how many were right."""
    trials = (judged(functions[0], case, full=True) for case in cases)
    yield from in_one_line(trials, TEXTS["came"]["right"], TEXTS["expected"][rule])


def times(functions: Functions) -> Iterator[Calling | Finding]:
    """In this process the time of this machine is not UTC: who takes a naive time for local time is found anywhere."""
    if hasattr(time, "tzset"):  # not on Windows
        os.environ["TZ"] = "EAST-3"
        time.tzset()
    yield from until_wrong("times", [*TIMES, *probes(True)], functions)


def errors(functions: Functions) -> Iterator[Calling | Finding]:
    for case in ERRORS:
        given = case.copy()
        arguments, wrong = (given.tasks, given.quotas, given.batch_size), partial(wrong_refusal, case)
        yield from tried(
            case.called, functions[0], *arguments, wrong=wrong, expected="ValueError", seconds=CALL_SECONDS
        )


def wrong_refusal(case: Case, outcome: Outcome) -> str:
    if outcome.error is None:
        return WHY[case.refused]
    is_right = isinstance(outcome.error, ValueError)
    return "" if is_right else WHY["other_error"].format(kind=article(type(outcome.error).__name__))


def random_cases(functions: Functions) -> Iterator[Calling | Finding]:
    """Small cases first, so that the first one that is wrong can be followed by hand."""
    random = Random(42)
    cases = (random_case(random, 2 + n * 10 // RANDOM_CASES) for n in range(RANDOM_CASES))
    yield from until_wrong("random", cases, functions)


def many(functions: Functions) -> Iterator[Calling | Finding]:
    random = Random(1)
    tasks = [make(n, random.choice(PRIORITIES), random.randint(0, 900)) for n in random.sample(range(1, 10**6), MANY)]
    cases = [Case(tasks, {"HIGH": 500, "MEDIUM": 300, "LOW": 200}, size) for size in (10, 3_000, 2 * MANY)]
    yield from until_wrong("many", cases, functions)


def database(functions: Functions) -> Iterator[Calling | Finding]:
    """The learner's list beside the tasks that `claim_batch` of lesson 8 claims, in the same order."""
    [build_batch] = functions
    yield Calling(TEXTS["rules"]["database"], 60.0)
    tables.build(lesson=LESSON)
    random = Random(9)
    for _ in range(DATABASE_CASES):
        case = random_case(random, 12, (UTC, None, EAST))
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


EXERCISE = Definition(
    package=__package__,
    lesson=LESSON,
    functions=("build_batch",),
    mini=(Rule("examples", examples),),
    full=(
        Rule("edges", partial(until_wrong, "edges", EDGES)),
        Rule("times", times),
        Rule("errors", errors),
        Rule("random", random_cases, seconds=120.0),
        Rule("many", many),
        Rule("database", database, seconds=180.0),
    ),
    database=False,
)
