"""Sessions by hand: what a cell sees of them, and that none is left behind."""

import _thread
import subprocess
import sys
import threading
from collections.abc import Iterator

import psycopg
import pytest

from helpers import lab
from helpers.errors import LabError
from helpers.lab.actors.sessions import end_sessions
from helpers.lab.frame import lesson
from helpers.paths import ROOT

CLAIM = "UPDATE tasks SET status = 'processing' WHERE id = :id AND status = 'pending'"
LOCK = "SELECT status FROM tasks WHERE id = :id FOR UPDATE"
NO_SESSION_IS_LEFT = """
    SELECT count(*) = 0 FROM pg_stat_activity
    WHERE application_name LIKE 'session:%' AND datname = current_database()
"""

Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def lesson2(capsys: Output) -> Iterator[None]:
    """The base tables, and no session afterwards."""
    lab.rebuild(2)
    capsys.readouterr()
    yield
    end_sessions()


def lines(output: Output) -> list[str]:
    """What was printed since the last call, without the blanks that align it."""
    return [" ".join(line.split()) for line in output.readouterr().out.splitlines()]


def status(task_id: int = 42) -> object:
    return lab.value("SELECT status FROM backend_training.tasks WHERE id = :id", id=task_id)


def test_an_answer_stands_behind_the_arrow(capsys: Output) -> None:
    a = lab.session("A")
    a.run("BEGIN")
    a.run(CLAIM, id=42)
    a.run("SELECT status FROM tasks WHERE id = 42")
    a.run("SELECT id FROM tasks WHERE id < 0")
    a.run("COMMIT")
    assert lines(capsys) == [
        "A: BEGIN",
        "A: UPDATE tasks SET status = 'processing' WHERE id = 42 AND status = 'pending'",
        "→ 1 row changed",
        "A: SELECT status FROM tasks WHERE id = 42 → processing",
        "A: SELECT id FROM tasks WHERE id < 0 → no rows",
        "A: COMMIT",
    ]
    assert status() == "processing"


def test_several_rows_are_a_table(capsys: Output) -> None:
    a = lab.session("A")
    a.run("SELECT id, status FROM tasks ORDER BY id")
    assert lines(capsys) == [
        "A: SELECT id, status FROM tasks ORDER BY id → 3 rows",
        "id status",
        "-- -------",
        "42 pending",
        "43 pending",
        "44 pending",
    ]
    assert a.outcome == "3 rows"


def test_a_value_is_a_parameter_and_never_part_of_the_sql(capsys: Output) -> None:
    a = lab.session("A")
    a.run("SELECT :word AS word, '100 %' AS text", word="'; DROP TABLE tasks; --")
    assert lines(capsys)[-1] == "'; DROP TABLE tasks; -- 100 %"
    assert status() == "pending"


def test_what_is_not_committed_is_seen_by_nobody_else_and_rolled_back_at_the_end() -> None:
    a = lab.session("A")
    a.run("BEGIN")
    a.run(CLAIM, id=42)
    assert status() == "pending"
    a.end()
    assert status() == "pending"


def test_a_statement_that_waits_comes_back_and_says_for_whom(capsys: Output) -> None:
    a, b = lab.session("A"), lab.session("B")
    a.run("BEGIN")
    a.run(CLAIM, id=42)
    b.run(LOCK, id=42)
    assert lines(capsys)[-1] == "B: SELECT status FROM tasks WHERE id = 42 FOR UPDATE → waits for A"
    assert b.outcome == "waits"


@pytest.mark.parametrize(("end", "changed"), [("COMMIT", "0 rows changed"), ("ROLLBACK", "1 row changed")])
def test_after_the_wait_the_condition_is_checked_again(capsys: Output, end: str, changed: str) -> None:
    a, b = lab.session("A"), lab.session("B")
    a.run("BEGIN")
    a.run(CLAIM, id=42)
    b.run(CLAIM, id=42)
    a.run(end)
    b.finish()
    assert lines(capsys)[-1] == f"B: UPDATE … (it waited) → {changed}"
    assert b.outcome == changed


