"""Wrong answers to the exercise `effect`: a wrong key with the right handler, or the other way round."""

import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from sqlalchemy import RowMapping, func, insert, select, text, update
from sqlalchemy.dialects.postgresql import insert as insert_or_skip
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.orm import Session

from helpers.db import SessionFactory
from helpers.exercises.effect.answers import create_once, request_key
from helpers.models import Document, ServiceRequest
from helpers.repository.idempotency import Json, KeyReusedError

# Keys


def key_of_the_attempt(task: RowMapping) -> str:
    return f"task-{task['id']}/{task['attempts']}"


def key_of_the_lease(task: RowMapping) -> str:
    return f"task-{task['id']}/{task['lease_until']}"


def key_of_the_type(task: RowMapping) -> str:
    return f"create/{task['type']}"


def random_key(_task: RowMapping) -> str:
    return str(uuid4())


def key_by_hash(task: RowMapping) -> str:
    return str(hash(("report", task["id"])))


def number_as_key(task: RowMapping) -> int:
    return int(task["id"])


def empty_key(_task: RowMapping) -> str:
    return ""


def short_key(task: RowMapping) -> str:
    return f"report-{task['id'] % 1000:03}"


# Handlers


def _stored(session: Session, key: str, lock: bool = False) -> Any:
    look = select(ServiceRequest.body, ServiceRequest.answer).where(ServiceRequest.idempotency_key == key)
    return session.execute(look.with_for_update() if lock else look).one_or_none()


def _create(session: Session, body: Json) -> Json:
    document_id = session.scalar(insert(Document).values(title=body["title"]).returning(Document.id))
    return {"document_id": document_id, "title": body["title"]}


def _reserve(session: Session, key: str, body: Json, answer: Json | None = None) -> bool:
    """Whether the key is new: then it is written."""
    values = {"idempotency_key": key, "body": body} | ({"answer": answer} if answer else {})
    reserve = insert_or_skip(ServiceRequest).values(values).on_conflict_do_nothing()
    return session.scalar(reserve.returning(ServiceRequest.idempotency_key)) is not None


def _keep(session: Session, key: str, answer: Json) -> None:
    session.execute(update(ServiceRequest).where(ServiceRequest.idempotency_key == key).values(answer=answer))


def _same(stored: Any, key: str, body: Json) -> Any:
    if stored.body != body:
        raise KeyReusedError(key)
    return stored.answer


def creates_each_time(_key: str, body: Json) -> Json:
    with SessionFactory.begin() as session:
        return _create(session, body)


_remembered: dict[str, tuple[Json, Json]] = {}


def remembers_in_the_process(key: str, body: Json) -> Json:
    if key in _remembered:
        before, answer = _remembered[key]
        if before != body:
            raise KeyReusedError(key)
        return answer
    with SessionFactory.begin() as session:
        answer = _create(session, body)
    _remembered[key] = body, answer
    return answer


def forgets_the_answer(key: str, body: Json) -> Json | None:
    with SessionFactory.begin() as session:
        if _reserve(session, key, body):
            return _create(session, body)
        _same(_stored(session, key), key, body)
        return None


def returns_nothing_again(key: str, body: Json) -> Json | None:
    with SessionFactory.begin() as session:
        if not _reserve(session, key, body):
            _same(_stored(session, key), key, body)
            return None
        answer = _create(session, body)
        _keep(session, key, answer)
        return answer


def creates_again(key: str, body: Json) -> Json:
    with SessionFactory.begin() as session:
        answer = _create(session, body)
        if _reserve(session, key, body, answer):
            return answer
        _same(_stored(session, key), key, body)
        return answer


def answers_anew(key: str, body: Json) -> Json:
    with SessionFactory.begin() as session:
        if not _reserve(session, key, body):
            _same(_stored(session, key), key, body)
            return {"document_id": 0, "title": body["title"]}
        answer = _create(session, body)
        _keep(session, key, answer)
        return answer


def lets_the_violation_through(key: str, body: Json) -> Json:
    with SessionFactory.begin() as session:
        session.execute(insert(ServiceRequest).values(idempotency_key=key, body=body))
        answer = _create(session, body)
        _keep(session, key, answer)
        return answer


