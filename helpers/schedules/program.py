"""What to run: the actors, the rows they start from, and what must hold at the end.

A *move* is what a scheduler may do next, and a schedule is moves in a string, separated by spaces:

    A         actor A goes on, to its next call to the database
    A!        actor A crashes: its connection drops, and nothing of it runs any more
    A~        A's patience ends: the limit of time strikes under which its call waits, or its session stands idle
    expire    time passes, until every lease has ended

Where a schedule ends early, the run goes on in the fixed order of `default_move`, so that every run comes to its end.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from helpers.errors import LabError
from helpers.repository.lease import MAX_LEASE_SECONDS
from helpers.schedules.rule import Invariant

EXPIRE = "expire"
EVENTS = "!~"  # behind an actor's name: what befalls it

TEXTS = {
    "no_actor": (
        'The schedule says "{token}". The actors are {actors}; each may have a "!" behind it, for its crash, '
        'or a "~", for the end of its patience.'
    ),
    "bad_name": '"{name}" cannot be an actor\'s name: use letters and digits, but not "{expire}".',
    "no_actors": "A program has at least one actor.",
}

Actor = Callable[[], object] | Sequence[str]


@dataclass(frozen=True)
class Program:
    """Concurrent code, and the rows it works on.

    `actors`: name → a function without arguments, which uses `SessionFactory` as it always does; or SQL statements,
    run one after the other as psql would run them. One actor has one session at a time.
    `reset`: SQL, or a function without arguments, that restores the rows. Every run starts with it.
    `invariants`: what must hold at the end of every run.
    `expiries`, `crashes`: how many of these moves an exploration may add to a run.
    `strikes`: how many limits of time it may let strike in a run, where an actor has set itself one (see `limits`).
    `rescue`: a claim that is repeated at the end of every run, when all leases have ended, until it returns None:
    it must get every task that is not finished, or the task is lost (see `invariants.no_task_lost`).
    `rows`, `ledger`: the SQL that reads them at the end of a run; no ledger where it is None.
    `expire_seconds`: how far `expire` moves the clock; longer than any lease.
    `step_seconds`: how long one step may take, until the actor counts as lost.
    """

    actors: Mapping[str, Actor]
    reset: str | Callable[[], object]
    invariants: Sequence[Invariant] = ()
    expiries: int = 0
    crashes: int = 0
    strikes: int = field(default=1, kw_only=True)
    rescue: Callable[[], object] | None = None
    rows: str = "SELECT * FROM backend_training.tasks ORDER BY id"
    ledger: str | None = "SELECT * FROM backend_training.task_events ORDER BY id"
    expire_seconds: int = MAX_LEASE_SECONDS + 1
    step_seconds: float = field(default=5.0, kw_only=True)

    def __post_init__(self) -> None:
        if not self.actors:
            raise LabError(TEXTS["no_actors"])
        for name in self.actors:
            if not name.isalnum() or name == EXPIRE:
                raise LabError(TEXTS["bad_name"].format(name=name, expire=EXPIRE))


def crash_of(actor: str) -> str:
    """The move that crashes `actor`."""
    return f"{actor}!"


def patience_of(actor: str) -> str:
    """The move that ends the patience of `actor`."""
    return f"{actor}~"


def actor_of(move: str) -> str | None:
    """The actor that the move is about; None for `expire`."""
    return None if move == EXPIRE else move.rstrip(EVENTS)


def is_step(move: str) -> bool:
    """Whether the move lets an actor go on: all others are what befalls it."""
    return move != EXPIRE and move.isalnum()


def parse(schedule: str, actors: Sequence[str]) -> list[str]:
    """The moves of a schedule. Names of one letter may be written without spaces: `ABBA`.

    Raises LabError where a word names no actor.
    """
    moves: list[str] = []
    for token in schedule.split():
        if token == EXPIRE or token in actors or (token[-1] in EVENTS and token[:-1] in actors):
            moves.append(token)
        elif all(letter in actors for letter in token):
            moves.extend(token)
        else:
            raise LabError(TEXTS["no_actor"].format(token=token, actors=", ".join(actors)))
    return moves
