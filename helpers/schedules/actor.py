"""One actor: a thread that runs a function, and a session of its own on which each call waits for the scheduler."""

import ctypes
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from queue import SimpleQueue
from time import monotonic

import psycopg
from psycopg.errors import Diagnostic
from sqlalchemy import Engine, create_engine
from sqlalchemy.pool import QueuePool

from helpers import db
from helpers.schedules.call import Call
from helpers.schedules.clock import SEARCH_PATH
from helpers.schedules.connection import SteppedConnection, SteppedCursor, SteppedServerCursor
from helpers.schedules.limits import Disturbed, Limits
from helpers.schedules.monitor import Monitor
from helpers.schedules.run import Crash

# What a run may have left in a session. DISCARD ALL would do it too, but not within psycopg's idea of its state.
CLEAN = b"RESET ALL; SELECT pg_advisory_unlock_all(); DISCARD TEMP; UNLISTEN *"

SETTINGS = {
    "search_path": SEARCH_PATH,
    "timezone": "UTC",
    "synchronous_commit": "off",  # a run is thrown away: a crash of the server may take it along
    "jit": "off",
    "plan_cache_mode": "force_custom_plan",  # the same plan in the first run and in the hundredth
}
# Only for a superuser, or with GRANT SET ON PARAMETER. They make two things certain: the victim of a deadlock is
# always the actor whose wait closed the circle, since every other's check is over by then; and the server itself says
# when that check is over ("still waiting", a LOG message, which these settings send to the client).
SETTINGS_OF_SUPERUSER = {
    "deadlock_timeout": "1ms",
    "log_lock_waits": "on",
    "client_min_messages": "log",
    "log_min_messages": "fatal",  # the server's own log is spared
}


class State(Enum):
    """Where an actor is. Its own thread alone leaves RUNNING; the scheduler alone leaves the others."""

    RUNNING = auto()  # in Python, in the database, or waiting for a lock there
    PARKED = auto()  # before its next call
    DONE = auto()


