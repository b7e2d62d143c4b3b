"""A rule of a check that runs the learner's functions in every order of their calls to the database."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Engine, event

from helpers.checking.parts import Calling, Finding
from helpers.schedules import (
    Invariant,
    Offence,
    Program,
    Report,
    Run,
    Violation,
    explore,
    invariant,
    no_error_but,
    replay,
    write,
)
from helpers.schedules.invariants import comes_back, first_offence
from helpers.schedules.run import Row

MOST_STATEMENTS = 60  # of one function in one run; a claim needs two
SEARCH_SECONDS = 600.0
MOST_RUNS = 5_000
RUNS_OF_SECOND_SEARCH = 100
SAMPLE = 200  # orders drawn by chance, where not all could be run

TEXTS = {
    "all": "all {runs} orders: no rule broken",
    "bounded": "all {runs} orders with {most} or fewer interruptions: no rule broken",
    "some": "no rule broken, but not all orders were run",
    "diverged": "no rule broken",
    "one": "no rule broken",
    "came": "broken: {name}",
    "broken": "✗ {name}: {sentence}",
    "why": "{sentence}. {why}",
    "statements": "it sent more than {most} statements",
    "unseen_name": "the check sees what the function sends",
    "unseen": (
        "{who} sent nothing to the database that the check could see. Use `SessionFactory` of helpers.db: "
        "the check gives it a session of its own for each worker"
    ),
}

_sent = threading.local()


class TooManyStatements(Exception):
    """The function goes on and on: it is in a loop that ends only when somebody else moves."""


@invariant(TEXTS["unseen_name"])
def seen(run: Run) -> Offence | None:
    """Every actor that came to its end made a call to the database: else it uses a connection that is not ours."""
    busy = {step.actor for step in run.steps if step.call and step.call.kind != "mark"}
    for who, result in run.results.items():
        if who not in busy and not isinstance(result, BaseException):
            return Offence(TEXTS["unseen"].format(who=who))
    return None


def explored(
    program: Program, *, expected: str, why: Callable[[Violation], str], max_switches: int | None = None
) -> Iterator[Calling | Finding]:
    """Run the program in every order, and give one finding. `why` explains a violation, behind its own sentence.

    `max_switches` is for programs of many steps: the orders with at most so many crashes, expiries, and switches away
    from an actor that could go on, and no others.
    Where several rules are broken within some runs, the first of the program's is the one to tell; but an error says
    less than any other rule.
    """
    yield Calling("", SEARCH_SECONDS + 60.0)
    bounded_program = replace(
        program,
        actors=bounded_actors(program.actors),
        invariants=(seen, *program.invariants),
        rescue=bounded(program.rescue) if program.rescue else None,
    )
    sample = SAMPLE if max_switches is None else 0
    report = explore(
        bounded_program, time_limit=SEARCH_SECONDS, max_runs=MOST_RUNS, max_switches=max_switches, sample=sample
    )
    if report.violation is None:
        yield Finding(True, "", _extent(report, max_switches), expected)
        return
    violation = report.violation
    if violation.invariant not in (seen.name, comes_back.name):
        prefer = [rule for rule in program.invariants if rule.name != no_error_but().name]
        violation = _preferred(bounded_program, prefer, violation)
    yield _finding(violation, expected, why(violation))


def replayed(program: Program, schedule: str) -> Finding:
    """One run of the program, as a finding with its transcript."""
    run = replay(program, schedule)
    found = first_offence(program.invariants, run)
    transcript = write(run)
    if found:
        transcript += "\n" + TEXTS["broken"].format(name=found[0], sentence=found[1].sentence)
    return Finding(found is None, "", "", "", transcript=transcript)


def replayed_finding(program: Program, schedule: str, *, expected: str, why: Callable[[Violation], str]) -> Finding:
    """A rule that needs one order only."""
    run = replay(program, schedule)
    found = first_offence(program.invariants, run)
    if found is None:
        return Finding(True, "", TEXTS["one"], expected)
    violation = Violation(found[0], found[1].sentence, found[1].rows, run)
    return replace(_finding(violation, expected, why(violation)), schedule=schedule)


def error_of(run: Run) -> BaseException | None:
    """The exception with which an actor ended, if one did."""
    return next((result for result in run.results.values() if isinstance(result, BaseException)), None)


def sqlstate(error: object) -> str | None:
    """The error's number in PostgreSQL (`40P01`), or None."""
    return getattr(getattr(error, "orig", error), "sqlstate", None)


def bounded(function: Callable[[], Any]) -> Callable[[], Any]:
    """The function, which ends with TooManyStatements where it would send one statement after another for ever."""

    def run() -> Any:
        _sent.count = 0
        try:
            return function()
        finally:
            _sent.count = None

    return run


def bounded_actors(actors: Mapping[str, Any]) -> dict[str, Any]:
    """The actors, each function bounded. Actors that run the same code still do: the explorer makes use of it."""
    made: dict[Any, Any] = {}
    for code in actors.values():
        if callable(code) and code not in made:
            made[code] = bounded(code)
    return {name: made[code] if callable(code) else code for name, code in actors.items()}


@event.listens_for(Engine, "before_cursor_execute")
def _count(*_: object) -> None:
    if getattr(_sent, "count", None) is None:
        return  # this thread runs no bounded function
    _sent.count += 1
    if _sent.count > MOST_STATEMENTS:
        raise TooManyStatements(TEXTS["statements"].format(most=MOST_STATEMENTS))


def _extent(report: Report, max_switches: int | None) -> str:
    if report.exhausted:
        return TEXTS["all"].format(runs=report.runs)
    if not report.diverged and max_switches is not None and report.complete_to == max_switches:
        return TEXTS["bounded"].format(runs=report.runs, most=max_switches)
    return TEXTS["diverged" if report.diverged else "some"]


def _preferred(program: Program, prefer: Sequence[Invariant], violation: Violation) -> Violation:
    """Among the first runs, the rule that stands first in `prefer` of all that are broken; the simplest run for it."""
    broken: set[str] = set()

    @invariant("")
    def collect(run: Run) -> None:
        broken.update(rule.name for rule in prefer if rule.name not in broken and rule.check(run))

    explore(replace(program, invariants=(collect,)), max_runs=RUNS_OF_SECOND_SEARCH, sample=0)
    for rule in prefer:
        if rule.name in broken:
            report = explore(replace(program, invariants=(rule,)), max_runs=RUNS_OF_SECOND_SEARCH, sample=0)
            if report.violation and report.violation.invariant == rule.name:
                return report.violation
    return violation


def _finding(violation: Violation, expected: str, why: str) -> Finding:
    broken = TEXTS["broken"].format(name=violation.invariant, sentence=violation.sentence)
    return Finding(
        ok=False,
        called="",
        came=TEXTS["came"].format(name=violation.invariant),
        expected=expected,
        why=TEXTS["why"].format(sentence=violation.sentence.rstrip("."), why=why).strip(),
        rows=[shown_row(row) for row in violation.rows],
        transcript=f"{write(violation.run)}\n{broken}",
        schedule=violation.schedule,
    )


def shown_row(row: Row) -> dict[str, str]:
    """A row of the tasks or of the ledger, for a table: without times, since they differ from run to run."""
    ledger = "task_id" in row
    return {
        name: str(value)
        for name, value in row.items()
        if value is not None and not isinstance(value, datetime) and not (ledger and name in ("id", "event"))
    }
