"""Looks for a schedule that breaks a rule: the simplest orders first, then all of them, as far as the limits allow.

The search runs the program again from its reset for every order (stateless model checking: Godefroid, "Model checking
for programming languages using VeriSoft", POPL 1997). It goes by the number of *disturbances*: a switch away from an
actor that could go on, a crash, an expiry, the end of a patience. All runs with none come first, then all with one, and
so on (context bounding: Musuvathi and Qadeer, "Iterative context bounding for systematic testing of multithreaded
programs", PLDI 2007): most faults need few, and the first schedule found is one of the simplest.

Orders that differ only in moves which cannot influence each other are run once (sleep sets: Godefroid, "Partial-order
methods for the verification of concurrent systems", 1996; see `independent` for what counts as such).
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count, pairwise
from random import Random
from time import monotonic

from helpers.schedules.invariants import Offence, comes_back
from helpers.schedules.program import EXPIRE, Program, actor_of, crash_of, is_step, parse, patience_of
from helpers.schedules.run import Row, Run
from helpers.schedules.situation import Situation
from helpers.schedules.stage import Stage, open_stage

TEXTS = {
    "passed": "No rule was broken in {runs} runs, {extent}.",
    "broken": "A rule was broken, in run {runs}.",
    "exhausted": "and these were all orders",
    "bounded": "not all orders: all with at most {disturbances} disturbances, some others, and {sampled} by chance",
}


@dataclass(frozen=True)
class Violation:
    """The simplest run that was found to break a rule."""

    invariant: str  # the rule's name
    sentence: str
    rows: tuple[Row, ...]  # that show it
    run: Run

    @property
    def schedule(self) -> str:
        """Replays the run: see `replay`."""
        return self.run.schedule

    @property
    def transcript(self) -> str:
        """The run and the broken rule, for a person."""
        from helpers.schedules.transcript import write_violation  # it imports this module

        return write_violation(self)


@dataclass(frozen=True)
class Report:
    """What an exploration found.

    `runs`: how many runs it made; `by_disturbances`: how many of the systematic ones had 0, 1, 2, … disturbances;
    `sampled`: how many were made by chance; `redundant`: how many turned out on the way to repeat an earlier order;
    `diverged`: how many could not be made, because the same moves led elsewhere than before (an actor that depends on
    more than the rows: chance, the real time, something it keeps between runs).
    `exhausted`: all orders were run. `complete_to`: all orders with at most so many disturbances were run, or -1.
    """

    violation: Violation | None
    runs: int
    by_disturbances: Mapping[int, int]
    sampled: int
    redundant: int
    diverged: int
    exhausted: bool
    complete_to: int
    seconds: float

    def __str__(self) -> str:
        if self.violation:
            return f"{TEXTS['broken'].format(runs=self.runs)}\n{self.violation.transcript}"
        extent = TEXTS["exhausted" if self.exhausted else "bounded"]
        extent = extent.format(disturbances=self.complete_to, sampled=self.sampled)
        return TEXTS["passed"].format(runs=self.runs, extent=extent)


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
        return _follow(stage, moves)


def first_offence(program: Program, run: Run) -> tuple[str, Offence] | None:
    """The first of the program's rules that the run broke, with the offence."""
    for rule in (comes_back, *program.invariants):
        if offence := rule.check(run):
            return rule.name, offence
    return None


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
        if found := first_offence(self.program, run):
            self.violation = Violation(found[0], found[1].sentence, found[1].rows, run)


def options(program: Program, situation: Situation) -> list[str]:
    """All moves that are possible now, the default move first."""
    default = situation.default_move()
    moves = [default] if default else []
    moves += [name for name in situation.ready if name != default]
    fresh: list[object] = []  # actors that run the same code and have not begun are alike: one of them is enough
    for name in [m for m in moves if m not in situation.began]:
        if (code := program.actors[name]) in fresh:
            moves.remove(name)
        fresh.append(code)
    made = situation.moves
    if moves and made and made.count(EXPIRE) < program.expiries and made[-1] != EXPIRE:
        moves.append(EXPIRE)
    if sum(move.endswith("!") for move in made) < program.crashes:
        # An actor that crashes before its first call has done nothing, and leaves nothing behind.
        moves += [crash_of(n) for n in (*situation.ready, *situation.waiting) if n in situation.began]
    if sum(move.endswith("~") for move in made) < program.strikes:
        moves += [patience_of(name) for name in situation.limits]
    return moves


def disturbance(move: str, situation: Situation) -> int:
    """1 for a crash, an expiry, a limit that strikes, and a switch away from an actor that could go on; else 0."""
    return int(move not in situation.ready or (situation.last in situation.ready and move != situation.last))


def independent(one: str, other: str, situation: Situation) -> bool:
    """Whether the two moves, both possible now, lead to the same state in either order, and neither hinders the other.

    Careful rather than clever. What never matters to others: a mark; the end of a transaction that found nothing, and
    so holds no lock; the crash of an actor without a transaction. And time matters only to calls that ask for it.
    """
    if EXPIRE in (one, other):
        rest = other if one == EXPIRE else one
        call = situation.ready.get(rest)
        return rest != EXPIRE and (call is None or not call.reads_time)
    if actor_of(one) == actor_of(other) or (one.endswith("!") and other.endswith("!")):
        return False
    return _matters_to_nobody(one, situation) or _matters_to_nobody(other, situation)


def _matters_to_nobody(move: str, situation: Situation) -> bool:
    name = actor_of(move)
    call = situation.ready.get(name) if name else None
    if call is None or move.endswith("~"):
        return False
    if move.endswith("!"):
        return call.idle
    return call.kind == "mark" or call.closes_clean


# Making the schedule that was found simpler


def shrink(program: Program, stage: Stage, violation: Violation) -> Violation:
    """Leave out one move after another, as long as the same rule is still broken by a simpler run."""
    best = violation
    position = 0
    while position < len(moves := best.schedule.split()):
        run = _follow(stage, moves[:position] + moves[position + 1 :])
        found = first_offence(program, run)
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


def _follow(stage: Stage, moves: list[str]) -> Run:
    """The run that makes these moves, and goes on in the default order behind them."""
    return stage.run(lambda _: None, moves)
