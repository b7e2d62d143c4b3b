"""Lesson 6's exercise: a document that is created once, however often it is asked for."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from helpers.checking import database
from helpers.checking.calls import Outcome, article, as_code, call, shown
from helpers.checking.courier import pack
from helpers.checking.orders import error_of, explored, sqlstate
from helpers.checking.parts import Calling, Definition, Finding, Functions, Rule, texts_of
from helpers.checking.tasks import CLEAR, ROW
from helpers.exercises.effect import LESSON
from helpers.repository.idempotency import Json, KeyReusedError
from helpers.repository.lease import StaleClaimError, mark_as_completed
from helpers.repository.retry import claim_task
from helpers.schedules import Invariant, Offence, Program, Run, Violation, mark, no_error_but
from helpers.schedules.invariants import comes_back

TEXTS = texts_of(__package__)
WHY = TEXTS["why"]
SAYS = TEXTS["offences"]
EXPECTED = TEXTS["expected"]

CALL_SECONDS = 10.0
LEASE = 10.0  # seconds, of the workers below: the clock is a virtual one
MOST_DISTURBANCES = 2  # where all orders are too many: a crash and an expiry, say, or a crash and a switch
TASKS = 2_000  # each of them needs a key of its own

# The numbers of the documents begin again in each run, and not at 1: a number is no count.
EMPTY = """
    DELETE FROM document_service.documents; DELETE FROM document_service.requests;
    SELECT setval('document_service.documents_id_seq', 501, false);
"""
ONE_TASK = f"{CLEAR} {ROW.format(id=42)}; {EMPTY}"

# Documents and keys side by side: where one of the two is missing, its columns are NULL.
ROWS = """
    SELECT d.id AS document, d.title, r.idempotency_key AS key, r.answer
    FROM document_service.documents AS d
    FULL JOIN document_service.requests AS r ON r.answer ->> 'document_id' = d.id::text
    ORDER BY d.id, r.idempotency_key
