"""Limits of time that a session has set for itself, in a world whose time is virtual.

A limit such as `SET lock_timeout = '10ms'` counts real time, and the steps of others take real time too: on one machine
it would strike before somebody's COMMIT, on another one behind it. So an exploration decides when it strikes. After
each call the actor's limits are *lifted*: the session's own setting gets LIFTED on top, eleven days that nobody waits
for. What the actor has set can still be read from it, and PostgreSQL does with it what it does with any setting: at the
end of a transaction, at ROLLBACK TO, at RESET. Where a call waits for a lock under a limit, both ways are tried, each
in a run of its own:

- the actor goes on waiting: its limit stays lifted, however long the others take;
- its patience ends (the move `A~`, see `program`): the call is made again, under a limit that the server itself lets
  strike when its turn comes, while all others stand still.

In the same way the server ends a session that stands idle between two calls under a limit for that. Its client reads
the server's last message at its next call, or finds the connection gone: the system decides that, as it does elsewhere.

`lock_timeout`, `statement_timeout`, `transaction_timeout` (PostgreSQL 17), `idle_in_transaction_session_timeout` and
`idle_session_timeout` count, wherever they come from: SET, SET LOCAL, set_config, the role, the options of the
connection, a function that was called before. What is left out:

- a limit that comes into force within the call that waits (in a function, a DO block, a text of several statements):
  it counts real time, and where it strikes, the run ends with a sentence that says so;
- a statement that is slow without waiting, and a deadlock that a limit would have ended first;
- limits that the program keeps itself (`asyncio.timeout`, `threading.Timer`): no database knows of them, and they
  count real time.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

import psycopg
from psycopg.pq import ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult

LIFTED = 1_000_000_000  # milliseconds
OF_A_CALL = ("lock_timeout", "statement_timeout", "transaction_timeout")  # on a tie PostgreSQL reports the first
OF_A_PAUSE = {  # where the session stands: within a transaction, or outside of one
    TransactionStatus.INTRANS: ("idle_in_transaction_session_timeout", "transaction_timeout"),
    TransactionStatus.IDLE: ("idle_session_timeout",),
}
SINCE = {"transaction_timeout": 170_000}  # the version of the server that has it first
MILLISECONDS = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
SETTING = re.compile(r"(\d+)(ms|s|min|h|d)?")
SHORTEST = 1  # milliseconds: what a limit is where nothing else moves

# What may change a limit, in a statement's text or in a function of the database.
MAY_SET = re.compile(r"timeout|set_config|\breset\b|\bdiscard\b", re.IGNORECASE)
FUNCTIONS_MAY_SET = """
    SELECT EXISTS (
        SELECT FROM pg_proc JOIN pg_namespace AS n ON n.oid = pronamespace
        WHERE nspname NOT IN ('pg_catalog', 'information_schema')
          AND concat(prosrc, pg_get_function_sqlbody(pg_proc.oid), proconfig) ~* 'timeout|set_config'
    )
