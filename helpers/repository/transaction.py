"""Lesson 2: run a transaction again where PostgreSQL asks for it."""

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from helpers.db import SessionFactory

Result = TypeVar("Result")

# serialization_failure, deadlock_detected: nothing was changed, a new try may succeed
RETRY = {"40001", "40P01"}


def run_transaction(work: Callable[[Session], Result], tries: int = 5) -> Result:
    """Call `work` with a session in a REPEATABLE READ transaction, and commit.

    Where PostgreSQL ends the transaction with an error of `RETRY`, *all* of it runs
    again, at most `tries` times: what `work` read before is out of date. So `work` must
    do nothing outside of the database that may not be repeated.

    Returns what `work` returns.
    Raises the database's error where it is another one, or the last try fails.
    """
    attempt = 1
    while True:
        try:
            with SessionFactory.begin() as session:
                session.connection(
                    execution_options={"isolation_level": "REPEATABLE READ"}
                )
                return work(session)
            # Leaving the block commits; leaving it by an error rolls back.
        except DBAPIError as error:
            if attempt >= tries or getattr(error.orig, "sqlstate", None) not in RETRY:
                raise
        attempt += 1
