"""One call to the database: what was asked, what came back, and which limits of time it was under."""

import re
from dataclasses import dataclass

import psycopg
from psycopg.abc import Params
from psycopg.pq.abc import PGresult

from helpers.schedules.clock import reads_time
from helpers.schedules.limits import Limit, struck

LOCKS_OTHERWISE = re.compile(r"advisory|isolation", re.IGNORECASE)  # SERIALIZABLE remembers what was looked for


@dataclass(eq=False)
class Call:
    """One call to the database, made or about to be made. `mark` is a point between two calls, named by its code."""

    kind: str  # statement, commit, rollback, mark
    text: str
    idle: bool  # no transaction was open when the call came
    params: Params | None = None
    result: PGresult | None = None
    error: psycopg.Error | None = None
    closes_clean: bool = False  # a COMMIT or ROLLBACK of a transaction that changed and locked nothing
    made: bool = False
    pause: Limit | None = None  # ends the session where it stands idle before this call
    limit: Limit | None = None  # ends the call where it waits for a lock
    limit_counts: bool = False  # or else it is lifted

    @property
    def struck(self) -> bool:
        """Whether a limit of time has ended this call."""
        return self.error is not None and struck(self.error)

    @property
    def reads_time(self) -> bool:
        """Whether a move of the clock could make a difference to this call: a transaction's first call starts now()."""
        return self.kind == "statement" and (self.idle or reads_time(self.text))

    @property
    def found_nothing(self) -> bool:
        """A SELECT that returned no row, and so took no lock: it was no more than a look."""
        status = self.result.command_status if self.result is not None else None
        return status == b"SELECT 0" and LOCKS_OTHERWISE.search(self.text) is None

    @property
    def rowcount(self) -> int:
        """How many rows the call returned or changed; 0 where it failed."""
        return (self.result.command_tuples or 0) if self.result is not None else 0
