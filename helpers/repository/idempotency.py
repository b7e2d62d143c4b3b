"""Lesson 6: an effect that happens once, however often it is asked for.

The first two functions run in the document service, on the service's own database. The
third runs in the worker.
"""

from typing import Any

from sqlalchemy import insert, select, update
from sqlalchemy.dialects.postgresql import insert as insert_or_skip
from sqlalchemy.orm import Session

from helpers.db import SessionFactory
from helpers.models import Document, ServiceRequest

Json = dict[str, Any]


class KeyReusedError(ValueError):
    """The idempotency key was used before, with another body: nothing was changed."""


def create_document(body: Json) -> Json:
    """Create a document, each time it is called. `body` has a `title`.

    Returns the answer: a mapping with `document_id` and `title`.
    """
    with SessionFactory.begin() as session:
        return _insert_document(session, body)


def create_document_once(key: str, body: Json) -> Json:
    """Create a document, or return the answer that was given before under this key.

    The key, the document and the answer are written in one transaction: a crash leaves
    all three of them, or none. Where another session is just using the same key,
    PostgreSQL waits at the unique index until that session has committed or rolled
    back.

    Raises KeyReusedError, and changes nothing, where the key came with another body.
    """
    reserve = (
        insert_or_skip(ServiceRequest)
        .values(idempotency_key=key, body=body)
        .on_conflict_do_nothing()
        .returning(ServiceRequest.idempotency_key)
    )
    this_key = ServiceRequest.idempotency_key == key

    with SessionFactory.begin() as session:
        if session.scalar(reserve) is None:  # the key is taken, and committed
            before = session.execute(
                select(ServiceRequest.body, ServiceRequest.answer).where(this_key)
            ).one()
            if before.body != body:
                raise KeyReusedError(f"The key {key!r} was used with another body.")
            stored: Json = before.answer
            return stored
        answer = _insert_document(session, body)
        session.execute(update(ServiceRequest).where(this_key).values(answer=answer))
        return answer


def idempotency_key(task_id: int) -> str:
    """The key under which a task asks for its document: the same in each attempt."""
    return f"task-{task_id}/report"


def _insert_document(session: Session, body: Json) -> Json:
    document_id = session.scalar(
        insert(Document).values(title=body["title"]).returning(Document.id)
    )
    return {"document_id": document_id, "title": body["title"]}