class Actor:
    """A function that goes from call to call, as the scheduler lets it.

    `news`: where the actor puts itself whenever the scheduler should look at it.
    `monitor`: knows what may be set, and what must be watched, in this database.
    """

    current = threading.local()  # .actor: whose thread this is

    def __init__(self, name: str, function: Callable[[], object], news: "SimpleQueue[Actor]", monitor: Monitor) -> None:
        self.name = name
        self.state = State.DONE
        self.call: Call | None = None  # the next call, or the one that is being made
        self.steps = 0
        self.result: object = None
        self.crashed = False
        self.disturbed = False  # by a limit of time that struck when it should not: this run says nothing
        self.out_of_reach: Call | None = None  # was ended by a limit that nobody could lift
        self.waits_for: tuple[str, ...] = ()  # set by the scheduler: who holds the lock
        self.heard = 0  # the server's messages that it waits, each after its check for a deadlock
        self.disregarded = 0  # how many of them are about waits that are over
        self.connection: SteppedConnection | None = None
        self.playing = False
        self.function = function
        self._news = news
        self._monitor = monitor
        self._go = threading.Lock()  # free: the actor may go on
        self._go.acquire()
        self._quit = False
        self._patience: int | None = None
        self.engine = self._make_engine()
        self.thread = threading.Thread(target=self._live, name=f"actor {name}", daemon=True)
        self.thread.start()

    # The scheduler's side

    def start(self) -> None:
        """Begin a run: the function goes to its first call."""
        self.call, self.result, self.crashed, self.steps = None, None, False, 0
        self.disturbed, self.out_of_reach = False, None
        self.go()

    def go(self, patience: int | None = None) -> None:
        """Let the actor make its call, and go on to the next one.

        With `patience`, in milliseconds, the limit of a call that waits strikes behind that time; else it is lifted.
        """
        self._patience = patience
        self.state = State.RUNNING
        self.waits_for = ()
        self.disregarded = self.heard
        self._go.release()

    @property
    def ready(self) -> bool:
        return self.state is State.PARKED

    @property
    def waiting(self) -> bool:
        return self.state is State.RUNNING and bool(self.waits_for)

    @property
    def said_waiting(self) -> bool:
        """The server has said that the actor's call waits, and that no deadlock was found."""
        return self.heard > self.disregarded

    @property
    def pid(self) -> int:
        """The server process behind the actor's session; 0 where it has none."""
        return self.connection.info.backend_pid if self.connection and not self.connection.closed else 0

    def interrupt(self) -> None:
        """Raise Crash in the actor's thread, at its next instruction in Python. It works only on Python code."""
        if self.thread.ident is not None:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.thread.ident), ctypes.py_object(Crash))

    def leave(self, timeout: float) -> bool:
        """End the thread and the session. False where the thread does not end: then it is left alone, as a daemon."""
        self.crashed = self._quit = True
        if self._go.locked():
            self._go.release()
        deadline = monotonic() + timeout
        self.thread.join(timeout / 2)
        while self.thread.is_alive() and monotonic() < deadline:
            self.interrupt()
            self.thread.join(0.02)
        if self.connection is not None:
            self.connection.close()
        self.engine.dispose(close=False)
        return not self.thread.is_alive()

    # The actor's side: all of this runs in its thread

    def step(self, call: Call, perform: Callable[[], None]) -> None:
        """See `Stepper`. Raises Crash where the actor has crashed, at this call or before."""
        if self.crashed:
            raise Crash
        if not self.playing:
            perform()
            return
        limits = self.connection.limits if self.connection else None
        call.pause = limits.of_a_pause() if limits else None
        self.call = call
        self.state = State.PARKED
        self._news.put(self)
        self._go.acquire()
        if self.crashed:
            raise Crash
        self.steps += 1
        try:
            if limits and call.kind != "mark":
                self._perform(call, perform, limits)
            else:
                perform()
        except Disturbed:
            self.disturbed = True
            raise Crash from None
        finally:
            call.made = True

    def _perform(self, call: Call, perform: Callable[[], None], limits: Limits) -> None:
        call.limit = limits.of_a_call()
        if call.limit and self._patience is not None:
            limits.keep(call.limit, self._patience)
            call.limit_counts = True
        try:
            perform()
        except psycopg.Error as error:
            if self.crashed:  # the session was ended while it waited for a lock
                raise Crash from None
            call.error = error
            if call.struck and not call.limit_counts:
                self.out_of_reach = call
            raise
        finally:
            if not self.crashed:
                limits.lift_after(call.text)

    def _live(self) -> None:
        with suppress(Crash):  # an interrupt may come late, when the function has ended already
            self._play_until_told_to_quit()

    def _play_until_told_to_quit(self) -> None:
        Actor.current.actor = self
        self._warm_up()
        while True:
            self._go.acquire()
            if self._quit:
                return
            self._play()
            if self._quit:
                return
            self.playing = False
            self._tidy()
            self.state = State.DONE
            self._news.put(self)
            self._warm_up()

    def _play(self) -> None:
        try:
            with db.use_engine(self.engine):
                self.playing = True
                self.result = self.function()
        except Crash:
            self.crashed = True
        except BaseException as error:
            self.result = error
        if self.crashed:
            self.result = None

    def _tidy(self) -> None:
        """What the end of the actor's program would do: no transaction, lock or setting outlives it."""
        connection = self.connection
        if connection is None:
            return
        if self.crashed or connection.closed:
            self._forget(connection)
            return
        try:
            if not connection.idle:
                connection.pgconn.exec_(b"ROLLBACK")
            if connection.session_changed:
                connection.pgconn.exec_(CLEAN)
                connection.session_changed = False
                connection.limits.lift()
            connection.limits.lift_after("")
            connection.only_looked = True
        except (psycopg.Error, Disturbed):
            self._forget(connection)
        if self.engine.pool.checkedout():  # type: ignore[attr-defined]  # a session was never closed
            self._forget(connection)

    def _forget(self, connection: SteppedConnection) -> None:
        connection.close()
        self.engine.dispose(close=False)
        self.connection = None

    def _warm_up(self) -> None:
        """Connect before the next run needs it; the other actors go on meanwhile."""
        self.crashed = self._quit
        if self.connection is not None and not self.connection.closed:
            return
        with suppress(Exception, Crash):  # the next run meets the same error, and reports it
            self.engine.connect().close()

    def _make_engine(self) -> Engine:
        return create_engine(
            db.database_url(),
            creator=self._connect,
            poolclass=QueuePool,
            pool_size=1,
            max_overflow=0,
            pool_timeout=0,  # a second session beside an open one is refused at once
            use_native_hstore=False,
        )

    def _connect(self) -> SteppedConnection:
        if self.crashed:
            raise Crash
        settings = SETTINGS | (SETTINGS_OF_SUPERUSER if self._monitor.may_set_everything else {})
        _, parameters = db.engine().dialect.create_connect_args(db.database_url())
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        options = f"{parameters.get('options', '')} {options}"
        parameters.update(options=options, application_name=f"worker:{self.name}", connect_timeout=5)
        connection = SteppedConnection.connect(prepare_threshold=None, **parameters)
        connection.cursor_factory = SteppedCursor
        connection.server_cursor_factory = SteppedServerCursor
        connection.add_notice_handler(self._hear)
        connection.limits = Limits(connection, self._monitor.functions_set_limits)
        connection.limits.lift()
        connection.stepper = self
        self.connection = connection
        return self.connection

    def _hear(self, notice: Diagnostic) -> None:
        if notice.severity_nonlocalized == "LOG" and notice.source_function == "ProcSleep":
            self.heard += 1
            self._news.put(self)


def mark(point: str) -> None:
    """A step without a call to the database: `mark("work")` says where the work is done. Outside of a run, nothing."""
    actor: Actor | None = getattr(Actor.current, "actor", None)
    if actor is not None and actor.playing:
        connection = actor.connection
        idle = connection is None or connection.closed or connection.idle
        actor.step(Call("mark", point, idle=idle), lambda: None)
