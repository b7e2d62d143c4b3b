"""Takes a learner's functions to a process of their own, and brings back what its check found.

Whatever the functions do there (loop for ever, end their process, leave sessions open) ends with that process. What
comes back is data, never code.
"""

import base64
import io
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from time import monotonic
from typing import IO, Any

import cloudpickle  # type: ignore[import-untyped]
import psutil
import psycopg
from filelock import FileLock, Timeout
from sqlalchemy import URL

from helpers.checking.database import check_url, end_sessions, server_start
from helpers.checking.parts import Definition, Finding, Functions
from helpers.db import SessionFactory, database_url
from helpers.errors import LabError
from helpers.paths import ROOT, lab_home
from helpers.processes.parent import PARENT_PID
from helpers.servers import ServerError, connection_failure

START_SECONDS = 60.0  # for the child to start, and to build its tables
LONGEST_SECONDS = 1800.0  # after which a child whose parent is gone ends by itself
WAIT_FOR_TURN = 60.0
END_SECONDS = 5.0  # for a child that has said its last word
MOST_OUTPUT = 2_000  # characters of what was printed that are kept

TEXTS = {
    "restarted": "The database server was restarted in the middle of the check. Run this cell again.",
    "busy": "Another check is running. Wait for its end, then run this cell again.",
    "pickle": (
        "Your function uses something that cannot be taken to another process: {reason}. Make it inside the function."
    ),
    "no_start": "The process of the check did not start within {seconds:g} s. Run the cell again.",
    "slow_call": "It had not come back after {seconds:g} s, and was ended. Is there a loop that never ends, or a wait?",
    "slow_rule": "This part of the check was ended after {seconds:g} s. Is there a loop that never ends?",
    "slow_came": "nothing within {seconds:g} s",
    "exited": "Your function ended its own process, with exit code {code}. It must return, or raise an exception.",
    "killed": "Your function ended its own process, by the signal {signal}. It must return, or raise an exception.",
    "exited_came": "the process ended",
    "garbled": (
        "The process of the check sent something that is no answer. Does your function write to file descriptors?"
    ),
}


@dataclass
class Answer:
    """What a check found: the findings in order, or `error`, a sentence on why there are none or no more."""

    findings: list[tuple[str, Finding]] = field(default_factory=list)  # each with the name of its rule
    error: str | None = None
    printed: str = ""
    ended: bool = False  # it came to its end by itself


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    def reducer_override(self, obj: Any) -> Any:
        if obj is SessionFactory:  # else a copy would be made of it
            return _session_factory, ()
        return super().reducer_override(obj)


def _session_factory() -> Any:
    return SessionFactory


def pack(functions: Functions) -> str:
    """The functions as text, with all that they use from a notebook. Raises LabError where that cannot be done."""
    buffer = io.BytesIO()
    try:
        _Pickler(buffer).dump(tuple(functions))
    except Exception as error:
        message = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise LabError(TEXTS["pickle"].format(reason=message)) from None
    return base64.b64encode(buffer.getvalue()).decode()


def run_check(
    exercise: Definition,
    packed: str,
    rules: Sequence[str],
    *,
    expected: Callable[[str], str],
    database: bool,
    schedule: str | None = None,
    announce: Callable[[str], None] = lambda _: None,
) -> Answer:
    """Check the packed functions by these rules, in a process of its own; or replay `schedule` by the first of them.

    `announce` is called with each rule's name when the rule begins; `expected` says what a rule expects, for the lines
    that this side writes itself. Raises LabError where no server is found, or another check runs for too long.
    """
    with _turn(database):
        started = _server_start() if database else None
        with open_child(database, exercise.database) as child:
            answer = check_in(child, exercise, packed, rules, expected=expected, schedule=schedule, announce=announce)
        answer.printed = child.printed  # all of it, now that the process has ended
        passed = [(rule, finding) for rule, finding in answer.findings if finding.ok]
        if started and len(passed) < len(answer.findings) and (gone := _server_went_away(started)):
            answer.findings, answer.error = passed, gone
        return answer


def _server_start() -> datetime | None:
    try:
        return server_start()
    except (psycopg.Error, ServerError):
        return None


def _server_went_away(started: datetime) -> str | None:
    """Why what failed says nothing about the functions: the server was not there all the time. Else None."""
    try:
        return None if server_start() == started else TEXTS["restarted"]
    except psycopg.Error as error:
        return connection_failure(error, database_url())


@contextmanager
def open_child(database: bool, required: bool) -> Iterator["Child"]:
    """A process for checks. At the end nothing of it is left: no process that it started, and no session."""
    with _surroundings(database, required) as environment:
        child = Child(environment)
        try:
            yield child
        finally:
            child.end()


