"""What the server answers to a statement, in a few lines: rows, a count, an error with its code and its name."""

import re
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.errors import Diagnostic

from helpers.views import Table
from helpers.views.tables import as_text

TEXTS = {
    "changed": "1 row changed",
    "changed_plural": "{n} rows changed",
    "no_rows": "no rows",
    "row": "1 row",
    "rows": "{n} rows",
    "null": "NULL",
    "failed": "{state} {condition}",
    "notice": "{severity}: {message}",
    "lost": "the connection is lost",
}


@dataclass(frozen=True)
class Answer:
    """`line` stands beside the statement, and the lines of `below` under it.

    `outcome` is what decides, for a comparison: an SQLSTATE (`40001`), a single value, else the line itself.
    """

    outcome: str
    line: str
    below: list[str] = field(default_factory=list)


def of_result(cursor: psycopg.Cursor[Any]) -> Answer:
    """The rows; or how many were changed; or what the server calls the command that it has carried out."""
    if cursor.description is None:
        tag = cursor.statusmessage or ""
        if re.fullmatch(r"(INSERT 0|UPDATE|DELETE|MERGE) \d+", tag):
            tag = TEXTS["changed"] if cursor.rowcount == 1 else TEXTS["changed_plural"].format(n=cursor.rowcount)
        return Answer(tag, tag)
    rows = [[as_text(value) for value in row] for row in cursor.fetchall()]
    if not rows:
        return Answer(TEXTS["no_rows"], TEXTS["no_rows"])
    if len(rows) == 1 and len(rows[0]) == 1:
        return Answer(rows[0][0], rows[0][0])
    line = TEXTS["row"] if len(rows) == 1 else TEXTS["rows"].format(n=len(rows))
    return Answer(line, line, repr(Table([column.name for column in cursor.description], rows)).splitlines())


def of_error(error: psycopg.Error) -> Answer:
    """An error of the server, or of the driver where it has no SQLSTATE."""
    if error.sqlstate is None:
        return Answer("", TEXTS["lost"] if isinstance(error, psycopg.OperationalError) else str(error).splitlines()[0])
    return of_diagnostic(error.diag)


def of_diagnostic(diagnostic: Diagnostic) -> Answer:
    """The SQLSTATE with the name that the manual lists beside it (appendix A), and below it the server's words."""
    state = diagnostic.sqlstate or ""
    try:
        camel = psycopg.errors.lookup(state).__name__  # psycopg names its classes after the same list
    except KeyError:
        camel = ""
    condition = re.sub(r"(?<!^)(?=[A-Z])", "_", camel).lower()
    line = TEXTS["failed"].format(state=state, condition=condition).strip()
    return Answer(state, line, (diagnostic.message_primary or "").splitlines())


def notice_line(diagnostic: Diagnostic) -> str:
    """A notice or a warning of the server: `WARNING: there is no transaction in progress`."""
    return TEXTS["notice"].format(severity=diagnostic.severity, message=diagnostic.message_primary)


def shown(sql: str, parameters: dict[str, Any]) -> str:
    """The statement in one line, with the values in place of their names: for the eye only."""

    def value(found: re.Match[str]) -> str:
        if found[1] not in parameters:
            return found[0]
        given = parameters[found[1]]
        if isinstance(given, str):
            return "'" + given.replace("'", "''") + "'"
        return TEXTS["null"] if given is None else str(given)

    return re.sub(r"(?<![:\w]):(\w+)", value, " ".join(sql.split()))
