"""Right answers to the exercise `effect`."""

from typing import Any
from uuid import NAMESPACE_URL, uuid5

from sqlalchemy import RowMapping, func, insert, select, text, update
from sqlalchemy.dialects.postgresql import insert as insert_or_skip
from sqlalchemy.exc import IntegrityError

from helpers.db import SessionFactory
from helpers.models import Document, ServiceRequest
from helpers.repository.idempotency import KeyReusedError


def request_key(task: RowMapping) -> str:
    return f"report-of-task-{task['id']}"


def create_once(key: str, body: dict[str, Any]) -> dict[str, Any]:
    this_key = ServiceRequest.idempotency_key == key
    reserve = (
        insert_or_skip(ServiceRequest)
        .values(idempotency_key=key, body=body)
        .on_conflict_do_nothing()
        .returning(ServiceRequest.idempotency_key)
    )
    with SessionFactory.begin() as session:
        if session.scalar(reserve) is None:  # taken, by a transaction that is committed
            stored = session.execute(select(ServiceRequest.body, ServiceRequest.answer).where(this_key)).one()
            if stored.body != body:
                raise KeyReusedError(f"The key {key!r} was used with another body.")
            return dict(stored.answer)
        document_id = session.scalar(insert(Document).values(title=body["title"]).returning(Document.id))
        answer = {"document_id": document_id, "title": body["title"]}
        session.execute(update(ServiceRequest).where(this_key).values(answer=answer))
        return answer


def name_of_the_request(task: RowMapping) -> str:
    return str(uuid5(NAMESPACE_URL, f"https://example.org/tasks/{task['id']}/document"))


def create_first(key: str, body: dict[str, Any]) -> dict[str, Any]:
    """Creates the document at once. Where the key is taken, the rollback takes the document back."""
    try:
        with SessionFactory.begin() as session:
            document = Document(title=body["title"])
            session.add(document)
            session.flush()
            answer = {"document_id": document.id, "title": document.title}
            session.add(ServiceRequest(idempotency_key=key, body=body, answer=answer))
        return answer
    except IntegrityError:
        with SessionFactory.begin() as session:
            request = session.get_one(ServiceRequest, key)
            if request.body != body:
                raise KeyReusedError(key) from None
            assert request.answer is not None
            return request.answer


def type_and_id(task: RowMapping) -> str:
    return f"{task['type']}/{task['id']}"


def create_behind_a_savepoint(key: str, body: dict[str, Any]) -> dict[str, Any]:
    """Tries to write the key; the savepoint keeps the transaction usable where that fails. Then it locks the row."""
    with SessionFactory.begin() as session:
        try:
            with session.begin_nested():
                session.execute(insert(ServiceRequest).values(idempotency_key=key, body=body))
        except IntegrityError:
            pass  # the key is there already
        request = session.get_one(ServiceRequest, key, with_for_update=True)
        if request.body != body:
            raise KeyReusedError(key)
        if request.answer is None:  # so the row is our own
            document_id = session.scalar(insert(Document).values(title=body["title"]).returning(Document.id))
            request.answer = {"document_id": document_id, "title": body["title"]}
        return request.answer


def id_of_the_task(task: RowMapping) -> str:
    return str(task["id"])


def create_under_a_lock(key: str, body: dict[str, Any]) -> dict[str, Any]:
    """Looks, then writes; a lock on the number of the key makes the calls with this key come one after the other."""
    with SessionFactory.begin() as session:
        session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(key, 0))))
        stored = session.execute(
            text("SELECT body = :body AS same, answer FROM document_service.requests WHERE idempotency_key = :key"),
            {"key": key, "body": _json(body)},
        ).one_or_none()
        if stored is None:
            document_id = session.scalar(insert(Document).values(title=body["title"]).returning(Document.id))
            answer = {"document_id": document_id, "title": body["title"]}
            session.execute(insert(ServiceRequest).values(idempotency_key=key, body=body, answer=answer))
            return answer
        if not stored.same:
            raise KeyReusedError(key)
        return dict(stored.answer)


def _json(body: dict[str, Any]) -> Any:
    from psycopg.types.json import Jsonb

    return Jsonb(body)


SOLUTION = (request_key, create_once)
OTHERS = [
    (name_of_the_request, create_first),
    (type_and_id, create_behind_a_savepoint),
    (id_of_the_task, create_under_a_lock),
]
