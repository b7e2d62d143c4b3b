"""The answers that have passed their full check are kept below `.lab`, so that lesson 9 can use what a learner wrote.

An answer is code, as `courier.pack` takes it to another process. It is read by the user who wrote it, and trusted so.
"""

import base64
import json
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from helpers.errors import LabError
from helpers.paths import lab_home

TEXTS = {
    "unreadable": 'Your answer to the exercise "{name}" was kept and cannot be read any more: {reason}.',
    "other_python": "it was written under Python {version}",
}
PYTHON = "{}.{}".format(*sys.version_info)  # functions travel as bytecode, which differs between versions


def keep(name: str, packed: str) -> None:
    """Keep the packed functions as the answer to the exercise `name`, in place of an earlier answer."""
    path = _path(name)
    path.parent.mkdir(exist_ok=True)
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps({"python": PYTHON, "functions": packed}), encoding="utf-8")
    draft.replace(path)  # a reader sees the old answer or the new one, never a part


def kept(name: str) -> tuple[Callable[..., Any], ...]:
    """The functions of the answer to the exercise `name`, in the order of its task; none where nothing was kept.

    Raises LabError where an answer was kept and cannot be read any more.
    """
    path = _path(name)
    if not path.exists():
        return ()
    try:
        answer = json.loads(path.read_text(encoding="utf-8"))
        if answer["python"] != PYTHON:
            raise ValueError(TEXTS["other_python"].format(version=answer["python"]))
        functions: tuple[Callable[..., Any], ...] = pickle.loads(base64.b64decode(answer["functions"]))  # noqa: S301
    except Exception as error:  # whatever a module of the learner's raises when it is imported
        reason = str(error) or type(error).__name__
        raise LabError(TEXTS["unreadable"].format(name=name, reason=reason)) from None
    return functions


def _path(name: str) -> Path:
    return lab_home() / "answers" / f"{name}.json"
