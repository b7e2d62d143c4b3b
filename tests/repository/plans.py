"""The plan that PostgreSQL keeps for a statement of the repository, as a prepared statement."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from psycopg import sql
from sqlalchemy import Connection, event

from helpers.db import engine

Node = dict[str, Any]  # a step, as EXPLAIN gives it
Statement = tuple[str, list[str]]  # with $1, $2 … in it; and the values of these, as SQL

TYPES: dict[type, str] = {int: "bigint", timedelta: "interval", list: "bigint[]"}  # as psycopg names them, too


def first_statement(call: Callable[[], object]) -> Statement:
    """The first statement that the call sends."""
    sent: list[tuple[str, dict[str, Any]]] = []

    def note(_connection: object, _cursor: object, statement: str, parameters: dict[str, Any], *_: object) -> None:
        sent.append((statement, parameters))

    event.listen(engine(), "before_cursor_execute", note)
    try:
        call()
    finally:
        event.remove(engine(), "before_cursor_execute", note)
    statement, parameters = sent[0]
    for number, (name, value) in enumerate(parameters.items(), 1):
        kind = TYPES.get(type(value))
        statement = statement.replace(f"%({name})s", f"CAST(${number} AS {kind})" if kind else f"${number}")
    return statement, [sql.Literal(value).as_string() for value in parameters.values()]


def plan_of(connection: Connection, statement: Statement, cache_mode: str) -> list[Node]:
    """All steps of the plan. `cache_mode`: force_custom_plan knows the parameters, force_generic_plan does not."""
    text, values = statement
    connection.exec_driver_sql(f"SET plan_cache_mode = {cache_mode}")
    connection.exec_driver_sql(f"PREPARE claim AS {text}")
    found = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) EXECUTE claim ({', '.join(values)})").scalar_one()
    connection.exec_driver_sql("DEALLOCATE claim")
    connection.exec_driver_sql("RESET plan_cache_mode")
    return list(steps(found[0]["Plan"]))


def steps(plan: Node) -> Iterator[Node]:
    yield plan
    for child in plan.get("Plans", []):
        yield from steps(child)
