"""What a batch of exercise 8 is to take, and the known mistakes that are told apart by it."""

from itertools import combinations
from random import Random

from sqlalchemy import text

from helpers.checking.batches import right
from helpers.checking.queues import made
from helpers.db import engine
from helpers.exercises.catalogue import exercise_texts
from helpers.exercises.claim_batch import choice
from helpers.exercises.claim_batch.calls import Case
from helpers.exercises.claim_batch.choice import CASES, FOUR, as_lists, random_case, what_is_right, wrong_choice
from helpers.lab import rebuild
from helpers.repository import batch


def put(sql: str) -> None:
    with engine().begin() as connection:
        for statement in sql.split(";"):
            connection.exec_driver_sql(statement)


def claimed(case: Case) -> list[int]:
    """What the course claims of the rows of a case."""
    put(made(case.tasks))
    with engine().connect() as other:
        lock = text("SELECT FROM backend_training.tasks WHERE id = ANY (:ids) FOR UPDATE")
        other.execute(lock, {"ids": list(case.locked)})
        return [task["id"] for task in batch.claim_batch(case.batch_size, case.quotas, 60)]


def test_what_is_right_is_what_the_course_claims() -> None:
    rebuild(9)
    random = Random(3)
    for case in (*CASES, Case(FOUR, 2, {"LOW": 1}), *(random_case(random) for _ in range(40))):
        assert what_is_right(case) == claimed(case), case


def test_each_known_mistake_differs_from_all_others_and_from_what_is_right() -> None:
    found = {
        name: [choose(as_lists(case), case.quotas, case.batch_size) for case in CASES]
        for name, choose in {**choice.MISTAKES, "right": right}.items()
    }
    assert [(a, b) for a, b in combinations(found, 2) if found[a] == found[b]] == []
    assert exercise_texts("claim_batch")["misconceptions"].keys() == choice.MISTAKES.keys()


def test_random_queues_are_varied() -> None:
    random = Random(8)
    cases = [random_case(random) for _ in range(choice.RANDOM_CASES)]
    assert any(task.spent for case in cases for task in case.tasks)
    assert sum(bool(case.locked) for case in cases) > 3
    assert sum(case.batch_size < sum(case.quotas.values()) for case in cases) > 1
    assert sum(bool(what_is_right(case)) for case in cases) > 5


def test_a_choice_that_no_known_mistake_explains_gets_a_sentence_of_its_own() -> None:
    case = CASES[0]
    expected = what_is_right(case)
    assert "The batch has 5 tasks and 6 places, and #22 is free" in wrong_choice(expected[:5], expected, case)
    assert "returned in another order" in wrong_choice(expected[::-1], expected, case)
    other = [*expected[:5], 31]
    assert "Place 6 of the batch belongs to #22, and #31 stands there" in wrong_choice(other, expected, case)
