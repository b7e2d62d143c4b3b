"""Sessions by hand: a cell says what session A does, then what session B does, and sees who waits for whom.

    a = lab.session("A")
    a.run("BEGIN")
    a.run("UPDATE tasks SET status = 'processing' WHERE id = :id", id=42)

A session is a connection of its own. Its statements run in a thread, so that a cell comes back although its statement
waits for a lock: the answer is shown by `finish()`, or by the session's next call.
"""

import atexit
import re
import threading
import time
from typing import Any

import psycopg
from psycopg.errors import Diagnostic
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from helpers.db import database_url, engine
from helpers.errors import LabError
from helpers.lab.actors.answers import Answer, notice_line, of_diagnostic, of_error, of_result, shown
from helpers.lab.actors.leftovers import ends_leftovers
from helpers.lab.actors.waiting import blockers_in, blockers_of, names, wait_past_deadlock_check
from helpers.models import SCHEMA
from helpers.servers import connection_failure

POLL_SECONDS = 0.02
FINISH_SECONDS = 15.0  # longer than any time limit that a lesson sets
END_SECONDS = 10
WIDTH = 62  # where the column of the answers begins

TEXTS = {
    "waits": "waits for {names}",
    "waited": "{verb} … (it waited)",
    "still": "{name} still waits for {names}: {verb} …",
    "not_sent": "A session runs one statement at a time, so this one was not sent: {sql}",
    "nothing": "{name} has no statement that waits.",
    "ended": 'Session {name} has ended. Run the cell that opens it, lab.session("{name}"), then this one.',
    "checked": "{name} has waited for more than twice deadlock_timeout.",
    "not_waiting": "{name} does not wait for a lock.",
    "bad_name": '"{name}" cannot be the name of a session: use letters and digits, at most 20.',
}

TERMINATE = text("""
    SELECT pg_terminate_backend(pid, :milliseconds) FROM pg_stat_activity WHERE pid = :pid AND application_name = :name
""")


class Statement:
    """One statement on its way. `answer` is there when `done` is set."""

    def __init__(self, sql: str, parameters: dict[str, Any]) -> None:
        compiled = text(sql).bindparams(**parameters).compile(dialect=engine().dialect)
        self.sql, self.parameters = str(compiled), compiled.params
        self.shown = shown(sql, parameters)
        self.verb = self.shown.partition(" ")[0]
        self.done = threading.Event()
        self.answer = Answer("", "")
        self.waited_for: list[str] = []  # where the server itself said so, in the report of a deadlock