def goes_on_after_the_violation(key: str, body: Json) -> Any:
    with SessionFactory.begin() as session:
        try:
            session.execute(insert(ServiceRequest).values(idempotency_key=key, body=body))
        except IntegrityError:
            return _same(_stored(session, key), key, body)
        answer = _create(session, body)
        _keep(session, key, answer)
        return answer


_open: list[Session] = []


def leaves_its_session_open(key: str, body: Json) -> Json:
    session = SessionFactory()
    _open.append(session)  # so that nothing closes it
    _reserve(session, key, body)
    answer = _create(session, body)
    _keep(session, key, answer)
    return answer


def finds_the_document_by_its_title(key: str, body: Json) -> Any:
    with SessionFactory.begin() as session:
        session.execute(text("LOCK TABLE document_service.documents"))
        found = session.scalar(select(Document.id).where(Document.title == body["title"]))
        if (stored := _stored(session, key)) is not None:
            return _same(stored, key, body)
        answer = {"document_id": found, "title": body["title"]} if found else _create(session, body)
        _reserve(session, key, body, answer)
        return answer


def does_not_compare(key: str, body: Json) -> Any:
    with SessionFactory.begin() as session:
        if not _reserve(session, key, body):
            return _stored(session, key).answer
        answer = _create(session, body)
        _keep(session, key, answer)
        return answer


def compares_titles(key: str, body: Json) -> Any:
    with SessionFactory.begin() as session:
        if not _reserve(session, key, body):
            stored = _stored(session, key)
            if stored.body["title"] != body["title"]:
                raise KeyReusedError(key)
            return stored.answer
        answer = _create(session, body)
        _keep(session, key, answer)
        return answer


def compares_texts(key: str, body: Json) -> Any:
    """Keeps the body as a text, in the order in which it came."""
    return _with_body(key, body, {"text": json.dumps(body)})


def _with_body(key: str, body: Json, kept: Json) -> Any:
    with SessionFactory.begin() as session:
        if not _reserve(session, key, kept):
            return _same(_stored(session, key), key, kept)
        answer = _create(session, body)
        _keep(session, key, answer)
        return answer


def creates_for_another_body(key: str, body: Json) -> Any:
    with SessionFactory.begin() as session:
        if not _reserve(session, key, body):
            stored = _stored(session, key)
            return stored.answer if stored.body == body else _create(session, body)
        answer = _create(session, body)
        _keep(session, key, answer)
        return answer


def refuses_by_another_error(key: str, body: Json) -> Any:
    try:
        return create_once(key, body)
    except KeyReusedError as error:
        raise LookupError(str(error)) from None


def keeps_the_document_of_the_refused(key: str, body: Json) -> Any:
    with SessionFactory.begin() as session:
        stored = _stored(session, key)
        if stored is not None and stored.body == body:
            return stored.answer
        answer = _create(session, body)
        fresh = _reserve(session, key, body, answer)
    if not fresh:
        raise KeyReusedError(key)
    return answer


def keeps_the_body_of_the_refused(key: str, body: Json) -> Any:
    newest = insert_or_skip(ServiceRequest).values(idempotency_key=key, body=body)
    with SessionFactory.begin() as session:
        before = _stored(session, key)
        session.execute(newest.on_conflict_do_update(index_elements=["idempotency_key"], set_={"body": body}))
        if before is None:
            answer = _create(session, body)
            _keep(session, key, answer)
            return answer
    return _same(before, key, body)


def empties_the_body(key: str, body: Json) -> Any:
    answer = create_once(key, body)
    body.pop("title")
    return answer


def looks_then_inserts(key: str, body: Json) -> Any:
    with SessionFactory.begin() as session:
        if (stored := _stored(session, key)) is not None:
            return _same(stored, key, body)
        answer = _create(session, body)
        session.execute(insert(ServiceRequest).values(idempotency_key=key, body=body, answer=answer))
        return answer


def looks_then_skips(key: str, body: Json) -> Any:
    with SessionFactory.begin() as session:
        if (stored := _stored(session, key)) is not None:
            return _same(stored, key, body)
        answer = _create(session, body)
        _reserve(session, key, body, answer)
        return answer


