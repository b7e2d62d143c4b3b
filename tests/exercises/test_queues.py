"""The made queues of the exercises 7 and 8: what is right in them, and which mistakes are told apart by them."""

from collections.abc import Iterator
from importlib import import_module
from itertools import combinations
from random import Random
from typing import Any

import pytest
from sqlalchemy import text

from helpers.checking.batches import right
from helpers.checking.database import build, check_url, end_other_sessions
from helpers.checking.parts import Finding
from helpers.checking.queues import STATES, Made, made, made_behind_the_planner
from helpers.db import engine, forget_engine
from helpers.exercises.aging import checks
from helpers.exercises.aging import order as aging
from helpers.exercises.catalogue import definition, exercise_texts
from helpers.exercises.claim_batch import choice
from helpers.exercises.claim_batch.calls import Case
from helpers.exercises.claim_batch.choice import CASES, FOUR, as_lists, random_case, what_is_right, wrong_choice
from helpers.lab import rebuild
from helpers.repository import batch, priority


def put(sql: str) -> None:
    with engine().begin() as connection:
        for statement in sql.split(";"):
            connection.exec_driver_sql(statement)


def test_a_made_task_is_free_or_spent_as_its_row_says() -> None:
    rebuild(9)
    put(made(STATES))
    free = {task["id"] for task in batch.claim_batch(99, {}, 60)}
    with engine().connect() as connection:
        failed = connection.scalars(
            text("SELECT id FROM backend_training.tasks WHERE last_error IS NOT NULL AND status = 'failed'")
        ).all()
    assert free == {task.id for task in STATES if task.free}
    assert set(failed) == {task.id for task in STATES if task.spent}


# -- aging -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(aging.QUEUES))
def test_the_order_that_is_right_is_the_one_in_which_the_course_claims(name: str) -> None:
    rebuild(8)
    tasks, seconds = aging.QUEUES[name]
    put(made(tasks))
    ids = []
    while (task := priority.claim_task(60, seconds)) is not None:
        ids.append(task["id"])
    assert ids == aging.ordered(tasks, seconds)


def test_each_known_order_differs_from_all_others() -> None:
    orders: dict[str, Any] = {"right": [aging.ordered(*aging.QUEUES[name]) for name in ("sixty", "ten")]}
    for mistake, keys in aging.MISTAKES.items():
        for number, key in enumerate(keys):
            orders[f"{mistake} {number}"] = [aging.ordered(*aging.QUEUES[name], key) for name in ("sixty", "ten")]
    same = [(a, b) for a, b in combinations(orders, 2) if orders[a] == orders[b]]
    assert [(a, b) for a, b in same if a.split()[0] != b.split()[0]] == []
    ties = [aging.ordered(*aging.QUEUES["ties"], key) for key in (aging.counted, *aging.OF_TIES.values())]
    assert all(a != b for a, b in combinations(ties, 2))
    positions = [task.id for task in aging.TIES]
    assert positions not in ties, "nor is any of them the order of the table's file"
    assert {*aging.MISTAKES, *aging.OF_TIES, "ties"} <= exercise_texts("aging")["why"].keys()


def test_an_order_that_no_known_mistake_explains_gets_the_first_wrong_place() -> None:
    came = {name: aging.ordered(*aging.QUEUES[name]) for name in aging.QUEUES}
    came["sixty"] = [*came["sixty"][:5], *came["sixty"][:4:-1]]
    assert "It claimed #8 where #5 counts as the oldest" in aging.wrong_order("sixty", came)


# -- claim_batch -------------------------------------------------------------------------------------------------------


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


# -- mistakes that one rule finds --------------------------------------------------------------------------------------


@pytest.fixture
def database_of_checks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process uses it, as the process of a check does."""
    url = check_url()
    monkeypatch.setenv("DATABASE_URL", url.render_as_string(hide_password=False))
    monkeypatch.setenv("LAB_SERVER", "url")
    monkeypatch.setenv("LAB_DATABASE", str(url.database))
    forget_engine()
    yield
    end_other_sessions()
    monkeypatch.undo()
    forget_engine()


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["aging", "claim_batch"])
def test_a_mistake_that_one_rule_finds_gets_a_message_of_its_own(name: str, database_of_checks: None) -> None:
    exercise, wrong = definition(name), import_module(f"helpers.exercises.{name}.wrong")
    build(exercise.lesson)
    for title, (functions, rule, says) in wrong.MORE.items():
        findings = [said for said in exercise.rule(rule).run(functions) if isinstance(said, Finding)]
        assert says in " ".join(finding.why for finding in findings if not finding.ok), f"{title}: {findings}"
    messages = [says for _, says in wrong.WRONG.values()] + [says for _, _, says in wrong.MORE.values()]
    assert len(set(messages)) == len(messages)


# -- the planner -------------------------------------------------------------------------------------------------------


def test_with_the_statistics_of_one_row_a_limit_under_in_takes_more_rows_than_it_says() -> None:
    """What both exercises rely on. If this test fails, PostgreSQL has learned something."""
    rebuild(8)
    claim = text("""
        UPDATE backend_training.tasks SET status = 'processing' WHERE id IN (
            SELECT id FROM backend_training.tasks WHERE status = 'pending'
            ORDER BY priority, created_at + interval '1 second', id LIMIT 1 FOR UPDATE SKIP LOCKED)
    """)
    put(made_behind_the_planner(checks.THREE))
    with engine().begin() as connection:
        assert connection.execute(claim).rowcount == 3


def test_a_made_task_says_what_decides_about_it() -> None:
    task = Made(7, "LOW", 30, "processing", 1, lease=-5, retry=60)
    assert task.shown() == {
        "id": "7",
        "priority": "LOW",
        "status": "processing",
        "created": "30 s ago",
        "attempts": "1 of 3",
        "lease": "-5 s",
        "retry": "in 60 s",
    }
