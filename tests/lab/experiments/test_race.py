"""The race of real processes: what it counts, and that it leaves nothing behind."""

import sys
from collections.abc import Iterator

import pytest

from helpers import lab
from helpers.errors import LabError
from helpers.lab.experiments.race import Race

SESSIONS_LEFT = (
    "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name LIKE 'worker:%' AND datname = current_database()"
)


@pytest.fixture(autouse=True)
def lesson1() -> Iterator[None]:
    lab.open(1)
    yield
    lab.end_workers()


def test_the_naive_race_does_some_tasks_twice_and_the_atomic_one_none() -> None:
    naive, atomic = lab.race("naive"), lab.race("atomic")
    assert naive.done_more_than_once
    assert naive.work_done > naive.tasks == 100
    assert atomic.done_more_than_once == []
    assert atomic.work_done == atomic.tasks == 100
    statuses = lab.query("SELECT DISTINCT status FROM backend_training.tasks")
    assert statuses["status"].tolist() == ["completed"]
    lab.wait_until(SESSIONS_LEFT)


def test_the_race_is_counted_from_the_ledger() -> None:
    race = lab.race("atomic", workers=2)
    effects = lab.query(
        "SELECT task_id, right(actor, 1) AS actor FROM backend_training.task_events WHERE event = 'effect' ORDER BY id"
    )
    assert {task: [actor] for task, actor in effects.itertuples(index=False)} == race.done
    assert set(effects["actor"]) <= {"A", "B"}


def test_the_words_do_not_name_numbers_that_vary(capsys: pytest.CaptureFixture[str]) -> None:
    one = Race("naive", 4, {1: ["A", "B"], 2: ["C"]})
    other = Race("naive", 4, {1: ["A"], 2: ["C", "D", "A"]})
    assert repr(one) == repr(other)
    assert "more than once:    True" in repr(one)
    lab.race_chart(one, Race("atomic", 4, {1: ["A"], 2: ["B"]}))
    assert capsys.readouterr().out.endswith(
        "naive: 2 tasks, and the work of some was done more than once.\n"
        "atomic: 2 tasks, and the work of each was done once.\n"
    )


def test_a_task_that_nobody_did_is_not_hidden() -> None:
    assert "at least once:      False" in repr(Race("atomic", 4, {1: ["A"], 2: []}))


def test_an_unknown_claim_is_a_sentence() -> None:
    with pytest.raises(LabError, match="naive, atomic"):
        lab.race("lucky")


def test_a_process_that_fails_is_a_sentence_and_nobody_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["helpers.lab.experiments.race"]
    monkeypatch.setattr(module, "NAMES", "A?")  # no name for a process: it ends with a usage error
    with pytest.raises(LabError, match=r"(?s)exit code 64.*is not a name"):
        lab.race("atomic", workers=2)
    lab.wait_until(SESSIONS_LEFT)


def test_a_crash_after_the_work_makes_its_effect_happen_again(capsys: pytest.CaptureFixture[str]) -> None:
    crashed = lab.run_racer("A", "atomic", "--crash-after-work")
    assert crashed.returncode == 17
    assert lab.task(42)["status"] == "processing"
    lab.execute("UPDATE backend_training.tasks SET status = 'pending' WHERE id = 42")
    assert lab.run_racer("B", "atomic").returncode == 0
    effects = lab.query(
        "SELECT actor FROM backend_training.task_events WHERE event = 'effect' AND task_id = 42 ORDER BY id"
    )
    assert effects["actor"].tolist() == ["worker:A", "worker:B"]
    assert "[A] exit code 17" in capsys.readouterr().out
