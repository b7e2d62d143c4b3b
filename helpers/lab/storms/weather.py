"""The time of a storm: it blows, it calms down, and the last processes end."""

from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic, sleep

from sqlalchemy import text

from helpers.db import engine
from helpers.lab.storms.fleet import Place
from helpers.lab.storms.forecast import Strike
from helpers.worker.journal import ledger_row

TICK_SECONDS = 0.05
HOPELESS_FAILURES = 2  # of the processes in each place, before the first claim
TASKS = text("""
    SELECT count(*) FILTER (WHERE status NOT IN ('completed', 'failed')) AS left, bool_or(status <> 'pending') AS begun
    FROM backend_training.tasks
""")

Say = Callable[[bool, int], None]  # whether it is calm, and how many tasks are left


class Watch:
    """Looks at the tasks. `left`: how many are neither completed nor failed. `begun`: whether one was claimed."""

    def __init__(self, stuck_seconds: float) -> None:
        self.left = -1
        self.begun = False
        self._stuck_seconds = stuck_seconds
        self._changed = monotonic()

    def goes_on(self) -> bool:
        """Look again. False where no task is left, or none was completed for so long that none will be any more."""
        before = self.left
        with engine().connect() as connection:
            self.left, self.begun = connection.execute(TASKS).one()
        if self.left != before:
            self._changed = monotonic()
        return self.left > 0 and monotonic() - self._changed < self._stuck_seconds


def work_off(
    places: Sequence[Place], strikes: Sequence[Strike], seconds: float, stuck_seconds: float, say: Say
) -> None:
    """From the first claim on, strike as forecast, for `seconds`. Then let it be calm, and what is left be worked off.

    It ends when no task is left, or none was completed for `stuck_seconds`; and where nobody comes as far as a claim.
    """
    watch, coming = Watch(stuck_seconds), deque(strikes)
    while not watch.begun:
        if not watch.goes_on() or all(len(place.failures) >= HOPELESS_FAILURES for place in places):
            return
        tend(places)
    note("begins")
    begin = monotonic()
    while watch.goes_on() and monotonic() - begin < seconds:
        while coming and coming[0].at <= monotonic() - begin:
            strike = coming.popleft()
            places[strike.place].strike(strike)
        say(False, watch.left)
        tend(places)
    note("over")
    for place in places:
        place.calm()
    while watch.goes_on():
        say(True, watch.left)
        tend(places)


def settle(places: Sequence[Place], seconds: float) -> None:
    """Let the processes end by themselves, for up to `seconds`: what an old claim still does is to be seen, too."""
    deadline = monotonic() + seconds
    while not all(place.empty for place in places) and monotonic() < deadline:
        tend(places, replace=False)
    for place in places:
        place.end()


def tend(places: Sequence[Place], replace: bool = True) -> None:
    for place in places:
        place.tend(replace)
    sleep(TICK_SECONDS)


def note(event: str) -> None:
    with engine().begin() as connection:
        connection.execute(ledger_row("storm", event))
