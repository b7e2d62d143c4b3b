"""Lesson 3's worker: no lease and no attempt number; and a claim whose transaction is kept open."""

from collections.abc import Iterator

import pytest

from helpers import lab
from helpers.lab.actors.workers import Worker

IN_TRANSACTION = (
    "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' "
    "AND application_name = 'worker:A' AND datname = current_database()"
)
GONE = "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'worker:A' AND datname = current_database()"


@pytest.fixture(autouse=True)
def lesson3() -> Iterator[None]:
    """The tables as lesson 3 finds them: without the columns of lesson 4."""
    lab.rebuild(3)
    yield
    lab.end_workers()


def start(name: str, *arguments: str) -> Worker:
    return lab.start_worker(name, "--without-lease", *arguments)


def status(task_id: int = 42) -> object:
    return lab.task(task_id)["status"]


def events(kind: str) -> list[tuple[object, ...]]:
    sql = "SELECT actor, task_id, attempt FROM backend_training.task_events WHERE event = :kind ORDER BY id"
    return list(lab.query(sql, kind=kind).itertuples(index=False, name=None))


def test_it_completes_one_task_and_its_lines_and_rows_name_no_attempt(capsys: pytest.CaptureFixture[str]) -> None:
    assert start("A").returncode == 0
    assert capsys.readouterr().out.splitlines() == [
        "[A] Claimed #42 (generate_report). The claim is committed.",
        "[A] Finished the work of #42.",
        "[A] Completed #42.",
        "[A] exit code 0",
    ]
    assert [status(task_id) for task_id in (42, 43, 44)] == ["completed", "pending", "pending"]
    assert events("claimed") == events("effect") == events("completed") == [("worker:A", 42, None)]


def test_on_hold_the_claim_is_not_committed_and_its_transaction_is_open(capsys: pytest.CaptureFixture[str]) -> None:
    held = start("A", "--hold")
    assert held.returncode is None
    assert "Nothing is committed yet" in capsys.readouterr().out
    assert lab.value(IN_TRANSACTION) == 1
    assert status() == "pending"
    assert events("claimed") == events("effect") == []


def test_others_pass_over_the_row_that_is_on_hold_and_do_not_wait() -> None:
    held = start("A", "--hold")
    assert start("B").returncode == 0
    assert [status(task_id) for task_id in (42, 43, 44)] == ["pending", "completed", "pending"]
    held.press_enter()
    assert held.returncode == 0
    assert status() == "completed"


def test_it_holds_at_its_claim_and_not_at_its_completion() -> None:
    start("A", "--hold").press_enter()
    assert events("holding") == [("worker:A", 42, None)]


def test_killed_on_hold_it_leaves_a_pending_task_and_no_lock() -> None:
    start("A", "--hold").kill()
    lab.wait_until(GONE)
    assert status() == "pending"
    start("B")
    assert events("claimed") == [("worker:B", 42, None)]


def test_killed_after_its_commit_it_leaves_a_task_that_nobody_gets() -> None:
    start("A", "--hold-after-claim").kill()
    lab.wait_until(GONE)
    for name in ("B", "C", "D"):
        start(name)
    assert [task_id for _, task_id, _ in events("claimed")] == [42, 43, 44]
    assert [actor for actor, _, _ in events("idle")] == ["worker:D"]
    assert status() == "processing"


def test_with_nothing_to_claim_it_does_not_hold() -> None:
    lab.execute("DELETE FROM backend_training.tasks")
    assert start("A", "--hold").returncode == 0
    assert events("holding") == []


def test_the_row_of_a_hold_is_in_the_ledger_before_its_line_is_out() -> None:
    start("A", "--hold").kill()  # at once, when the line is read
    assert events("holding") == [("worker:A", 42, None)]


def test_the_text_of_the_timeline_tells_a_claim_without_a_number(capsys: pytest.CaptureFixture[str]) -> None:
    held = start("A", "--hold")
    start("B")
    held.press_enter()
    capsys.readouterr()
    lab.timeline()
    assert capsys.readouterr().out.splitlines()[-1] == (
        "Worker A claimed #42 and waited. Worker B claimed #43, finished the work and completed it. "
        "Worker A finished the work on #42 and completed it. #44 stayed pending."
    )
