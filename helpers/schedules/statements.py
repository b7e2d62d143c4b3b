"""A call to the database, shortened so that a person recognises it, and its result in a few words."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import psycopg
from psycopg import sql
from psycopg.adapt import Transformer

from helpers.schedules.call import Call

WIDTH = 76
MOST_ROWS = 3

TEXTS = {
    "no_row": "no row",
    "row": "1 row",
    "rows": "{count} rows",
    "more": "… ({count} rows)",
    "attempt": "attempt {attempt}",
    "mark": "-- {point}",
    "rolled_back": "rolled back, as the transaction had failed",
}

NAMES = re.compile(r"\b(?:backend_training|document_service|pg_catalog)\.|\b(?:tasks|documents|requests)\.(?=\w)")
CASTS = re.compile(r"::\s*(?:TIMESTAMP WITH(?:OUT)? TIME ZONE|DOUBLE PRECISION|\w+)", re.IGNORECASE)
PLACEHOLDER = re.compile(r"%\((\w+)\)s|%%")


def literal(call: Call) -> str:
    """The statement on one line, with its parameters in their places."""
    text = call.text
    parameters: Any = call.params
    if isinstance(parameters, Mapping):
        text = PLACEHOLDER.sub(lambda m: _literal(parameters[m[1]]) if m[1] else "%", text)
    elif isinstance(parameters, Sequence) and parameters:
        text = text % tuple(_literal(value) for value in parameters)
    return " ".join(text.split())


def shortened(call: Call) -> str:
    """The call in at most `WIDTH` characters, without schema names and casts; the middle gives way, not the ends."""
    if call.kind == "mark":
        return TEXTS["mark"].format(point=call.text)
    text = CASTS.sub("", NAMES.sub("", literal(call))).rstrip("; ")
    text = re.sub(r"^BEGIN; ", "", text, flags=re.IGNORECASE)
    text = re.sub(r"\s*=\s*", "=", text)
    if len(text) <= WIDTH:
        return text
    lock = re.search(r"\bFOR (?:NO KEY )?(?:UPDATE|SHARE)\b.*$", text, re.IGNORECASE)
    tail = lock[0] if lock and len(lock[0]) < WIDTH // 2 else ""
    head = text[: lock.start()] if lock and tail else text
    condition = re.search(r"\bWHERE\b.*$", head, re.IGNORECASE)
    if head.upper().startswith("UPDATE") and condition:
        first = re.match(r"(UPDATE \S+ SET [^,]+?)(,|\s+WHERE\b)", head, re.IGNORECASE)
        start = first[1] if first else head[: WIDTH // 3]
        if not first or first[2] == ",":
            start += ", …"
        return f"{start} {_cut(condition[0], WIDTH - len(start) - 1)}"
    return f"{_cut(head.rstrip(), WIDTH - len(tail) - 1)} {tail}".rstrip()


def outcome(call: Call) -> str:
    """What the call gave: the rows in a few words, how many were changed, or the error's name in PostgreSQL."""
    if call.error is not None:
        return error_name(call.error)
    if call.result is None:
        return ""
    if call.result.nfields:
        return _rows(call)
    status = (call.result.command_status or b"").decode()
    if status == "ROLLBACK" and call.kind == "commit":
        return TEXTS["rolled_back"]
    if re.match(r"(INSERT|UPDATE|DELETE|MERGE)", status):
        return _count(call.rowcount)
    return ""


def error_name(error: BaseException) -> str:
    """`deadlock_detected (40P01)` for an error of PostgreSQL's; the class's name for any other."""
    state = getattr(error, "sqlstate", None)
    if not state:
        return type(error).__name__
    name = psycopg.errors.lookup(state).__name__
    return f"{re.sub(r'(?<=[a-z])(?=[A-Z])', '_', name).lower()} ({state})"


def _rows(call: Call) -> str:
    assert call.result is not None
    count = call.result.ntuples
    if count == 0:
        return TEXTS["no_row"]
    names = [(call.result.fname(i) or b"").decode() for i in range(call.result.nfields)]
    transformer = Transformer()
    transformer.set_pgresult(call.result)
    rows = [transformer.load_row(i, tuple) or () for i in range(min(count, MOST_ROWS))]
    shown = "; ".join(_row(dict(zip(names, row, strict=True))) for row in rows)
    return shown if count <= MOST_ROWS else f"{shown}; {TEXTS['more'].format(count=count)}"


def _row(row: Mapping[str, Any]) -> str:
    if len(row) == 1:
        [(name, value)] = row.items()
        return f"#{value}" if name == "id" else _cut(_value(value), 30)
    parts = [f"#{row['id']}"] if "id" in row else []
    if row.get("attempts") is not None:
        parts.append(TEXTS["attempt"].format(attempt=row["attempts"]))
    known = {"id", "attempts", "type"} if parts else set()
    # A time of day differs from run to run, and a transcript must not.
    rest = [_value(v) for name, v in row.items() if name not in known and not isinstance(v, datetime)]
    return _cut(", ".join(parts + rest), 40)


def _count(count: int) -> str:
    return TEXTS["no_row"] if count == 0 else TEXTS["row"] if count == 1 else TEXTS["rows"].format(count=count)


def _value(value: object) -> str:
    return "NULL" if value is None else "(a time)" if isinstance(value, datetime) else str(value)


def _literal(value: object) -> str:
    if isinstance(value, datetime):
        return "(a time)"
    return re.sub(r"^ ", "", sql.Literal(value).as_string(None))


def _cut(text: str, width: int) -> str:
    """The text, or as many whole words of it as there is room for."""
    if len(text) <= width:
        return text
    whole = text[: max(width - 2, 1)]
    return (whole.rsplit(" ", 1)[0] if " " in whole else whole).rstrip(" ,") + " …"
