"""The key: the same for one task, whatever the attempt, and another for each other task."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

from helpers.checking import Calling, Finding, Functions, Outcome, article, call, shown, texts_of, tried
from helpers.checking.calls import CALL_SECONDS
from helpers.checking.courier import pack

TEXTS = texts_of(__package__)
WHY: dict[str, str] = TEXTS["why"]
EXPECTED = TEXTS["expected"]
TASKS = 2_000  # each of them needs a key of its own


def task(task_id: int, attempts: int = 1, lease_until: int = 0) -> dict[str, Any]:
    """A task as a claim returns it, its lease until so many minutes past noon of some day."""
    noon = datetime(2030, 1, 1, 12, lease_until, tzinfo=UTC)
    return {"id": task_id, "type": "generate_report", "attempts": attempts, "lease_until": noon}


CASES = {
    "first": task(42),
    "again": task(42),
    "attempt": task(42, attempts=2),
    "lease": task(42, attempts=2, lease_until=1),
    "other": task(43),
}


def keys(functions: Functions) -> Iterator[Calling | Finding]:
    """One task in two attempts, and another task; then the first once more, and in another process."""
    request_key, key_of_42 = functions[0], None
    for name, given in CASES.items():
        wrong, called = partial(wrong_key, name, key_of_42), TEXTS["calls"][name]
        expected = EXPECTED["keys"] if name == "first" else TEXTS["keys"][name]
        outcome = yield from tried(called, request_key, given, wrong=wrong, expected=expected)
        if outcome is None:
            return
        key_of_42 = key_of_42 or outcome.value
    called = TEXTS["calls"]["process"]
    yield Calling(called, CALL_SECONDS * 3)
    key = key_in_another_process(request_key)
    why = "" if key == key_of_42 else WHY["key_process"].format(key=shown(key_of_42), other=shown(key))
    yield Finding(not why, called, shown(key), TEXTS["keys"]["process"], why)


def wrong_key(name: str, key_of_42: object, outcome: Outcome) -> str:
    if why := not_a_key(outcome):
        return why
    if (outcome.value == key_of_42) == (name not in ("first", "other")):
        return ""
    return WHY[f"key_{name}"].format(key=shown(key_of_42), other=shown(outcome.value))


def not_a_key(outcome: Outcome) -> str:
    """The sentence where this is no key at all, or an empty text."""
    if outcome.error is not None:
        return outcome.why_raised
    if not isinstance(outcome.value, str):
        return WHY["key_type"].format(kind=article(type(outcome.value).__name__))
    return "" if outcome.value.strip() else WHY["key_empty"]


IN_ANOTHER_PROCESS = """
import base64, contextlib, json, pickle, sys
with contextlib.redirect_stdout(sys.stderr):
    [function] = pickle.loads(base64.b64decode(sys.stdin.read()))
    key = function()
json.dump(key, sys.stdout, default=repr)
"""


def key_in_another_process(request_key: Callable[[Any], object]) -> object:
    """The key of task 42 in a process whose hash() begins with another seed, as in every process that is started."""
    ended = subprocess.run(
        [sys.executable, "-c", IN_ANOTHER_PROCESS],
        input=pack([partial(request_key, task(42))]),
        env=os.environ | {"PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
    )
    return json.loads(ended.stdout) if ended.returncode == 0 else None


def many_keys(functions: Functions) -> Iterator[Calling | Finding]:
    """Many tasks: no two of them share a key."""
    yield Calling("", CALL_SECONDS)
    owners: dict[object, int] = {}
    why = ""
    for task_id in range(1, TASKS + 1):
        outcome = call(functions[0], task(task_id))
        why = not_a_key(outcome)
        if not why and outcome.value in owners:
            why = WHY["key_shared"].format(one=owners[outcome.value], other=task_id, key=shown(outcome.value))
        if why:
            break
        owners[outcome.value] = task_id
    yield Finding(not why, "", TEXTS["keys"]["many"].format(count=len(owners)), EXPECTED["many_keys"], why)
