"""One run of a program: what was done, in which order, and what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from helpers.schedules.call import Call
from helpers.schedules.limits import Limit

Row = dict[str, Any]


class Crash(BaseException):
    """Ends an actor that has crashed. Not an Exception, so that `except Exception` does not survive it."""


@dataclass(frozen=True, eq=False)
class Step:
    """One line of a run.

    `what`: *did* (a call came back), *waits* (it waits for a lock), *continues* (a call that waited came back),
    *crash*, *patience* (`limit` strikes, under which it waits, or stands idle), *expire*, *skipped* (the schedule named
    an actor that could not go on), *ends* (the actor is done), *lost* (the actor did not come back in time).
    """

    what: str
    actor: str | None = None
    call: Call | None = None
    waits_for: Sequence[str] = ()
    outcome: object = None
    limit: Limit | None = None
    rescue: bool = False  # belongs to the claims after the end, see `Program.rescue`


@dataclass(eq=False)
class Run:
    """What a run leaves behind. Rows are as the reset's transaction, and those of all actors, left them."""

    moves: list[str] = field(default_factory=list)
    by_default: list[bool] = field(default_factory=list)  # was this move the one that the fixed order would have made?
    steps: list[Step] = field(default_factory=list)
    results: dict[str, object] = field(default_factory=dict)  # name → what the function returned, or its exception
    crashed: set[str] = field(default_factory=set)
    limited: bool = False  # an actor set itself a limit of time, which might have struck at a wait or a pause
    lost: str | None = None  # a sentence on the actor that did not come back
    redundant: bool = False  # an exploration saw on the way that this order equals one that it makes in another run
    rows: list[Row] = field(default_factory=list)
    rescued: list[Row] | None = None  # the rows after the rescue
    ledger: list[Row] = field(default_factory=list)  # `at` is virtual time
    clock: list[tuple[datetime, timedelta]] = field(default_factory=list)  # the moves of the clock

    @property
    def schedule(self) -> str:
        """The shortest string that replays this run: without the moves that the fixed order makes by itself."""
        end = len(self.moves)
        while end > 0 and self.by_default[end - 1]:
            end -= 1
        return " ".join(self.moves[:end])
