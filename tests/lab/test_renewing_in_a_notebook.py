"""What lesson 5's cells call: the chart of the remaining lease, a worker that is followed late, and one that stops."""

import pytest

from helpers import lab
from helpers.lab.frame import facts, lesson

CLAIMED = "EXISTS (SELECT FROM backend_training.task_events WHERE event = 'claimed')"
ASKED = "SELECT count(*) FROM backend_training.task_events WHERE actor = 'worker:A' AND event = 'asked_to_stop'"


@pytest.fixture(autouse=True)
def opened(lesson5: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lesson, "_current", 5)


def test_the_chart_tells_whether_each_renewal_came_in_time(capsys: pytest.CaptureFixture[str]) -> None:
    lab.start_worker("A", "--renew", "--lease-seconds", 3, "--work-seconds", 3)
    capsys.readouterr()
    lab.remaining_lease(42, 3)
    assert capsys.readouterr().out.endswith("At each renewal more than a third of it was left: true\n")
    lab.remaining_lease(42, 9)  # a third of which is as much as the lease itself: no renewal can leave more
    assert capsys.readouterr().out.endswith("At each renewal more than a third of it was left: false\n")


def test_lesson_5_s_reset_runs_before_its_migration_too() -> None:
    lab.rebuild(5)
    assert facts.query("SELECT count(*) FROM information_schema.columns WHERE column_name = 'retry_at'").iat[0, 0] == 0
    lab.reset()
    assert lab.tasks().rows == [[str(number), "generate_report", "pending", "0", "NULL"] for number in (42, 43, 44)]


def test_a_worker_that_has_ended_is_followed_only_once(capsys: pytest.CaptureFixture[str]) -> None:
    worker = lab.start_worker("A", follow=False)
    worker.follow()
    first = capsys.readouterr().out.splitlines()
    worker.follow()  # the cell is run again
    assert first[-1] == "[A] exit code 0"
    assert len(first) == 4
    assert capsys.readouterr().out.splitlines() == ["[A] exit code 0"]


def test_the_ledger_notes_when_a_worker_was_asked_to_stop() -> None:
    worker = lab.start_worker("A", "--retry", "--work-seconds", 60, "--grace-seconds", 0, follow=False)
    lab.wait_until(CLAIMED)
    worker.stop()
    assert worker.returncode == 0
    assert lab.value(ASKED) == 1
