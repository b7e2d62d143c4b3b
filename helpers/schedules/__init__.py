"""Every order of the steps of concurrent code, on the real database.

    program = Program(actors={"A": worker, "B": worker}, reset=RESET, invariants=LEASED_QUEUE, expiries=1, crashes=1)
    report = explore(program)
    print(report)                                 # "No rule was broken …", or the run that breaks one
    print(write(replay(program, "A A A expire B B B A")))

An actor is an ordinary function that uses `helpers.db.SessionFactory`. Each of its calls to the database (a statement,
a COMMIT, a ROLLBACK) is a step, and a scheduler decides who goes next. See `program` for what a schedule says, `clock`
for what happens to time, `invariants` for the rules.
"""

from helpers.schedules.actor import mark
from helpers.schedules.explorer import explore, replay
from helpers.schedules.invariants import (
    LEASED_QUEUE,
    attempts_are_counted,
    attempts_never_repeat,
    claim_committed_before_work,
    claims_do_not_wait,
    finished_is_finished,
    lease_in_force,
    no_error_but,
    no_task_lost,
    one_current_attempt,
    one_task_a_claim,
    only_current_attempt,
    within_the_lease,
)
from helpers.schedules.program import Program
from helpers.schedules.report import Report
from helpers.schedules.rule import Invariant, Offence, Violation, invariant
from helpers.schedules.run import Crash, Run, Step
from helpers.schedules.transcript import write, write_violation

__all__ = [
    "LEASED_QUEUE",
    "Crash",
    "Invariant",
    "Offence",
    "Program",
    "Report",
    "Run",
    "Step",
    "Violation",
    "attempts_are_counted",
    "attempts_never_repeat",
    "claim_committed_before_work",
    "claims_do_not_wait",
    "explore",
    "finished_is_finished",
    "invariant",
    "lease_in_force",
    "mark",
    "no_error_but",
    "no_task_lost",
    "one_current_attempt",
    "one_task_a_claim",
    "only_current_attempt",
    "replay",
    "within_the_lease",
    "write",
    "write_violation",
]
