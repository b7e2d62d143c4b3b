"""Turns an error of the database into a sentence for a person: what is wrong, and the command that mends it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeGuard

from sqlalchemy.exc import DBAPIError, OperationalError

from helpers.db import database_url
from helpers.errors import LabError
from helpers.scripts import migration_that_adds
from helpers.servers import connection_failure

TEXTS = {
    "migration": (
        "The database has no {what} yet. Run the script lab_sql/{script} first; "
        'in a notebook: lab.run_script("{script}").'
    ),
    "schema": (
        "The lab's tables are not there. Run the notebook's first code cell, which opens the lesson, "
        "or type: python3 -m helpers reset"
    ),
}

MISSING = re.compile(r'(?P<kind>column|relation|schema) "?(?:\w+\.)?(?P<name>\w+)"? does not exist')


def is_connection_failure(error: Exception) -> TypeGuard[DBAPIError]:
    """Did the server not answer, or go away? (An error that the server itself reported has an SQLSTATE.)"""
    if not isinstance(error, DBAPIError):
        return False
    no_answer = isinstance(error, OperationalError) and getattr(error.orig, "sqlstate", None) is None
    return no_answer or error.connection_invalidated


def explain(error: DBAPIError) -> str:
    """One sentence or two for `error`, with the cure. Never a password."""
    if is_connection_failure(error):
        return connection_failure(error, database_url())
    message = str(error.orig).strip()
    missing = MISSING.search(message)
    if missing is None:
        return message.splitlines()[0]
    script = migration_that_adds(missing["name"])
    if script is None or script.startswith("00_") or missing["kind"] == "schema":
        return TEXTS["schema"]
    return TEXTS["migration"].format(what=f"{missing['kind']} {missing['name']}", script=script)


@contextmanager
def readable_errors() -> Iterator[None]:
    """Within this block an error of the database becomes a LabError with `explain`'s sentence."""
    try:
        yield
    except DBAPIError as error:
        raise LabError(explain(error)) from None