def compares_at_the_first_look(key: str, body: Json) -> Any:
    with SessionFactory.begin() as session:
        if (stored := _stored(session, key)) is not None:
            return _same(stored, key, body)
        if not _reserve(session, key, body):
            return _stored(session, key).answer
        answer = _create(session, body)
        _keep(session, key, answer)
        return answer


def locks_what_is_not_there(key: str, body: Json) -> Any:
    with SessionFactory.begin() as session:
        if (stored := _stored(session, key, lock=True)) is not None:
            return _same(stored, key, body)
        answer = _create(session, body)
        _reserve(session, key, body, answer)
        return answer


def document_before_the_key(key: str, body: Json) -> Any:
    with SessionFactory.begin() as session:
        if (stored := _stored(session, key)) is not None:
            return _same(stored, key, body)
        answer = _create(session, body)
    with SessionFactory.begin() as session:
        _reserve(session, key, body, answer)
    return answer


def key_before_the_document(key: str, body: Json) -> Any:
    with SessionFactory.begin() as session:
        if not _reserve(session, key, body):
            return _same(_stored(session, key), key, body)
    with SessionFactory.begin() as session:
        answer = _create(session, body)
        _keep(session, key, answer)
    return answer


class InProgress(Exception):
    """The other call with this key has no answer yet."""


def says_that_it_is_in_progress(key: str, body: Json) -> Any:
    answer = key_before_the_document(key, body)
    if answer is None:
        raise InProgress(key)
    return answer


def waits_in_a_loop(key: str, body: Json) -> Any:
    while (answer := key_before_the_document(key, body)) is None:
        pass
    return answer


def does_not_wait(key: str, body: Json) -> Any:
    with SessionFactory.begin() as session:
        session.execute(text("SET LOCAL lock_timeout = '10ms'"))
        if not _reserve(session, key, body):
            return _same(_stored(session, key), key, body)
        answer = _create(session, body)
        _keep(session, key, answer)
        return answer


def creates_at_the_end_of_its_patience(key: str, body: Json) -> Any:
    try:
        with SessionFactory.begin() as session:
            session.execute(text("SET LOCAL statement_timeout = '5s'"))
            if not _reserve(session, key, body):
                return _same(_stored(session, key), key, body)
            answer = _create(session, body)
            _keep(session, key, answer)
            return answer
    except OperationalError:  # whoever has the key must have died
        with SessionFactory.begin() as session:
            return _create(session, body)


def reads_an_old_snapshot(key: str, body: Json) -> Any:
    with SessionFactory() as session, session.begin():
        session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
        if (stored := _stored(session, key)) is not None:
            return _same(stored, key, body)
        if not _reserve(session, key, body):
            return _same(_stored(session, key), key, body)
        answer = _create(session, body)
        _keep(session, key, answer)
        return answer


def document_first_under_a_lock(key: str, body: Json) -> Any:
    with SessionFactory() as session:
        _lock(session, key)
        stored = _stored(session, key)
        if stored is not None:
            _unlock(session, key)
            return _same(stored, key, body)
        answer = _create(session, body)
        session.commit()
        _reserve(session, key, body, answer)
        session.commit()
        _unlock(session, key)
        return answer


def key_first_under_a_lock(key: str, body: Json) -> Any:
    with SessionFactory() as session:
        _lock(session, key)
        fresh = _reserve(session, key, body)
        session.commit()
        if not fresh:
            stored = _stored(session, key)
            _unlock(session, key)
            return _same(stored, key, body)
        answer = _create(session, body)
        _keep(session, key, answer)
        session.commit()
        _unlock(session, key)
        return answer


def _lock(session: Session, key: str) -> None:
    """A lock of the session, which outlives its transactions."""
    session.execute(select(func.pg_advisory_lock(func.hashtext(key))))


def _unlock(session: Session, key: str) -> None:
    session.execute(select(func.pg_advisory_unlock(func.hashtext(key))))
    session.commit()


def key_first_and_finished_by_the_next(key: str, body: Json) -> Any:
    with SessionFactory.begin() as session:
        _reserve(session, key, body)
    with SessionFactory.begin() as session:
        answer = _same(_stored(session, key, lock=True), key, body)
        if answer is None:
            answer = _create(session, body)
            _keep(session, key, answer)
        return answer


def _asks_with(key: Callable[[RowMapping], Any]) -> tuple[Callable[..., Any], ...]:
    return key, create_once