"""
STORED = "SELECT idempotency_key, body, answer FROM document_service.requests ORDER BY idempotency_key"


def task(task_id: int, attempts: int = 1, lease_until: int = 0) -> dict[str, Any]:
    """A task as a claim returns it, its lease until so many minutes past noon of some day."""
    noon = datetime(2030, 1, 1, 12, lease_until, tzinfo=UTC)
    return {"id": task_id, "type": "generate_report", "attempts": attempts, "lease_until": noon}


# The key


def keys(functions: Functions) -> Iterator[Calling | Finding]:
    """One task in two attempts, and another task; then the first once more, and in another process."""
    request_key = functions[0]
    key_of_42 = None
    cases = {
        "first": task(42),
        "again": task(42),
        "attempt": task(42, attempts=2),
        "lease": task(42, attempts=2, lease_until=1),
        "other": task(43),
    }
    for name, given in cases.items():
        called = TEXTS["calls"][name]
        yield Calling(called, CALL_SECONDS)
        outcome = call(request_key, given)
        why = not_a_key(outcome)
        if not why and (outcome.value == key_of_42) != (name not in ("first", "other")):
            why = WHY[f"key_{name}"].format(key=shown(key_of_42), other=shown(outcome.value))
        yield Finding(not why, called, outcome.came, EXPECTED["keys"] if name == "first" else TEXTS["keys"][name], why)
        if why:
            return
        key_of_42 = key_of_42 or outcome.value
    called = TEXTS["calls"]["process"]
    yield Calling(called, CALL_SECONDS * 3)
    key = key_in_another_process(request_key)
    facts = {"key": shown(key_of_42), "other": shown(key)}
    why = "" if key == key_of_42 else WHY["key_process"].format(**facts)
    yield Finding(not why, called, shown(key), TEXTS["keys"]["process"], why)


def not_a_key(outcome: Outcome) -> str:
    """The sentence where this is no key at all, or an empty text."""
    if outcome.error is not None:
        return outcome.why_raised
    if not isinstance(outcome.value, str):
        return str(WHY["key_type"]).format(kind=article(type(outcome.value).__name__))
    return "" if outcome.value.strip() else str(WHY["key_empty"])


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


# One call after another

KEY, OTHER_KEY = "a", "b"
BODY, OTHER_BODY = {"title": "Report"}, {"title": "Invoice"}

SEVERAL = {"title": "Report", "pages": 3, "style": {"paper": "A4", "colour": False}}
OTHER_ORDER = {"style": {"colour": False, "paper": "A4"}, "pages": 3, "title": "Report"}
MORE = SEVERAL | {"copies": 2}
LESS = {"title": SEVERAL["title"], "pages": 3}
WITHIN = SEVERAL | {"style": {"paper": "A5", "colour": False}}

# name of the case → key, body, and what comes: a new document, the stored answer, or a refusal
ALONE: dict[str, tuple[str, Json, str]] = {
    "first": (KEY, BODY, "created"),
    "again": (KEY, BODY, "stored"),
    "other_key": (OTHER_KEY, BODY, "created"),
    "other_body": (KEY, OTHER_BODY, "refused"),
    "still": (KEY, BODY, "stored"),
}
BODIES: dict[str, tuple[str, Json, str]] = {
    "several": (KEY, SEVERAL, "created"),
    "order": (KEY, OTHER_ORDER, "stored"),
    "more": (KEY, MORE, "refused"),
    "less": (KEY, LESS, "refused"),
    "within": (KEY, WITHIN, "refused"),
}


@dataclass(frozen=True)
class State:
    """What the document service has committed."""

    documents: dict[int, str]  # id → title
    stored: dict[str, tuple[Any, Any]]  # key → body and answer

    @classmethod
    def now(cls) -> "State":
        documents = database.read("SELECT id, title FROM document_service.documents ORDER BY id")
        return cls(
            {int(str(row["id"])): str(row["title"]) for row in documents},
            {str(row["idempotency_key"]): (row["body"], row["answer"]) for row in database.read(STORED)},
        )


def requests(cases: Mapping[str, tuple[str, Json, str]], functions: Functions) -> Iterator[Calling | Finding]:
    """The calls of `cases`, one after the other, each with what the service has before and after it."""
    create_once = functions[1]
    database.set_rows(EMPTY)
    answers: dict[str, Json] = {}  # key → what the first call returned
    for name, (key, body, expected) in cases.items():
        called = TEXTS["bodies"].get(name) or f"create_once({as_code(key)}, {json.dumps(body)})"
        given = json.loads(json.dumps(body))
        before = State.now()
        yield Calling(called, CALL_SECONDS)
        outcome = call(create_once, key, given)
        after = State.now()
        if expected == "refused":
            why = wrong_refusal(body, outcome, before, after)
        else:
            why = wrong_answer(outcome, key, body, answers.get(key), before, after)
            answers.setdefault(key, outcome.value)
        if not why and given != body:
            why = WHY["changed_body"]
        yield Finding(not why, called, outcome.came, TEXTS["answers"][expected], why)
        if why:
            return


def wrong_answer(outcome: Outcome, key: str, body: Json, first: Json | None, before: State, after: State) -> str:
    """The sentence on what is wrong with a call that should be answered, or an empty text.

    `first`: the answer that this key got before; None where it is new.
    """
    answer, new = outcome.value, after.documents.keys() - before.documents.keys()
    if outcome.error is not None:
        return unexpected_error(outcome, other_order=body == OTHER_ORDER and first is not None)
    if database.open_transactions():
        return str(WHY["open"])
    if first is not None and new:
        return str(WHY["created_again" if key in after.stored else "ignored"])
    if answer is None:
        return str(WHY["none" if first is None else none_again(after.stored.get(key))])
    if not isinstance(answer, Mapping):
        return str(WHY["not_mapping"]).format(kind=article(type(answer).__name__))
    if missing := [part for part in ("document_id", "title") if part not in answer]:
        return str(WHY["keys"]).format(key=missing[0])
    if first is not None:
        return wrong_repetition(answer, first, after.stored.get(key))
    if len(new) != 1:
        reason = "many" if new else "existing" if answer["document_id"] in list(before.documents) else "nothing"
        return str(WHY[reason]).format(count=len(new))
    [created] = new
    facts = {"document_id": created, "title": body["title"]}
    if dict(answer) != facts or after.documents[created] != body["title"]:
        return str(WHY["facts"]).format(document=created, title=after.documents[created], expected=shown(facts))
    return ""


def none_again(stored: tuple[Any, Any] | None) -> str:
    return "answer_not_kept" if stored and stored[1] is None else "none_again"


def wrong_repetition(answer: Any, first: Json, stored: tuple[Any, Any] | None) -> str:
    if dict(answer) != first:
        return str(WHY["other_answer"]).format(first=shown(first))
    if stored is None:
        return str(WHY["no_key"])
    return "" if stored[1] == first else str(WHY["no_answer"]).format(stored=shown(stored[1]))


def unexpected_error(outcome: Outcome, other_order: bool) -> str:
    """Why a call that should be answered ended with an exception."""
    if isinstance(outcome.error, KeyReusedError):
        return str(WHY["same_body" if other_order else "refused_wrongly"])
    known = {"23505": "violation", "25P02": "failed_transaction", "23502": "not_null"}
    reason = known.get(sqlstate(outcome.error) or type(outcome.error).__name__)
    return f"{outcome.why_raised.rstrip('.')}. {WHY[reason]}" if reason else outcome.why_raised


def wrong_refusal(body: Json, outcome: Outcome, before: State, after: State) -> str:
    """The sentence on what is wrong with a call that should be refused, or an empty text."""
    created = after.documents.keys() - before.documents.keys()
    if outcome.error is None:
        reason = "accepted_created" if created else "accepted" if body == OTHER_BODY else "accepted_part"
        return str(WHY[reason]).format(body=json.dumps(body))
    if not isinstance(outcome.error, KeyReusedError):
        return str(WHY["kind"]).format(kind=type(outcome.error).__name__)
    if database.open_transactions():
        return str(WHY["open"])
    if created:
        return str(WHY["refused_created"])
    return "" if after == before else str(WHY["refused_changed"])


# Several callers at the same time


def caller(create_once: Callable[[str, Json], Any], body: Json) -> list[Any]:
    """One request. Returns the answers that it got."""
    answer = create_once(KEY, dict(body))
    mark("has its answer")
    return [answer]


def worker(request_key: Callable[[Any], str], create_once: Callable[[str, Json], Any]) -> list[Any]:
    """One worker of the lesson. Returns the answers that it got: none, where no task was free."""
    task = claim_task(LEASE)
    if task is None:
        return []
    answer = create_once(request_key(task), {"title": f"Report of task #{task['id']}"})
    mark("has its answer")
    with suppress(StaleClaimError):
        mark_as_completed(task["id"], task["attempts"])
    return [answer]


def _one_document(run: Run) -> Offence | None:
    documents = [row for row in run.rows if row["document"] is not None]
    if len(documents) > 1:
        return Offence(SAYS["documents"].format(count=len(documents)), tuple(documents))
    return None


def _stored_answer(run: Run) -> Offence | None:
    stored = [row["answer"] for row in run.rows if row["document"] is not None and row["answer"] is not None]
    for who, result in sorted(run.results.items()):
        for answer in result if isinstance(result, list) else []:
            if not isinstance(answer, Mapping) or dict(answer) not in stored:
                facts = {"who": who, "answer": shown(answer), "stored": shown(stored[0]) if stored else SAYS["nothing"]}
                return Offence(SAYS["answer"].format(**facts), tuple(run.rows))
    return None


def _all_or_nothing(run: Run) -> Offence | None:
    for row in run.rows:
        for part in ("key", "answer", "document"):
            if row[part] is None:
                return Offence(SAYS[f"no_{part}"].format(**row), (row,))
    return None


ONE_DOCUMENT = Invariant(SAYS["documents_name"], _one_document)
STORED_ANSWER = Invariant(SAYS["answer_name"], _stored_answer)
ALL_OR_NOTHING = Invariant(SAYS["all_name"], _all_or_nothing)
INVARIANTS = (ONE_DOCUMENT, STORED_ANSWER, ALL_OR_NOTHING)


def refusals(titles: Mapping[str, str]) -> Invariant:
    """Refused is who came with another body than the one whose document exists, and nobody else."""

    def check(run: Run) -> Offence | None:
        created = {row["title"] for row in run.rows if row["document"] is not None}
        for who, result in sorted(run.results.items()):
            refused = isinstance(result, KeyReusedError)
            if refused and (titles[who] in created or not created):
                return Offence(SAYS["refused"].format(who=who), tuple(run.rows))
            if isinstance(result, list) and titles[who] not in created:
                return Offence(SAYS["accepted"].format(who=who), tuple(run.rows))
        return None

    return Invariant(SAYS["refused_name"], check)


def two_calls(other_body: Json, crashes: int, functions: Functions) -> Program:
    """Two calls with one key, the second of them with `other_body`, which may be the same."""
    one = partial(caller, functions[1], BODY)
    other = one if other_body == BODY else partial(caller, functions[1], other_body)
    titles = {"A": BODY["title"], "B": other_body["title"]}
    return Program(
        actors={"A": one, "B": other},
        reset=EMPTY,
        invariants=(refusals(titles), *INVARIANTS, no_error_but(KeyReusedError)),
        crashes=crashes,
        rows=ROWS,
        ledger=None,
    )


def dying_call(functions: Functions) -> Program:
    """One call that may crash, and nobody who repeats it: what has it left behind?"""
    program = two_calls(BODY, 1, functions)
    return replace(program, actors={"A": program.actors["A"]})


def two_workers(functions: Functions) -> Program:
    one = partial(worker, *functions)
    return Program(
        actors={"A": one, "B": one},
        reset=ONE_TASK,
        invariants=(*INVARIANTS, no_error_but()),
        expiries=1,
        crashes=1,
        rows=ROWS,
        ledger=None,
    )


ERRORS = {
    "23505": "looked",
    "25P02": "failed_transaction",
    "40001": "snapshot",
    "40P01": "deadlock",
    "55P03": "locked",
    "TooManyStatements": "endless",
    "TimeoutError": "pool",
    "KeyReusedError": "refused_wrongly",
}
REASONS = {ALL_OR_NOTHING.name: "half", comes_back.name: "comes_back", SAYS["refused_name"]: "mixed"}


def why(violation: Violation) -> str:
    run, error = violation.run, error_of(violation)
    if violation.invariant == no_error_but().name and error is not None:
        known = ERRORS.get(sqlstate(error) or type(error).__name__)
        return str(WHY[known or ("stuck" if run.crashed else "beside")])
    if violation.invariant == ONE_DOCUMENT.name:
        return str(WHY[reason_of_two_documents(run)])
    if violation.invariant == STORED_ANSWER.name:
        return str(WHY[reason_of_another_answer(run)])
    return str(WHY.get(REASONS.get(violation.invariant, ""), ""))


def reason_of_two_documents(run: Run) -> str:
    if len({row["key"] for row in run.rows if row["key"] is not None}) > 1:
        return "twice_keys"
    if run.crashed:
        return "twice_crash"
    if in_two_transactions(run):
        return "twice_two"
    locked = any(step.call and "FOR UPDATE" in step.call.text.upper() for step in run.steps)
    return "twice_locked" if locked else "twice"


def reason_of_another_answer(run: Run) -> str:
    if [None] in run.results.values():
        return "stuck" if run.crashed else "early"
    return "another"


def in_two_transactions(run: Run) -> bool:
    """Whether an actor committed changes of the service's tables more than once."""
    commits: Counter[str | None] = Counter()
    changing: set[str | None] = set()
    for step in run.steps:
        if step.call is None or step.what not in ("did", "continues"):
            continue
        if re.search(r"(INSERT INTO|UPDATE) document_service", step.call.text, re.IGNORECASE):
            changing.add(step.actor)
        elif step.call.kind == "commit" and step.actor in changing:
            commits[step.actor] += 1
            changing.remove(step.actor)
    return max(commits.values(), default=0) > 1


