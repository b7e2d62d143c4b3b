"""Every exercise: as given out it is not attempted, right answers pass, each wrong one fails with its own message."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib import import_module
from inspect import getsource
from typing import Any

import pytest

from helpers.checking.courier import Answer, Child, check_in, open_child, pack
from helpers.checking.parts import Definition
from helpers.exercises.catalogue import NAMES, definition, exercise_texts
from helpers.exercises.exercise import Exercise

Functions = tuple[Callable[..., Any], ...]


# Wrong answers whose check takes five times as long as most: they loop or wait until they are ended, or only the last
# rules find them. Other answers meet the same rules.
SLOW = {
    "renew": {"without the number", "looks for the number first"},
    "transfer": {"NOWAIT in a loop"},
    "claim_batch": {"in several transactions", "claims without a lock", "waits for locks", "locks everything"},
    "effect": {
        "key first, under a lock",
        "key first, finished by the next",
        "document first, under a lock",
        "waits in a loop",
    },
}


def stub(*_arguments: object) -> Any:
    # As the notebook gives it out.
    ...


def right_answers() -> list[Any]:
    found = []
    for name in NAMES:
        module = import_module(f"helpers.exercises.{name}.answers")
        found += [pytest.param(name, module.SOLUTION, id=f"{name}: solution")]
        for other in module.OTHERS:
            found.append(pytest.param(name, other, id=f"{name}: {other[0].__name__}", marks=pytest.mark.thorough))
    return found


def wrong_answers() -> list[Any]:
    found = []
    for name in NAMES:
        module = import_module(f"helpers.exercises.{name}.wrong")
        for title, (functions, says) in module.WRONG.items():
            full = title in module.FULL
            marks = [pytest.mark.thorough] if full or title in SLOW.get(name, ()) else []
            found.append(pytest.param(name, functions, says, full, id=f"{name}: {title}", marks=marks))
    return found


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> None:
    """Here one process lives on from test to test; the other modules look at what is left."""


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("full", [False, True])
def test_what_is_given_out_is_not_attempted(name: str, full: bool) -> None:
    functions = [stub for _ in definition(name).functions]
    verdict = Exercise(name).check(*functions, full=full)
    assert not verdict.attempted
    assert not verdict.passed
    assert repr(verdict) == ("stub: not attempted yet. Write its body in place of the dots, then run this cell again.")


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "functions"), right_answers())
def test_right_answers_pass_the_full_check(name: str, functions: Functions) -> None:
    verdict = Exercise(name).check(*functions, full=True)
    assert verdict.passed, repr(verdict)
    assert "not all orders" not in repr(verdict)


class OneAfterTheOther:
    """Checks many answers in one process, and takes another one where an answer has spoilt it."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._child: Child | None = None

    def check(self, exercise: Definition, functions: Functions, full: bool) -> Answer:
        if self._child is None:
            self._child = self._open.enter_context(open_child(database=True, required=exercise.database))
        rules = [rule.name for rule in (*exercise.mini, *(exercise.full if full else ()))]
        answer = check_in(self._child, exercise, pack(functions), rules, expected=str)
        if not answer.ended:
            self.end()
        return answer

    def end(self) -> None:
        self._open.close()
        self._child = None


@pytest.fixture(scope="module")
def checks() -> Iterator[OneAfterTheOther]:
    checks = OneAfterTheOther()
    yield checks
    checks.end()


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "functions", "says", "full"), wrong_answers())
def test_wrong_answers_fail_with_a_message_of_their_own(
    name: str, functions: Functions, says: str, full: bool, checks: OneAfterTheOther
) -> None:
    answer = checks.check(definition(name), functions, full)
    assert says in " ".join(finding.why for _, finding in answer.findings if not finding.ok), answer


@pytest.mark.parametrize("name", NAMES)
def test_there_are_enough_answers_and_no_two_wrong_ones_share_a_message(name: str) -> None:
    assert len(import_module(f"helpers.exercises.{name}.answers").OTHERS) >= 1
    messages = [says for _, says in import_module(f"helpers.exercises.{name}.wrong").WRONG.values()]
    assert len(messages) >= 3
    assert len(set(messages)) == len(messages)


@pytest.mark.parametrize("name", NAMES)
def test_the_texts_are_complete(name: str) -> None:
    texts, exercise = exercise_texts(name), definition(name)
    rules = {rule.name for rule in (*exercise.mini, *exercise.full)}
    assert texts["rules"].keys() == texts["expected"].keys() == rules
    assert len(texts["hints"]) >= 2
    for function in exercise.functions:
        assert function in texts["task"]


@pytest.mark.parametrize("name", NAMES)
def test_a_text_never_shows_the_solution(name: str) -> None:
    """No line of the solution's code that says something stands in a sentence of the check or in a hint."""
    lines = {
        line.strip()
        for function in import_module(f"helpers.exercises.{name}.answers").SOLUTION
        for line in getsource(function).splitlines()
        if len(line.strip()) > 35
    }
    shown = str(exercise_texts(name))
    assert [line for line in lines if line in shown and not line.startswith(("def ", "with "))] == []
