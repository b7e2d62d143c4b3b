"""Whether a function is still as it was given out: without a body of its own."""

from collections.abc import Callable
from functools import cache
from types import CodeType
from typing import Any

BODIES = (
    "...",
    "pass",
    "return",
    "raise NotImplementedError",
    "raise NotImplementedError()",
    'raise NotImplementedError("")',
)


def attempted(function: Callable[..., Any]) -> bool:
    """False where the function has no body but dots, `pass`, a docstring, or `raise NotImplementedError`.

    It compares the compiled code, so it does not matter where the function stands, how it is commented, and how often
    its cell was run.
    """
    code = getattr(function, "__code__", None)
    return code is None or _essence(code) not in _untouched()


@cache
def _untouched() -> frozenset[object]:
    """The essence of every empty body, compiled by the Python that runs: bytecode differs between versions."""
    essences = set()
    for body in BODIES:
        for docstring in ("", '"docstring"; '):
            space: dict[str, Any] = {}
            exec(f"def untouched(): {docstring}{body}", space)  # noqa: S102 - the text stands above
            essences.add(_essence(space["untouched"].__code__))
    return frozenset(essences)


def _essence(code: CodeType) -> object:
    """What the code does: without names of variables and lines, and whatever its texts say."""
    constants = tuple("text" if isinstance(value, str) else repr(value) for value in code.co_consts)
    return code.co_code, code.co_names, constants
