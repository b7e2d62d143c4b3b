"""The actors of one program together: when all of them stand still, who waits for whom, and how they are ended.

After each move it waits until nothing moves any more: every actor is parked before its next call, or done, or proven by
the server to wait for a lock that will not come free by itself. That makes a schedule mean the same every time.

One thing stays with PostgreSQL: when a step releases two waiting actors at once, they race in the server, and a row
that was changed meanwhile goes to either of them. That takes three actors at one row.
"""

from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from time import monotonic, sleep

from helpers.schedules.actor import Actor, State
from helpers.schedules.call import Call
from helpers.schedules.monitor import Monitor
from helpers.schedules.program import Program
from helpers.schedules.scripts import sql_actor, until_none

# Seconds until the server is asked whether a step that has not come back waits for a lock.
PATIENCE = 0.003
PATIENCE_WHERE_HEARD = 0.05  # the server says by itself that a session waits (see SETTINGS_OF_SUPERUSER)
RESCUE = "rescue"


class Company:
    """One thread and session for each actor, and one more for the rescue at the end of a run."""

    def __init__(self, program: Program, monitor: Monitor) -> None:
        self.actors: dict[str, Actor] = {}
        self.rescuer: Actor | None = None
        self._program = program
        self._monitor = monitor
        self._news: SimpleQueue[Actor] = SimpleQueue()

    def open(self) -> None:
        for name, code in self._program.actors.items():
            self.actors[name] = self._engage(name, code if callable(code) else sql_actor(code))

    def close(self) -> None:
        everyone = self._everyone()
        pids = [actor.pid for actor in everyone if actor.pid]
        self._monitor.terminate([a.pid for a in everyone if a.state is not State.DONE and a.pid], 1)
        for actor in everyone:
            actor.leave(timeout=1)
        self._monitor.wait_for_end(pids, 1)

    def hire_rescuer(self, claim: Callable[[], object]) -> Actor:
        """The actor that claims at the end of a run, until there is nothing more to claim."""
        self.rescuer = self.rescuer or self._engage(RESCUE, until_none(claim))
        return self.rescuer

    @property
    def waiting(self) -> dict[Actor, Call | None]:
        """The actors that wait for a lock, each with its call."""
        return {actor: actor.call for actor in self.actors.values() if actor.waiting}

    @property
    def unfinished(self) -> list[Actor]:
        return [actor for actor in self.actors.values() if actor.state is not State.DONE]

    # Waiting until nothing moves any more

    def settle(self) -> list[Actor]:
        """Wait until each actor is parked, done, or proven to wait. Where that takes too long: those that are not."""
        everyone = self._everyone()
        hears = self._monitor.may_set_everything
        deadline = monotonic() + self._program.step_seconds
        while running := [actor for actor in everyone if actor.state is State.RUNNING]:
            if not all(actor.said_waiting if hears else actor.waits_for for actor in running):
                try:
                    self._news.get(timeout=PATIENCE_WHERE_HEARD if hears else PATIENCE)
                    continue
                except Empty:
                    pass
            heard_before = {actor: actor.heard for actor in running}
            pids = {actor: actor.pid for actor in everyone}
            names = {pid: actor.name for actor, pid in pids.items()}
            blockers = self._monitor.blockers([pids[actor] for actor in running])
            for actor in running:
                actor.waits_for = tuple(sorted(names[pid] for pid in blockers[pids[actor]] if pid in names))
                if not actor.waits_for:
                    actor.disregarded = heard_before[actor]
            proven = all(actor.waits_for and (actor.said_waiting or not hears) for actor in running)
            if proven and not in_a_circle(running):
                return []
            if monotonic() > deadline:
                return running
        return []

    def await_end_of_wait(self, actor: Actor, seconds: float) -> bool:
        """Wait until the call of `actor`, which waits for a lock, has come back. False where it does not in time."""
        deadline = monotonic() + seconds
        while actor.state is State.RUNNING and (left := deadline - monotonic()) > 0:
            try:
                self._news.get(timeout=left)
            except Empty:
                return False
        return actor.state is not State.RUNNING

    # Ending actors

    def crash(self, actor: Actor) -> None:
        """Its connection drops, and nothing of it runs any more. The others have not settled yet."""
        actor.crashed = True
        if actor.pid:
            self._monitor.terminate([actor.pid], self._program.step_seconds)
        if actor.ready:
            actor.go()
        else:
            actor.waits_for, actor.disregarded = (), actor.heard

    def end(self, actors: Sequence[Actor]) -> None:
        """End actors that did not come back, as far as that is possible, and make new ones for later runs."""
        for actor in actors:
            actor.crashed = True
            self._monitor.terminate([actor.pid], self._program.step_seconds)
            deadline = monotonic() + 1
            while actor.state is State.RUNNING and monotonic() < deadline:
                actor.interrupt()
                sleep(0.02)
            if actor.state is State.RUNNING:
                actor.leave(timeout=0)
                self._replace(actor)

    def _everyone(self) -> list[Actor]:
        return [*self.actors.values(), *([self.rescuer] if self.rescuer else [])]

    def _engage(self, name: str, function: Callable[[], object]) -> Actor:
        return Actor(name, function, self._news, self._monitor)

    def _replace(self, actor: Actor) -> None:
        if actor is self.rescuer:
            self.rescuer = None
        else:
            self.actors[actor.name] = self._engage(actor.name, actor.function)


def in_a_circle(waiting: Sequence[Actor]) -> bool:
    """Whether some of them wait for each other: then the server will end one of them, and nothing is settled yet."""
    edges = {actor.name: set(actor.waits_for) for actor in waiting}
    while leaves := [name for name, targets in edges.items() if not targets & edges.keys()]:
        for name in leaves:
            del edges[name]
    return bool(edges)
