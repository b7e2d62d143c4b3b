"""The ledger as a data frame."""

from collections.abc import Hashable
from typing import Any

import pandas as pd
from sqlalchemy import Connection, select

from helpers.models import TaskEvent

EVENTS = TaskEvent.__table__
NUMBERS = ["id", "task_id", "attempt"]
TIMES = ["at", "lease_until"]
TEXTS = ["actor", "event", "old_status", "new_status", "detail"]


def read_ledger(connection: Connection) -> pd.DataFrame:
    """All rows of the ledger in the order in which they were written.

    Times are in UTC. The added column `seconds` counts from the first row, which after a reset is the
    first insert. An empty ledger gives an empty frame with the same columns.
    """
    rows = connection.execute(select(EVENTS).order_by(EVENTS.c.id)).all()
    ledger = pd.DataFrame([tuple(row) for row in rows], columns=[column.name for column in EVENTS.columns])
    for name in NUMBERS:
        ledger[name] = ledger[name].astype("Int64")  # whole numbers, also where some are NULL
    for name in TIMES:
        ledger[name] = pd.to_datetime(ledger[name], utc=True).dt.as_unit("us")
    for name in TEXTS:
        ledger[name] = ledger[name].astype("str")
    ledger["seconds"] = (
        (ledger["at"] - ledger["at"].min()).dt.total_seconds() if len(ledger) else pd.Series(dtype=float)
    )
    return ledger


def rows_of(ledger: pd.DataFrame) -> list[dict[Hashable, Any]]:
    """The rows as dictionaries, with None for every kind of NULL, whole numbers as int, and
    `lease_end`: the lease's end in the same seconds as `seconds`.
    """
    if ledger.empty:
        return []
    start = ledger["at"].iloc[0] - pd.Timedelta(seconds=float(ledger["seconds"].iloc[0]))
    rows: list[dict[Hashable, Any]] = []
    for record in ledger.to_dict("records"):
        row = {name: None if pd.isna(value) else value for name, value in record.items()}
        for name in ("task_id", "attempt"):
            number = row[name]
            row[name] = None if number is None else int(number)
        lease_until = row["lease_until"]
        row["lease_end"] = None if lease_until is None else (pd.Timestamp(lease_until) - start).total_seconds()
        rows.append(row)
    return rows


def lease_lengths(ledger: pd.DataFrame, tasks: list[int] | None = None) -> list[float]:
    """How long leases last when workers claim all tasks or `tasks`, in seconds: each length once, the shortest first.

    The ledger notes a claim a moment after the lease began, so that it is known to half a second.
    """
    claims = [
        row
        for row in rows_of(ledger)
        if row["new_status"] == "processing" and row["lease_end"] is not None and row["actor"].startswith("worker:")
        if tasks is None or row["task_id"] in tasks
    ]
    return sorted({round(2 * (row["lease_end"] - row["seconds"])) / 2 for row in claims})
