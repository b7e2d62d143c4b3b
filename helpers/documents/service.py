"""The HTTP side of the document service.

    POST   /documents   {"title": …}, and perhaps a header Idempotency-Key → 201 {"document_id": …, "title": …}
    GET    /documents   all documents, in the order of their ids
    DELETE /documents   drop them all: for a new experiment
    PUT    /faults      {"next": ["drop", …]}: what shall go wrong with the next answers, in this order

400: the body or the key is not as it should be. 422: the key was used with another body. 503: the store does not
answer, and nothing was done. 500: the store went away at the COMMIT, and perhaps the document exists.
(That a reused key gets 422 is the proposal of the IETF's draft "The Idempotency-Key HTTP Header".)
"""

import asyncio
import json
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import DBAPIError
from tornado.web import Application, HTTPError, RequestHandler

from helpers.db import SessionFactory
from helpers.models import Document
from helpers.repository.idempotency import Json, KeyReusedError, create_document, create_document_once
from helpers.scripts import run_script

FAULTS = ("slow", "drop", "fail")  # late answer, no answer, nothing done: the first two create the document
SLOW_SECONDS = 4.0  # twice what the client waits
THREADS = 8
LONGEST_KEY = 255

TEXTS = {
    "no_title": 'The body must be a JSON object like {"title": "Report of task #42"}.',
    "no_faults": 'The body must be a JSON object like {{"next": ["drop"]}}. The faults are: {known}.',
    "bad_key": "An idempotency key has 1 to {longest} characters.",
    "unavailable": "The store of the documents does not answer.",
    "uncertain": "The store of the documents went away at the COMMIT. Perhaps the document exists.",
    "told_to_fail": "The service was told to fail.",
}


class Handler(RequestHandler):
    """What both kinds of requests share. The store is asked in threads, so that one answer does not hold up others."""

    def initialize(self, faults: deque[str], threads: ThreadPoolExecutor) -> None:
        self.faults = faults
        self.threads = threads

    async def in_thread(self, work: Any, *arguments: object) -> Any:
        try:
            return await asyncio.get_running_loop().run_in_executor(self.threads, work, *arguments)
        except DBAPIError as error:
            if error.connection_invalidated and error.statement is None:  # broken, and not while a statement ran
                raise HTTPError(500, reason=TEXTS["uncertain"]) from None
            raise HTTPError(503, reason=TEXTS["unavailable"]) from None

    def body(self, valid: Any, problem: str) -> Json:
        """The request's JSON object, if `valid` says that it is one as expected; else the answer is 400."""
        try:
            body = json.loads(self.request.body)
            if valid(body):
                return dict(body)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            pass
        raise HTTPError(400, reason=problem)

    def write_error(self, status_code: int, **_: Any) -> None:
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(self._reason)


class Documents(Handler):
    """The documents."""

    async def post(self) -> None:
        body = self.body(lambda body: body.keys() == {"title"} and is_storable(body["title"]), TEXTS["no_title"])
        key = self.request.headers.get("Idempotency-Key")
        if key is not None and not 1 <= len(key) <= LONGEST_KEY:
            raise HTTPError(400, reason=TEXTS["bad_key"].format(longest=LONGEST_KEY))
        fault = self.faults.popleft() if self.faults else None
        if fault == "fail":
            raise HTTPError(503, reason=TEXTS["told_to_fail"])
        try:
            if key is None:
                answer = await self.in_thread(create_document, body)
            else:
                answer = await self.in_thread(create_document_once, key, body)
        except KeyReusedError as error:
            raise HTTPError(422, reason=str(error)) from None
        if fault == "drop":
            self.detach().close()  # the document exists, and the client will never hear of it
            return
        if fault == "slow":
            await asyncio.sleep(SLOW_SECONDS)
        self.set_status(201)
        self.write(answer)

    async def get(self) -> None:
        self.write({"documents": await self.in_thread(read_documents)})

    async def delete(self) -> None:
        self.faults.clear()
        await self.in_thread(run_script, "06_idempotent_effects/04_empty_service.sql")
        self.set_status(204)


class Faults(Handler):
    """What shall go wrong."""

    async def put(self) -> None:
        problem = TEXTS["no_faults"].format(known=", ".join(FAULTS))
        body = self.body(lambda body: isinstance(body["next"], list) and set(body["next"]) <= set(FAULTS), problem)
        self.faults.extend(body["next"])
        self.set_status(204)


def is_storable(text: Any) -> bool:
    """Whether `text` is a string that PostgreSQL can store: without a zero byte. AttributeError where it is none."""
    return b"\0" not in text.encode()  # half of a surrogate pair cannot be encoded: a UnicodeError, so a ValueError


def read_documents() -> list[Json]:
    """All documents: `document_id` and `title`."""
    with SessionFactory.begin() as session:
        rows = session.execute(select(Document.id, Document.title).order_by(Document.id))
        return [{"document_id": row.id, "title": row.title} for row in rows]


def application() -> Application:
    """The service, without a port yet."""
    parts = {"faults": deque[str](), "threads": ThreadPoolExecutor(THREADS)}
    return Application([("/documents", Documents, parts), ("/faults", Faults, parts)])
