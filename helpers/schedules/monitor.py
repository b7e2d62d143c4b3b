"""The session that watches: it resets the rows, asks who waits for whom, ends sessions, and reads what a run left."""

from collections.abc import Sequence
from datetime import UTC, datetime
from time import monotonic, sleep
from typing import Any

import psycopg
from psycopg.abc import Buffer
from psycopg.rows import TupleRow, dict_row
from psycopg.types.datetime import TimestamptzLoader

from helpers import db
from helpers.errors import LabError
from helpers.schedules.clock import VirtualClock
from helpers.schedules.limits import FUNCTIONS_MAY_SET

ONE_AT_A_TIME = 4_242_042  # the key of an advisory lock
WAIT_FOR_TURN = 10.0  # seconds

TEXTS = {
    "busy": "Another exploration is running in this database. Wait for its end, or stop its kernel, and try again."
}

BLOCKERS = "SELECT pid, pg_blocking_pids(pid) FROM unnest(%s::int[]) AS pid"
TERMINATE = "SELECT pg_terminate_backend(pid) FROM unnest(%s::int[]) AS pid"
ALIVE = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY (%s)"
MAY_SET = """
    SELECT bool_and(has_parameter_privilege(name, 'SET'))
    FROM unnest(ARRAY['deadlock_timeout', 'log_lock_waits', 'log_min_messages']) AS name
"""


class EndlessTimestamptzLoader(TimestamptzLoader):
    """Reads `infinity`, which a learner may well give a lease, as the last moment that Python knows."""

    def load(self, data: Buffer) -> datetime:
        if bytes(data) in (b"infinity", b"-infinity"):
            return (datetime.min if bytes(data).startswith(b"-") else datetime.max).replace(tzinfo=UTC)
        return super().load(data)


class Monitor:
    """Connects at once. Raises LabError where another exploration uses this database for more than 10 s."""

    def __init__(self) -> None:
        _, parameters = db.engine().dialect.create_connect_args(db.database_url())
        options = "-c timezone=UTC -c synchronous_commit=off -c lock_timeout=4s"
        parameters.update(application_name="schedules", options=options, connect_timeout=5)
        self.connection: psycopg.Connection[TupleRow] = psycopg.connect(
            autocommit=True, prepare_threshold=None, **parameters
        )
        self.connection.adapters.register_loader("timestamptz", EndlessTimestamptzLoader)
        deadline = monotonic() + WAIT_FOR_TURN
        while not self._ask("SELECT pg_try_advisory_lock(%s)", ONE_AT_A_TIME):
            if monotonic() > deadline:
                self.connection.close()
                raise LabError(TEXTS["busy"])
            sleep(0.05)
        self.may_set_everything = bool(self._ask(MAY_SET))
        self.functions_set_limits = bool(self._ask(FUNCTIONS_MAY_SET))
        self.clock = VirtualClock(self.connection)
        self.clock.set_up()

    def close(self) -> None:
        self.connection.close()

    def execute(self, sql: str) -> None:
        """Run SQL, which may be several statements, in one round trip."""
        if sql.strip():
            try:
                self.connection.execute(sql.encode())
            except psycopg.Error:
                self.connection.rollback()  # the text may have begun a transaction
                raise

    def blockers(self, pids: Sequence[int]) -> dict[int, set[int]]:
        """For each server process, those that hold, or stand in line for, the lock it waits for; empty: it runs."""
        rows = self.connection.execute(BLOCKERS, (list(pids),)).fetchall()
        return {pid: set(blocking) for pid, blocking in rows}

    def terminate(self, pids: Sequence[int], seconds: float) -> None:
        """End server processes as the loss of their clients would, and wait until their locks are gone with them."""
        self.connection.execute(TERMINATE, (list(pids),))
        self.wait_for_end(pids, seconds)

    def wait_for_end(self, pids: Sequence[int], seconds: float) -> None:
        """Wait at most `seconds` until the server processes are gone: they release their locks before that."""
        deadline = monotonic() + seconds
        while self._ask(ALIVE, list(pids)) and monotonic() < deadline:
            sleep(0.0003)

    def read(self, rows: str, ledger: str | None) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The rows and the ledger, in one round trip."""
        cursor = self.connection.cursor(row_factory=dict_row)
        cursor.execute((rows if ledger is None else f"{rows};{ledger}").encode())
        found = cursor.fetchall()
        return found, cursor.fetchall() if cursor.nextset() else []

    def _ask(self, sql: str, *parameters: object) -> Any:
        row = self.connection.execute(sql, parameters or None).fetchone()
        return row[0] if row else None
