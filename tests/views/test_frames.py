"""The ledger as the real trigger wrote it. The fixture `connection` leads to a migrated database of the tests' own."""

import pandas as pd
from sqlalchemy import Connection, text

from helpers.views import describe, read_ledger


def write(connection: Connection, *statements: str) -> None:
    for statement in statements:
        connection.execute(text(statement))


def reset(connection: Connection) -> None:
    write(
        connection,
        "DELETE FROM backend_training.tasks",
        "DELETE FROM backend_training.task_events",
        "INSERT INTO backend_training.tasks (id, type) VALUES (42, 'generate_report'), (43, 'generate_report')",
    )


def test_rows_in_order_with_seconds_from_the_first(connection: Connection) -> None:
    reset(connection)
    write(
        connection,
        "SET LOCAL application_name = 'worker:A'",
        "UPDATE backend_training.tasks SET status = 'processing', attempts = 1, "
        "lease_until = clock_timestamp() + interval '10 s' WHERE id = 42",
        "INSERT INTO backend_training.task_events (event) VALUES ('idle')",
    )
    ledger = read_ledger(connection)
    assert ledger["event"].tolist() == ["insert", "insert", "update", "idle"]
    assert ledger["id"].is_monotonic_increasing
    assert ledger["seconds"].iloc[0] == 0
    assert ledger["seconds"].is_monotonic_increasing
    assert [str(ledger[name].dt.tz) for name in ("at", "lease_until")] == ["UTC", "UTC"]
    assert ledger["attempt"].tolist() == [0, 0, 1, pd.NA]
    claim = ledger.iloc[2]
    assert (claim["actor"], claim["old_status"], claim["new_status"]) == ("worker:A", "pending", "processing")
    assert 9 < (claim["lease_until"] - claim["at"]).total_seconds() < 11
    assert describe(ledger) == (
        "Worker A claimed #42 as attempt 1 and found nothing to do. #42 is still processing. #43 stayed pending."
    )


def test_an_empty_ledger_has_the_same_columns(connection: Connection) -> None:
    reset(connection)
    full = read_ledger(connection)
    write(connection, "DELETE FROM backend_training.task_events")
    empty = read_ledger(connection)
    assert empty.empty
    assert dict(empty.dtypes) == dict(full.dtypes)
    assert describe(empty) == "The ledger is empty: no task has been created yet."
