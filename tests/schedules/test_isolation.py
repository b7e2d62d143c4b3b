"""What PostgreSQL documents, and tests in src/test/isolation/specs of its own sources, comes out here too.

skip-locked, skip-locked-3, skip-locked-4, nowait, nowait-4 and deadlock-simple, deadlock-hard: the same situations,
as programs of this explorer.
"""

import psycopg
import pytest

from helpers.schedules import explore, invariant, replay, write
from helpers.schedules.rule import Offence
from helpers.schedules.run import Run
from helpers.schedules.statements import error_name
from tests.schedules.programs import sessions

FIRST, SECOND = [(1, "foo")], [(2, "bar")]

SKIP = "SELECT * FROM queue ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"
NOWAIT = "SELECT * FROM queue WHERE id = 1 FOR UPDATE NOWAIT"
WAIT = "SELECT * FROM queue ORDER BY id LIMIT 1 FOR UPDATE"


def touch(row: int) -> str:
    return f"UPDATE queue SET data = data WHERE id = {row}"


def what_happened(run: Run) -> list[str]:
    return [f"{step.actor} {step.what}" for step in run.steps if step.what not in ("ends",)]


# skip-locked: two sessions that look twice for the first free row

TWICE = ["BEGIN", SKIP, SKIP, "COMMIT"]


@pytest.mark.parametrize(
    ("order", "a", "b"),
    [
        ("AAABBB", [FIRST, FIRST], [FIRST, FIRST]),
        ("AABABB", [FIRST, FIRST], [SECOND, FIRST]),  # A's COMMIT between B's looks frees the first row
        ("AABBAB", [FIRST, FIRST], [SECOND, SECOND]),
        ("ABABAB", [FIRST, FIRST], [SECOND, SECOND]),
        ("ABAABB", [FIRST, FIRST], [SECOND, FIRST]),
        ("BAAABB", [SECOND, SECOND], [FIRST, FIRST]),
        ("BABBAA", [SECOND, FIRST], [FIRST, FIRST]),
    ],
)
def test_skip_locked_takes_the_next_free_row_and_never_waits(order: str, a: list[object], b: list[object]) -> None:
    run = replay(sessions(A=TWICE, B=TWICE), order)
    assert run.results == {"A": [*a, 0], "B": [*b, 0]} or run.results == {"A": [*a, -1], "B": [*b, -1]}
    assert not [step for step in run.steps if step.what == "waits"]


def test_in_no_order_do_two_open_transactions_hold_the_same_row() -> None:
    @invariant("looks at the same time see different rows")
    def different(run: Run) -> Offence | None:
        waits = [step for step in run.steps if step.what == "waits"]
        return Offence("somebody waited") if waits else None

    report = explore(sessions(A=TWICE, B=["BEGIN", SKIP, "COMMIT", *TWICE]))
    assert report.exhausted
    assert report.violation is None
    assert different.check(replay(sessions(A=TWICE, B=TWICE), "ABAB")) is None


def test_skip_locked_also_skips_a_row_for_which_somebody_stands_in_line() -> None:
    program = sessions(A=["BEGIN", WAIT, "COMMIT"], B=["BEGIN", WAIT, "COMMIT"], C=["BEGIN", SKIP, "COMMIT"])
    run = replay(program, "ABCABC")
    assert what_happened(run)[:5] == ["A did", "B waits", "C did", "A did", "B continues"]
    assert run.results["C"][0] == SECOND  # type: ignore[index]
    assert run.results["B"][0] == FIRST  # type: ignore[index]


# skip-locked-4 and nowait-4: an advisory lock holds the session between its snapshot and its row lock

HOLD = ["SELECT pg_advisory_lock(0)", touch(1), "BEGIN", touch(1), "SELECT pg_advisory_unlock(0)", "COMMIT"]


def test_skip_locked_skips_a_row_that_was_changed_and_locked_after_the_snapshot() -> None:
    late = "SELECT * FROM queue WHERE pg_advisory_lock(0) IS NOT NULL ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"
    run = replay(sessions(A=["BEGIN", late, "COMMIT"], B=HOLD), "B A B B B A B")
    assert what_happened(run) == ["B did", "A waits", "B did", "B did", "B did", "A continues", "A did", "B did"]
    assert run.results["A"][0] == SECOND  # type: ignore[index]


def test_nowait_fails_on_a_row_that_was_changed_and_locked_after_the_snapshot() -> None:
    late = "SELECT * FROM queue WHERE pg_advisory_lock(0) IS NOT NULL AND id = 1 FOR UPDATE NOWAIT"
    run = replay(sessions(A=["BEGIN", late, "COMMIT"], B=HOLD), "B A B B B A B")
    assert isinstance(run.results["A"][0], psycopg.errors.LockNotAvailable)  # type: ignore[index]


