"""The worker that does everything in one transaction, as a real process."""

from collections.abc import Iterator

import pytest

from helpers import lab


@pytest.fixture(autouse=True)
def lesson2() -> Iterator[None]:
    lab.rebuild(2)
    yield
    lab.end_workers()


def status() -> object:
    return lab.task(42)["status"]


def test_killed_in_the_middle_it_has_never_been() -> None:
    worker = lab.start_long_transaction("W")
    assert status() == "pending"
    worker.kill()
    lab.wait_until("SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'worker:W'")
    lab.value("SELECT id FROM backend_training.tasks WHERE id = 42 FOR UPDATE NOWAIT")  # nobody holds the row
    assert status() == "pending"


def test_let_go_it_commits(capsys: pytest.CaptureFixture[str]) -> None:
    worker = lab.start_long_transaction("W")
    worker.press_enter()
    assert worker.returncode == 0
    assert status() == "completed"
    assert "[W] Set #42 to completed, and committed." in capsys.readouterr().out


def test_a_task_that_is_not_pending_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    lab.execute("UPDATE backend_training.tasks SET status = 'completed' WHERE id = 42")
    assert lab.start_long_transaction("W").returncode == 0
    assert "[W] #42 is not pending." in capsys.readouterr().out
