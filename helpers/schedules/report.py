"""What an exploration found, and how far it went."""

from collections.abc import Mapping
from dataclasses import dataclass

from helpers.schedules.rule import Violation
from helpers.schedules.transcript import write_violation

TEXTS = {
    "passed": "No rule was broken in {runs} runs, {extent}.",
    "broken": "A rule was broken, in run {runs}.",
    "exhausted": "and these were all orders",
    "bounded": "not all orders: all with at most {disturbances} disturbances, some others, and {sampled} by chance",
}


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
            return f"{TEXTS['broken'].format(runs=self.runs)}\n{write_violation(self.violation)}"
        extent = TEXTS["exhausted" if self.exhausted else "bounded"]
        extent = extent.format(disturbances=self.complete_to, sampled=self.sampled)
        return TEXTS["passed"].format(runs=self.runs, extent=extent)