def check_in(
    child: "Child",
    exercise: Definition,
    packed: str,
    rules: Sequence[str],
    *,
    expected: Callable[[str], str],
    schedule: str | None = None,
    announce: Callable[[str], None] = lambda _: None,
) -> Answer:
    """What `run_check` does, in a process that is there. Where the answer has not `ended`, end that process."""
    order = {
        "exercise": exercise.package,
        "functions": packed,
        "rules": list(rules),
        "schedule": schedule,
        "seconds": LONGEST_SECONDS,
    }
    answer = Answer()
    child.order(order)
    _collect(child, answer, expected, announce)
    return answer


def _collect(child: "Child", answer: Answer, expected: Callable[[str], str], announce: Callable[[str], None]) -> None:
    rule, what = "", ""
    limit, rule_limit = START_SECONDS, START_SECONDS
    rule_ends = deadline = monotonic() + limit

    def broke_off(why: str, came: str) -> None:
        answer.findings.append((rule, Finding(False, what, came, expected(rule), why)))

    while True:
        try:
            message = child.next(min(deadline, rule_ends))
        except queue.Empty:
            if not rule:
                answer.error = TEXTS["no_start"].format(seconds=START_SECONDS)
            elif rule_ends < deadline:
                broke_off(TEXTS["slow_rule"].format(seconds=rule_limit), TEXTS["slow_came"].format(seconds=rule_limit))
            else:
                broke_off(TEXTS["slow_call"].format(seconds=limit), TEXTS["slow_came"].format(seconds=limit))
            return
        if message is None:
            broke_off(child.how_it_ended(), TEXTS["exited_came"])
            return
        match message.get("kind"):
            case "rule":
                rule, what = message["name"], ""
                rule_limit = message["seconds"]
                deadline = rule_ends = monotonic() + rule_limit
                announce(rule)
            case "calling":
                what, limit = message["what"], message["seconds"]
                deadline = monotonic() + limit
            case "finding":
                del message["kind"]
                answer.findings.append((rule, Finding(**message)))
                deadline = rule_ends
            case "error":
                answer.error = message["text"]
                return
            case "end":
                answer.ended = True
                return
            case _:
                answer.error = TEXTS["garbled"]
                return


class Child:
    """The process, its answers as they come, and what it prints."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "helpers.checking.child"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # an interrupted cell interrupts the cell; and the group is ended as a whole
        )
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._output = bytearray()
        self._threads = [
            threading.Thread(target=self._read_answers, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._read_output, args=(self._process.stderr,), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def order(self, order: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it ended at once: its answers are at their end too
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()

    def next(self, deadline: float) -> dict[str, Any] | None:
        """The next answer; None: there are no more. Raises queue.Empty at the deadline."""
        return self._answers.get(timeout=max(deadline - monotonic(), 0.01))

    def how_it_ended(self) -> str:
        try:
            code = self._process.wait(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            return TEXTS["garbled"]
        if code < 0:
            return TEXTS["killed"].format(signal=signal.Signals(-code).name)
        return TEXTS["exited"].format(code=code)

    def end(self) -> None:
        """End the process and all that it started."""
        with suppress(psutil.NoSuchProcess):
            for process in psutil.Process(self._process.pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    process.kill()
        if sys.platform != "win32":
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        for thread in self._threads:
            thread.join(timeout=2)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert stream is not None
            with suppress(OSError):
                stream.close()

    @property
    def printed(self) -> str:
        return self._output.decode(errors="replace")

    def _read_answers(self, stream: IO[bytes]) -> None:
        for line in stream:
            try:
                message = json.loads(line)
                self._answers.put(message if isinstance(message, dict) else {})
            except ValueError:
                self._answers.put({})
        self._answers.put(None)

    def _read_output(self, stream: IO[bytes]) -> None:
        while chunk := os.read(stream.fileno(), 65_536):
            self._output += chunk[: MOST_OUTPUT - len(self._output)]


@contextmanager
def _turn(needed: bool) -> Iterator[None]:
    """One check at a time on this machine's lab: they share a database."""
    if not needed:
        yield
        return
    try:
        with FileLock(lab_home() / "check.lock", timeout=WAIT_FOR_TURN):
            yield
    except Timeout:
        raise LabError(TEXTS["busy"]) from None


@contextmanager
def _surroundings(database: bool, required: bool) -> Iterator[dict[str, str]]:
    """The environment of the child; and at the end no session of it is left."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(
            [str(ROOT), *filter(None, sys.path)]
        ),  # a learner may import a module of their own
        "PYTHONIOENCODING": "utf-8",
        "PYTHONHASHSEED": "0",
        "PGAPPNAME": "check",
        PARENT_PID: str(os.getpid()),
    }
    url: URL | None = None
    if database:
        try:
            url = check_url()
        except ServerError:
            if required:
                raise
        else:
            environment |= {
                "DATABASE_URL": url.render_as_string(hide_password=False),
                "LAB_SERVER": "url",
                "LAB_DATABASE": str(url.database),
            }
    try:
        yield environment
    finally:
        if url is not None:
            end_sessions(url)