"""

TEXTS = {"limit": "{name} of {length}"}


@dataclass(frozen=True)
class Limit:
    """One limit in force. `milliseconds` is what the session has set."""

    name: str
    milliseconds: int

    def __str__(self) -> str:
        unit = next(u for u in ("h", "min", "s", "ms") if self.milliseconds % MILLISECONDS[u] == 0)
        return TEXTS["limit"].format(name=self.name, length=f"{self.milliseconds // MILLISECONDS[unit]} {unit}")


class Disturbed(Exception):
    """A limit struck before it was lifted: the machine was too busy for it. The run has to be made again."""


class Limits:
    """The limits of one session. All of this runs between two of its calls.

    `anywhere`: every call may set a limit, since a function of the database does (see FUNCTIONS_MAY_SET).
    """

    def __init__(self, connection: psycopg.Connection, anywhere: bool) -> None:
        self._connection = connection
        self._anywhere = anywhere
        names = dict.fromkeys((*OF_A_CALL, *chain(*OF_A_PAUSE.values())))
        self._names = [name for name in names if connection.info.server_version >= SINCE.get(name, 0)]
        self._show = "; ".join(f"SHOW {name}" for name in self._names).encode()
        self._kept: dict[str, int] = {}  # name → milliseconds that it is set to, so that it strikes
        self._set: dict[str, int] = {}  # name → milliseconds that the actor has set

    def lift_after(self, text: str) -> None:
        """Lift what the call with this text may have set, or brought back, or what `keep` has set before it."""
        if self._anywhere or self._kept or any(self._set.values()) or MAY_SET.search(text):
            self.lift()

    def lift(self) -> None:
        """Lift all limits in force. In a transaction that has failed nothing can be set, and nothing waits."""
        status = self._connection.pgconn.transaction_status
        if status not in (TransactionStatus.IDLE, TransactionStatus.INTRANS):
            return
        # SHOW takes no snapshot, and may stand before SET TRANSACTION: the actor's transaction does not notice it.
        shown = {name: self._read(value) for name, value in zip(self._names, self._ask(self._show), strict=True)}
        lifted = {}
        for name, value in shown.items():
            if value == self._kept.get(name):
                lifted[name] = self._set[name]
            elif value < LIFTED:
                lifted[name] = self._set[name] = value
            else:
                self._set[name] = value - LIFTED
        self._change({name: value + LIFTED for name, value in lifted.items() if value})
        self._kept = {}

    def of_a_call(self) -> Limit | None:
        """The limit that would end a call that waits for a lock, or None."""
        return self._shortest(OF_A_CALL)

    def of_a_pause(self) -> Limit | None:
        """The limit that would end the session where it stands idle now, or None."""
        status = TransactionStatus(self._connection.pgconn.transaction_status)
        return self._shortest(OF_A_PAUSE.get(status, ()))

    def keep(self, limit: Limit, milliseconds: int = SHORTEST) -> None:
        """Put a limit in force, so that it strikes behind so many milliseconds of real time."""
        self._kept = {limit.name: milliseconds}
        self._change(self._kept)

    def _shortest(self, names: Iterable[str]) -> Limit | None:
        set_here = [Limit(name, self._set[name]) for name in names if self._set.get(name)]
        return min(set_here, key=lambda limit: limit.milliseconds, default=None)

    def _change(self, values: dict[str, int]) -> None:
        """As part of the transaction that is open, where one is: what the actor's own end of it takes back with it."""
        scope = "SESSION" if self._connection.pgconn.transaction_status == TransactionStatus.IDLE else "LOCAL"
        if values:
            # First 0: a transaction_timeout that is running already goes on as it began, whatever it is set to then.
            texts = (f"SET {scope} {name} = 0; SET {scope} {name} = {value}" for name, value in values.items())
            self._ask("; ".join(texts).encode())

    def _ask(self, sql: bytes) -> list[str]:
        """Run SQL as no step of anybody, and return its results' only values."""
        pgconn = self._connection.pgconn
        pgconn.send_query(sql)
        results: list[PGresult] = []
        while result := pgconn.get_result():
            results.append(result)
        if any(result.status == ExecStatus.FATAL_ERROR for result in results):
            raise Disturbed
        return [(result.get_value(0, 0) or b"").decode() for result in results if result.ntuples]

    @staticmethod
    def _read(value: str) -> int:
        found = SETTING.fullmatch(value)
        return int(found[1]) * MILLISECONDS[found[2] or "ms"] if found else 0


def struck(error: BaseException) -> bool:
    """Whether a limit of time has ended this call. (A cancelled statement has the same SQLSTATE as a slow one.)"""
    if not isinstance(error, psycopg.errors.LockNotAvailable | psycopg.errors.QueryCanceled):
        return False
    return error.diag.source_function == "ProcessInterrupts" and "timeout" in str(error)
