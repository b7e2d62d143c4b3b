"""Lesson 2's exercise: a transfer between two rows, whose locks cannot form a circle."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import permutations, product

from helpers.checking import database
from helpers.checking.calls import article, call, written
from helpers.checking.orders import error_of, explored, sqlstate
from helpers.checking.parts import Calling, Definition, Finding, Functions, Rule, texts_of
from helpers.checking.tasks import CLEAR
from helpers.exercises.transfer import LESSON
from helpers.schedules import Invariant, Offence, Program, Run, Violation, no_error_but
from helpers.schedules.invariants import comes_back

TEXTS = texts_of(__package__)
WHY = TEXTS["why"]
SAYS = TEXTS["offences"]

CALL_SECONDS = 10.0

Rows = dict[int, str]  # id → status
Pair = tuple[int, int]


def reference(rows: Rows, source: int, target: int) -> tuple[bool, Rows]:
    """What one transfer returns, and the rows after it."""
    if rows.get(source) != "processing" or rows.get(target) != "pending":
        return False, rows
    return True, rows | {source: "pending", target: "processing"}


ALONE: list[tuple[Rows, Pair]] = [
    ({42: "processing", 43: "pending"}, (42, 43)),
    ({42: "pending", 43: "processing"}, (43, 42)),
    ({42: "pending", 43: "pending"}, (42, 43)),
    ({42: "processing", 43: "processing"}, (42, 43)),
    ({42: "processing", 43: "completed"}, (42, 43)),
]
EDGES: list[tuple[Rows, Pair]] = [
    ({42: "processing"}, (42, 42)),
    ({42: "pending"}, (42, 42)),
    ({42: "processing"}, (42, 99)),
    ({42: "pending"}, (99, 42)),
]


def calls(cases: list[tuple[Rows, Pair]], functions: Functions) -> Iterator[Calling | Finding]:
    """One transfer at a time, each with its rows before and after."""
    [transfer] = functions
    for before, pair in cases:
        called = written("transfer", *pair)
        expected, expected_rows = reference(before, *pair)
        database.set_rows(insert(before))
        yield Calling(called, CALL_SECONDS)
        outcome = call(transfer, *pair)
        after = {int(str(row["id"])): str(row["status"]) for row in database.read_rows("id, status")}
        facts = {"before": words(before), "after": words(after), "expected": words(expected_rows)}
        if outcome.error is not None:
            why = outcome.why_raised
        elif type(outcome.value) is not bool:
            why = WHY["type"].format(kind=article(type(outcome.value).__name__))
        elif outcome.value is not expected:
            why = WHY["answer"].format(before=facts["before"], expected=expected)
        elif database.open_transactions():
            why = WHY["open"]
        elif after != expected_rows:
            why = WHY["uncommitted"] if after == before else WHY["rows"].format(**facts)
        else:
            why = ""
        yield Finding(not why, called, f"{outcome.came}: {words(after)}", f"{expected}: {words(expected_rows)}", why)
        if why:
            return


def insert(rows: Rows) -> str:
    """The SQL that puts these rows in place: all of them are rows of this module."""
    values = ", ".join(f"({task_id}, 'generate_report', '{status}')" for task_id, status in rows.items())
    return f"{CLEAR} INSERT INTO backend_training.tasks (id, type, status) VALUES {values}"  # noqa: S608


def words(rows: Rows) -> str:
    return ", ".join(f"#{task_id} {status}" for task_id, status in sorted(rows.items()))


# Two transfers at the same time

OPPOSITE: tuple[Rows, dict[str, Pair]] = ({42: "processing", 43: "pending"}, {"A": (42, 43), "B": (43, 42)})
SAME_TARGET: tuple[Rows, dict[str, Pair]] = (
    {42: "processing", 43: "processing", 44: "pending"},
    {"A": (42, 44), "B": (43, 44)},
)
SAME_SOURCE: tuple[Rows, dict[str, Pair]] = (
    {42: "processing", 43: "pending", 44: "pending"},
    {"A": (42, 43), "B": (42, 44)},
)


def program(case: tuple[Rows, dict[str, Pair]], crashes: int, functions: Functions) -> Program:
    [transfer] = functions
    rows, pairs = case
    return Program(
        actors={name: partial(transfer, *pair) for name, pair in pairs.items()},
        reset=insert(rows),
        invariants=(NO_DEADLOCK, no_error_but(), serial(rows, pairs)),
        crashes=crashes,
    )


def _no_deadlock(run: Run) -> Offence | None:
    for step in run.steps:
        if step.call and sqlstate(step.call.error) == "40P01":
            return Offence(SAYS["deadlock"].format(who=step.actor), tuple(run.rows))
    return None


NO_DEADLOCK = Invariant(SAYS["deadlock_name"], _no_deadlock)


def serial(before: Rows, pairs: dict[str, Pair]) -> Invariant:
    """The results and the rows are those of the transfers one after the other; a crashed one may have had no effect."""

    def check(run: Run) -> Offence | None:
        after = {row["id"]: row["status"] for row in run.rows}
        for order in permutations(pairs):
            for happened in product(*([True, False] if name in run.crashed else [True] for name in order)):
                rows, fits = before, True
                for name, happens in zip(order, happened, strict=True):
                    if happens:
                        result, rows = reference(rows, *pairs[name])
                        fits = fits and run.results.get(name, result) == result
                if fits and rows == after:
                    return None
        then, now = (list(state.values()).count("processing") for state in (before, after))
        key = "fewer" if now < then else "more" if now > then else "other"
        results = ", ".join(f"{name} {result}" for name, result in sorted(run.results.items()))
        return Offence(SAYS[key].format(before=then, after=now, results=results, rows=words(after)), tuple(run.rows))

    return Invariant(SAYS["serial_name"], check)


def why(violation: Violation) -> str:
    error = error_of(violation)
    state = sqlstate(error)
    if violation.invariant == NO_DEADLOCK.name:
        return str(WHY["deadlock" if state == "40P01" else "retried"])
    if violation.invariant == comes_back.name:
        return str(WHY["lost"])
    if error is not None:
        kind = type(error).__name__
        known = {"55P03": "refused", "TooManyStatements": "endless", "TimeoutError": "pool"}
        return str(WHY.get(known.get(state or kind, ""), ""))
    if in_two_transactions(violation.run):
        return str(WHY["not_serial_two"])
    locked = any(step.call and "FOR UPDATE" in step.call.text.upper() for step in violation.run.steps)
    return str(WHY["not_serial_locked" if locked else "not_serial_unlocked"])


def in_two_transactions(run: Run) -> bool:
    """Whether an actor committed a change twice, or did so once and crashed before its end."""
    commits: Counter[str] = Counter()
    for step in run.steps:
        if step.actor and step.call and step.what == "did" and step.call.kind == "commit":
            commits[step.actor] += 1
    return any(count > (name not in run.crashed) for name, count in commits.items())


def meeting(name: str, case: tuple[Rows, dict[str, Pair]], crashes: int = 0) -> Rule:
    made = partial(program, case, crashes)

    def run(functions: Functions) -> Iterator[Calling | Finding]:
        yield from explored(made(functions), expected=TEXTS["expected"][name], why=why)

    return Rule(name, run, seconds=400.0, program=made)


EXERCISE = Definition(
    package=__package__,
    lesson=LESSON,
    functions=("transfer",),
    mini=(
        Rule("alone", partial(calls, ALONE)),
        meeting("opposite", OPPOSITE),
        meeting("same_target", SAME_TARGET),
    ),
    full=(
        Rule("edges", partial(calls, EDGES)),
        meeting("same_source", SAME_SOURCE),
        meeting("crash", OPPOSITE, crashes=1),
    ),
    database=True,
)
