"""The plan that PostgreSQL made for a statement, and how many times it ran each step."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import text

from helpers.db import engine
from helpers.diagnosis import readable_errors

TEXTS = {
    "heading": "times run  step",
    "row": "{times:>9}  {indent}{step}",
    "alone": "{step} (on its own)",
}

ANALYZE = "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, FORMAT JSON) "

Node = dict[str, Any]  # a step as EXPLAIN gives it: its kind, how many times it ran, and the steps that feed it


def plan(sql: str, **parameters: Any) -> None:
    """Run one statement under EXPLAIN ANALYZE, roll it back, and print the steps of its plan.

    Beside each step stands how many times it ran. Costs, times and aliases are left out, since they vary.
    """
    with readable_errors(), engine().connect() as connection:
        root: Node = connection.execute(text(ANALYZE + sql), parameters).scalar_one()[0]["Plan"]
        connection.rollback()
    print(TEXTS["heading"])
    for depth, node in steps(root):
        print(TEXTS["row"].format(times=node["Actual Loops"], indent="  " * depth, step=step_name(node)))


def steps(node: Node, depth: int = 0) -> Iterator[tuple[int, Node]]:
    """The step and all that feed it, each with its depth below the first."""
    yield depth, node
    for child in node.get("Plans", []):
        yield from steps(child, depth + 1)


def step_name(node: Node) -> str:
    """`Nested Loop Semi Join`, `Seq Scan on tasks`: the words of EXPLAIN's own text."""
    words = [node["Operation"] if node["Node Type"] == "ModifyTable" else node["Node Type"]]
    if node.get("Join Type", "Inner") != "Inner":
        words = [words[0].removesuffix(" Join"), node["Join Type"], "Join"]
    if target := node.get("Relation Name") or node.get("CTE Name"):
        words += ["on", target]
    step = " ".join(words)
    return TEXTS["alone"].format(step=step) if node.get("Parent Relationship") == "InitPlan" else step
