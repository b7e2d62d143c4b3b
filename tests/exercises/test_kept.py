"""A learner's answer that has passed its full check is kept, and a storm calls its functions."""

import base64
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from helpers.checking import kept
from helpers.checking.courier import pack
from helpers.errors import LabError
from helpers.exercises.exercise import Exercise
from helpers.exercises.lease.answers import claim_task, mark_as_completed
from helpers.exercises.simulate.answers import simulate
from helpers.exercises.simulate.wrong import WRONG
from helpers.lab import my_repository
from helpers.lab.storms.functions import AGING_SECONDS
from helpers.paths import lab_home


def as_in_a_notebook(code: str, name: str) -> Callable[..., Any]:
    """A function that no module can import: it has to travel by value."""
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(code, space)
    return space[name]  # type: ignore[no-any-return]


MINE = """
from helpers.exercises.simulate import answers as module
OFFSET = 0
def my_simulate(mode, order):
    return module.simulate(mode, order) + OFFSET
"""


def test_what_passes_the_full_check_is_kept_in_place_of_an_earlier_answer_and_works_when_it_is_read() -> None:
    kept.keep("simulate", pack([simulate]))
    assert Exercise("simulate").check(as_in_a_notebook(MINE, "my_simulate"), full=True).passed
    [function] = kept.kept("simulate")
    assert function.__name__ == "my_simulate"
    assert function("naive", ["A", "B", "A", "B"]) == 2


def test_what_passes_the_mini_check_alone_is_not_kept() -> None:
    assert Exercise("simulate").check(simulate).passed
    assert kept.kept("simulate") == ()


def test_what_fails_is_not_kept_and_leaves_what_was_kept_before() -> None:
    wrong, _ = next(iter(WRONG.values()))
    assert not Exercise("simulate").check(*wrong, full=True).passed
    assert kept.kept("simulate") == ()
    kept.keep("simulate", pack([simulate]))
    assert not Exercise("simulate").check(*wrong, full=True).passed
    assert kept.kept("simulate") == (simulate,)


@pytest.mark.parametrize("text", ["", "no JSON", "{}", '{"python": "2.7", "functions": ""}'])
def test_a_file_that_cannot_be_read_is_a_sentence(text: str) -> None:
    kept.keep("lease", pack([claim_task, mark_as_completed]))
    (lab_home() / "answers" / "lease.json").write_text(text, encoding="utf-8")
    with pytest.raises(LabError, match="cannot be read any more"):
        kept.kept("lease")


def test_a_function_whose_module_is_gone_is_a_sentence() -> None:
    pickled = b"\x80\x04\x8c\tno_module\x94\x8c\x08function\x94\x93\x94."  # no_module.function
    kept.keep("lease", base64.b64encode(pickled).decode())
    with pytest.raises(LabError, match="no_module"):
        kept.kept("lease")


def test_a_storm_calls_what_was_kept_and_the_courses_own_for_the_rest() -> None:
    mine = as_in_a_notebook("def my_completion(task_id, attempts): return None", "my_completion")
    kept.keep("lease", pack([claim_task, mine]))
    repository = my_repository()
    assert repository.own.keys() == {"claim_task", "mark_as_completed"}
    said = dict(repository.table().rows)
    assert said["mark_as_completed"] == "yours: my_completion"
    assert said["renew_lease"] == said["request_key"] == "the course's"
    assert '"lease"' not in repr(repository)
    assert 'The exercise "renew" is not solved yet' in repr(repository)


def test_the_claim_of_lesson_7_takes_the_place_of_lesson_4s_and_is_called_with_an_aging() -> None:
    mine = as_in_a_notebook(
        "def my_claim(lease_seconds, aging_seconds): return lease_seconds, aging_seconds", "my_claim"
    )
    kept.keep("lease", pack([claim_task, mark_as_completed]))
    kept.keep("aging", pack([mine]))
    repository = my_repository()
    assert repository.own["mark_as_completed"] is mark_as_completed
    assert repository.own["claim_task"](3) == (3, AGING_SECONDS)
    assert dict(repository.table().rows)["claim_task"] == "yours: my_claim"
    [arrived] = pickle.loads(base64.b64decode(pack([repository.own["claim_task"]])))
    assert arrived(3) == (3, AGING_SECONDS), "it reaches a worker"


def test_nobody_is_reminded_of_lesson_7s_claim_since_lesson_4s_does_as_well() -> None:
    assert "aging" not in repr(my_repository())


def test_the_key_is_taken_from_an_answer_with_more_functions() -> None:
    kept.keep("effect", pack([claim_task, mark_as_completed]))
    assert my_repository().own == {"request_key": claim_task}


def test_an_answer_that_cannot_be_read_counts_as_not_there_and_is_named() -> None:
    kept.keep("effect", "this is no function")
    repository = my_repository()
    assert repository.own == {}
    assert '"effect" was kept and cannot be read any more' in repr(repository)
    assert "cannot be read any more" in repository._repr_html_()
