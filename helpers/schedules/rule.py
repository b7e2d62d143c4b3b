"""A rule with a name, and what it says of a run that breaks it."""

from collections.abc import Callable
from dataclasses import dataclass

from helpers.schedules.run import Row, Run


@dataclass(frozen=True)
class Invariant:
    """A rule with a name. `check` returns None, or the sentence and the rows that show how a run broke it."""

    name: str
    check: Callable[[Run], "Offence | None"]


@dataclass(frozen=True)
class Offence:
    """How a run broke a rule: a sentence, and the rows that show it."""

    sentence: str
    rows: tuple[Row, ...] = ()


def invariant(name: str) -> Callable[[Callable[[Run], Offence | None]], Invariant]:
    """Make a rule of a function from a run to an Offence or None."""
    return lambda check: Invariant(name, check)


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
