"""What the exercises with a lease share: lengths of time, and what a run tells about the statements in it."""

import re
from collections.abc import Callable, Iterator, Mapping

from helpers.checking.orders import explored
from helpers.checking.parts import Calling, Finding, Functions, Rule
from helpers.checking.tasks import CLEAR, ROW
from helpers.schedules import Program, Run, Violation, no_error_but
from helpers.schedules.connection import Call

CALL_SECONDS = 10.0  # for one call, with nobody else there
LEASE = 10.0  # seconds, of the workers in the schedules: their clock is a virtual one
LONG_LEASE = 600
ONE_TASK = f"{CLEAR} {ROW.format(id=42)}"

STANDS_STILL = re.compile(r"\bnow\(\)|\bcurrent_timestamp\b|\btransaction_timestamp\b", re.IGNORECASE)


def in_every_order(
    name: str,
    made: Callable[[Functions], Program],
    *needs: int,
    expected: Mapping[str, str],
    why: Callable[[Violation], str],
) -> Rule:
    """A rule that explores the program `made` of the learner's functions; `needs`: the positions of those it calls."""

    def run(functions: Functions) -> Iterator[Calling | Finding]:
        program = made(functions)
        # An error says less than any other rule.
        prefer = [rule for rule in program.invariants if rule.name != no_error_but().name]
        yield from explored(program, expected=expected[name], why=why, prefer=prefer, seconds=600.0)

    return Rule(name, run, seconds=700.0, needs=frozenset(needs) or None, program=made)


def reason_of_a_dead_lease(run: Run) -> str:
    """Why a lease that was just written had ended already: now() stood still, or whose clock was it?"""
    if any(STANDS_STILL.search(call.text) for call in calls(run)):
        return "moment"
    return "own_clock" if run.schedule == "expire" else "own_time"


def asks_for_the_id_alone(update: Call) -> bool:
    """Whether the UPDATE has no condition but the id."""
    conditions = update.text.upper().partition("WHERE")[2].partition("RETURNING")[0]
    return not re.search(r"ATTEMPTS|STATUS|LEASE", conditions)


def is_update(call: Call) -> bool:
    return call.text.lstrip()[:6].upper() == "UPDATE"


def calls(run: Run) -> list[Call]:
    """The calls to the database, in the order of the run."""
    return [step.call for step in run.steps if step.call]
