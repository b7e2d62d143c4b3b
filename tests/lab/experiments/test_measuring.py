"""What lesson 8's notebook calls: rows by a script, parts of a statement, and the two measurements."""

import sys

import pytest
from sqlalchemy import text

from helpers import lab
from helpers.db import engine
from helpers.errors import LabError
from helpers.lab.experiments.claim_times import ClaimTimes
from helpers.lab.experiments.throughput import ONE_BY_ONE, Throughput
from helpers.repository import batch, lease, slots

THIRTY = "08_batches_and_quotas/03_thirty_tasks.sql"
STATE = """
    SELECT (SELECT count(*) FROM backend_training.tasks WHERE status = 'pending') AS pending,
           (SELECT tgenabled FROM pg_trigger WHERE tgname = 'tasks_are_noted') AS ledger,
           (SELECT count(*) FROM pg_indexes WHERE indexname = 'tasks_in_claim_order') AS index,
           (SELECT reloptions FROM pg_class WHERE oid = 'backend_training.tasks'::regclass) AS options
"""
UNTOUCHED = (3, "O", 1, None)


@pytest.fixture(autouse=True)
def lesson8(monkeypatch: pytest.MonkeyPatch) -> None:
    lab.rebuild(9)
    monkeypatch.setattr(sys.modules["helpers.lab.experiments.throughput"], "SECONDS", 0.02)


def state() -> tuple[object, ...]:
    with engine().connect() as connection:
        return tuple(connection.execute(text(STATE)).one())


def test_loading_says_how_many_tasks_are_pending(capsys: pytest.CaptureFixture[str]) -> None:
    lab.load(THIRTY)
    assert capsys.readouterr().out == f"{THIRTY} ran. Pending tasks: 10 HIGH, 10 MEDIUM, 10 LOW.\n"


def test_loading_ends_sessions_that_hold_locks() -> None:
    session = lab.session("A")
    session.run("BEGIN")
    session.run("UPDATE tasks SET type = 'x'")
    lab.load(THIRTY)
    assert lab.value("SELECT count(*) FROM backend_training.tasks WHERE type = 'x'") == 0


def test_parts_stand_in_the_order_asked_for_with_the_comment_above_them() -> None:
    code = lab.part(batch, "within_quota", "high").code
    assert code.startswith("within_quota AS MATERIALIZED (\n    SELECT id FROM high UNION ALL")
    assert "\n)\n\n-- The quota pass" in code
    assert code.endswith("FOR UPDATE SKIP LOCKED\n)")


def test_every_part_of_the_statement_is_known_and_so_is_its_end() -> None:
    whole = ["spent", "given_up", "high", "medium", "low", "within_quota", "fallback", "chosen", "claimed", "SELECT"]
    shown = lab.part(batch, *whole).code
    for line in str(batch.CLAIM_BATCH).replace(batch.AVAILABLE, "").splitlines():
        if line.strip(" ),") not in ("", "WITH"):
            assert line.strip().rstrip(",") in shown, line


def test_an_unknown_part_is_a_sentence_that_lists_those_there_are() -> None:
    with pytest.raises(LabError, match=r'no statement with a part "hihg".*spent, given_up, high'):
        lab.part(batch, "hihg")
    with pytest.raises(LabError, match=r'no statement with a part "high"'):
        lab.part(lease, "high")


def test_a_body_has_neither_docstring_nor_checks_and_the_rest_as_it_stands() -> None:
    claim, free_slot = lab.body(slots.claim_task, slots._free_slot).code.split("\n\n\ndef ")
    heading, first, *_ = claim.splitlines()
    assert heading == "def claim_task(priority: str, slots: int, lease_seconds: float) -> RowMapping | None:"
    assert first.startswith("    lease = timedelta(")
    assert claim.endswith("return claimed")
    assert free_slot.splitlines()[1] == "    in_use = session.scalars("


def test_a_body_keeps_an_if_that_does_not_raise() -> None:
    def halved(number: int) -> int:
        if number % 2:
            number += 1
        return number // 2

    assert lab.body(halved).code.splitlines()[1] == "    if number % 2:"


def test_throughput_measures_each_way_with_each_number_of_workers_and_leaves_the_lesson_s_rows() -> None:
    measured = lab.throughput(sizes=(2, 5), workers=(1, 3))
    assert list(measured.rates) == [
        "one by one",
        "batches of 2",
        "batches of 5",
        "batches of 2, completed one by one",
    ]
    assert all(list(rates) == [1, 3] and min(rates.values()) > 0 for rates in measured.rates.values())
    assert state() == UNTOUCHED


def test_a_measurement_that_fails_leaves_the_lesson_s_rows_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: float) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(sys.modules["helpers.lab.experiments.throughput"].priority, "claim_task", broken)
    with pytest.raises(ZeroDivisionError):
        lab.throughput(sizes=(2,), workers=(2,))
    monkeypatch.setattr(sys.modules["helpers.lab.experiments.claim_times"], "claim_task", broken)
    with pytest.raises(ZeroDivisionError):
        lab.claim_times([10])
    assert state() == UNTOUCHED


def test_a_ratio_compares_with_one_worker_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    measured = Throughput({ONE_BY_ONE: {1: 10.0, 2: 15.0}, "batches of 2": {1: 30.0, 2: 50.0}})
    assert (measured.ratio("batches of 2"), measured.ratio("batches of 2", 2), measured.ratio(ONE_BY_ONE, 2)) == (
        3,
        5,
        1.5,
    )
    measured.at_least("batches of 2", 3)
    measured.at_least("batches of 2", 3.5)
    assert [line.rpartition(": ")[2] for line in capsys.readouterr().out.splitlines()] == ["True", "False"]


def test_claim_times_are_measured_beside_as_many_finished_tasks_as_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def look(*_: object) -> float:
        counted = "SELECT count(*) FROM backend_training.tasks WHERE status = 'completed'"
        seen.append((lab.value(counted), state()[2]))
        return 1.0

    monkeypatch.setattr(sys.modules["helpers.lab.experiments.claim_times"], "fastest_claim", look)
    lab.claim_times([200, 50])
    assert seen == [(50, 1), (50, 0), (200, 1), (200, 0)], "in ascending order, each with the index and without"
    assert state() == UNTOUCHED


def test_growth_and_worth_come_from_the_ends_of_the_lines() -> None:
    measured = ClaimTimes(
        {"with the index": {10: 2.0, 100: 1.0, 1000: 3.0}, "without the index": {10: 2.0, 1000: 60.0}}
    )
    assert (measured.growth, measured.worth) == (1.5, 20)


def test_without_the_index_a_long_table_is_slow() -> None:
    measured = lab.claim_times([1_000, 100_000])
    assert measured.worth > 2