def _creates(handler: Callable[[str, Json], Any]) -> tuple[Callable[..., Any], ...]:
    return request_key, handler


WRONG: dict[str, tuple[tuple[Callable[..., Any], ...], str]] = {
    "key of the attempt": (_asks_with(key_of_the_attempt), "The key belongs to the task and not to the attempt"),
    "key of the lease": (_asks_with(key_of_the_lease), "The key has changed with lease_until"),
    "key of the type": (_asks_with(key_of_the_type), "#42 and #43 have the same key"),
    "random key": (_asks_with(random_key), "A key that is new at each call protects nothing"),
    "key by hash()": (_asks_with(key_by_hash), "A task is repeated by another process"),
    "number as key": (_asks_with(number_as_key), "It returned an int. An idempotency key is a text"),
    "empty key": (_asks_with(empty_key), "The key is empty"),
    "short key": (_asks_with(short_key), "#1 and #1001 have the same key"),
    "creates each time": (_creates(creates_each_time), "the key was kept nowhere"),
    "remembers in the process": (_creates(remembers_in_the_process), "is gone when the process ends"),
    "forgets the answer": (_creates(forgets_the_answer), "the row of the key has no answer"),
    "returns nothing again": (_creates(returns_nothing_again), "The key is known, and it returned None"),
    "creates again": (_creates(creates_again), "the call created one more document"),
    "answers anew": (_creates(answers_anew), "A repetition returns what the first call returned"),
    "lets the violation through": (_creates(lets_the_violation_through), "The primary key has done its work"),
    "goes on after the violation": (_creates(goes_on_after_the_violation), "PostgreSQL refuses all further statements"),
    "leaves its session open": (_creates(leaves_its_session_open), "It came back while its transaction was still open"),
    "finds the document by its title": (_creates(finds_the_document_by_its_title), "Two keys are two requests"),
    "does not compare": (_creates(does_not_compare), "The caller now believes that its invoice exists"),
    "compares titles": (_creates(compares_titles), "Compare the whole body with the stored one"),
    "compares texts": (_creates(compares_texts), "Compare dictionaries, not their texts"),
    "creates for another body": (_creates(creates_for_another_body), "a second document was created"),
    "refuses by another error": (_creates(refuses_by_another_error), "It should raise KeyReusedError, and it raised"),
    "keeps the document of the refused": (_creates(keeps_the_document_of_the_refused), "the document of the refused"),
    "keeps the body of the refused": (_creates(keeps_the_body_of_the_refused), "the row of the key has changed"),
    "empties the body": (_creates(empties_the_body), "It changed the dictionary that it was given"),
    "looks, then inserts": (_creates(looks_then_inserts), "its caller got an error in place of the answer"),
    "looks, then skips": (_creates(looks_then_skips), "A look reserves nothing"),
    "compares at the first look": (_creates(compares_at_the_first_look), "Every other one is refused, and only those"),
    "locks what is not there": (_creates(locks_what_is_not_there), "FOR UPDATE locks rows that are there"),
    "document before the key": (_creates(document_before_the_key), "in one transaction and the key in another"),
    "key before the document": (_creates(key_before_the_document), "The key was committed before its answer"),
    "says that it is in progress": (_creates(says_that_it_is_in_progress), "with the same key is no error"),
    "waits in a loop": (_creates(waits_in_a_loop), "It asks for the answer again and again"),
    "does not wait": (_creates(does_not_wait), "Somebody else's lock is no error here"),
    "creates at the end of its patience": (
        _creates(creates_at_the_end_of_its_patience),
        "it does not say that the other one has died",
    ),
    "reads an old snapshot": (_creates(reads_an_old_snapshot), "Under REPEATABLE READ"),
    "document first, under a lock": (_creates(document_first_under_a_lock), "nobody knows that this request was done"),
    "key first, under a lock": (_creates(key_first_under_a_lock), "Now no repetition will ever get its document"),
    "key first, finished by the next": (_creates(key_first_and_finished_by_the_next), "a part of the request"),
}
FULL = {"short key", "compares titles", "compares texts"}
# Their check takes five times as long as most; other answers meet the same rules.
SLOW = {"key first, under a lock", "key first, finished by the next", "document first, under a lock", "waits in a loop"}
