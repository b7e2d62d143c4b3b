"""The right of exercise `build_batch`, and the diagnosis of known mistakes."""

import os
import time
from collections.abc import Iterator
from itertools import combinations
from random import Random

import pytest

from helpers.checking.batches import MISCONCEPTIONS, right
from helpers.exercises.build_batch.answers import build_batch
from helpers.exercises.build_batch.cases import EXAMPLE, EXAMPLES, Case, make, probes, random_case
from helpers.exercises.build_batch.checks import claimed_in_database
from helpers.exercises.build_batch.diagnosis import broken_rule, first_difference, results
from helpers.exercises.build_batch.wrong import TIME_MISCONCEPTIONS
from helpers.exercises.catalogue import exercise_texts
from helpers.lab import rebuild


@pytest.fixture(autouse=True)
def local_time_is_not_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(os.environ, "TZ", "EAST-3")
    if hasattr(time, "tzset"):  # not on Windows
        time.tzset()
    yield
    monkeypatch.undo()
    if hasattr(time, "tzset"):
        time.tzset()


def table_rows(text: str, columns: int) -> list[list[str]]:
    """The tables of a Markdown text with so many columns, without their heads."""
    rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return [row for row in rows if len(row) == columns and row[0] not in ("id", "call", "---")]


def test_the_tables_of_the_task_are_the_examples_that_are_checked() -> None:
    task = exercise_texts("build_batch")["task"]
    shown = [[str(t["id"]), t["priority"], t["status"], str(t["locked"]), f"{t['created_at']:%H:%M}"] for t in EXAMPLE]
    assert table_rows(task, 5) == shown
    assert table_rows(task, 2) == [[case.called, str(case.expected)] for case in EXAMPLES]


def test_the_right_and_the_solution_agree() -> None:
    random = Random(3)
    for zones in ([None], [None, make(1, "LOW")["created_at"].tzinfo]):
        for _ in range(2_000):
            case = random_case(random, 12, zones)
            assert build_batch(case.tasks, case.quotas, case.batch_size) == case.expected


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="where local time is UTC, taking it for UTC is right")
def test_known_mistakes_are_told_apart_from_each_other_and_from_what_is_right() -> None:
    for with_times, mistakes in ((False, MISCONCEPTIONS), (True, TIME_MISCONCEPTIONS)):
        came = {name: results(mistake, with_times) for name, mistake in mistakes.items()}
        came["right"] = results(right, with_times)
        assert [(a, b) for a, b in combinations(came, 2) if came[a] == came[b]] == []
    assert exercise_texts("build_batch")["misconceptions"].keys() == {**MISCONCEPTIONS, **TIME_MISCONCEPTIONS}.keys()


def test_a_result_that_no_known_mistake_explains_gets_a_sentence_of_its_own() -> None:
    case = EXAMPLES[1]  # [44, 42, 43, 41, 48, 47]
    sentences = {
        (44, 42, 43, 41, 48, 99): "#99 is in the list, and no task has this id",
        (44, 42, 43, 41, 48, 48): "#48 is in the list twice",
        (44, 42, 43, 41, 48, 45): "#45 is in the list, and it is locked",
        (44, 42, 43, 41, 48, 46): "#46 is in the list, and its status is completed",
        (44, 42, 43, 41, 48): "The batch has 5 tasks and 6 places, and #47 is available",
        (42, 44, 43, 41, 48, 47): "Place 1 belongs to #44 (HIGH, by its quota), and #42 stands there",
        (44, 42, 43, 41, 47, 48): "Place 5 belongs to #48 (HIGH, by the fallback pass), and #47 stands there",
    }
    for came, says in sentences.items():
        assert says in (broken_rule(list(came), case) or first_difference(list(came), case))
    too_long = broken_rule([44, 42, 43, 41, 48], Case(EXAMPLE, case.quotas, 4))
    assert too_long is not None and "The batch has 5 tasks, and batch_size is 4" in too_long


def test_probes_are_varied() -> None:
    cases = probes(False)
    assert sum(case.batch_size < sum(case.quotas.values()) for case in cases) > 20
    assert sum(any(task["locked"] for task in case.tasks) for case in cases) > 20
    assert sum(len(case.quotas) < 3 for case in cases) > 20
    assert sum(len(case.expected) < case.batch_size for case in cases) > 20


def test_the_database_claims_what_the_right_says() -> None:
    rebuild(9)
    random = Random(5)
    for _ in range(30):
        case = random_case(random, 12, (None, make(1, "LOW")["created_at"].tzinfo))
        assert claimed_in_database(case) == case.expected