def in_orders(
    name: str, made: Callable[[Functions], Program], needs: Sequence[int] = (), max_switches: int | None = None
) -> Rule:
    def run(functions: Functions) -> Iterator[Calling | Finding]:
        yield from explored(
            made(functions), expected=EXPECTED[name], why=why, prefer=INVARIANTS, max_switches=max_switches
        )

    return Rule(name, run, seconds=400.0, needs=frozenset(needs) or None, program=made)


KEY_ALONE, CREATE_ALONE = frozenset({0}), frozenset({1})

EXERCISE = Definition(
    package=__package__,
    lesson=LESSON,
    functions=("request_key", "create_once"),
    mini=(
        Rule("keys", keys, needs=KEY_ALONE),
        Rule("alone", partial(requests, ALONE), needs=CREATE_ALONE),
        in_orders("same", partial(two_calls, BODY, 0), needs=[1]),
        in_orders("other", partial(two_calls, OTHER_BODY, 0), needs=[1]),
        in_orders("repeated", partial(two_calls, BODY, 1), needs=[1], max_switches=1),
        in_orders("dying", dying_call, needs=[1]),
    ),
    full=(
        Rule("many_keys", many_keys, needs=KEY_ALONE),
        Rule("bodies", partial(requests, BODIES), needs=CREATE_ALONE),
        in_orders("crash", partial(two_calls, BODY, 1), needs=[1], max_switches=MOST_DISTURBANCES),
        in_orders("other_crash", partial(two_calls, OTHER_BODY, 1), needs=[1], max_switches=MOST_DISTURBANCES),
        in_orders("workers", two_workers, max_switches=MOST_DISTURBANCES),
    ),
    database=True,
    scripts=("06_idempotent_effects/03_document_service.sql",),
)
