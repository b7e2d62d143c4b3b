"""What could be done next: the moves that are possible, what each costs, and which do not influence each other."""

from helpers.schedules.program import EXPIRE, Program, actor_of, crash_of, patience_of
from helpers.schedules.situation import Situation


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
