"""The work of a task, and its effect on the world outside of the tables."""

import hashlib
import os
from collections.abc import Callable
from time import monotonic, sleep

from helpers.processes.exits import EXIT_CRASH
from helpers.repository.idempotency import Json
from helpers.worker.journal import Journal
from helpers.worker.queues import Claim

TEXTS = {
    "title": "Report of task #{id}",
    "broken": "The report's template has no title.",
    "document": "document {document_id}",
}


def compute(task: Claim, seconds: float, between: Callable[[], None]) -> None:
    """Keep the processor busy for `seconds` seconds, and call `between` between two pieces of the work.

    Two types of task are poison. The work of a `broken_report` raises an exception; the work of a `deadly_report` ends
    the process, as running out of memory would.
    """
    deadline = monotonic() + seconds
    digest = b""
    while True:
        between()
        if monotonic() >= deadline:
            break
        for _ in range(2_000):
            digest = hashlib.sha256(digest).digest()
    if task["type"] == "broken_report":
        raise ValueError(TEXTS["broken"])
    if task["type"] == "deadly_report":
        os._exit(EXIT_CRASH)


def wait(seconds: float, between: Callable[[], None]) -> None:
    """Wait for `seconds` seconds, as for another machine's answer, and call `between` now and then."""
    deadline = monotonic() + seconds
    while (left := deadline - monotonic()) > 0:
        between()
        sleep(min(left, 0.05))


def say_so(task: Claim, journal: Journal) -> None:
    """The effect up to lesson 5: a line on the output. Once it is out, nothing takes it back."""
    journal.record("effect", task)


def order_document(task: Claim, journal: Journal, url: str, key: str | None, between: Callable[[], None]) -> None:
    """The effect since lesson 6: let the document service at `url` create a document, under this idempotency key.

    Before the service is asked again `between` is called, as between two pieces of the work.
    """
    from helpers.documents.client import create_document  # httpx takes a while, and most workers need it never

    def on_retry(reason: str) -> None:
        between()
        journal.record("asking_again", task, detail=reason)

    answer = create_document(url, document_request(task), key, on_retry)
    journal.record("effect", task, detail=TEXTS["document"].format(**answer))


def document_request(task: Claim) -> Json:
    """What is asked of the document service: the same in each attempt."""
    return {"title": TEXTS["title"].format(id=task["id"])}


def request_key(key: str, task: Claim, kind: str) -> str | None:
    """The key that goes with a request, where `key` is the task's and `kind` is `task`, `attempt` or `none`."""
    return {"task": key, "attempt": f"{key}/attempt-{task.get('attempts')}", "none": None}[kind]
