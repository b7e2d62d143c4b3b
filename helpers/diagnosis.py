"""Turns an error of the database into a sentence for a person: what is wrong, and the command that mends it."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from sqlalchemy.exc import DBAPIError

from helpers.db import database_url
from helpers.errors import LabError
from helpers.scripts import script_that_adds
from helpers.servers import connection_failure
from helpers.servers.failures import Cause, cause_of

TEXTS = {
    "script": (
        "The database has no {what} yet. Run the script lab_sql/{script} first; "
        'in a notebook: lab.run_script("{script}").'
    ),
    "another_lesson": (
        "The lab's tables are those of another lesson: they have no {what}. Another notebook has rebuilt them since. "
        "Run this notebook's first code cell, which opens its lesson, and go on from there."
    ),
    "schema": (
        "The lab's tables are not there. Run the notebook's first code cell, which opens the lesson, "
        "or type: python3 -m helpers reset"
    ),
}

# What the database itself says: as SQLAlchemy wraps it, or from the driver, which the scripts use directly.
DATABASE_ERRORS = (DBAPIError, psycopg.Error)
DatabaseError = DBAPIError | psycopg.Error

LESSON = "LAB_LESSON"  # the environment variable for the lesson that a notebook has opened, for its workers as well
ENDED = {"57P01", "57P02", "57P03", "57P05"}  # the server ended the session, or takes none now
MISSING = re.compile(
    r'(?P<kind>column|relation|schema|type) "?(?:\w+\.)?(?P<name>\w+)"?(?: of relation "\w+")? does not exist'
)


def is_connection_failure(error: BaseException) -> bool:
    """Did the server not answer, or go away? (An error that the server itself reported has an SQLSTATE.)"""
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    inner = _inner(error)
    return isinstance(inner, psycopg.OperationalError) and (inner.sqlstate is None or inner.sqlstate in ENDED)


def explain(error: DatabaseError) -> str:
    """One sentence or two for `error`, with the cure. Never a password."""
    if is_connection_failure(error) or cause_of(error) is Cause.DISK_FULL:
        return connection_failure(error, database_url())
    message = str(_inner(error)).strip()
    missing = MISSING.search(message)
    script = script_that_adds(missing["name"]) if missing else None
    if missing is None or script is None:
        return message.splitlines()[0]
    if script.startswith("00_"):
        return TEXTS["schema"]
    what = f"{missing['kind']} {missing['name']}"
    if int(script[:2]) < int(os.environ.get(LESSON, "0")):
        return TEXTS["another_lesson"].format(what=what)
    return TEXTS["script"].format(what=what, script=script)


@contextmanager
def readable_errors() -> Iterator[None]:
    """Within this block an error of the database becomes a LabError with `explain`'s sentence."""
    try:
        yield
    except DATABASE_ERRORS as error:
        raise LabError(explain(error)) from None


def _inner(error: BaseException) -> BaseException:
    """The driver's own error."""
    return (error.orig or error) if isinstance(error, DBAPIError) else error
