"""One call after another, with nobody else there: a new document, the answer that is stored, or a refusal."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from helpers.checking import Calling, Finding, Functions, Outcome, article, call, database, shown, texts_of
from helpers.checking.calls import CALL_SECONDS, as_code
from helpers.checking.orders import sqlstate
from helpers.repository.idempotency import Json, KeyReusedError

TEXTS = texts_of(__package__)
WHY: dict[str, str] = TEXTS["why"]

# The numbers of the documents begin again in each run, and not at 1: a number is no count.
EMPTY = """
    DELETE FROM document_service.documents; DELETE FROM document_service.requests;
    SELECT setval('document_service.documents_id_seq', 501, false);
"""
STORED = "SELECT idempotency_key, body, answer FROM document_service.requests ORDER BY idempotency_key"


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
    database.set_rows(EMPTY)
    answers: dict[str, Json] = {}  # key → what the first call returned
    for name, (key, body, expected) in cases.items():
        called = TEXTS["bodies"].get(name) or f"create_once({as_code(key)}, {json.dumps(body)})"
        given = json.loads(json.dumps(body))
        before = State.now()
        yield Calling(called, CALL_SECONDS)
        outcome = call(functions[1], key, given)
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
        return WHY["open"]
    if first is not None and new:
        return WHY["created_again" if key in after.stored else "ignored"]
    if answer is None:
        return WHY["none" if first is None else none_again(after.stored.get(key))]
    if not isinstance(answer, Mapping):
        return WHY["not_mapping"].format(kind=article(type(answer).__name__))
    if missing := [part for part in ("document_id", "title") if part not in answer]:
        return WHY["keys"].format(key=missing[0])
    if first is not None:
        return wrong_repetition(answer, first, after.stored.get(key))
    if len(new) != 1:
        reason = "many" if new else "existing" if answer["document_id"] in list(before.documents) else "nothing"
        return WHY[reason].format(count=len(new))
    [created] = new
    facts = {"document_id": created, "title": body["title"]}
    if dict(answer) != facts or after.documents[created] != body["title"]:
        return WHY["facts"].format(document=created, title=after.documents[created], expected=shown(facts))
    return ""


def none_again(stored: tuple[Any, Any] | None) -> str:
    return "answer_not_kept" if stored and stored[1] is None else "none_again"


def wrong_repetition(answer: Any, first: Json, stored: tuple[Any, Any] | None) -> str:
    if dict(answer) != first:
        return WHY["other_answer"].format(first=shown(first))
    if stored is None:
        return WHY["no_key"]
    return "" if stored[1] == first else WHY["no_answer"].format(stored=shown(stored[1]))


def unexpected_error(outcome: Outcome, other_order: bool) -> str:
    """Why a call that should be answered ended with an exception."""
    if isinstance(outcome.error, KeyReusedError):
        return WHY["same_body" if other_order else "refused_wrongly"]
    known = {"23505": "violation", "25P02": "failed_transaction", "23502": "not_null"}
    reason = known.get(sqlstate(outcome.error) or type(outcome.error).__name__)
    return f"{outcome.why_raised.rstrip('.')}. {WHY[reason]}" if reason else outcome.why_raised


def wrong_refusal(body: Json, outcome: Outcome, before: State, after: State) -> str:
    """The sentence on what is wrong with a call that should be refused, or an empty text."""
    created = after.documents.keys() - before.documents.keys()
    if outcome.error is None:
        reason = "accepted_created" if created else "accepted" if body == OTHER_BODY else "accepted_part"
        return WHY[reason].format(body=json.dumps(body))
    if not isinstance(outcome.error, KeyReusedError):
        return WHY["kind"].format(kind=type(outcome.error).__name__)
    if database.open_transactions():
        return WHY["open"]
    if created:
        return WHY["refused_created"]
    return "" if after == before else WHY["refused_changed"]
