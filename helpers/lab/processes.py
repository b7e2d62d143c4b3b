"""Starts real worker processes for a notebook, shows their lines as they come, and leaves none behind.

Each worker is noted in a file below `.lab/workers`, so that another process can find what a dead one left.
"""

import atexit
import json
import os
import queue
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import psutil
from sqlalchemy.exc import DBAPIError

from helpers.db import database_url, engine
from helpers.errors import LabError
from helpers.faults import PARENT_PID
from helpers.journal import HOLD_PROMPT, ledger_row
from helpers.lab.leftovers import ends_leftovers
from helpers.paths import ROOT, lab_home

TEXTS = {
    "exit": "[{name}] exit code {code}",
    "holds": "[{name}] holds",
    "killed": "[{name}] killed",
    "not_holding": "Worker {name} is not waiting for Enter: it has ended with exit code {code}.",
    "silent": "Worker {name} said nothing for {seconds:g} s. It was killed.",
    "stray": "worker {name}, process {pid}",
}

SILENCE_SECONDS = 120


class Worker:
    """One worker process that this notebook started."""

    def __init__(self, name: str, arguments: list[str], module: str = "helpers.worker") -> None:
        command = [sys.executable, "-m", module, name, *arguments]
        environment = {
            **os.environ,
            "DATABASE_URL": database_url().render_as_string(hide_password=False),
            "LAB_SERVER": "url",  # the server that this notebook uses, and no search for another
            "PYTHONPATH": str(ROOT),
            "PYTHONIOENCODING": "utf-8",
            PARENT_PID: str(os.getpid()),
        }
        self.name = name
        self.returncode: int | None = None
        self._process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            start_new_session=True,  # an interrupted cell interrupts the cell, not the worker behind our back
        )
        self._note = _note(self._process.pid, name)
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        _running.append(self)

    def __repr__(self) -> str:
        return TEXTS["holds" if self.returncode is None else "exit"].format(name=self.name, code=self.returncode)

    def follow(self) -> None:
        """Print the worker's lines until it ends or holds. Where it ended, `returncode` is its exit code."""
        try:
            while (line := self._next_line()) is not None:
                print(line, flush=True)
                if line.endswith(HOLD_PROMPT):
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
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self.follow()

    def kill(self) -> None:
        """End the process at once (SIGKILL): it can do nothing about it."""
        if self.returncode is None:
            self._process.kill()
            while self._next_line() is not None:
                pass
            self._ended(TEXTS["killed"], event="killed")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def _next_line(self) -> str | None:
        for _ in range(SILENCE_SECONDS):
            with suppress(queue.Empty):
                return self._lines.get(timeout=1)  # where a wait cannot be interrupted, it is at least a short one
        end_workers()
        raise LabError(TEXTS["silent"].format(name=self.name, seconds=SILENCE_SECONDS))

    def _ended(self, text: str, event: str = "exited") -> None:
        self.returncode = self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        self._note.unlink(missing_ok=True)
        _running.remove(self)
        try:
            with engine().begin() as connection:
                connection.execute(ledger_row(f"worker:{self.name}", event, detail=str(self.returncode)))
        except DBAPIError:
            pass  # the server is away or the ledger is not made: the line below must do
        print(text.format(name=self.name, code=self.returncode), flush=True)


_running: list[Worker] = []


def start_worker(name: str, *arguments: str | float) -> Worker:
    """Start `python -m helpers.worker NAME ARGUMENTS` and follow it until it ends or holds.

    The worker's `returncode` is its exit code, or None while it holds.
    """
    worker = Worker(name, [str(argument) for argument in arguments])
    worker.follow()
    return worker


def start_long_transaction(name: str) -> Worker:
    """Start `python -m helpers.long_transaction NAME` and follow it: it holds inside its open transaction."""
    worker = Worker(name, [], module="helpers.long_transaction")
    worker.follow()
    return worker


@atexit.register
@ends_leftovers
def end_workers() -> None:
    """Kill all workers that this process started and that still run."""
    for worker in list(_running):
        worker.kill()


def _note(pid: int, name: str) -> Path:
    folder = lab_home() / "workers"
    folder.mkdir(exist_ok=True)
    note = folder / f"{pid}.json"
    started = psutil.Process(pid).create_time()
    note.write_text(json.dumps({"name": name, "started": started, "parent": os.getpid()}))
    return note


def _strays() -> list[tuple[psutil.Process, str]]:
    """Worker processes whose lab is gone. A pid alone is no proof: it is used again, so the start time counts."""
    found = []
    for note in sorted((lab_home() / "workers").glob("*.json")):
        entry = json.loads(note.read_text())
        try:
            process = psutil.Process(int(note.stem))
            is_worker = process.create_time() == entry["started"] and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            is_worker = False
        if not is_worker:
            note.unlink(missing_ok=True)
        elif not psutil.pid_exists(entry["parent"]):
            found.append((process, entry["name"]))
    return found


def find_stray_workers() -> list[str]:
    """One line for each worker process that outlived the notebook that started it."""
    return [TEXTS["stray"].format(name=name, pid=process.pid) for process, name in _strays()]


def stop_stray_workers() -> list[str]:
    """Kill the workers that `find_stray_workers` finds, and return its lines."""
    strays = _strays()
    for process, _ in strays:
        process.kill()
    psutil.wait_procs([process for process, _ in strays], timeout=10)
    return [TEXTS["stray"].format(name=name, pid=process.pid) for process, name in strays]
