"""A psycopg connection on which every call to the database is a step of somebody's schedule.

The hooks sit in the driver and not in SQLAlchemy, so that a Session, a Connection and psycopg's cursors are all seen.
"""

import re
from collections.abc import Callable
from typing import Any, Protocol, Self

import psycopg
from psycopg.abc import Params, Query
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow
from psycopg.sql import as_string

from helpers.schedules.call import Call
from helpers.schedules.clock import on_virtual_time
from helpers.schedules.limits import Limits

# After these the session itself has changed, and must be cleaned for the next run.
CHANGES_SESSION = re.compile(
    r"^\s*(set(?!\s+(local|transaction|constraints)\b)|reset|listen|load|declare|create\s+(\w+\s+)?temp)|advisory|set_config",
    re.IGNORECASE,
)

ENDS = re.compile(r"^\s*(commit|end|rollback|abort)\b(?!\s+(and|to|prepared)\b)", re.IGNORECASE)


class Stepper(Protocol):
    """Who decides when a call is made."""

    def step(self, call: Call, perform: Callable[[], None]) -> None:
        """Wait for the permission, then make the call by `perform()`."""


class SteppedConnection(psycopg.Connection[TupleRow]):
    """A connection whose calls wait for `stepper`; an ordinary connection where it is None."""

    stepper: Stepper | None = None
    limits: Limits
    session_changed = False
    only_looked = True  # in the transaction that is open, if one is

    @property
    def idle(self) -> bool:
        return self.pgconn.transaction_status == TransactionStatus.IDLE

    def commit(self) -> None:
        self._end("commit", super().commit)

    def rollback(self) -> None:
        self._end("rollback", super().rollback)

    def _end(self, kind: str, perform: Callable[[], None]) -> None:
        if self.stepper is None or self.closed or self.idle:  # the end of nothing is no step
            perform()
        else:
            call = Call(kind, kind.upper(), idle=False, closes_clean=self.only_looked)
            self.stepper.step(call, perform)
        self.only_looked = self.isolation_level is None


class _Stepped:
    """What the two kinds of cursor share."""

    connection: Any

    def execute(self, query: Query, params: Params | None = None, **options: Any) -> Self:
        self._step(query, params, "execute", options)
        return self

    def executemany(self, query: Query, params_seq: Any, **options: Any) -> None:
        self._step(query, params_seq, "executemany", options)

    def _step(self, query: Query, params: Any, method: str, options: dict[str, Any]) -> None:
        connection: SteppedConnection = self.connection
        if connection.stepper is None:
            getattr(super(), method)(query, params, **options)
            return
        text = _text(query, connection)
        query = on_virtual_time(text)
        end = ENDS.match(text)
        call = Call(
            kind=end[1].lower() if end else "statement",
            text=text,
            idle=connection.idle,
            params=params if method == "execute" else None,
            closes_clean=end is not None and connection.only_looked,
        )
        if CHANGES_SESSION.search(text):
            connection.session_changed = True

        def perform() -> None:
            getattr(super(_Stepped, self), method)(query, params, **options)
            while self.nextset():  # type: ignore[attr-defined]
                pass  # of several statements in one text, the last one's result counts
            call.result = self.pgresult  # type: ignore[attr-defined]

        try:
            connection.stepper.step(call, perform)
        finally:
            connection.only_looked = end is not None or (connection.only_looked and call.found_nothing)


class SteppedCursor(_Stepped, psycopg.Cursor[TupleRow]):
    """The cursor that SQLAlchemy and `connection.execute` use."""


class SteppedServerCursor(_Stepped, psycopg.ServerCursor[TupleRow]):
    """The cursor of `stream_results`."""


def _text(query: Query, connection: SteppedConnection) -> str:
    if isinstance(query, str):
        return query
    return query.decode() if isinstance(query, bytes) else as_string(query, connection)