def test_the_next_call_shows_how_the_waiting_statement_ended(capsys: Output) -> None:
    a, b = lab.session("A"), lab.session("B")
    a.run("BEGIN")
    a.run(LOCK, id=42)
    b.run(LOCK, id=42)
    a.run("COMMIT")
    b.run("SELECT 1")
    assert lines(capsys)[-2:] == ["B: SELECT … (it waited) → pending", "B: SELECT 1 → 1"]


def test_a_session_that_waits_takes_no_further_statement(capsys: Output) -> None:
    a, b = lab.session("A"), lab.session("B")
    a.run("BEGIN")
    a.run(LOCK, id=42)
    b.run(LOCK, id=42)
    b.run("SELECT 1")
    assert lines(capsys)[-2:] == [
        "B still waits for A: SELECT …",
        "A session runs one statement at a time, so this one was not sent: SELECT 1",
    ]


def test_finish_does_not_wait_for_ever(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("helpers.lab.actors.sessions.FINISH_SECONDS", 0.1)
    a, b = lab.session("A"), lab.session("B")
    a.run("BEGIN")
    a.run(LOCK, id=42)
    b.run(LOCK, id=42)
    b.finish()
    assert lines(capsys)[-1] == "B still waits for A: SELECT …"
    a.finish()
    assert lines(capsys)[-1] == "A has no statement that waits."


def test_an_error_is_its_code_with_its_name_and_no_traceback(capsys: Output) -> None:
    a, b = lab.session("A"), lab.session("B")
    a.run("BEGIN")
    a.run(LOCK, id=42)
    b.run(LOCK + " NOWAIT", id=42)
    assert lines(capsys)[-2].endswith("→ 55P03 lock_not_available")
    assert b.outcome == "55P03"
    b.run("SELEKT 1")
    assert lines(capsys)[0] == "B: SELEKT 1 → 42601 syntax_error"


def test_a_failed_transaction_answers_commit_with_rollback(capsys: Output) -> None:
    a = lab.session("A")
    a.run("BEGIN")
    a.run("UPDATE tasks SET status = 'done' WHERE id = 42")
    a.run("SELECT 1")
    assert a.outcome == "25P02"
    a.run("COMMIT")
    assert lines(capsys)[-1] == "A: COMMIT → ROLLBACK"


def test_a_warning_stands_below_its_statement(capsys: Output) -> None:
    lab.session("A").run("COMMIT")
    assert lines(capsys) == ["A: COMMIT", "WARNING: there is no transaction in progress"]


def test_repeatable_read_fails_where_the_row_has_changed() -> None:
    a, b = lab.session("A"), lab.session("B")
    a.run("BEGIN ISOLATION LEVEL REPEATABLE READ")
    a.run("SELECT status FROM tasks WHERE id = 42")
    b.run(CLAIM, id=42)
    a.run("SELECT status FROM tasks WHERE id = 42")
    assert a.outcome == "pending"
    a.run("UPDATE tasks SET status = 'completed' WHERE id = 42")
    assert a.outcome == "40001"


def deadlock(a: lab.Session, b: lab.Session) -> None:
    """A waits for B, past its check for a deadlock; then B closes the circle."""
    a.run("BEGIN")
    b.run("BEGIN")
    a.run(CLAIM, id=42)
    b.run(CLAIM, id=43)
    a.run(CLAIM, id=43)
    a.wait_past_deadlock_check()
    b.run(CLAIM, id=42)


def test_the_one_who_closes_the_circle_is_the_victim_when_the_other_was_checked_before(capsys: Output) -> None:
    a, b = lab.session("A"), lab.session("B")
    deadlock(a, b)
    assert lines(capsys)[-1] == "→ waits for A"
    b.finish()
    a.finish()
    assert (a.outcome, b.outcome) == ("1 row changed", "40P01")


def test_a_deadlock_that_is_over_before_we_look_is_shown_alike(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = lab.session("A"), lab.session("B")

    def look_late(statement: object, patience: float = 0) -> list[str]:
        statement.done.wait()  # type: ignore[attr-defined]
        return []

    monkeypatch.setattr(b, "_wait", look_late)
    deadlock(a, b)
    assert lines(capsys)[-1] == "→ waits for A"
    b.finish()
    assert lines(capsys)[-2].endswith("→ 40P01 deadlock_detected")


def test_waiting_past_the_check_of_a_session_that_does_not_wait_is_a_sentence(capsys: Output) -> None:
    lab.session("A").wait_past_deadlock_check()
    assert lines(capsys) == ["A does not wait for a lock."]


def test_run_to_end_comes_back_with_the_answer_alone(capsys: Output) -> None:
    a, b = lab.session("A"), lab.session("B")
    a.run("BEGIN")
    a.run(LOCK, id=42)
    b.run("SET lock_timeout = '200ms'")
    capsys.readouterr()
    b.run_to_end(LOCK, id=42)
    assert lines(capsys)[0].endswith("FOR UPDATE → 55P03 lock_not_available")


def test_a_session_that_the_server_ended_says_why_and_says_it_again(capsys: Output) -> None:
    a, b = lab.session("A"), lab.session("B")
    a.run("BEGIN")
    a.run(CLAIM, id=42)
    b.run(LOCK, id=42)
    a.run("SET idle_in_transaction_session_timeout = '200ms'")
    b.finish()
    assert b.outcome == "pending"
    for _ in range(2):
        a.run("COMMIT")
        assert a.outcome == "25P03"
        assert "A: COMMIT → 25P03 idle_in_transaction_session_timeout" in lines(capsys)


def test_opening_a_name_again_ends_the_session_that_had_it() -> None:
    old = lab.session("A")
    old.run("BEGIN")
    old.run(CLAIM, id=42)
    lab.session("A").run(LOCK + " NOWAIT", id=42)
    with pytest.raises(LabError, match=r'lab\.session\("A"\)'):
        old.run("SELECT 1")


def test_a_name_is_letters_and_digits() -> None:
    with pytest.raises(LabError, match="letters and digits"):
        lab.session("A; B")


def blocked_pair() -> tuple[lab.Session, lab.Session]:
    a, b = lab.session("A"), lab.session("B")
    a.run("BEGIN")
    a.run(CLAIM, id=42)
    b.run(CLAIM, id=42)
    return a, b


def test_a_script_ends_the_sessions_first_and_also_one_that_waits() -> None:
    blocked_pair()
    lab.run_script("02_transactions_and_locks/02_reset.sql")
    assert lab.value(NO_SESSION_IS_LEFT)
    assert status() == "pending"


def test_a_reset_ends_the_sessions_first(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    monkeypatch.setattr(lesson, "_current", 2)
    blocked_pair()
    lab.reset()
    assert lab.value(NO_SESSION_IS_LEFT)
    assert lines(capsys)[-1].startswith("02_transactions_and_locks/02_reset.sql ran")


def test_opening_a_lesson_ends_the_sessions_first() -> None:
    blocked_pair()
    lab.rebuild(2)
    assert lab.value(NO_SESSION_IS_LEFT)


def test_an_interrupted_cell_leaves_no_session() -> None:
    _, b = blocked_pair()
    threading.Timer(0.5, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        b.finish()
    assert lab.value(NO_SESSION_IS_LEFT)
    assert status() == "pending", "B's statement went through, although nobody let it go on"


def test_a_kernel_that_is_killed_leaves_no_session() -> None:
    code = (
        "from helpers.lab import session; a, b = session('A'), session('B'); a.run('BEGIN'); b.run('BEGIN'); "
        f"a.run({CLAIM!r}, id=42); b.run({CLAIM!r}, id=42); print('done', flush=True); input()"
    )
    kernel = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert kernel.stdout is not None
    while kernel.stdout.readline() not in ("done\n", ""):
        pass
    assert not lab.value(NO_SESSION_IS_LEFT)
    kernel.kill()
    kernel.communicate()
    lab.wait_until(NO_SESSION_IS_LEFT)
    assert status() == "pending"


def test_a_kernel_that_ends_does_not_wait_for_its_sessions() -> None:
    code = (
        "from helpers.lab import session; a = session('A'); a.run('BEGIN'); "
        f"a.run({CLAIM!r}, id=42); session('B').run({CLAIM!r}, id=42)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)
    assert lab.value(NO_SESSION_IS_LEFT)
    assert status() == "pending"


def test_a_server_that_is_gone_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise psycopg.OperationalError("connection refused")

    monkeypatch.setattr("helpers.lab.actors.sessions.psycopg.connect", refuse)
    with pytest.raises(LabError):
        lab.session("A")
