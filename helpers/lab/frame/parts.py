"""Shows long code as it stands in its module, but not all of it: parts of a statement, and bodies of functions."""

import ast
import inspect
import re
from collections.abc import Callable
from textwrap import dedent
from types import ModuleType
from typing import Any

from helpers.errors import LabError
from helpers.lab.frame.show import Listing

TEXTS = {"unknown": '{module} has no statement with a part "{name}". The parts are: {known}.'}

# `high AS MATERIALIZED (` up to its closing bracket, with the comment above it; and the statement's end.
PART = re.compile(r"^((?:    --[^\n]*\n)*)    (\w+) AS (?:MATERIALIZED )?\($.*?^    \)", re.DOTALL | re.MULTILINE)
END = re.compile(r"^(?:    --[^\n]*\n)*    SELECT\b.*?(?=\"\"\")", re.DOTALL | re.MULTILINE)


def part(module: ModuleType, *names: str) -> Listing:
    """Those parts of the module's WITH statements that are called `names`, as they are written there.

    `SELECT` is the end of the first statement. Raises LabError, which lists the parts, where there is none of a name.
    """
    source = inspect.getsource(module)
    known = {found[2]: found[0] for found in PART.finditer(source)}
    if end := END.search(source):
        known["SELECT"] = end[0].rstrip()
    for name in names:
        if name not in known:
            raise LabError(TEXTS["unknown"].format(module=module.__name__, name=name, known=", ".join(known)))
    return Listing("\n\n".join(dedent(known[name]) for name in names), "sql")


def body(*functions: Callable[..., Any]) -> Listing:
    """The code of the functions without their docstrings and without the checks of their arguments.

    A check is an `if` at the beginning that does nothing but raise.
    """
    bodies = [_without_preamble(dedent(inspect.getsource(function))) for function in functions]
    return Listing("\n\n\n".join(bodies), "python")


def _without_preamble(source: str) -> str:
    [function] = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    statements = function.body[1:] if ast.get_docstring(function) is not None else function.body
    while isinstance(statements[0], ast.If) and isinstance(statements[0].body[0], ast.Raise):
        statements = statements[1:]
    lines = source.splitlines()
    return "\n".join(lines[: function.body[0].lineno - 1] + lines[statements[0].lineno - 1 :])
