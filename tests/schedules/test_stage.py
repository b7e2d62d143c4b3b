"""A schedule means the same every time; crashes, waits and endless loops are results; nothing is left behind."""

import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select, text

from helpers import schedules as s
from helpers.db import SessionFactory, engine
from helpers.errors import LabError
from helpers.models import Task
from helpers.repository.lease import StaleClaimError, claim_task, mark_as_completed
from helpers.schedules import Program, explore, replay, write
from helpers.schedules.program import parse
from helpers.schedules.stage import open_stage
from tests.schedules import wrong_workers as wrong
from tests.schedules.programs import ONE_TASK, THREE_TASKS, sessions, two
from tests.schedules.test_isolation import WAIT, circle, touch

STALE = "A A A expire B B B A"


def test_the_stale_worker_of_the_lesson_as_a_transcript() -> None:
    program = two(wrong.completes_by_id, [s.only_current_attempt], expiries=1)
    run = replay(program, STALE)
    lines = write(run).splitlines()
    assert lines[0].startswith("A: SELECT id FROM tasks WHERE status='pending' OR")
    assert lines[0].endswith("FOR UPDATE SKIP LOCKED   → #42")
    assert lines[1].startswith("A: UPDATE tasks SET status='processing', …")
    assert lines[1].endswith("→ #42, attempt 1")
    assert lines[2] == "A: COMMIT"
    assert lines[3] == "⏰ time passes, and every lease ends"
    assert lines[5].endswith("→ #42, attempt 2")
    assert lines[7].startswith("A: UPDATE tasks SET status='completed', lease_until=NULL WHERE id=42")
    assert lines[7].endswith("→ 1 row")
    assert s.only_current_attempt.check(run) is not None
    assert run.schedule == STALE


REPEATED = {
    "a takeover": (two(wrong.completes_by_id), STALE),
    "a crash in a transaction": (sessions(A=circle(1, 2), B=circle(1, 2)), "A B A A! B"),
    "a crash while it waits": (sessions(A=circle(1, 2), B=circle(1, 2)), "A B B! A"),
    "a deadlock": (sessions(A=circle(1, 2), B=circle(2, 1)), "A B B A"),
    "two in line": (sessions(A=["BEGIN", WAIT, "COMMIT"], B=circle(1, 2), C=[touch(1)]), "A B C A B"),
}


@pytest.mark.parametrize("name", REPEATED)
def test_the_same_schedule_gives_the_same_transcript_a_hundred_times(name: str) -> None:
    program, schedule = REPEATED[name]
    moves = parse(schedule, list(program.actors))
    with open_stage(program) as stage:
        transcripts = {write(stage.follow(moves)) for _ in range(100)}
    assert len(transcripts) == 1, "\n\n".join(transcripts)


def test_a_crash_takes_the_transaction_back_and_frees_its_locks() -> None:
    run = replay(two(wrong.right, crashes=1), "A A A!")
    assert run.crashed == {"A"}
    assert "A" not in run.results
    assert run.rows[0]["status"] == "completed"  # by B, which found it pending
    assert run.rows[0]["attempts"] == 1
    assert "💥 A crashes" in write(run)


def test_a_crash_after_the_commit_leaves_the_claim() -> None:
    run = replay(two(wrong.right), "A A A A!")
    assert run.rows[0]["status"] == "processing"


def test_a_crash_frees_those_who_wait_for_it() -> None:
    run = replay(two(wrong.claims_without_skipping), "A B A!")
    assert [f"{step.actor} {step.what}" for step in run.steps][1:4] == ["B waits", "A crash", "B continues"]
    assert run.rows[0]["attempts"] == 1


def test_a_crash_cannot_be_caught() -> None:
    survived: list[str] = []

    def stubborn() -> None:
        try:
            claim_task(10)
        except Exception:
            survived.append("except Exception")
        try:
            claim_task(10)
            survived.append("a second call")
        finally:
            with SessionFactory.begin() as session:  # raises again
                session.execute(text("DELETE FROM backend_training.tasks"))
                survived.append("finally")

    run = replay(Program({"A": stubborn}, ONE_TASK), "A A!")
    assert survived == []
    assert [row["status"] for row in run.rows] == ["pending"]

    def deaf() -> None:
        try:
            claim_task(10)
        except BaseException:
            claim_task(10)
            survived.append("except BaseException")

    run = replay(Program({"A": deaf}, ONE_TASK), "A A!")
    assert survived == []
    assert run.crashed == {"A"}


