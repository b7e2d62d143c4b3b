"""Runs a program under one schedule after another, on sessions and threads that are kept between the runs.

After each move it waits until nothing moves any more: every actor is parked before its next call, or done, or proven by
the server to wait for a lock that will not come free by itself. That makes a schedule mean the same every time.

One thing stays with PostgreSQL: when a step releases two waiting actors at once, they race in the server, and a row
that was changed meanwhile goes to either of them. That takes three actors at one row.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from time import monotonic, sleep

from helpers.schedules.actor import Actor, State
from helpers.schedules.clock import virtual
from helpers.schedules.connection import Call
from helpers.schedules.monitor import Monitor
from helpers.schedules.program import EXPIRE, Program, actor_of, crash_of
from helpers.schedules.run import Run, Step
from helpers.schedules.scripts import sql_actor, until_none

# Seconds until the server is asked whether a step that has not come back waits for a lock.
PATIENCE = 0.003
PATIENCE_WHERE_HEARD = 0.05  # the server says by itself that a session waits (see SETTINGS_OF_SUPERUSER)
RESCUE = "rescue"

TEXTS = {
    "lost_in_python": "{actor} did not come back to the database within {seconds:g} s after {call}.",
    "lost_in_call": "{actor} waited more than {seconds:g} s for the answer to {call}.",
    "lost_behind": "{actor} waited more than {seconds:g} s for a lock in {call}, and no actor will release it.",
    "start": "its start",
}


@dataclass(frozen=True)
class Situation:
    """Where a run stands when the next move is chosen."""

    moves: Sequence[str]
    last: str | None  # the actor that made the last step
    ready: dict[str, Call]  # actor → its next call
    waiting: dict[str, Call]  # actor → its call that waits for a lock
    began: frozenset[str]  # the actors that have made a step

    def default_move(self) -> str | None:
        """The move of the fixed order: the same actor goes on while it can, else the first that can. None: nobody."""
        if self.last in self.ready:
            return self.last
        return next(iter(self.ready), None)

    def possible(self, move: str) -> bool:
        """Whether the move can be made now. Time can always pass; a crash also ends an actor that waits."""
        name = actor_of(move)
        return name is None or name in self.ready or (move == crash_of(name) and name in self.waiting)


Choose = Callable[[Situation], str | None]


@contextmanager
def open_stage(program: Program) -> Iterator["Stage"]:
    """The sessions and threads for `program`. On leaving, all of them are ended, also after an error or Ctrl-C.

    Raises LabError where another exploration uses this database.
    """
    stage = Stage(program, Monitor())
    try:
        stage.open()
        yield stage
    finally:
        stage.close()


class Stage:
    """One thread and session for each actor, and the monitor."""

    def __init__(self, program: Program, monitor: Monitor) -> None:
        self.program = program
        self._monitor = monitor
        self._actors: dict[str, Actor] = {}
        self._rescuer: Actor | None = None
        self._news: SimpleQueue[Actor] = SimpleQueue()

    def open(self) -> None:
        for name, code in self.program.actors.items():
            self._actors[name] = self._engage(name, code if callable(code) else sql_actor(code))

    def close(self) -> None:
        everyone = self._everyone()
        pids = [actor.pid for actor in everyone if actor.pid]
        try:
            self._monitor.terminate([a.pid for a in everyone if a.state is not State.DONE and a.pid], 1)
            for actor in everyone:
                actor.leave(timeout=1)
            self._monitor.wait_for_end(pids, 1)
        finally:
            self._monitor.close()

    def run(self, choose: Choose) -> Run:
        """Run the program once, from its reset to its end; `choose` names each move.

        Where it names None, the fixed order decides; where it names a move that cannot be made now, that is recorded
        as skipped, and it is asked again.
        """
        run = Run()
        self._reset()
        for actor in self._actors.values():
            actor.start()
            self._settle(run)
        self._note_ends(run, self._actors.values())
        while not run.lost:
            situation = self._situation(run)
            default = situation.default_move()
            if default is None and not situation.waiting:
                break
            move = choose(situation) or default
            if move is None:
                self._give_up(run, [self._actors[name] for name in situation.waiting])
            elif situation.possible(move):
                run.moves.append(move)
                run.by_default.append(move == default)
                self._make(move, run)
            else:
                run.steps.append(Step("skipped", actor_of(move)))
        self._finish(run)
        return run

    # One move

    def _make(self, move: str, run: Run) -> None:
        name = actor_of(move)
        if move == EXPIRE or name is None:
            self._monitor.clock.move(self.program.expire_seconds)
            run.steps.append(Step("expire"))
        elif move == crash_of(name):
            self._crash(self._actors[name], run)
        else:
            self._step(self._actors[name], run)

    def _step(self, actor: Actor, run: Run) -> None:
        call = actor.call
        waited = self._waiting()
        actor.go()
        if self._settle(run):
            what = "waits" if actor.waiting else "did"
            run.steps.append(Step(what, actor.name, call, actor.waits_for, rescue=actor is self._rescuer))
            self._note_continued(run, waited)
            self._note_ends(run, [actor, *waited])

    def _crash(self, actor: Actor, run: Run) -> None:
        call = actor.call
        waited = {other: call for other, call in self._waiting().items() if other is not actor}
        actor.crashed = True
        if actor.pid:
            self._monitor.terminate([actor.pid], self.program.step_seconds)
        if actor.ready:
            actor.go()
        else:
            actor.waits_for, actor.disregarded = (), actor.heard
        run.crashed.add(actor.name)
        run.steps.append(Step("crash", actor.name, call))
        if self._settle(run):
            self._note_continued(run, waited)
            self._note_ends(run, waited)

    def _waiting(self) -> dict[Actor, Call | None]:
        return {actor: actor.call for actor in self._actors.values() if actor.waiting}

    def _note_continued(self, run: Run, waited: dict[Actor, Call | None]) -> None:
        for actor, call in waited.items():
            if not actor.waiting:
                run.steps.append(Step("continues", actor.name, call))

    def _note_ends(self, run: Run, actors: Iterable[Actor]) -> None:
        for actor in actors:
            if actor.state is State.DONE and actor.name not in run.crashed and actor is not self._rescuer:
                run.results[actor.name] = actor.result
                run.steps.append(Step("ends", actor.name, outcome=actor.result))

    def _situation(self, run: Run) -> Situation:
        steps = [move for move in run.moves if move in self._actors]
        return Situation(
            moves=run.moves,
            last=steps[-1] if steps else None,
            ready={name: a.call for name, a in self._actors.items() if a.ready and a.call},
            waiting={name: a.call for name, a in self._actors.items() if a.waiting and a.call},
            began=frozenset(steps),
        )

    # Waiting until nothing moves any more

    def _settle(self, run: Run) -> bool:
        """Wait until each actor is parked, done, or proven to wait. False where that takes too long: `run.lost`."""
        everyone = self._everyone()
        hears = self._monitor.may_set_everything
        deadline = monotonic() + self.program.step_seconds
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
                return True
            if monotonic() > deadline:
                self._give_up(run, running)
                return False
        return True

    def _give_up(self, run: Run, actors: Sequence[Actor]) -> None:
        """Actors did not come back: say so, end them as far as that is possible, and make new ones for later runs."""
        first, seconds = actors[0], self.program.step_seconds
        call = first.call
        behind = any(self._monitor.blockers([first.pid]).values())
        key = "lost_behind" if behind else "lost_in_python" if call is None or call.made else "lost_in_call"
        text = " ".join(call.text.split()) if call else TEXTS["start"]
        run.lost = TEXTS[key].format(actor=first.name, seconds=seconds, call=text)
        run.steps.append(Step("lost", first.name, call))
        for actor in actors:
            actor.crashed = True
            self._monitor.terminate([actor.pid], seconds)
            deadline = monotonic() + 1
            while actor.state is State.RUNNING and monotonic() < deadline:
                actor.interrupt()
                sleep(0.02)
            if actor.state is State.RUNNING:
                actor.leave(timeout=0)
                self._replace(actor)

    # The beginning and the end of a run

    def _everyone(self) -> list[Actor]:
        return [*self._actors.values(), *([self._rescuer] if self._rescuer else [])]

    def _engage(self, name: str, function: Callable[[], object]) -> Actor:
        return Actor(name, function, self._news, self._monitor.may_set_everything)

    def _replace(self, actor: Actor) -> None:
        if actor is self._rescuer:
            self._rescuer = None
        else:
            self._actors[actor.name] = self._engage(actor.name, actor.function)

    def _reset(self) -> None:
        rewind = self._monitor.clock.rewind_sql()
        if callable(self.program.reset):
            self._monitor.execute(rewind)
            self.program.reset()
        else:
            self._monitor.execute(rewind + self.program.reset)

    def _finish(self, run: Run) -> None:
        if run.lost:
            for actor in self._actors.values():
                if actor.ready:
                    self._crash(actor, run)
        run.rows, run.ledger = self._monitor.read(self.program.rows, self.program.ledger)
        run.clock = self._monitor.clock.moves
        for row in run.ledger:
            row["at"] = virtual(row["at"], run.clock)
        if self.program.rescue and not run.lost:
            self._rescue(self.program.rescue, run)
            run.rescued, _ = self._monitor.read(self.program.rows, None)

    def _rescue(self, claim: Callable[[], object], run: Run) -> None:
        """When all leases have ended, claim until nothing is left to claim."""
        self._rescuer = self._rescuer or self._engage(RESCUE, until_none(claim))
        self._monitor.clock.move(self.program.expire_seconds)
        self._rescuer.start()
        self._settle(run)
        while self._rescuer and self._rescuer.ready and not run.lost:
            self._step(self._rescuer, run)


def in_a_circle(waiting: Sequence[Actor]) -> bool:
    """Whether some of them wait for each other: then the server will end one of them, and nothing is settled yet."""
    edges = {actor.name: set(actor.waits_for) for actor in waiting}
    while leaves := [name for name, targets in edges.items() if not targets & edges.keys()]:
        for name in leaves:
            del edges[name]
    return bool(edges)
