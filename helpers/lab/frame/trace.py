"""Shows the SQL that a function sends, as the server gets it."""

import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from psycopg.types.json import Jsonb
from sqlalchemy import event

from helpers.db import engine
from helpers.diagnosis import readable_errors

Result = TypeVar("Result")  # Python 3.11 has no `def trace[Result]` yet

CLAUSES = re.compile(r"\s+(?=(?:FROM|WHERE|ORDER BY|LIMIT|FOR UPDATE|VALUES|ON CONFLICT|SET|RETURNING)\b)")
TABLE_OF_A_COLUMN = re.compile(r"\b\w+\.\w+\.(?=\w)")


def trace(function: Callable[..., Result], *arguments: Any) -> Result:
    """Call `function` with `arguments`, print each statement that it sends, and return its result.

    Values stand in place of the parameters, for the eye only: to the server they go separately.
    """
    listeners: dict[str, Callable[..., Any]] = {
        "before_cursor_execute": lambda _c, _k, sql, values, *_: print(f"{readable(sql, values)};\n"),
        "commit": lambda _: print("COMMIT;\n"),
        "rollback": lambda _: print("ROLLBACK;\n"),
    }
    for name, listener in listeners.items():
        event.listen(engine(), name, listener)
    try:
        with readable_errors():
            return function(*arguments)
    finally:
        for name, listener in listeners.items():
            event.remove(engine(), name, listener)


def readable(sql: str, values: dict[str, Any]) -> str:
    """One clause a line, without what the reader knows: the table before a column's name, casts of parameters."""
    sql = TABLE_OF_A_COLUMN.sub("", sql)
    sql = re.sub(r"%\((\w+)\)s(::[A-Z]+( PRECISION| WITH TIME ZONE)?)?", lambda found: literal(values[found[1]]), sql)
    return CLAUSES.sub("\n", " ".join(sql.split()))


def literal(value: object) -> str:
    if isinstance(value, timedelta):
        return f"interval '{value.total_seconds():g} s'"
    if isinstance(value, Jsonb):
        value = json.dumps(value.obj, ensure_ascii=False)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return "NULL" if value is None else str(value)
