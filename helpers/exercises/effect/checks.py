"""Lesson 6's exercise: a document that is created once, however often it is asked for."""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from helpers.checking import Definition, Orders, Rule, Situation, shown
from helpers.checking.orders import error_of, sqlstate
from helpers.checking.rules import locks
from helpers.checking.situations import ERRORS, FEW
from helpers.checking.tasks import LEASE, ONE_TASK
from helpers.exercises.effect import LESSON
from helpers.exercises.effect.calls import ALONE, BODIES, BODY, EMPTY, KEY, OTHER_BODY, TEXTS, requests
from helpers.exercises.effect.keys import keys, many_keys
from helpers.repository.idempotency import Json, KeyReusedError
from helpers.repository.lease import StaleClaimError, mark_as_completed
from helpers.repository.retry import claim_task
from helpers.schedules import Invariant, Offence, Run, Violation, invariant, mark, no_error_but

SAYS = TEXTS["offences"]

RequestKey: TypeAlias = Callable[[Any], str]
CreateOnce: TypeAlias = Callable[[str, Json], Any]

# Documents and keys side by side: where one of the two is missing, its columns are NULL.
ROWS = """
    SELECT d.id AS document, d.title, r.idempotency_key AS key, r.answer
    FROM document_service.documents AS d
    FULL JOIN document_service.requests AS r ON r.answer ->> 'document_id' = d.id::text
    ORDER BY d.id, r.idempotency_key
"""


def caller(body: Json, _request_key: RequestKey, create_once: CreateOnce) -> list[Any]:
    """One request. Returns the answers that it got."""
    answer = create_once(KEY, dict(body))
    mark("has its answer")
    return [answer]


def worker(request_key: RequestKey, create_once: CreateOnce) -> list[Any]:
    """One worker of the lesson. Returns the answers that it got: none, where no task was free."""
    task = claim_task(LEASE)
    if task is None:
        return []
    answer = create_once(request_key(task), {"title": f"Report of task #{task['id']}"})
    mark("has its answer")
    with suppress(StaleClaimError):
        mark_as_completed(task["id"], task["attempts"])
    return [answer]


@invariant(SAYS["documents_name"])
def one_document(run: Run) -> Offence | None:
    documents = [row for row in run.rows if row["document"] is not None]
    if len(documents) > 1:
        return Offence(SAYS["documents"].format(count=len(documents)), tuple(documents))
    return None


@invariant(SAYS["answer_name"])
def stored_answer(run: Run) -> Offence | None:
    stored = [row["answer"] for row in run.rows if row["document"] is not None and row["answer"] is not None]
    for who, result in sorted(run.results.items()):
        for answer in result if isinstance(result, list) else []:
            if not isinstance(answer, Mapping) or dict(answer) not in stored:
                facts = {"who": who, "answer": shown(answer), "stored": shown(stored[0]) if stored else SAYS["nothing"]}
                return Offence(SAYS["answer"].format(**facts), tuple(run.rows))
    return None


@invariant(SAYS["all_name"])
def all_or_nothing(run: Run) -> Offence | None:
    for row in run.rows:
        for part in ("key", "answer", "document"):
            if row[part] is None:
                return Offence(SAYS[f"no_{part}"].format(**row), (row,))
    return None


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


INVARIANTS = (one_document, stored_answer, all_or_nothing)


def meeting(other_body: Json) -> Situation:
    """Two calls with one key, the second of them with `other_body`, which may be the same."""
    one = partial(caller, BODY)
    other = one if other_body == BODY else partial(caller, other_body)
    refused = refusals({"A": BODY["title"], "B": other_body["title"]})
    return Situation(EMPTY, (*INVARIANTS, refused, no_error_but(KeyReusedError)), A=one, B=other, reads=ROWS)


def reason_of_an_error(violation: Violation) -> str:
    error = error_of(violation.run)
    unknown = "stuck" if violation.run.crashed else "beside"
    return OF_ERRORS.get(sqlstate(error) or type(error).__name__, unknown)


OF_ERRORS = {
    **ERRORS,
    "23505": "looked",
    "25P02": "failed_transaction",
    "40001": "snapshot",
    "40P01": "deadlock",
    "KeyReusedError": "refused_wrongly",
}


def reason_of_two_documents(violation: Violation) -> str:
    run = violation.run
    if len({row["key"] for row in run.rows if row["key"] is not None}) > 1:
        return "twice_keys"
    if run.crashed:
        return "twice_crash"
    if in_two_transactions(run):
        return "twice_two"
    return "twice_locked" if locks(run) else "twice"


def reason_of_another_answer(violation: Violation) -> str:
    if [None] in violation.run.results.values():
        return "stuck" if violation.run.crashed else "early"
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


orders = Orders(
    TEXTS,
    {
        one_document: reason_of_two_documents,
        stored_answer: reason_of_another_answer,
        all_or_nothing: "half",
        SAYS["refused_name"]: "mixed",
        no_error_but(): reason_of_an_error,
    },
)
SAME, OTHER = meeting(BODY), meeting(OTHER_BODY)
# Nobody repeats the call: what has it left behind?
DYING = replace(SAME, B=None, crash=True)
WORKERS = Situation(
    f"{ONE_TASK}; {EMPTY}",
    (*INVARIANTS, no_error_but()),
    A=worker,
    B=worker,
    lease_ends=True,
    crash=True,
    reads=ROWS,
)
KEY_ALONE, CREATE_ALONE = frozenset({0}), frozenset({1})

EXERCISE = Definition(
    package=__package__,
    lesson=LESSON,
    functions=("request_key", "create_once"),
    mini=(
        Rule("keys", keys, needs=KEY_ALONE),
        Rule("alone", partial(requests, ALONE), needs=CREATE_ALONE),
        orders.every("same", SAME, 1),
        orders.every("other", OTHER, 1),
        orders.every("repeated", replace(SAME, crash=True), 1, most=1),
        orders.every("dying", DYING, 1),
    ),
    full=(
        Rule("many_keys", many_keys, needs=KEY_ALONE),
        Rule("bodies", partial(requests, BODIES), needs=CREATE_ALONE),
        orders.every("crash", replace(SAME, crash=True), 1, most=FEW),
        orders.every("other_crash", replace(OTHER, crash=True), 1, most=FEW),
        orders.every("workers", WORKERS, most=FEW),
    ),
    database=True,
    scripts=("06_idempotent_effects/03_document_service.sql",),
)
