"""The order of exercise 7, and the known mistakes that are told apart by it."""

from itertools import combinations
from typing import Any

import pytest

from helpers.checking.queues import made
from helpers.db import engine
from helpers.exercises.aging import order as aging
from helpers.exercises.catalogue import exercise_texts
from helpers.lab import rebuild
from helpers.repository import priority


def put(sql: str) -> None:
    with engine().begin() as connection:
        for statement in sql.split(";"):
            connection.exec_driver_sql(statement)


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
