"""Virtual time: a database clock that an exploration moves on, so that a lease ends at once and nobody sleeps.

The schema `lab_clock` stands before `pg_catalog` in the search path of the actors' sessions, and of no other session.
What an actor calls, and what it gets there:

- `clock_timestamp()`, `statement_timestamp()`: the real time plus the shift in force at this moment.
- `now()`, `transaction_timestamp()`, and the keyword CURRENT_TIMESTAMP, which is rewritten to `now()` in the actor's
  statement: the transaction's start plus the shift as it was *then*. They stand still, as the real ones do.
- `datetime.now()` of Python, LOCALTIMESTAMP, the literal 'now', and the DEFAULT of a column: the real time. So the
  application's clock falls behind the database's at the first move, as clocks of different machines do.

The shift is kept twice, because each kind of time must see it differently. A sequence is outside of transactions:
every snapshot sees its value at once, also in REPEATABLE READ, and reading it blocks nobody. The table of moves says
what the shift was at an earlier time; a transaction sees all moves before its own start, and needs no others.
"""

import re
from datetime import datetime, timedelta

from psycopg import Connection
from psycopg.rows import TupleRow

SEARCH_PATH = 'lab_clock,pg_catalog,"$user",public'

SET_UP = """
    CREATE SCHEMA IF NOT EXISTS lab_clock;
    CREATE SEQUENCE IF NOT EXISTS lab_clock.shift AS bigint MINVALUE 0 START 0;  -- seconds
    CREATE TABLE IF NOT EXISTS lab_clock.moves (at timestamptz NOT NULL, shift bigint NOT NULL);

    CREATE OR REPLACE FUNCTION lab_clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
        SELECT pg_catalog.clock_timestamp()
             + coalesce(pg_catalog.pg_sequence_last_value('lab_clock.shift'::regclass), 0) * interval '1 second'
    $$;
    CREATE OR REPLACE FUNCTION lab_clock.statement_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
        SELECT pg_catalog.statement_timestamp()
             + coalesce(pg_catalog.pg_sequence_last_value('lab_clock.shift'::regclass), 0) * interval '1 second'
    $$;
    CREATE OR REPLACE FUNCTION lab_clock.now() RETURNS timestamptz LANGUAGE sql STABLE AS $$
        SELECT pg_catalog.now() + coalesce(max(shift), 0) * interval '1 second'
        FROM lab_clock.moves WHERE at <= pg_catalog.now()
    $$;
    CREATE OR REPLACE FUNCTION lab_clock.transaction_timestamp() RETURNS timestamptz LANGUAGE sql STABLE AS $$
        SELECT lab_clock.now()
    $$;
"""
REWIND = "SELECT pg_catalog.setval('lab_clock.shift', 0); DELETE FROM lab_clock.moves;"
MOVE = """
    SELECT pg_catalog.setval('lab_clock.shift', {shift});
    INSERT INTO lab_clock.moves VALUES (pg_catalog.clock_timestamp(), {shift}) RETURNING at;
"""

# A quoted string or name is matched first, and left as it is.
CURRENT_TIMESTAMP = re.compile(r"""('(?:[^']|'')*'|"[^"]*")|\bCURRENT_TIMESTAMP\b(?:\s*\(\s*\d\s*\))?""", re.IGNORECASE)
READS_TIME = re.compile(r"timestamp|\bnow\b|\bcurrent_|\blocaltime|\btimeofday\b", re.IGNORECASE)


class VirtualClock:
    """The clock of the actors' sessions, moved through the monitor's session."""

    def __init__(self, monitor: Connection[TupleRow]) -> None:
        self._monitor = monitor
        self._moved = True  # an exploration that died may have left it anywhere
        self.moves: list[tuple[datetime, timedelta]] = []

    def set_up(self) -> None:
        """Create the schema, where it is missing. Needs the right to create a schema in this database."""
        self._monitor.execute(SET_UP)

    def rewind_sql(self) -> str:
        """The SQL that takes the clock back to real time, to be run with a reset; empty where nothing moved."""
        self.moves = []
        sql = REWIND if self._moved else ""
        self._moved = False
        return sql

    def move(self, seconds: int) -> None:
        """Let `seconds` seconds pass for the actors' sessions. Committed, and seen by all of them, at once."""
        shift = self.shift + timedelta(seconds=seconds)
        self._moved = True
        cursor = self._monitor.execute(MOVE.format(shift=int(shift.total_seconds())))
        cursor.nextset()
        [(at,)] = cursor.fetchall()
        self.moves.append((at, shift))

    @property
    def shift(self) -> timedelta:
        """How far virtual time is ahead of real time now."""
        return self.moves[-1][1] if self.moves else timedelta(0)


def virtual(at: datetime, moves: list[tuple[datetime, timedelta]]) -> datetime:
    """The virtual time that belongs to the real time `at`, in a run that moved its clock as `moves` says."""
    shifts = [shift for moved_at, shift in moves if moved_at <= at]
    return at + shifts[-1] if shifts else at


def on_virtual_time(sql: str) -> str:
    """The statement with `now()` in place of CURRENT_TIMESTAMP: a keyword cannot be shadowed by a schema."""
    if "current_timestamp" not in sql.lower():
        return sql
    return CURRENT_TIMESTAMP.sub(lambda found: found[1] or "now()", sql)


def reads_time(sql: str) -> bool:
    """Whether the statement's text asks for the time."""
    return READS_TIME.search(sql) is not None
