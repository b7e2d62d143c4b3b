"""The process of a check: `python -m helpers.checking.child`, started by `courier`.

It reads an order as one line of JSON, with the learner's functions pickled in it, and answers with lines of JSON; then
it waits for the next order. What the functions print goes to the standard error output, so that it cannot be taken for
an answer.
"""

import base64
import faulthandler
import json
import os
import pickle
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

from helpers.checking.parts import Calling, Definition, Finding, Functions, definition_of
from helpers.errors import LabError
from helpers.processes.parent import end_with_parent

TEXTS = {
    "load": "Your function could not be taken to the process that checks it: {reason}",
}


def main() -> None:
    end_with_parent()
    orders = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115, PTH123 - it is open as long as the process
    send = _sender(answers)
    for line in orders:
        order = json.loads(line)
        # Where nobody is left who could end this process, it ends by itself; in C, so no loop in Python hinders it.
        faulthandler.dump_traceback_later(order["seconds"], exit=True)
        try:
            functions = pickle.loads(base64.b64decode(order["functions"]))  # noqa: S301 - from the parent, our own user
        except BaseException as error:
            send("error", text=TEXTS["load"].format(reason=f"{type(error).__name__}: {error}"))
        else:
            _answer(order, functions, send)
    os._exit(0)  # a thread or an open session of a learner's does not hold us up


def _answer(order: dict[str, Any], functions: Functions, send: Callable[..., None]) -> None:
    from helpers.diagnosis import DATABASE_ERRORS, explain

    exercise = definition_of(order["exercise"])
    try:
        if order["schedule"] is not None:
            _replay(exercise, functions, order, send)
        else:
            _check(exercise, functions, order, send)
    except LabError as error:
        send("error", text=str(error))
    except DATABASE_ERRORS as error:
        send("error", text=explain(error))


def _check(exercise: Definition, functions: Functions, order: dict[str, Any], send: Callable[..., None]) -> None:
    if exercise.database:
        from helpers.checking.database import build

        build(exercise.lesson, exercise.scripts)
    for name in order["rules"]:
        rule = exercise.rule(name)
        send("rule", name=name, seconds=rule.seconds)
        ok = True
        for said in rule.run(functions):
            if isinstance(said, Calling):
                send("calling", what=said.what, seconds=said.seconds)
            else:
                send("finding", **said.as_data())
                ok = ok and said.ok
        if not ok:
            break
    send("end")


def _replay(exercise: Definition, functions: Functions, order: dict[str, Any], send: Callable[..., None]) -> None:
    from helpers.checking.database import build
    from helpers.checking.orders import replayed

    rule = exercise.rule(order["rules"][0])
    assert rule.program is not None
    build(exercise.lesson, exercise.scripts)
    send("rule", name=rule.name, seconds=rule.seconds)
    finding: Finding = replayed(rule.program(functions), order["schedule"])
    send("finding", **finding.as_data())
    send("end")


def _sender(answers: BinaryIO) -> Callable[..., None]:
    def send(kind: str, **data: object) -> None:
        answers.write(json.dumps({"kind": kind, **data}).encode() + b"\n")
        answers.flush()

    return send


if __name__ == "__main__":
    main()
