"""Lesson 2's exercise: a transfer between two rows, whose locks cannot form a circle."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import permutations, product
from typing import TypeAlias

from helpers.checking import (
    Calling,
    Definition,
    Finding,
    Functions,
    Orders,
    Outcome,
    Rule,
    Situation,
    article,
    database,
    texts_of,
    tried,
    written,
)
from helpers.checking.orders import error_of, sqlstate
from helpers.checking.rules import locks
from helpers.checking.tasks import CLEAR, rows_by_id
from helpers.exercises.transfer import LESSON
from helpers.schedules import Invariant, Offence, Run, Violation, invariant, no_error_but

TEXTS = texts_of(__package__)
WHY: dict[str, str] = TEXTS["why"]
SAYS = TEXTS["offences"]

Statuses: TypeAlias = Mapping[int, str]  # by id
Pair: TypeAlias = tuple[int, int]
Transfer: TypeAlias = Callable[[int, int], object]


def right(rows: Statuses, source: int, target: int) -> tuple[bool, Statuses]:
    """What one transfer returns, and the rows after it."""
    if rows.get(source) != "processing" or rows.get(target) != "pending":
        return False, rows
    return True, {**rows, source: "pending", target: "processing"}


ALONE: list[tuple[Statuses, Pair]] = [
    ({42: "processing", 43: "pending"}, (42, 43)),
    ({42: "pending", 43: "processing"}, (43, 42)),
    ({42: "pending", 43: "pending"}, (42, 43)),
    ({42: "processing", 43: "processing"}, (42, 43)),
    ({42: "processing", 43: "completed"}, (42, 43)),
]
EDGES: list[tuple[Statuses, Pair]] = [
    ({42: "processing"}, (42, 42)),
    ({42: "pending"}, (42, 42)),
    ({42: "processing"}, (42, 99)),
    ({42: "pending"}, (99, 42)),
]


def alone(cases: list[tuple[Statuses, Pair]], functions: Functions) -> Iterator[Calling | Finding]:
    """One transfer at a time, each with its rows before and after."""
    for before, pair in cases:
        expected, after = right(before, *pair)
        database.set_rows(insert(before))
        wrong, wanted = partial(wrong_transfer, before, pair), f"{expected}: {words(after)}"
        called = written("transfer", *pair)
        if not (yield from tried(called, functions[0], *pair, wrong=wrong, expected=wanted, came=came)):
            return


def came(outcome: Outcome) -> str:
    return f"{outcome.came}: {words(statuses())}"


def wrong_transfer(before: Statuses, pair: Pair, outcome: Outcome) -> str:
    """The sentence on what is wrong with one transfer, or nothing."""
    (expected, rows), after = right(before, *pair), statuses()
    if outcome.error is not None:
        return outcome.why_raised
    if type(outcome.value) is not bool:
        return WHY["type"].format(kind=article(type(outcome.value).__name__))
    if outcome.value is not expected:
        return WHY["answer"].format(before=words(before), expected=expected)
    if database.open_transactions():
        return WHY["open"]
    if after == rows:
        return ""
    if after == before:
        return WHY["uncommitted"]
    return WHY["rows"].format(before=words(before), after=words(after), expected=words(rows))


def statuses() -> Statuses:
    return {task_id: str(row["status"]) for task_id, row in rows_by_id("id, status").items()}


def insert(rows: Statuses) -> str:
    """The SQL that puts these rows in place: all of them are rows of this module."""
    values = ", ".join(f"({task_id}, 'generate_report', '{status}')" for task_id, status in rows.items())
    return f"{CLEAR} INSERT INTO backend_training.tasks (id, type, status) VALUES {values}"  # noqa: S608


def words(rows: Statuses) -> str:
    return ", ".join(f"#{task_id} {status}" for task_id, status in sorted(rows.items()))


# Two transfers at the same time


@invariant(SAYS["deadlock_name"])
def no_deadlock(run: Run) -> Offence | None:
    for step in run.steps:
        if step.call and sqlstate(step.call.error) == "40P01":
            return Offence(SAYS["deadlock"].format(who=step.actor), tuple(run.rows))
    return None


def serial(before: Statuses, pairs: dict[str, Pair]) -> Invariant:
    """The results and the rows are those of the transfers one after the other; a crashed one may have had no effect."""

    def check(run: Run) -> Offence | None:
        after = {row["id"]: row["status"] for row in run.rows}
        for order in permutations(pairs):
            for happened in product(*([True, False] if name in run.crashed else [True] for name in order)):
                rows, fits = before, True
                for name, happens in zip(order, happened, strict=True):
                    if happens:
                        result, rows = right(rows, *pairs[name])
                        fits = fits and run.results.get(name, result) == result
                if fits and rows == after:
                    return None
        then, now = (list(state.values()).count("processing") for state in (before, after))
        key = "fewer" if now < then else "more" if now > then else "other"
        results = ", ".join(f"{name} {result}" for name, result in sorted(run.results.items()))
        return Offence(SAYS[key].format(before=then, after=now, results=results, rows=words(after)), tuple(run.rows))

    return Invariant(SAYS["serial_name"], check)


def between(pair: Pair, transfer: Transfer) -> object:
    return transfer(*pair)


def meeting(rows: Statuses, a: Pair, b: Pair, crash: bool = False) -> Situation:
    """Two transfers at the same time, of these pairs."""
    rules = (no_deadlock, no_error_but(), serial(rows, {"A": a, "B": b}))
    return Situation(insert(rows), rules, A=partial(between, a), B=partial(between, b), crash=crash)


def reason_of_a_deadlock(violation: Violation) -> str:
    return "deadlock" if sqlstate(error_of(violation.run)) == "40P01" else "retried"


def reason_of_another_result(violation: Violation) -> str:
    error = error_of(violation.run)
    if error is not None:
        return ERRORS.get(sqlstate(error) or type(error).__name__, "")
    if in_two_transactions(violation.run):
        return "not_serial_two"
    return "not_serial_locked" if locks(violation.run) else "not_serial_unlocked"


def in_two_transactions(run: Run) -> bool:
    """Whether an actor committed a change twice, or did so once and crashed before its end."""
    commits: Counter[str] = Counter()
    for step in run.steps:
        if step.actor and step.call and step.what == "did" and step.call.kind == "commit":
            commits[step.actor] += 1
    return any(count > (name not in run.crashed) for name, count in commits.items())


ERRORS = {"55P03": "refused", "TooManyStatements": "endless", "TimeoutError": "pool"}
orders = Orders(TEXTS, {no_deadlock: reason_of_a_deadlock, SAYS["serial_name"]: reason_of_another_result}, ERRORS)
OPPOSITE: Statuses = {42: "processing", 43: "pending"}
SAME_TARGET: Statuses = {42: "processing", 43: "processing", 44: "pending"}
SAME_SOURCE: Statuses = {42: "processing", 43: "pending", 44: "pending"}

EXERCISE = Definition(
    package=__package__,
    lesson=LESSON,
    functions=("transfer",),
    mini=(
        Rule("alone", partial(alone, ALONE)),
        orders.every("opposite", meeting(OPPOSITE, (42, 43), (43, 42))),
        orders.every("same_target", meeting(SAME_TARGET, (42, 44), (43, 44))),
    ),
    full=(
        Rule("edges", partial(alone, EDGES)),
        orders.every("same_source", meeting(SAME_SOURCE, (42, 43), (42, 44))),
        orders.every("crash", meeting(OPPOSITE, (42, 43), (43, 42), crash=True)),
    ),
    database=True,
)
