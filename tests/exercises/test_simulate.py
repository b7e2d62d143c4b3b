"""The reference of exercise 1 is what real sessions do in PostgreSQL."""

from collections.abc import Iterator

import pytest

from helpers.exercises.simulate.checks import EXAMPLES, claims_in_database, orders, reference, sample
from helpers.lab import rebuild


@pytest.fixture(scope="module", autouse=True)
def tables() -> Iterator[None]:
    rebuild()
    yield


@pytest.mark.parametrize(("workers", "count"), [("A", 1), ("AB", 6), ("ABC", 90), ("ABCD", 2520)])
def test_all_orders_are_there(workers: str, count: int) -> None:
    assert len(set(orders(workers))) == len(orders(workers)) == count


def test_the_table_of_the_course() -> None:
    table = {("naive", "ABAB"): 2, ("atomic", "ABAB"): 1, ("naive", "AABB"): 1}
    table |= {("naive", "ABCABC"): 3, ("atomic", "ABCABC"): 1, ("naive", "ABCDDCBA"): 4, ("atomic", "ABCDDCBA"): 1}
    assert {(mode, order): reference(mode, order) for mode, order in EXAMPLES} == table


@pytest.mark.parametrize("mode", ["naive", "atomic"])
@pytest.mark.parametrize("order", sample())
def test_the_database_counts_like_the_reference(mode: str, order: str) -> None:
    assert claims_in_database(mode, order) == reference(mode, order)
