"""What PostgreSQL reads for a statement, step by step; and a VACUUM that says what it had to leave."""

import io
import re
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from textwrap import fill
from typing import Any

from IPython.display import display
from psycopg.errors import Diagnostic
from psycopg.sql import Literal
from sqlalchemy import text

from helpers.db import engine
from helpers.diagnosis import readable_errors
from helpers.lab.experiments.plan import Node, step_name, steps
from helpers.lab.frame.facts import wait_until
from helpers.views.bars import bars

ANALYZE = "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT JSON) "
VACUUM = "VACUUM (VERBOSE) backend_training.tasks"
KEPT = re.compile(r"(\d+) are dead but not yet removable")
LABEL_WIDTH = 10  # letters that have room beside a bar
QUALIFIER = re.compile(r"\b[a-z_]\w*\.(?=\w)")
MANY = 20  # times as many pages: no version of the server, and no other layout of the rows, makes up for that

# Autovacuum's ANALYZE has a snapshot too, and what it may still see stays.
NO_AUTOVACUUM = """
    NOT EXISTS (SELECT FROM pg_stat_activity
                WHERE backend_type = 'autovacuum worker' AND datname = current_database())
"""

TEXTS = {
    "heading": "rows given  rows removed  step",
    "row": "{given:>10}  {removed:>12}  {indent}{step}",
    "using": "{step} using {index}",
    "sort": "{step} by {keys}",
    "vacuum": "VACUUM ran. Dead rows that it had to leave: {kept:,}",
    "title": "Page accesses of one claim",
    "times": "{times} times the fewest",
    "few": "{name}: few.",
    "many": "{name}: more than {times} times as many.",
}


@dataclass(frozen=True)
class Explained:
    """What one run of a statement read: `rows` of the table, also those that a filter removed; and `pages`.

    `pages` is how often it accessed a page of 8 kB, of the table or of an index: the same page twice counts twice.
    Shown, it is the plan: how many rows each step gave to the one above it, and how many its filter removed. The
    accesses are not shown, since they differ a little from run to run.
    """

    plan: Node = field(repr=False)

    @property
    def rows(self) -> int:
        return sum(given(node) + removed(node) for _, node in steps(self.plan) if "Relation Name" in node)

    @property
    def pages(self) -> int:
        return int(self.plan["Shared Hit Blocks"] + self.plan["Shared Read Blocks"])

    def __repr__(self) -> str:
        lines = [TEXTS["heading"]]
        for depth, node in steps(self.plan):
            lines.append(
                TEXTS["row"].format(
                    given=f"{given(node):,}",
                    removed=f"{removed(node):,}" if "Filter" in node else "",
                    indent="  " * depth,
                    step=described(node),
                )
            )
        return "\n".join(lines)


def explain(sql: str, **parameters: Any) -> Explained:
    """Run one statement under EXPLAIN ANALYZE, roll it back, and return what it read."""
    with readable_errors(), engine().connect() as connection:
        plan: Node = connection.execute(text(ANALYZE + sql), parameters).scalar_one()[0]["Plan"]
        connection.rollback()
    return Explained(plan)


def explain_generic(sql: str, *values: str) -> Explained:
    """As `explain`, under a plan that is made without the values: `$1`, `$2` … in the SQL are parameters."""
    arguments = f"({', '.join(Literal(value).as_string() for value in values)})" if values else ""
    with readable_errors(), engine().connect() as connection:
        try:
            connection.exec_driver_sql("SET plan_cache_mode = force_generic_plan")
            connection.exec_driver_sql(f"PREPARE explained AS {sql}")
            plan: Node = connection.exec_driver_sql(f"{ANALYZE} EXECUTE explained {arguments}").scalar_one()[0]["Plan"]
        finally:
            connection.rollback()  # now, and not when the server notices the end of the session: rows are locked
            connection.invalidate()  # what was prepared lasts as long as the session
    return Explained(plan)


def vacuum() -> int:
    """Run VACUUM on `tasks`. Print and return how many dead rows it had to leave, since somebody may still see them."""
    messages: list[str] = []

    def note(diagnostic: Diagnostic) -> None:
        messages.append(diagnostic.message_primary or "")

    with redirect_stdout(io.StringIO()):
        wait_until(NO_AUTOVACUUM)
    with readable_errors(), engine().connect() as connection:
        connection = connection.execution_options(isolation_level="AUTOCOMMIT")
        driver = connection.connection.driver_connection
        assert driver is not None
        driver.add_notice_handler(note)
        try:
            connection.execute(text(VACUUM))
        finally:
            driver.remove_notice_handler(note)
    kept = sum(int(count) for message in messages for count in KEPT.findall(message))
    print(TEXTS["vacuum"].format(kept=kept))
    return kept


def pages_chart(runs: Mapping[str, Explained]) -> None:
    """Draw how often each of the runs accessed a page, and a line at MANY times the fewest.

    Below the picture stands the same in words, without the numbers.
    """
    pages = {name: run.pages for name, run in runs.items()}
    fewest = min(pages.values())
    chart = bars(
        {fill(name, LABEL_WIDTH): count for name, count in pages.items()},
        wanted=MANY * fewest,
        title=TEXTS["title"],
        wanted_label=TEXTS["times"].format(times=MANY),
        description="\n".join(in_words(name, count, fewest) for name, count in pages.items()),
        notes={},
    )
    data, metadata = chart._repr_mimebundle_()
    display({"image/png": data["image/png"]}, metadata=metadata, raw=True)
    print(chart.description)


def in_words(name: str, pages: int, fewest: int) -> str:
    return TEXTS["many" if pages > MANY * fewest else "few"].format(name=name, times=MANY)


def given(node: Node) -> int:
    """Rows that a step gave to the one above it, over all its runs."""
    return int(node["Actual Rows"] * node["Actual Loops"])


def removed(node: Node) -> int:
    return int(node.get("Rows Removed by Filter", 0) * node["Actual Loops"])


def described(node: Node) -> str:
    """`Index Scan on tasks using tasks_in_claim_order`, `Sort by priority, created_at, id`: no table, no schema."""
    step = step_name(node)
    if "Index Name" in node:
        step = TEXTS["using"].format(step=step, index=node["Index Name"])
    if "Sort Key" in node:
        keys = [QUALIFIER.sub("", key) for key in node["Sort Key"]]
        step = TEXTS["sort"].format(step=step, keys=", ".join(keys))
    return step
