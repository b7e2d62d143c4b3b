"""What counts as not attempted is decided by the compiled function."""

import functools
from collections.abc import Callable
from typing import Any

import pytest

from helpers.checking.attempted import attempted

UNTOUCHED = [
    "...",
    "pass",
    "return",
    "return None",
    '"""What it does."""',
    '"""What it does."""\n    ...',
    "# write it here\n    ...",
    "raise NotImplementedError",
    "raise NotImplementedError()",
    'raise NotImplementedError("write me")',
    '"""What it does."""\n    raise NotImplementedError("write me")',
]
TOUCHED = [
    "return 2",
    "return ''",
    "return order",
    "return []",
    "x = 1",
    "raise ValueError",
    "print(mode)",
    "while True: pass",
    "return NotImplementedError",
    "if mode: return None",
]


def made(body: str) -> Callable[..., Any]:
    space: dict[str, Any] = {}
    exec(f"def simulate(mode, order):\n    {body}\n", space)
    return space["simulate"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("body", UNTOUCHED)
def test_an_empty_body_is_not_an_attempt(body: str) -> None:
    assert not attempted(made(body))
    assert not attempted(made(body))  # the cell was run again


@pytest.mark.parametrize("body", TOUCHED)
def test_any_other_body_is_one(body: str) -> None:
    assert attempted(made(body))


def test_what_is_no_plain_function_is_an_attempt() -> None:
    assert attempted(functools.partial(made("...")))
    assert attempted(len)
