"""What a situation says is what is run, and a broken rule is explained in the words of the exercise."""

import pytest

from helpers.checking import Calling, Finding, Orders, Outcome, Situation, in_one_line, tried
from helpers.schedules import Run, Violation, no_task_lost, one_current_attempt
from helpers.schedules.invariants import comes_back

TEXTS = {
    "expected": {},
    "why": {"told": "It was not told.", "lost": "It is lost.", "mine": "Mine.", "locked": "A lock is no error."},
    "offences": {"told_name": "a refusal is told", "told": "{who}"},
}


def worker(function: str, other: str) -> str:
    return function + other


def someone_else(function: str, other: str) -> str:
    return other + function


def why(orders: Orders, rule: str, result: object = None) -> str:
    return orders.why(Violation(rule, "", (), Run(results={"A": result})))


def test_workers_get_the_learners_functions_and_the_same_worker_is_the_same_code() -> None:
    two = Situation("", (), A=worker, B=worker).program(["a", "b"])  # type: ignore[list-item]
    assert two.actors["A"] is two.actors["B"]
    assert two.actors["A"]() == "ab"  # type: ignore[operator]
    other = Situation("", (), A=worker, B=someone_else).program(["a", "b"])  # type: ignore[list-item]
    assert other.actors["B"]() == "ba"  # type: ignore[operator]


def test_crashes_expiries_rescue_and_an_outsider_come_only_where_they_are_asked_for() -> None:
    quiet = Situation("", (), A=worker).program([])
    assert (list(quiet.actors), quiet.crashes, quiet.expiries, quiet.rescue) == (["A"], 0, 0, None)
    asked = Situation("", (), A=worker, locked=42, crash=True, lease_ends=True, rescue=worker)
    program = asked.program(["a", "b"])  # type: ignore[list-item]
    assert (list(program.actors), program.crashes, program.expiries) == (["L", "A"], 1, 1)
    assert program.rescue is not None and program.rescue() == "ab"
    assert "id = 42 FOR UPDATE" in str(program.actors["L"])


def test_a_rule_is_explained_by_the_sentence_of_its_name_unless_the_exercise_names_another() -> None:
    orders = Orders(TEXTS, {one_current_attempt: lambda violation: "mine" if violation.run.results else ""})
    assert why(orders, "a refusal is told") == "It was not told."
    assert why(orders, one_current_attempt.name) == "Mine."
    assert why(orders, no_task_lost.name) == "It is lost."
    assert why(orders, comes_back.name) == ""
    assert why(Orders(TEXTS, {"told": "mine"}), "a refusal is told") == "Mine."


def test_an_unexpected_error_is_explained_by_its_class() -> None:
    assert why(Orders(TEXTS, {}, {"KeyError": "mine"}), "no unexpected error", KeyError()) == "Mine."
    assert why(Orders(TEXTS, {}), "no unexpected error", KeyError()) == ""


def test_a_reason_without_a_sentence_is_a_mistake_of_the_exercise() -> None:
    with pytest.raises(AssertionError, match="unheard_of"):
        Orders(TEXTS, {one_current_attempt: "unheard_of"})


def said_of(numbers: list[int]) -> list[Calling | Finding]:
    """What a rule says that calls a function with these numbers, of which none may be negative."""

    def wrong(outcome: Outcome) -> str:
        return "negative" if outcome.value < 0 else ""

    trials = (tried(f"f({n})", int, n, wrong=wrong) for n in numbers)
    return list(in_one_line(trials, "{n} right", "none is negative"))


def test_many_calls_are_one_line_and_end_with_the_first_that_is_wrong() -> None:
    *callings, finding = said_of([1, 2, 3])
    assert [said.what for said in callings if isinstance(said, Calling)] == ["f(1)", "f(2)", "f(3)"]
    assert finding == Finding(True, "", "3 right", "none is negative")
    *callings, finding = said_of([1, -2, 3])
    assert len(callings) == 2
    assert isinstance(finding, Finding)
    assert (finding.ok, finding.called, finding.came, finding.why) == (False, "f(-2)", "-2", "negative")
