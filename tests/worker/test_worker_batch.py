"""The worker of lessons 7 and 8 as a process: by priority, with aging, and a batch at a time."""

import sys
from collections.abc import Iterator

import pytest

from helpers import lab
from helpers.lab import end_workers, rebuild
from helpers.scripts import run_script
from helpers.worker.options import parse
from tests.repository.rows import change, stored

COMPLETED = """
    SELECT array_agg(task_id ORDER BY id) FROM backend_training.task_events
    WHERE event = 'update' AND new_status = 'completed'
"""
RENEWED = """
    SELECT array_agg(DISTINCT task_id ORDER BY task_id) FROM backend_training.task_events
    WHERE event = 'update' AND old_status = 'processing' AND new_status = 'processing'
"""
NOTED = "SELECT array_agg(task_id ORDER BY id) FROM backend_training.task_events WHERE event = :kind"
BATCH: list[str | float] = ["--batch", 5, "--quota", "HIGH=2", "--quota", "LOW=1"]
CHOSEN = [101, 102, 301, 103, 104]

needs_signals = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM between processes")


@pytest.fixture(autouse=True)
def tables() -> Iterator[None]:
    """Lesson 8's thirty tasks: HIGH 101 to 110, MEDIUM 201 to 210, LOW 301 to 310, and LOW are the oldest."""
    rebuild(9)
    run_script("08_batches_and_quotas/03_thirty_tasks.sql")
    yield
    end_workers()


# -- by priority -------------------------------------------------------------------------------------------------------


def test_by_priority_the_most_urgent_task_is_first() -> None:
    assert lab.start_worker("A", "--by-priority").returncode == 0
    assert lab.value(COMPLETED) == [101]


def test_with_aging_a_task_that_waited_long_enough_is_before_an_urgent_one() -> None:
    """301 is twenty seconds older than 101: it is ahead where two steps are less than that."""
    assert lab.start_worker("A", "--aging-seconds", 9).returncode == 0
    assert lab.start_worker("A", "--aging-seconds", 11).returncode == 0
    assert lab.value(COMPLETED) == [301, 101]


def test_by_priority_a_failure_is_tried_again() -> None:
    change("type = 'broken_report'", 101)
    lab.start_worker("A", "--by-priority")
    assert stored(101)["status"] == "pending" and stored(101)["retry_at"] is not None


# -- a batch -----------------------------------------------------------------------------------------------------------


def test_a_batch_is_claimed_at_once_and_completed_one_by_one() -> None:
    worker = lab.start_worker("A", *BATCH, "--hold-at", "before-completion")
    assert lab.value(NOTED, kind="claimed") == CHOSEN
    assert lab.value(COMPLETED) is None
    worker.press_enter()
    assert lab.value(COMPLETED) == CHOSEN[:1]
    for _ in CHOSEN[1:]:
        worker.press_enter()
    assert worker.returncode == 0
    assert lab.value(COMPLETED) == CHOSEN


def test_a_drain_goes_on_until_nothing_is_left() -> None:
    assert lab.start_worker("A", "--batch", 7, "--drain").returncode == 0
    assert sorted(lab.value(COMPLETED)) == [base + n for base in (100, 200, 300) for n in range(1, 11)]


def test_a_crash_in_the_middle_loses_only_the_rest_until_its_leases_end() -> None:
    worker = lab.start_worker("A", *BATCH, "--hold-at", "before-completion", "--lease-seconds", 60)
    worker.press_enter()
    worker.press_enter()
    worker.kill()
    assert lab.value(COMPLETED) == CHOSEN[:2]
    assert {stored(task_id)["status"] for task_id in CHOSEN[2:]} == {"processing"}
    change("lease_until = clock_timestamp()", *CHOSEN[2:])
    lab.start_worker("B", "--batch", 30, "--drain")
    assert {stored(task_id)["attempts"] for task_id in CHOSEN[2:]} == {2}
    assert len(lab.value(COMPLETED)) == len(set(lab.value(COMPLETED))) == 30