def test_an_endless_loop_is_a_sentence_and_the_thread_ends() -> None:
    def loops() -> None:
        claim_task(10)
        while True:
            pass

    report = explore(Program({"A": loops, "B": wrong.right}, ONE_TASK, step_seconds=3))
    assert report.violation is not None
    assert report.violation.invariant == "every step comes to its end"
    assert report.violation.sentence == "A did not come back to the database within 3 s after COMMIT."


def test_a_loop_before_the_first_call_is_found_too() -> None:
    def loops() -> None:
        while True:
            pass

    run = replay(Program({"A": loops}, ONE_TASK, step_seconds=0.3), "A")
    assert run.lost == "A did not come back to the database within 0.3 s after its start."


def test_a_thread_that_cannot_be_ended_does_not_spoil_later_runs() -> None:
    release = threading.Event()
    calls: list[int] = []

    def sleeps_once() -> None:
        calls.append(1)
        if len(calls) == 1:
            release.wait(20)  # not at an instruction in Python: it cannot be interrupted
        claim_task(10)

    try:
        with open_stage(Program({"A": sleeps_once}, ONE_TASK, step_seconds=0.2)) as stage:
            first, second = stage.run(lambda _: None), stage.run(lambda _: None)
    finally:
        release.set()
    assert first.lost is not None
    assert second.lost is None
    assert second.rows[0]["attempts"] == 1
    deadline = time.monotonic() + 10
    while any(t.name == "actor A" for t in threading.enumerate()) and time.monotonic() < deadline:
        time.sleep(0.01)


def test_a_lock_that_no_actor_holds_is_named_as_such() -> None:
    with engine().connect() as stranger:
        replay(Program({"A": lambda: None}, ONE_TASK), "")
        program = Program({"A": wrong.claims_without_skipping}, "", step_seconds=0.3)
        stranger.execute(text("UPDATE backend_training.tasks SET status = 'pending' WHERE id = 42"))
        run = replay(program, "A")
        stranger.rollback()
    assert run.lost is not None
    assert "no actor will release it" in run.lost


def test_what_an_actor_returns_and_raises_is_in_the_results() -> None:
    def claims() -> int:
        task = claim_task(10)
        assert task is not None
        return int(task["id"])

    def fails() -> None:
        mark_as_completed(43, 1)

    run = replay(Program({"A": claims, "B": fails}, THREE_TASKS), "")
    assert run.results["A"] == 42
    assert isinstance(run.results["B"], StaleClaimError)
    assert "B: -- ends with StaleClaimError" in write(run)
    assert s.no_error_but(StaleClaimError).check(run) is None
    offence = s.no_error_but().check(run)
    assert offence is not None
    assert offence.sentence.startswith("B ended with StaleClaimError: Task #43")


def test_a_session_that_was_never_closed_holds_its_lock_until_the_actor_ends() -> None:
    kept = []

    def leaks() -> None:
        session = SessionFactory()
        kept.append(session)
        session.scalar(select(Task.id).where(Task.id == 42).with_for_update())
        s.mark("end")

    program = two(leaks, [])
    run = replay(program, "A B A")
    assert [f"{x.actor} {x.what}" for x in run.steps] == [
        "A did",
        "B waits",
        "A did",
        "B continues",
        "A ends",
        "B did",
        "B ends",
    ]
    assert write(replay(program, "A B A")) == write(run)


def test_a_second_session_beside_an_open_one_is_refused() -> None:
    def nested() -> None:
        with SessionFactory.begin() as session:
            session.scalar(select(Task.id).limit(1))
            claim_task(10)

    run = replay(Program({"A": nested}, ONE_TASK), "")
    assert type(run.results["A"]).__name__ == "TimeoutError"


def test_a_setting_does_not_outlive_its_run() -> None:
    def sets() -> object:
        with SessionFactory.begin() as session:
            before = session.scalar(text("SHOW enable_seqscan"))
            session.execute(text("SET enable_seqscan = off"))
            return before

    with open_stage(Program({"A": sets}, ONE_TASK)) as stage:
        assert [stage.run(lambda _: None).results["A"] for _ in range(2)] == ["on", "on"]


def test_a_move_that_cannot_be_made_is_skipped_and_said() -> None:
    run = replay(two(wrong.right), "A A A A A A A A A B")
    assert "(A cannot go on now)" in write(run)
    assert [step.actor for step in run.steps if step.what == "skipped"] == ["A", "A"] or run.moves.count("A") >= 6


