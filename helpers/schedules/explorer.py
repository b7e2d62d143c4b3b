"""Looks for a schedule that breaks a rule: the simplest orders first, then all of them, as far as the limits allow.

The search runs the program again from its reset for every order (stateless model checking: Godefroid, "Model checking
for programming languages using VeriSoft", POPL 1997). It goes by the number of *disturbances*: a switch away from an
actor that could go on, a crash, an expiry, the end of a patience. All runs with none come first, then all with one, and
so on (context bounding: Musuvathi and Qadeer, "Iterative context bounding for systematic testing of multithreaded
programs", PLDI 2007): most faults need few, and the first schedule found is one of the simplest.

Orders that differ only in moves which cannot influence each other are run once (sleep sets: Godefroid, "Partial-order
methods for the verification of concurrent systems", 1996; see `choices.independent` for what counts as such).
"""

from collections import Counter
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from random import Random
from time import monotonic

from helpers.schedules.choices import disturbance, independent, options
from helpers.schedules.invariants import first_offence
from helpers.schedules.program import Program, parse
from helpers.schedules.report import Report
from helpers.schedules.rule import Violation
from helpers.schedules.run import Run
from helpers.schedules.shrinking import shrink
from helpers.schedules.situation import Situation
from helpers.schedules.stage import Stage, open_stage


def explore(
    program: Program,
    *,
    max_runs: int = 5_000,
    max_switches: int | None = None,
    sample: int = 200,
    seed: int = 42,
    time_limit: float = 60.0,
) -> Report:
    """Run the program under one order after another, until a rule breaks, all orders were run, or a limit is reached.

    `max_runs` and `time_limit` (seconds) end the systematic search; `max_switches` bounds its disturbances. What is
    left then is sampled: `sample` runs, drawn with `seed`, within what remains of the time.
    Raises LabError where another exploration uses the database; psycopg's errors where reset or rows cannot be read.
    """
    begin = monotonic()
    with open_stage(program) as stage:
        search = _Search(program, stage, deadline=begin + time_limit)
        search.systematic(max_runs, max_switches)
        if not search.violation and not search.exhausted:
            search.by_chance(sample, Random(seed))
        violation = search.violation
        if violation and not violation.run.lost:  # else every attempt to shrink would cost the time of a lost step
            violation = shrink(program, stage, violation)
    return Report(
        violation=violation,
        runs=search.runs,
        by_disturbances=dict(sorted(search.levels.items())),
        sampled=search.sampled,
        redundant=search.redundant,
        diverged=search.diverged,
        exhausted=search.exhausted,
        complete_to=search.complete_to,
        seconds=monotonic() - begin,
    )


def replay(program: Program, schedule: str) -> Run:
    """Run the program once under `schedule` (see `helpers.schedules.program` for its words).

    A move that cannot be made at its place is skipped, and the transcript says so. Raises LabError for an unknown word.
    """
    moves = parse(schedule, list(program.actors))
    with open_stage(program) as stage:
        return stage.follow(moves)


# The search


@dataclass(order=True, frozen=True)
class Branch:
    """A run still to be made: `moves` first, then the default order; the moves that are asleep need not be tried."""

    disturbances: int
    number: int
    moves: tuple[str, ...] = field(compare=False)
    asleep: frozenset[str] = field(compare=False)


class _Search:
    def __init__(self, program: Program, stage: Stage, deadline: float) -> None:
        self.program, self.stage, self.deadline = program, stage, deadline
        self.runs = self.sampled = self.redundant = self.diverged = 0
        self.levels: Counter[int] = Counter()
        self.violation: Violation | None = None
        self.exhausted = False
        self.complete_to = -1
        self._numbers = count()
        self._branches = [Branch(0, next(self._numbers), (), frozenset())]

    def systematic(self, max_runs: int, max_switches: int | None) -> None:
        """All orders, those with few disturbances first."""
        while self._branches and not self.violation:
            nearest = self._branches[0].disturbances
            self.complete_to = nearest - 1
            if self.runs >= max_runs or monotonic() > self.deadline:
                return
            if max_switches is not None and nearest > max_switches:
                return
            self._explore(heappop(self._branches))
        self.exhausted = not (self._branches or self.violation or self.diverged)
        self.complete_to += self.exhausted

    def by_chance(self, sample: int, random: Random) -> None:
        """Orders drawn at random, each move among those that are possible."""
        for _ in range(sample):
            if self.violation or monotonic() > self.deadline:
                return
            self.sampled += 1
            self._judge(self.stage.run(lambda situation: random.choice(options(self.program, situation) or [None])))

    def _explore(self, branch: Branch) -> None:
        """Make the branch's run, and note at each move beyond its prefix what else could have been done."""
        asleep = branch.asleep
        cost = branch.disturbances
        redundant = diverged = False

        def choose(situation: Situation) -> str | None:
            nonlocal asleep, redundant, diverged
            # Fewer moves than the branch has: one was skipped, since the same moves led elsewhere than the last time.
            diverged = diverged or len(situation.moves) < len(branch.moves)
            if redundant or diverged:
                return None
            chosen, tried = None, set(asleep)
            for move in options(self.program, situation):
                if move in asleep:
                    continue
                still = frozenset(other for other in tried if independent(other, move, situation))
                price = disturbance(move, situation)
                if chosen is None and price == 0:
                    chosen, next_asleep = move, still
                else:
                    moves = (*situation.moves, move)
                    heappush(self._branches, Branch(cost + price, next(self._numbers), moves, still))
                tried.add(move)
            redundant = chosen is None and bool(tried)  # what this run goes on with has been done in another one
            asleep = frozenset() if redundant else next_asleep
            return chosen

        run = self.stage.run(choose, branch.moves)
        run.redundant = redundant
        self.levels[cost] += 1
        self.redundant += redundant
        self.diverged += diverged
        self._judge(run)

    def _judge(self, run: Run) -> None:
        self.runs += 1
        if found := first_offence(self.program.invariants, run):
            self.violation = Violation(found[0], found[1].sentence, found[1].rows, run)