def test_the_leases_of_tasks_that_wait_for_their_turn_are_renewed() -> None:
    worker = lab.start_worker("A", *BATCH, "--renew", "--lease-seconds", 2, "--work-seconds", 0.7)
    assert worker.returncode == 0
    assert lab.value(COMPLETED) == CHOSEN
    assert set(lab.value(RENEWED)) >= set(CHOSEN[1:])
    assert {stored(task_id)["attempts"] for task_id in CHOSEN} == {1}


def test_without_renewal_the_end_of_a_long_batch_is_refused() -> None:
    worker = lab.start_worker("A", *BATCH, "--lease-seconds", 1, "--work-seconds", 0.7)
    assert worker.returncode == 2
    assert lab.value(COMPLETED) == CHOSEN[:1]
    assert lab.value(NOTED, kind="refused") == CHOSEN[1:]


def test_a_task_that_is_lost_costs_no_other() -> None:
    worker = lab.start_worker("A", *BATCH, "--renew", "--hold-at", "after-claim", "--lease-seconds", 60)
    change("attempts = 2", 102)
    worker.press_enter()
    assert worker.returncode == 2
    assert lab.value(COMPLETED) == [101, 301, 103, 104]
    assert lab.value(NOTED, kind="effect") == [101, 301, 103, 104]
    assert stored(102)["status"] == "processing"


def test_a_task_that_fails_costs_no_other() -> None:
    change("type = 'broken_report'", 102)
    assert lab.start_worker("A", *BATCH, "--renew").returncode == 0
    assert lab.value(COMPLETED) == [101, 301, 103, 104]
    assert stored(102)["status"] == "pending"


@needs_signals
def test_asked_to_stop_it_finishes_the_task_in_hand_and_gives_the_rest_back() -> None:
    worker = lab.start_worker("A", *BATCH, "--drain", "--hold-at", "in-work")
    worker.press_enter()  # 101 is done, and 102 in hand
    worker.stop()
    worker.press_enter()
    assert worker.returncode == 0
    assert lab.value(COMPLETED) == CHOSEN[:2]
    assert {(stored(task_id)["status"], stored(task_id)["attempts"]) for task_id in CHOSEN[2:]} == {("pending", 1)}


def test_before_its_commit_all_of_a_batch_is_locked() -> None:
    worker = lab.start_worker("A", *BATCH, "--hold-at", "before-commit")
    assert sorted(lab.value(NOTED, kind="locked")) == sorted(CHOSEN)
    assert lab.value("SELECT count(*) FROM backend_training.tasks WHERE status = 'processing'") == 0
    worker.kill()


# -- its options -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--quota", "HIGH=1"], "--quota needs --batch"),
        (["--batch", "0"], "'0' is not a number of tasks from 1 to 1000"),
        (["--batch", "1001"], "'1001' is not a number of tasks"),
        (["--batch", "many"], "'many' is not a number of tasks"),
        (["--batch", "5", "--quota", "HUGE=1"], "'HUGE=1' is not a quota, such as HIGH=5"),
        (["--batch", "5", "--quota", "HIGH"], "'HIGH' is not a quota"),
        (["--batch", "5", "--quota", "HIGH=-1"], "'HIGH=-1' is not a quota"),
        (["--batch", "5", "--quota", "LOW=1", "--quota", "LOW=2"], "--quota is given twice for LOW"),
        (["--batch", "5", "--by-priority"], "not allowed with"),
        (["--batch", "5", "--aging-seconds", "3"], "not allowed with"),
        (["--aging-seconds", "0"], "'0' is not a number of seconds above 0"),
        (["--aging-seconds", "nan"], "'nan' is not a number of seconds above 0"),
        (["--without-lease", "--batch", "5"], "--without-lease cannot be used with --batch"),
        (["--without-lease", "--by-priority"], "--without-lease cannot be used with --by-priority"),
        (["--without-lease", "--aging-seconds", "3"], "--without-lease cannot be used with --aging-seconds"),
    ],
)
def test_wrong_usage_says_what_is_wrong(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        parse(["A", *arguments])
    assert end.value.code == 64
    assert message in capsys.readouterr().err


def test_quotas_are_numbers_by_priority() -> None:
    options = parse(["A", "--batch", "9", "--quota", "LOW=0", "--quota", "HIGH=4"])
    assert (options.batch, dict(options.quota)) == (9, {"LOW": 0, "HIGH": 4})
