"""Lesson 1's exercise: the number of successful claims, for any order of two steps a worker.

The reference below is compared with the learner's function in every order, and, in a sample of them, with what real
sessions do in PostgreSQL.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from random import Random
from typing import Any

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
    texts_of,
    tried,
    written,
)
from helpers.checking import database as tables
from helpers.checking.calls import Tried
from helpers.exercises.simulate import LESSON
from helpers.exercises.simulate.wrong import MISCONCEPTIONS

TEXTS = texts_of(__package__)
WHY: dict[str, str] = TEXTS["why"]

CALL_SECONDS = 5.0
WORKERS = ("A", "AB", "ABC", "ABCD")
MODES = ("naive", "atomic")
EXAMPLES = [
    ("naive", "AABB"),
    ("naive", "ABAB"),
    ("atomic", "ABAB"),
    ("naive", "ABCABC"),
    ("atomic", "ABCABC"),
    ("naive", "ABCDDCBA"),
    ("atomic", "ABCDDCBA"),
]
OTHER_NAMES = [["east", "west", "east", "west"], ["E", "F", "G", "F", "E", "G"], ["7", "8", "8", "9", "9", "7"]]
SAMPLE_OF_THREE = SAMPLE_OF_FOUR = 6

Simulation = Callable[[str, list[str]], Any]


def reference(mode: str, order: Sequence[str]) -> int:
    """The rules of the task, word for word."""
    status, remembered, successes = "pending", {}, 0
    for worker in order:
        if worker not in remembered:
            remembered[worker] = status
        elif remembered[worker] == "pending" and (mode == "naive" or status == "pending"):
            status = "running"
            successes += 1
    return successes


@cache
def orders(workers: str) -> tuple[str, ...]:
    """All orders in which each of the workers appears exactly twice: 1, 6, 90, 2,520 for one to four."""

    def complete(left: dict[str, int]) -> Iterator[str]:
        if not left:
            yield ""
        for worker in left:
            rest = {name: n - (name == worker) for name, n in left.items()}
            yield from (worker + end for end in complete({name: n for name, n in rest.items() if n}))

    return tuple(complete(dict.fromkeys(workers, 2)))


def sample() -> list[str]:
    """The orders that are run in the database: all of two workers, and some of three and four, always the same."""
    random = Random(42)
    return [
        *orders("AB"),
        *random.sample(orders("ABC"), SAMPLE_OF_THREE),
        *random.sample(orders("ABCD"), SAMPLE_OF_FOUR),
    ]


def examples(functions: Functions) -> Iterator[Calling | Finding]:
    """One line for each example; what they have in common is said at the first that fails."""
    for mode, order in EXAMPLES:
        yield from judged(functions[0], mode, list(order), "unknown")


def all_orders(functions: Functions) -> Iterator[Calling | Finding]:
    """Every order of one to four workers, until the first that is wrong."""
    calls = ((mode, list(order)) for workers in WORKERS for mode in MODES for order in orders(workers))
    trials = (judged(functions[0], mode, order, "unknown_full") for mode, order in calls)
    yield from in_one_line(trials, TEXTS["came"]["right"], TEXTS["expected"]["all_orders"])


def other_names(functions: Functions) -> Iterator[Calling | Finding]:
    trials = (judged(functions[0], mode, order, "names") for order in OTHER_NAMES for mode in MODES)
    yield from in_one_line(trials, TEXTS["came"]["right"], TEXTS["expected"]["names"])


def database(functions: Functions) -> Iterator[Calling | Finding]:
    """The learner's number beside the number of claims that real sessions make in the same order."""
    [simulate] = functions
    yield Calling(TEXTS["rules"]["database"], 60.0)
    tables.build(lesson=LESSON)
    runs = 0
    for mode in MODES:
        for order in sample():
            called = written("simulate", mode, list(order))
            yield Calling(called, 30.0)
            counted = claims_in_database(mode, order)
            came = call(simulate, mode, list(order))
            runs += 1
            if came.value != counted:
                yield Finding(False, called, came.came, str(counted), WHY["database"].format(count=counted))
                return
    yield Finding(True, "", TEXTS["came"]["database"].format(n=runs), TEXTS["expected"]["database"])


def claims_in_database(mode: str, order: str) -> int:
    """How many of these workers claim task #42, in real sessions whose steps come in this order."""
    from helpers.schedules import Program, replay
    from helpers.scripts import find_script

    worker = partial(claims, mode)
    program = Program(
        actors=dict.fromkeys(sorted(set(order)), worker),
        reset=find_script("00_base/02_reset.sql").read_text(encoding="utf-8"),
    )
    results = replay(program, " ".join(order)).results
    for result in results.values():
        if isinstance(result, BaseException):
            raise result
    return sum(result is True for result in results.values())


def claims(mode: str) -> bool:
    """A worker of lesson 1: READ, then CLAIM, each a transaction of its own. Whether its claim succeeded."""
    from sqlalchemy import select, update

    from helpers.db import SessionFactory
    from helpers.models import Task
    from helpers.schedules import mark

    claim = update(Task).where(Task.id == 42).values(status="processing").returning(Task.id)
    if mode == "atomic":
        claim = claim.where(Task.status == "pending")
    with SessionFactory() as session:
        session.connection(execution_options={"isolation_level": "AUTOCOMMIT"})
        remembered = session.scalar(select(Task.status).where(Task.id == 42))
        if remembered != "pending":
            mark("does not claim")
            return False
        return session.scalar(claim) is not None


def judged(simulate: Simulation, mode: str, order: list[str], unknown: str) -> Tried:
    given, expected = list(order), reference(mode, order)
    wrong = partial(complaint, simulate, expected, (order, given), unknown)
    called = written("simulate", mode, order)
    return tried(called, simulate, mode, given, wrong=wrong, expected=str(expected), seconds=CALL_SECONDS)


def complaint(
    simulate: Simulation, expected: int, orders: tuple[list[str], list[str]], unknown: str, outcome: Outcome
) -> str | None:
    """The sentence on what is wrong, or None. `unknown`: the one for a number that no known mistake explains."""
    value = outcome.value
    if outcome.error is not None:
        return outcome.why_raised
    if value is None:
        return WHY["printed" if outcome.printed else "none"]
    if type(value) is not int:
        return WHY["type"].format(kind=article(type(value).__name__))
    if orders[0] != orders[1]:
        return WHY["changed"]
    if value != expected:
        return misconception(simulate) or WHY[unknown].format(expected=expected)
    return WHY["also_printed"] if unknown != "unknown" and outcome.printed else None


def misconception(simulate: Simulation) -> str | None:
    """The sentence on a known mistake, where the function counts as it does in every order of two and three workers."""
    calls = [(mode, order) for mode in MODES for workers in ("AB", "ABC") for order in orders(workers)]
    came = [call(simulate, mode, list(order)).value for mode, order in calls]
    for name, mistake in MISCONCEPTIONS.items():
        if came == [mistake(mode, list(order)) for mode, order in calls]:
            return str(TEXTS["misconceptions"][name])
    return None


EXERCISE = Definition(
    package=__package__,
    lesson=LESSON,
    functions=("simulate",),
    mini=(Rule("examples", examples),),
    full=(
        Rule("all_orders", all_orders, seconds=120.0),
        Rule("names", other_names),
        Rule("database", database, seconds=180.0),
    ),
    database=False,
)