class Session:
    """One connection to the lab's database, called `session:NAME` there, that does what a cell says.

    `outcome` is what the last statement gave, for a comparison: an SQLSTATE (`40001`), a single value,
    `1 row changed`; and `waits` while it waits.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.outcome = ""
        self._statement: Statement | None = None  # the one whose answer was not shown yet
        self._notices: list[str] = []
        self._farewell: Answer | None = None  # the server's reason for ending the connection
        self._ended = False  # by the lab
        _, parameters = engine().dialect.create_connect_args(database_url())
        parameters.update(
            application_name=f"session:{name}",
            options=f"-c timezone=UTC -c search_path={SCHEMA},public",
            connect_timeout=5,
        )
        try:
            self._connection = psycopg.connect(autocommit=True, prepare_threshold=None, **parameters)
        except psycopg.OperationalError as error:
            raise LabError(connection_failure(error, database_url())) from None
        self._connection.add_notice_handler(self._note)
        self.pid = self._connection.info.backend_pid

    def __repr__(self) -> str:
        return f"session {self.name}"

    def run(self, sql: str, **parameters: Any) -> None:
        """Send one statement and show what the server answers, or for whom the statement waits.

        `:name` in the SQL takes its value from `parameters`. An error of the server is shown and not raised.
        Where the session's last statement still waits, this one is not sent. Raises LabError after the session's end.
        """
        statement = self._send(sql, parameters)
        if statement is None:
            return
        blockers = self._wait(statement) or statement.waited_for
        if blockers:
            self.outcome = "waits"
            self._show(statement.shown, TEXTS["waits"].format(names=names(blockers)))
        else:
            self._answered(statement, statement.shown)

    def run_to_end(self, sql: str, **parameters: Any) -> None:
        """As `run`, but come back with the answer alone: for a statement whose wait ends without us."""
        statement = self._send(sql, parameters)
        if statement is not None:
            self._finish(FINISH_SECONDS, statement.shown)

    def finish(self) -> None:
        """Wait until the statement that waits has ended, and show how. Where it waits on and on, say for whom."""
        if self._statement is None:
            print(TEXTS["nothing"].format(name=self.name))
        else:
            self._finish(FINISH_SECONDS)

    def wait_past_deadlock_check(self) -> None:
        """Return when the server's check for a deadlock is over for this session, if its statement waits."""
        over = wait_past_deadlock_check(self.pid)
        print(TEXTS["checked" if over else "not_waiting"].format(name=self.name))

    def end(self) -> None:
        """End the session, also one whose statement waits. What it has not committed is rolled back."""
        if self._ended:
            return
        self._ended = True
        _open.pop(self.name, None)
        who = {"pid": self.pid, "name": f"session:{self.name}"}  # a pid alone may be used again
        try:
            with engine().connect() as connection:  # it answers when the server process is gone, and all its locks
                connection.execute(TERMINATE, {**who, "milliseconds": END_SECONDS * 1000})
        except (SQLAlchemyError, LabError):
            pass  # no server, no session
        if self._statement is not None:
            self._statement.done.wait(END_SECONDS)
        self._connection.close()

    # While a statement is on its way

    def _send(self, sql: str, parameters: dict[str, Any]) -> Statement | None:
        """Send a statement and do not wait. None, and a line that says so, where the last one is still there."""
        if self._ended:
            raise LabError(TEXTS["ended"].format(name=self.name))
        statement = Statement(sql, parameters)
        if self._statement is not None and not self._finish(patience=0):
            print(TEXTS["not_sent"].format(sql=statement.shown))
            return None
        self._listen()
        self._statement = statement
        threading.Thread(target=self._perform, args=[statement], daemon=True, name=repr(self)).start()
        return statement

    def _perform(self, statement: Statement) -> None:
        """In a thread of its own: send the statement and put the answer into words."""
        try:
            answer = of_result(self._connection.execute(statement.sql.encode(), statement.parameters))
        except psycopg.Error as error:
            answer = of_error(error)
            if isinstance(error, psycopg.errors.DeadlockDetected):
                pids = blockers_in(error.diag.message_detail or "", self.pid)
                statement.waited_for = [f"session:{s.name}" for s in list(_open.values()) if s.pid in pids]
        if self._connection.closed:
            answer = self._farewell = self._farewell or answer
        answer.below.extend(self._notices)
        self._notices = []
        statement.answer = answer
        statement.done.set()

    def _wait(self, statement: Statement, patience: float = 0) -> list[str]:
        """Return when the statement is done, or else who blocks it, if it is blocked for `patience` seconds."""
        deadline = time.monotonic() + patience
        try:
            while not statement.done.wait(POLL_SECONDS):
                blockers = blockers_of(self.pid)
                if blockers and time.monotonic() >= deadline and not statement.done.is_set():
                    return blockers
        except KeyboardInterrupt:
            end_sessions()
            raise
        return []

    def _finish(self, patience: float, what: str | None = None) -> bool:
        """Show how the waiting statement ended. False where it still waits. `what` stands before the answer."""
        statement = self._statement
        assert statement is not None
        blockers = self._wait(statement, patience)
        if blockers:
            print(TEXTS["still"].format(name=self.name, names=names(blockers), verb=statement.verb))
            return False
        self._answered(statement, what or TEXTS["waited"].format(verb=statement.verb))
        return True

    def _answered(self, statement: Statement, what: str) -> None:
        self._statement = None
        self.outcome = statement.answer.outcome
        said = "" if statement.answer.line == statement.verb.upper() else statement.answer.line  # BEGIN → BEGIN
        self._show(what, said, statement.answer.below)

    def _show(self, what: str, answer: str, below: list[str] | None = None) -> None:
        line = f"{self.name}: {what}"
        if answer and len(line) >= WIDTH:
            print(line)
            line = ""
        print(f"{line.ljust(WIDTH)}→ {answer}" if answer else line)
        for text_below in below or []:
            print(f"      {text_below}")

    # What the server says unasked

    def _note(self, diagnostic: Diagnostic) -> None:
        if diagnostic.severity_nonlocalized == "FATAL":
            self._farewell = of_diagnostic(diagnostic)
        else:
            self._notices.append(notice_line(diagnostic))

    def _listen(self) -> None:
        """Read what the server has sent meanwhile: the reason for which it ended the connection.

        Where a system answers a write to such a connection with a reset, what was not read before is lost.
        """
        try:
            self._connection.pgconn.consume_input()
            self._connection.pgconn.is_busy()  # this parses what was read
        except psycopg.Error:
            pass  # the next statement will tell


_open: dict[str, Session] = {}


def session(name: str) -> Session:
    """Open the session `name`. Where one of that name is open, it is ended first.

    Raises LabError where the server does not answer.
    """
    if not re.fullmatch(r"[A-Za-z0-9]{1,20}", name):
        raise LabError(TEXTS["bad_name"].format(name=name))
    if name in _open:
        _open[name].end()
    _open[name] = Session(name)
    return _open[name]


@atexit.register
@ends_leftovers
def end_sessions() -> None:
    """End all sessions that this notebook opened.

    Those that wait come first: the end of the one that they wait for would let their statements go through.
    """
    for opened in sorted(_open.values(), key=lambda session: session._statement is None):
        opened.end()