def test_an_unknown_word_in_a_schedule_is_named() -> None:
    with pytest.raises(LabError, match=r'says "C"\. The actors are A, B'):
        replay(two(wrong.right), "A C")


def test_letters_may_stand_without_spaces() -> None:
    assert parse("AB expire A!", ["A", "B"]) == ["A", "B", "expire", "A!"]


def test_the_learners_rows_and_errors_come_through_unchanged() -> None:
    seen: list[object] = []

    def looks() -> None:
        with SessionFactory() as session:
            seen.extend(session.scalars(select(Task.id).order_by(Task.id)))
            cursor = session.connection().connection.cursor()  # psycopg itself
            cursor.execute("SELECT 1 UNION SELECT 2 ORDER BY 1")
            seen.extend(cursor.fetchall())
            seen.extend(session.scalars(select(Task.id).execution_options(stream_results=True).order_by(Task.id)))

    run = replay(Program({"A": looks}, THREE_TASKS), "")
    assert run.results == {"A": None}
    assert seen == [42, 43, 44, (1,), (2,), 42, 43, 44]


def test_only_one_exploration_runs_in_a_database(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("helpers.schedules.monitor.WAIT_FOR_TURN", 0.1)
    with open_stage(two(wrong.right)), pytest.raises(LabError, match="Another exploration is running"):
        replay(two(wrong.right), "A")


def test_an_error_in_the_reset_leaves_nothing_behind() -> None:
    with pytest.raises(Exception, match="no_such_table"):
        replay(two(wrong.right, reset="BEGIN; DELETE FROM no_such_table; COMMIT"), "A")


def test_without_a_superusers_rights_waits_and_deadlocks_are_seen_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("helpers.schedules.monitor.MAY_SET", "SELECT false")
    run = replay(two(wrong.claims_without_skipping), "A B A A B")
    assert [f"{step.actor} {step.what}" for step in run.steps][:4] == ["A did", "B waits", "A did", "A did"]
    run = replay(sessions(A=circle(1, 2), B=circle(2, 1)), "ABAB")
    assert "deadlock_detected (40P01)" in write(run)


# The virtual clock


def times() -> dict[str, datetime]:
    with SessionFactory.begin() as session:
        session.scalar(select(Task.id).limit(1))
        functions = ("now()", "transaction_timestamp()", "CURRENT_TIMESTAMP", "clock_timestamp()", "pg_catalog.now()")
        row = session.execute(text(f"SELECT {', '.join(functions)}, 'CURRENT_TIMESTAMP'")).one()
    assert row[-1] == "CURRENT_TIMESTAMP"
    return dict(zip(functions, row, strict=False))


def test_time_passes_for_the_clock_at_once_and_for_a_transaction_from_its_start() -> None:
    program = Program({"A": times, "B": times}, ONE_TASK, expire_seconds=1000)
    ahead = timedelta(seconds=900)
    run = replay(program, "expire A expire A A B")
    a, b = run.results["A"], run.results["B"]
    assert isinstance(a, dict)
    assert isinstance(b, dict)
    real = a["pg_catalog.now()"]
    assert ahead < a["now()"] - real < 2 * ahead  # one move before the transaction began
    assert a["now()"] == a["CURRENT_TIMESTAMP"] == a["transaction_timestamp()"]
    assert 2 * ahead < a["clock_timestamp()"] - real < 3 * ahead  # and one since
    assert 2 * ahead < b["now()"] - b["pg_catalog.now()"]
    again = replay(program, "")
    assert isinstance(again.results["A"], dict)
    assert again.results["A"]["clock_timestamp()"] - datetime.now(UTC) < ahead  # every run begins in real time


def test_the_clock_moves_under_repeatable_read_and_hinders_nobody() -> None:
    def looks() -> list[datetime]:
        with SessionFactory() as session:
            session.connection(execution_options={"isolation_level": "SERIALIZABLE"})
            seen = [session.scalar(select(func.clock_timestamp())) for _ in range(2)]
            session.execute(text("UPDATE backend_training.tasks SET lease_until = clock_timestamp() WHERE id = 42"))
            session.commit()
            return [time for time in seen if time]

    run = replay(Program({"A": looks}, ONE_TASK, expire_seconds=1000), "A expire A")
    seen = run.results["A"]
    assert isinstance(seen, list)
    assert seen[1] - seen[0] > timedelta(seconds=900)
    assert not [step for step in run.steps if step.what == "waits"]
