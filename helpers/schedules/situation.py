"""Where a run stands when its next move is chosen, and which moves are possible there."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from helpers.schedules.call import Call
from helpers.schedules.limits import Limit
from helpers.schedules.program import actor_of, crash_of, is_step, patience_of


@dataclass(frozen=True)
class Situation:
    """Where a run stands when the next move is chosen."""

    moves: Sequence[str]
    last: str | None  # the actor that made the last step
    ready: dict[str, Call]  # actor → its next call
    waiting: dict[str, Call]  # actor → its call that waits for a lock
    began: frozenset[str]  # the actors that have made a step

    @property
    def limits(self) -> dict[str, Limit]:
        """Actor → the limit of time that may strike now, for those that wait or pause under one."""
        of_calls = {name: call.limit for name, call in self.waiting.items()}
        of_pauses = {name: call.pause for name, call in self.ready.items()}
        return {name: limit for name, limit in (of_calls | of_pauses).items() if limit}

    def default_move(self) -> str | None:
        """The move of the fixed order: the same actor goes on while it can, else the first that can. None: nobody."""
        if self.last in self.ready:
            return self.last
        return next(iter(self.ready), None)

    def possible(self, move: str) -> bool:
        """Whether the move can be made now. Time can always pass; a crash also ends an actor that waits."""
        name = actor_of(move)
        if name is None:
            return True
        if is_step(move):
            return name in self.ready
        if move == patience_of(name):
            return name in self.limits
        return move == crash_of(name) and (name in self.ready or name in self.waiting)

    def lifts_what_ends(self, move: str) -> bool:
        """Whether the move ends a wait whose limit was lifted at its call: it can only strike in another run."""
        return any(move == patience_of(name) and not call.limit_counts for name, call in self.waiting.items())


Choose = Callable[[Situation], str | None]
