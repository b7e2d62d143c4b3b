"""A statement and its answer in words, apart from any session."""

from typing import Any, cast

import psycopg
import pytest
from psycopg.errors import Diagnostic

from helpers.db import engine
from helpers.lab.actors.answers import of_error, of_result, shown


@pytest.fixture
def connection() -> Any:
    with engine().connect() as connection:
        driver = cast(psycopg.Connection[Any], connection.connection.driver_connection)
        yield driver
        driver.rollback()


def test_values_stand_in_place_of_their_names_for_the_eye() -> None:
    sql = """
        SELECT :word, :number, :nothing, '1 s'::interval
        FROM tasks WHERE application_name = 'session:A' AND id = :other
    """
    values = {"word": "it's", "number": 42, "nothing": None}
    assert shown(sql, values) == (
        "SELECT 'it''s', 42, NULL, '1 s'::interval FROM tasks WHERE application_name = 'session:A' AND id = :other"
    )


@pytest.mark.parametrize(
    ("sql", "line"),
    [
        ("SELECT 42", "42"),
        ("SELECT NULL", "NULL"),
        ("SELECT 1, 2", "1 row"),
        ("SELECT generate_series(1, 3)", "3 rows"),
        ("SELECT 1 WHERE false", "no rows"),
        ("CREATE TEMPORARY TABLE t ON COMMIT DROP AS SELECT 1", "SELECT 1"),
        ("SET LOCAL lock_timeout = '1s'", "SET"),
    ],
)
def test_an_answer_in_one_line(connection: psycopg.Connection[Any], sql: str, line: str) -> None:
    assert of_result(connection.execute(sql.encode())).line == line


def test_changed_rows_are_counted(connection: psycopg.Connection[Any]) -> None:
    connection.execute("CREATE TEMPORARY TABLE t (n int) ON COMMIT DROP")
    assert of_result(connection.execute("INSERT INTO t VALUES (1)")).line == "1 row changed"
    assert of_result(connection.execute("INSERT INTO t VALUES (2)")).outcome == "1 row changed"
    assert of_result(connection.execute("UPDATE t SET n = n + 1")).line == "2 rows changed"


def test_an_error_has_the_name_that_the_manual_gives_it(connection: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.Error) as caught:
        connection.execute("SELECT 1 / 0")
    answer = of_error(caught.value)
    assert (answer.outcome, answer.line) == ("22012", "22012 division_by_zero")
    assert isinstance(caught.value.diag, Diagnostic)


def test_an_error_without_a_code_is_the_loss_of_the_connection() -> None:
    assert of_error(psycopg.OperationalError("consuming input failed")).line == "the connection is lost"
    assert of_error(psycopg.ProgrammingError("no such thing\nat all")).line == "no such thing"
