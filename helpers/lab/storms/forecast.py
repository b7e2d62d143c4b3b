"""What will happen to whom, and when: decided before the storm, from its seed alone."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

KINDS = ("kill", "freeze", "cut", "stall")
CALM_START_SECONDS = 1.0
MEAN_SECONDS = 1.2  # between two strikes


@dataclass(frozen=True)
class Strike:
    """One thing that happens to the worker in one place.

    kill: SIGKILL. freeze: SIGSTOP, and SIGCONT after `seconds`. cut: its connections to the server are closed. stall:
    nothing passes between it and the server for `seconds`, though the connections stay open.
    `at` is in seconds after the first claim.
    """

    at: float
    kind: str
    place: int
    seconds: float = 0.0


def forecast(seed: int, places: int, seconds: float, lease_seconds: float) -> list[Strike]:
    """The strikes of a storm, in the order of time. The same arguments give the same strikes.

    Freezes and stalls last from a part of a lease to two leases: some workers come back in time, others too late.
    """
    dice = random.Random(seed)
    strikes: list[Strike] = []
    at = CALM_START_SECONDS
    while True:
        at += dice.expovariate(1 / MEAN_SECONDS)
        if at >= seconds:
            return strikes
        kind = dice.choice(KINDS)
        lasts = dice.uniform(0.3, 2.0) * lease_seconds if kind in ("freeze", "stall") else 0.0
        strikes.append(Strike(round(at, 3), kind, dice.randrange(places), round(lasts, 3)))


def counted(strikes: Sequence[Strike]) -> dict[str, int]:
    """How many strikes there are of each kind, in the order of KINDS."""
    found = Counter(strike.kind for strike in strikes)
    return {kind: found[kind] for kind in KINDS}
