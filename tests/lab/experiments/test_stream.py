"""The stream of tasks: what is read from the ledger, and that the worker and the customers are real."""

import threading
from collections.abc import Iterator
from importlib import import_module

import pandas as pd
import pytest

from helpers import lab
from helpers.errors import LabError
from helpers.lab.experiments.stream import Stream

MODULE = import_module("helpers.lab.experiments.stream")  # `lab.stream` is the function

Claim = tuple[int, str, float, float]  # a task, its priority, when it came, and when it was claimed


def ledger(*claims: Claim) -> Stream:
    return Stream(pd.DataFrame(claims, columns=["id", "priority", "came", "claimed"]))


STRICT = ledger((101, "HIGH", 0.1, 0.5), (102, "HIGH", 0.2, 0.7), (42, "LOW", 0.0, 0.9))
AGED = ledger((101, "HIGH", 0.1, 0.5), (42, "LOW", 0.0, 0.7), (102, "HIGH", 0.2, 0.9))
FAIR = ledger((42, "LOW", 0.0, 0.1), (101, "HIGH", 0.1, 0.5))


@pytest.fixture
def lesson7(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(MODULE, "TASKS", 12)
    lab.open(7)
    lab.run_script("07_priorities/01_migrate.sql")
    yield
    lab.end_workers()


def test_how_many_high_tasks_came_before_the_first_one() -> None:
    assert [run.high_before_first for run in (STRICT, AGED, FAIR)] == ["all", "some", "none"]


def test_a_low_task_passes_a_high_one_only_if_that_one_waits_at_this_moment() -> None:
    assert [run.low_passed_high for run in (STRICT, AGED, FAIR)] == [False, True, False]


def test_those_that_came_too_late_to_overtake_are_counted() -> None:
    assert STRICT.high_before_first_but_later_by(0.15) == 1
    assert STRICT.high_before_first_but_later_by(0.2) == 0
    assert AGED.high_before_first_but_later_by(0.15) == 0


def test_the_words_do_not_name_numbers_that_vary(capsys: pytest.CaptureFixture[str]) -> None:
    slower = ledger((101, "HIGH", 0.1, 1.5), (102, "HIGH", 0.3, 1.7), (42, "LOW", 0.0, 1.9))
    assert repr(slower) == repr(STRICT) != repr(AGED)
    lab.stream_chart(by_priority=STRICT, aged=AGED)
    assert capsys.readouterr().out.endswith(
        "by priority: all of the HIGH tasks were claimed before #42.\n"
        "aged: some of the HIGH tasks were claimed before #42.\n"
    )


def test_a_strict_worker_lets_the_low_tasks_wait_until_the_stream_is_over(
    lesson7: None, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    run = lab.stream("--by-priority")
    assert capsys.readouterr().out == "", "three lines for each task"
    assert run.high_before_first == "all"
    assert not run.low_passed_high
    assert run.claims["id"].tolist() == [*range(101, 110), 111, 42, 110]
    assert (run.claims["claimed"] > run.claims["came"]).all()
    stored = lab.query("SELECT DISTINCT status, attempts FROM backend_training.tasks").values.tolist()
    assert stored == [["completed", 1]]


def test_with_aging_a_low_task_waits_for_none_that_came_two_steps_later(lesson7: None) -> None:
    run = lab.stream("--aging-seconds", 0.2)
    assert run.high_before_first in ("some", "none")
    assert run.high_before_first_but_later_by(0.4) == 0
    assert run.low_passed_high


def test_nothing_is_left_behind(lesson7: None) -> None:
    threads = threading.active_count()
    lab.stream("--by-priority")
    lab.wait_until(
        "NOT EXISTS (SELECT FROM pg_stat_activity "
        "WHERE application_name LIKE 'worker:%' AND datname = current_database())"
    )
    assert threading.active_count() <= threads + 1, "a worker's reader may take a moment to end"


def test_options_that_the_worker_does_not_know_are_a_sentence(lesson7: None) -> None:
    with pytest.raises(LabError, match="--no-such-option"):
        lab.stream("--no-such-option")
