"""Makes the schedule that was found simpler, as long as it breaks the same rule."""

from itertools import pairwise

from helpers.schedules.invariants import first_offence
from helpers.schedules.program import Program, is_step
from helpers.schedules.rule import Violation
from helpers.schedules.run import Run
from helpers.schedules.stage import Stage


def shrink(program: Program, stage: Stage, violation: Violation) -> Violation:
    """Leave out one move after another, as long as the same rule is still broken by a simpler run."""
    best = violation
    position = 0
    while position < len(moves := best.schedule.split()):
        run = stage.follow(moves[:position] + moves[position + 1 :])
        found = first_offence(program.invariants, run)
        if found and found[0] == best.invariant and _size(run) < _size(best.run):
            best = Violation(found[0], found[1].sentence, found[1].rows, run)
            position = 0
        else:
            position += 1
    return best


def _size(run: Run) -> tuple[int, int, int]:
    steps = [move for move in run.moves if is_step(move)]
    odd = len(run.moves) - len(steps)
    switches = sum(a != b for a, b in pairwise(steps))
    return odd + switches, len(run.moves), len(run.schedule.split())
