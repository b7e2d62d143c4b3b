"""Starts real worker processes for a notebook, shows their lines as they come, and leaves none behind."""

import atexit
import os
import queue
import signal
import subprocess
import sys
import threading
from contextlib import suppress

import psutil
from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError

from helpers.db import database_url, engine
from helpers.errors import LabError
from helpers.lab.actors.leftovers import ends_leftovers
from helpers.lab.actors.strays import note
from helpers.paths import ROOT
from helpers.processes.parent import PARENT_PID
from helpers.worker.journal import HOLD_PROMPT, ledger_row

TEXTS = {
    "exit": "[{name}] exit code {code}",
    "runs": "[{name}] runs",
    "holds": "[{name}] holds",
    "asked": "[{name}] was asked to stop, and still holds",
    "killed": "[{name}] killed",
    "frozen": "[{name}] frozen",
    "woken": "[{name}] woken",
    "not_holding": "Worker {name} is not waiting for Enter: it has ended with exit code {code}.",
    "ended": "Worker {name} has ended with exit code {code}.",
    "silent": "Worker {name} said nothing for {seconds:g} s. It was killed.",
}

SILENCE_SECONDS = 120


class Worker:
    """One process that this notebook started: `python -m MODULE ARGUMENTS`, on the database at `url` (the lab's).

    It is ended with the notebook; and before a reset, unless `survives_reset`.
    """

    def __init__(
        self, name: str, module: str, arguments: list[str], url: URL | None = None, survives_reset: bool = False
    ) -> None:
        command = [sys.executable, "-m", module, *arguments]
        self.name = name
        self.returncode: int | None = None
        self._holds = False
        self.last_line = ""  # of a process that `ended` has seen end
        self._process = subprocess.Popen(
            command,
            env=environment_for(url or database_url()),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            start_new_session=True,  # an interrupted cell interrupts the cell, not the worker behind our back
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # for Ctrl-Break
        )
        self._note = note(self._process.pid, name)
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        (_services if survives_reset else _running).append(self)

    def __repr__(self) -> str:
        state = "holds" if self._holds else "runs" if self.returncode is None else "exit"
        return TEXTS[state].format(name=self.name, code=self.returncode)

    def follow(self) -> None:
        """Print the worker's lines until it ends or holds. Where it ended, `returncode` is its exit code."""
        if self.returncode is not None:  # a cell that is run again: all lines were shown
            print(repr(self), flush=True)
            return
        try:
            while (line := self.next_line()) is not None:
                print(line, flush=True)
                if line.endswith(HOLD_PROMPT):
                    self._holds = True
                    return
        except KeyboardInterrupt:
            end_workers()
            raise
        self._ended(TEXTS["exit"])

    def press_enter(self) -> None:
        """Press Enter for a worker that holds, then follow it."""
        if self.returncode is not None:
            raise LabError(TEXTS["not_holding"].format(name=self.name, code=self.returncode))
        assert self._process.stdin is not None
        self._holds = False
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self.follow()

    def stop(self) -> None:
        """Ask the worker to stop, as a deployment does (SIGTERM; on Windows Ctrl-Break), and follow it to its end.

        A worker that holds is asked, too; it hears of it when Enter is pressed.
        """
        self._must_run()
        self._record("asked_to_stop")
        self._process.send_signal(getattr(signal, "CTRL_BREAK_EVENT", signal.SIGTERM))
        if self._holds:
            print(TEXTS["asked"].format(name=self.name), flush=True)
        else:
            self.follow()

    def freeze(self) -> None:
        """Take the processor away from the process, whatever it is doing (SIGSTOP; on Windows it is suspended)."""
        self._must_run()
        psutil.Process(self._process.pid).suspend()
        self._record("frozen")
        print(TEXTS["frozen"].format(name=self.name), flush=True)

    def wake(self) -> None:
        """Let a frozen process go on where it was (SIGCONT)."""
        self._must_run()
        self._record("woken")  # first the row: what the process does from now on comes after it
        print(TEXTS["woken"].format(name=self.name), flush=True)
        psutil.Process(self._process.pid).resume()

    def ended(self) -> bool:
        """Whether the process has ended, by itself or by somebody's signal. Where it has, `returncode` is known."""
        if self.returncode is None and self._process.poll() is not None:
            while (line := self.next_line()) is not None:
                self.last_line = line
            self._ended(TEXTS["exit"])
        return self.returncode is not None

    def kill(self) -> None:
        """End the process at once (SIGKILL): it can do nothing about it."""
        if self.returncode is None:
            self._process.kill()
            while self.next_line() is not None:
                pass
            self._ended(TEXTS["killed"], event="killed")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def next_line(self) -> str | None:
        """The next line of the process, when it comes; None at its end."""
        for _ in range(SILENCE_SECONDS):
            with suppress(queue.Empty):
                return self._lines.get(timeout=1)  # where a wait cannot be interrupted, it is at least a short one
        end_workers()
        raise LabError(TEXTS["silent"].format(name=self.name, seconds=SILENCE_SECONDS))

    def _ended(self, text: str, event: str = "exited") -> None:
        self.returncode = self._process.wait()
        self._holds = False
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        self._note.unlink(missing_ok=True)
        (_running if self in _running else _services).remove(self)
        self._record(event, str(self.returncode))
        print(text.format(name=self.name, code=self.returncode), flush=True)

    def _record(self, event: str, detail: str | None = None) -> None:
        try:
            with engine().begin() as connection:
                connection.execute(ledger_row(f"worker:{self.name}", event, detail))
        except DBAPIError:
            pass  # the server is away or the ledger is not made: the printed line must do

    def _must_run(self) -> None:
        if self.returncode is not None:
            raise LabError(TEXTS["ended"].format(name=self.name, code=self.returncode))


def environment_for(url: URL) -> dict[str, str]:
    """The environment of a process that this notebook starts, and that uses the database at `url`."""
    return {
        **os.environ,
        "DATABASE_URL": url.render_as_string(hide_password=False),
        "LAB_DATABASE": str(url.database),
        "LAB_SERVER": "url",  # the server that this notebook uses, and no search for another
        "PYTHONPATH": str(ROOT),
        "PYTHONIOENCODING": "utf-8",
        PARENT_PID: str(os.getpid()),
    }


_running: list[Worker] = []
_services: list[Worker] = []


def start_worker(name: str, *arguments: str | float, follow: bool = True) -> Worker:
    """Start `python -m helpers.worker NAME ARGUMENTS` and follow it until it ends or holds.

    The worker's `returncode` is its exit code, or None while it holds. With `follow=False` it works in the background,
    and `follow()` shows its lines later.
    """
    worker = Worker(name, "helpers.worker", [name, *map(str, arguments)])
    if follow:
        worker.follow()
    return worker


def start_relay(name: str, *arguments: str | float) -> Worker:
    """Start `python -m helpers.worker.relay NAME ARGUMENTS`, the sender of the outbox, and follow it until it ends."""
    worker = Worker(name, "helpers.worker.relay", [name, *map(str, arguments)])
    worker.follow()
    return worker


def start_long_transaction(name: str) -> Worker:
    """Start `python -m helpers.worker.long_transaction NAME` and follow it: it holds inside its open transaction."""
    worker = Worker(name, "helpers.worker.long_transaction", [name])
    worker.follow()
    return worker


@atexit.register
@ends_leftovers
def end_workers() -> None:
    """Kill all workers that this process started and that still run."""
    for worker in list(_running):
        worker.kill()


@atexit.register
def end_services() -> None:
    """Kill what survives a reset, too."""
    for service in list(_services):
        service.kill()
