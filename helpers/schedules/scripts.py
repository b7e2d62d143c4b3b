"""Functions that are made for actors: from SQL text, and for the claims after the end of a run."""

import re
from collections.abc import Callable, Sequence

import psycopg

from helpers.db import SessionFactory
from helpers.schedules.connection import SteppedConnection

MOST_CLAIMS = 1000  # of one rescue
BEGIN = re.compile(r"^\s*(begin|start\s+transaction)\b", re.IGNORECASE)


def sql_actor(statements: Sequence[str]) -> Callable[[], list[object]]:
    """A function that runs the statements as psql does: each is a transaction of its own, except behind a BEGIN.

    It returns, for each statement but BEGIN, its rows (as tuples), or how many rows it changed, or its error; and goes
    on after an error. A BEGIN is sent together with the next statement, as psycopg does it: it is no step.
    """
    texts: list[str] = []
    begin = ""
    for statement in statements:
        if BEGIN.match(statement):
            begin = statement.rstrip().rstrip(";") + "; "
        else:
            texts.append(begin + statement)
            begin = ""

    def run() -> list[object]:
        results: list[object] = []
        with SessionFactory() as session:
            connection = session.connection().connection.driver_connection
            assert isinstance(connection, SteppedConnection)
            connection.autocommit = True
            try:
                for text in texts:
                    results.append(_result(connection, text))
            finally:
                if connection.closed:
                    session.invalidate()
                else:
                    if not connection.idle:
                        connection.rollback()
                    connection.autocommit = False
        return results

    return run


def until_none(claim: Callable[[], object]) -> Callable[[], int]:
    """A function that claims again and again, until there is nothing more to claim."""

    def run() -> int:
        claims = 0
        while claims < MOST_CLAIMS and claim() is not None:
            claims += 1
        return claims

    return run


def _result(connection: SteppedConnection, text: str) -> object:
    try:
        cursor = connection.execute(text.encode())
    except psycopg.Error as error:
        return error
    return cursor.fetchall() if cursor.description else cursor.rowcount
