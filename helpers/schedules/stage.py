"""Runs a program under one schedule after another, on sessions and threads that are kept between the runs."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from helpers.schedules.actor import Actor, State
from helpers.schedules.call import Call
from helpers.schedules.clock import virtual
from helpers.schedules.company import Company
from helpers.schedules.limits import Disturbed
from helpers.schedules.monitor import Monitor
from helpers.schedules.program import EXPIRE, Program, actor_of, crash_of, patience_of
from helpers.schedules.run import Run, Step
from helpers.schedules.situation import Choose, Situation

# Milliseconds of a limit that counts while others go on. Where it strikes too early, the run is made again with more.
FIRST_LENGTH, LAST_LENGTH, TIMES_LONGER = 20, 5_120, 4

TEXTS = {
    "lost_in_python": "{actor} did not come back to the database within {seconds:g} s after {call}.",
    "lost_in_call": "{actor} waited more than {seconds:g} s for the answer to {call}.",
    "lost_behind": "{actor} waited more than {seconds:g} s for a lock in {call}, and no actor will release it.",
    "out_of_reach": (
        "{actor}'s call was ended by a limit of time that was set within it (in a function, a DO block, or a text of "
        "several statements): {call}. Such a limit counts real time, so what comes of it depends on the machine. "
        "Set it in a statement of its own"
    ),
    "too_busy": "a limit of time struck before its turn, however long it was: the machine is too busy for this run",
    "start": "its start",
}


class _Again(Exception):
    """The run has to be made anew, with these moves first. `longer`: with limits that strike later."""

    def __init__(self, moves: Sequence[str], longer: bool = False) -> None:
        super().__init__()
        self.moves, self.longer = moves, longer


@contextmanager
def open_stage(program: Program) -> Iterator["Stage"]:
    """The sessions and threads for `program`. On leaving, all of them are ended, also after an error or Ctrl-C.

    Raises LabError where another exploration uses this database.
    """
    monitor = Monitor()
    company = Company(program, monitor)
    try:
        try:
            company.open()
            yield Stage(program, monitor, company)
        finally:
            company.close()
    finally:
        monitor.close()


class Stage:
    """Makes runs of one program. The company acts, and the monitor watches."""

    def __init__(self, program: Program, monitor: Monitor, company: Company) -> None:
        self.program = program
        self._monitor = monitor
        self._company = company

    def run(self, choose: Choose, moves: Sequence[str] = ()) -> Run:
        """Run the program once, from its reset to its end: first `moves`, then what `choose` names.

        Where it names None, the fixed order decides. A move that cannot be made now is recorded as skipped.
        A limit of time that is to strike must count from its call on. So where `choose` ends a patience whose limit was
        lifted, and where a limit strikes before its turn, the run is made anew, beginning with the moves it has made.
        """
        length = FIRST_LENGTH
        while True:
            run = Run()
            try:
                self._play(run, choose, moves, length)
                self._finish(run)
                return run
            except _Again as again:
                if again.longer and length == LAST_LENGTH:
                    run.lost = TEXTS["too_busy"]
                    self._finish(run)
                    return run
                self._crash_all(run)
                moves, length = again.moves, length * TIMES_LONGER if again.longer else length

    def follow(self, moves: Sequence[str]) -> Run:
        """The run that makes these moves, and goes on in the fixed order behind them."""
        return self.run(lambda _: None, moves)

    def _play(self, run: Run, choose: Choose, moves: Sequence[str], length: int) -> None:
        self._reset()
        for actor in self._company.actors.values():
            actor.start()
            self._settle(run)
        self._note_ends(run, self._company.actors.values())
        to_come = deque(moves)
        while not run.lost:
            situation = self._situation(run)
            run.limited |= bool(situation.limits)
            default = situation.default_move()
            if default is None and not situation.waiting:
                break
            move = to_come.popleft() if to_come else choose(situation) or default
            if move is None:
                self._give_up(run, [self._company.actors[name] for name in situation.waiting])
            elif situation.possible(move):
                if situation.lifts_what_ends(move):
                    raise _Again([*run.moves, move, *to_come])
                run.moves.append(move)
                run.by_default.append(move == default)
                try:
                    in_time = self._make(move, run, length if patience_comes(move, to_come) else None)
                except Disturbed:
                    in_time = False
                if not in_time:
                    raise _Again([*run.moves, *to_come], longer=True)
            else:
                run.steps.append(Step("skipped", actor_of(move)))

    # One move

    def _make(self, move: str, run: Run, length: int | None) -> bool:
        """Make the move. False where a limit of time has struck whose turn it was not. `length`: see `Actor.go`."""
        name = actor_of(move)
        under_a_limit = {a: a.call for a in self._company.unfinished if move != patience_of(a.name)}
        if move == EXPIRE or name is None:
            self._monitor.clock.move(self.program.expire_seconds)
            run.steps.append(Step("expire"))
        elif move == crash_of(name):
            self._crash(self._company.actors[name], run)
        elif move == patience_of(name):
            self._end_patience(self._company.actors[name], run)
        else:
            self._step(self._company.actors[name], run, length)
        return not any(a.disturbed or (call and call.struck and call.limit_counts) for a, call in under_a_limit.items())

    def _step(self, actor: Actor, run: Run, length: int | None = None) -> None:
        call = actor.call
        waited = self._company.waiting
        actor.go(length)
        if self._settle(run):
            what = "waits" if actor.waiting else "did"
            rescue = actor is self._company.rescuer
            limit = call.limit if call and actor.waiting else None
            run.steps.append(Step(what, actor.name, call, actor.waits_for, limit=limit, rescue=rescue))
            self._note_continued(run, waited)
            self._note_ends(run, [actor, *waited])

    def _crash(self, actor: Actor, run: Run) -> None:
        call = actor.call
        waited = {other: call for other, call in self._company.waiting.items() if other is not actor}
        self._company.crash(actor)
        run.crashed.add(actor.name)
        run.steps.append(Step("crash", actor.name, call))
        if self._settle(run):
            self._note_continued(run, waited)
            self._note_ends(run, waited)

    def _end_patience(self, actor: Actor, run: Run) -> None:
        """Let the limit strike under which the actor waits, or stands idle. Meanwhile everybody else stands still."""
        call, connection = actor.call, actor.connection
        assert call is not None
        assert connection is not None
        waited = self._company.waiting
        run.steps.append(Step("patience", actor.name, call, limit=call.limit if actor.waiting else call.pause))
        if actor.waiting:
            seconds = self.program.step_seconds + LAST_LENGTH / 1_000
            if not self._company.await_end_of_wait(actor, seconds):
                self._give_up(run, [actor])
                return
        elif call.pause:  # the actor finds out at its next call
            connection.limits.keep(call.pause)
            self._monitor.wait_for_end([actor.pid], self.program.step_seconds)
        if self._settle(run):
            self._note_continued(run, waited)
            self._note_ends(run, waited)

    def _note_continued(self, run: Run, waited: dict[Actor, Call | None]) -> None:
        for actor, call in waited.items():
            if not actor.waiting:
                run.steps.append(Step("continues", actor.name, call))

    def _note_ends(self, run: Run, actors: Iterable[Actor]) -> None:
        for actor in actors:
            if actor.state is State.DONE and actor.name not in run.crashed and actor is not self._company.rescuer:
                run.results[actor.name] = actor.result
                run.steps.append(Step("ends", actor.name, outcome=actor.result))

    def _situation(self, run: Run) -> Situation:
        actors = self._company.actors
        steps = [move for move in run.moves if move in actors]
        return Situation(
            moves=run.moves,
            last=steps[-1] if steps else None,
            ready={name: a.call for name, a in actors.items() if a.ready and a.call},
            waiting={name: a.call for name, a in actors.items() if a.waiting and a.call},
            began=frozenset(steps),
        )

    def _settle(self, run: Run) -> bool:
        """Wait until nothing moves any more. False where that takes too long, or says nothing: `run.lost`."""
        if lost := self._company.settle():
            self._give_up(run, lost)
            return False
        for actor in self._company.actors.values():
            if (call := actor.out_of_reach) and not run.lost:
                run.lost = TEXTS["out_of_reach"].format(actor=actor.name, call=" ".join(call.text.split()))
                run.steps.append(Step("lost", actor.name, call))
                return False
        return True

    def _give_up(self, run: Run, actors: Sequence[Actor]) -> None:
        """Actors did not come back: say so, and end them as far as that is possible."""
        first, seconds = actors[0], self.program.step_seconds
        call = first.call
        behind = any(self._monitor.blockers([first.pid]).values())
        key = "lost_behind" if behind else "lost_in_python" if call is None or call.made else "lost_in_call"
        text = " ".join(call.text.split()) if call else TEXTS["start"]
        run.lost = TEXTS[key].format(actor=first.name, seconds=seconds, call=text)
        run.steps.append(Step("lost", first.name, call))
        self._company.end(actors)

    # The beginning and the end of a run

    def _reset(self) -> None:
        rewind = self._monitor.clock.rewind_sql()
        if callable(self.program.reset):
            self._monitor.execute(rewind)
            self.program.reset()
        else:
            self._monitor.execute(rewind + self.program.reset)

    def _finish(self, run: Run) -> None:
        if run.lost:
            self._crash_all(run)
        run.rows, run.ledger = self._monitor.read(self.program.rows, self.program.ledger)
        run.clock = self._monitor.clock.moves
        for row in run.ledger:
            row["at"] = virtual(row["at"], run.clock)
        if self.program.rescue and not run.lost:
            self._rescue(self.program.rescue, run)
            run.rescued, _ = self._monitor.read(self.program.rows, None)

    def _crash_all(self, run: Run) -> None:
        for actor in self._company.unfinished:
            self._crash(actor, run)

    def _rescue(self, claim: Callable[[], object], run: Run) -> None:
        """When all leases have ended, claim until nothing is left to claim."""
        rescuer = self._company.hire_rescuer(claim)
        self._monitor.clock.move(self.program.expire_seconds)
        rescuer.start()
        self._settle(run)
        while rescuer.ready and not run.lost and rescuer is self._company.rescuer:
            self._step(rescuer, run)
        if rescuer.disturbed:
            raise _Again(run.moves, longer=True)


def patience_comes(move: str, to_come: Iterable[str]) -> bool:
    """Whether the actor that makes a step by `move` is to lose its patience behind it."""
    following = (other for other in to_come if actor_of(other) == actor_of(move))
    return next(following, None) == patience_of(move)
