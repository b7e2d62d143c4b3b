"""The rules of exercise 6 that other rules stand before: each finds its fault by itself."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text

from helpers.checking.courier import pack, run_check
from helpers.checking.database import check_url
from helpers.db import SessionFactory
from helpers.exercises.effect import wrong
from helpers.exercises.effect.answers import create_once, request_key
from helpers.exercises.effect.checks import EXERCISE
from helpers.servers.server import connect

Functions = tuple[Callable[..., Any], ...]


def why(functions: Functions, *rules: str) -> str:
    """What these rules alone say about the functions."""
    answer = run_check(EXERCISE, pack(functions), rules, expected=lambda _: "", database=True)
    assert answer.error is None
    return " ".join(finding.why for _, finding in answer.findings if not finding.ok)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("functions", "rule", "says"),
    [
        ((wrong.key_of_the_attempt, create_once), "workers", "The same task asked with two keys"),
        ((request_key, wrong.key_first_under_a_lock), "workers", "is there, and it has no answer"),
        ((request_key, wrong.document_first_under_a_lock), "crash", "nobody knows that this request was done"),
        ((request_key, wrong.document_first_under_a_lock), "other_crash", "nobody knows that this request was done"),
    ],
    ids=["two keys", "a stuck key", "a crash", "a crash, another body"],
)
def test_a_rule_that_others_stand_before_finds_its_fault_alone(functions: Functions, rule: str, says: str) -> None:
    assert says in why(functions, rule)


def makes_a_table_of_its_own(key: str, body: dict[str, Any]) -> Any:
    with SessionFactory.begin() as session:
        session.execute(text("CREATE TABLE IF NOT EXISTS document_service.notes ()"))
    return create_once(key, body)


def test_what_a_function_has_left_in_the_service_is_gone_in_the_next_check() -> None:
    for handler, left in ((makes_a_table_of_its_own, "document_service.notes"), (create_once, None)):
        assert why((request_key, handler), "alone") == ""
        with connect(check_url()) as connection:
            assert connection.execute("SELECT to_regclass('document_service.notes')::text").fetchone() == (left,)