def test_an_advisory_lock_does_not_outlive_its_actor() -> None:
    program = sessions(A=["SELECT pg_advisory_lock(7)"], B=["SELECT pg_advisory_lock(7)"])
    run = replay(program, "A B")
    assert what_happened(run) == ["A did", "B did"]


# nowait


@pytest.mark.parametrize("order", ["ABAB", "ABBA", "BAAB", "BABA"])
def test_nowait_fails_at_once_while_the_row_is_locked(order: str) -> None:
    each = ["BEGIN", NOWAIT, "COMMIT"]
    run = replay(sessions(A=each, B=each), order)
    assert run.results[order[0]][0] == FIRST  # type: ignore[index]
    assert isinstance(run.results[order[1]][0], psycopg.errors.LockNotAvailable)  # type: ignore[index]
    assert f"{order[1]}: SELECT * FROM queue WHERE id=1 FOR UPDATE NOWAIT" in write(run)
    assert "lock_not_available (55P03)" in write(run)


@pytest.mark.parametrize("order", ["AABB", "BBAA"])
def test_nowait_gets_the_row_when_it_is_free(order: str) -> None:
    each = ["BEGIN", NOWAIT, "COMMIT"]
    run = replay(sessions(A=each, B=each), order)
    assert run.results["A"][0] == run.results["B"][0] == FIRST  # type: ignore[index]


# deadlocks


def circle(first: int, second: int) -> list[str]:
    return ["BEGIN", touch(first), touch(second), "COMMIT"]


def test_a_deadlock_is_a_result_and_its_victim_is_who_closed_the_circle() -> None:
    for order, victim, other in [("ABAB", "B", "A"), ("ABBA", "A", "B")]:
        run = replay(sessions(A=circle(1, 2), B=circle(2, 1)), order)
        assert [error_name(r) for r in run.results[victim] if isinstance(r, Exception)] == ["deadlock_detected (40P01)"]  # type: ignore[attr-defined]
        assert not [r for r in run.results[other] if isinstance(r, Exception)]  # type: ignore[attr-defined]
        assert f"{other} continues" in what_happened(run)
        assert "rolled back, as the transaction had failed" in write(run)


def test_two_who_raise_the_same_table_lock_deadlock() -> None:
    share, exclusive = "LOCK TABLE queue IN ACCESS SHARE MODE", "LOCK TABLE queue IN ACCESS EXCLUSIVE MODE"
    each = ["BEGIN", share, exclusive, "COMMIT"]
    run = replay(sessions(A=each, B=each), "A B A B")
    assert isinstance(run.results["B"][1], psycopg.errors.DeadlockDetected)  # type: ignore[index]
    assert what_happened(run)[2:5] == ["A waits", "B did", "A continues"]


def test_a_deadlock_of_three() -> None:
    program = sessions(A=circle(1, 2), B=circle(2, 3), C=circle(3, 1))
    three = f"{program.reset} INSERT INTO public.queue VALUES (3, 'baz')"
    run = replay(type(program)(program.actors, three, rows=program.rows, ledger=None), "ABCABC")
    assert isinstance(run.results["C"][1], psycopg.errors.DeadlockDetected)  # type: ignore[index]
    assert what_happened(run)[3:7] == ["A waits", "B waits", "C did", "B continues"]


def test_one_order_of_locking_deadlocks_in_no_schedule_and_two_orders_do() -> None:
    @invariant("no deadlock")
    def none(run: Run) -> Offence | None:
        results = [result for results in run.results.values() for result in results]  # type: ignore[attr-defined]
        victims = [result for result in results if isinstance(result, psycopg.errors.DeadlockDetected)]
        return Offence("a deadlock") if victims else None

    program = sessions(A=circle(1, 2), B=circle(1, 2))
    report = explore(type(program)(program.actors, program.reset, [none], rows=program.rows, ledger=None))
    assert report.exhausted, report
    program = sessions(A=circle(1, 2), B=circle(2, 1))
    report = explore(type(program)(program.actors, program.reset, [none], rows=program.rows, ledger=None))
    assert report.violation is not None
    assert report.violation.schedule == "A B"  # then B meets A's lock, and A closes the circle


# isolation levels


def test_an_update_under_repeatable_read_fails_when_the_row_has_changed_since_the_snapshot() -> None:
    a = ["BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT * FROM queue", touch(1), "COMMIT"]
    run = replay(sessions(A=a, B=[touch(1)]), "A B A")
    assert error_name(run.results["A"][1]) == "serialization_failure (40001)"  # type: ignore[index]
    run = replay(sessions(A=["BEGIN", *a[1:]], B=[touch(1)]), "A B A")
    assert run.results["A"][1] == 1  # type: ignore[index]
