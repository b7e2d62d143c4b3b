"""Ask the database, change it by hand, and wait until a fact holds there."""

import time
from typing import Any

import pandas as pd
from sqlalchemy import text

from helpers.db import engine
from helpers.diagnosis import readable_errors
from helpers.errors import LabError

POLL_SECONDS = 0.05

TEXTS = {
    "rows": "{n} row changed.",
    "rows_plural": "{n} rows changed.",
    "rehearsed": "Rows changed: {n}. Rolled back.",
    "waiting": "Waiting until this is true: {fact}",
    "true": "It is true now.",
    "never": "After {seconds:g} s this was still not true: {fact}. The last answer was {answer!r}.",
}


def query(sql: str, **parameters: Any) -> pd.DataFrame:
    """The rows of a SELECT, as a data frame. `:name` in the SQL takes its value from `parameters`."""
    with readable_errors(), engine().connect() as connection:
        result = connection.execute(text(sql), parameters)
        return pd.DataFrame(result.fetchall(), columns=list(result.keys()), dtype=object)


def value(sql: str, **parameters: Any) -> Any:
    """The single value that a SELECT gives."""
    return query(sql, **parameters).iat[0, 0]


def execute(sql: str, **parameters: Any) -> None:
    """Run one statement that changes rows, commit, and print how many rows it changed."""
    with readable_errors(), engine().begin() as connection:
        count = connection.execute(text(sql), parameters).rowcount
    print(TEXTS["rows" if count == 1 else "rows_plural"].format(n=count))


def rehearse(sql: str, **parameters: Any) -> int:
    """Run one statement that changes rows, roll it back, and print and return how many rows it had changed."""
    with readable_errors(), engine().connect() as connection:
        count = connection.execute(text(sql), parameters).rowcount
        connection.rollback()
    print(TEXTS["rehearsed"].format(n=count))
    return count


def wait_until(fact: str, timeout: float = 60.0, **parameters: Any) -> None:
    """Wait until the SQL expression `fact` is true, asking the database and nobody else.

    `fact` is what could stand after SELECT. `timeout` is in seconds.
    Raises LabError with the last answer, where the fact is still not true at the deadline.
    """
    print(TEXTS["waiting"].format(fact=fact), flush=True)
    deadline = time.monotonic() + timeout
    while True:
        answer = value(f"SELECT ({fact})", **parameters)
        if answer:
            print(TEXTS["true"])
            return
        if time.monotonic() > deadline:
            raise LabError(TEXTS["never"].format(seconds=timeout, fact=fact, answer=answer))
        time.sleep(POLL_SECONDS)
