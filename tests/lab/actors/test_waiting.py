"""The table of who waits for whom."""

from collections.abc import Iterator

import pytest

from helpers import lab
from helpers.lab.actors.sessions import end_sessions
from helpers.lab.actors.waiting import blockers_in, short_name

CLAIM = "UPDATE tasks SET status = 'processing' WHERE id = 42"


@pytest.fixture(autouse=True)
def lesson2() -> Iterator[None]:
    lab.rebuild(2)
    yield
    end_sessions()
    lab.end_workers()


def locks() -> list[list[str]]:
    table = lab.locks()
    assert table is not None
    return table.rows


def test_the_wait_for_a_row_is_a_wait_for_the_end_of_a_transaction() -> None:
    a, b = lab.session("A"), lab.session("B")
    a.run("BEGIN")
    a.run(CLAIM)
    b.run(CLAIM)
    assert locks() == [
        ["A", "relation tasks", "RowExclusiveLock", "held"],
        ["A", "transactionid of A", "ExclusiveLock", "held"],
        ["B", "relation tasks", "RowExclusiveLock", "held"],
        ["B", "transactionid of B", "ExclusiveLock", "held"],
        ["B", "tuple #42", "ExclusiveLock", "held"],
        ["B", "transactionid of A", "ShareLock", "waits for A"],
    ]


def test_a_row_lock_that_nobody_waits_for_is_not_in_the_table() -> None:
    a = lab.session("A")
    a.run("BEGIN")
    a.run("UPDATE tasks SET status = 'processing'")
    assert [what for _, what, _, _ in locks()] == ["relation tasks", "transactionid of A"]


def test_the_second_in_the_line_waits_for_the_first() -> None:
    a, b, c = lab.session("A"), lab.session("B"), lab.session("C")
    a.run("BEGIN")
    a.run(CLAIM)
    b.run(CLAIM)
    c.run("SELECT status FROM tasks WHERE id = 42 FOR UPDATE")
    assert locks()[-1] == ["C", "tuple #42", "AccessExclusiveLock", "waits for B"]


def test_a_worker_is_named_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    worker = lab.start_long_transaction("W")
    lab.session("B").run(CLAIM)
    assert "→ waits for worker W" in capsys.readouterr().out
    assert locks()[-1] == ["worker W", "transactionid of worker W", "ExclusiveLock", "held"]
    worker.kill()


def test_no_lock_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert lab.locks() is None
    assert capsys.readouterr().out.startswith("No session of this lesson holds a lock")


def test_names_for_people() -> None:
    assert [short_name(name) for name in ("session:A", "worker:W", "psql", "")] == ["A", "worker W", "psql", "somebody"]


def test_the_report_of_a_deadlock_is_read_in_any_language() -> None:
    detail = (
        "Prozess 101 wartet auf ShareLock-Sperre auf Transaktion 900; blockiert von Prozess 102.\n"
        "Prozess 102 wartet auf ShareLock-Sperre auf Transaktion 899; blockiert von Prozess 101."
    )
    assert blockers_in(detail, 102) == [101]
    assert blockers_in(detail, 900) == []
