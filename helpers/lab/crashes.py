"""Kills a worker at each of its named points, and shows what became of its task and of the document."""

import io
from collections.abc import Sequence
from contextlib import redirect_stdout

from helpers.faults import POINTS
from helpers.lab.documents import DocumentService
from helpers.lab.facts import query, value, wait_until
from helpers.lab.lesson import reset
from helpers.lab.processes import start_worker
from helpers.views import Table

FREE = """
    NOT EXISTS (SELECT FROM backend_training.tasks
                WHERE id = 42 AND status = 'processing' AND lease_until > clock_timestamp())
"""
STATE = "SELECT status, attempts FROM backend_training.tasks WHERE id = 42"
OTHERS_DONE = "SELECT count(*) FROM backend_training.tasks WHERE status = 'completed'"

TEXTS = {"state": "{status}, attempts {attempts}"}
COLUMNS = ["A was killed", "the row then", "the row in the end", "documents", "tasks completed"]


def kill_at_each_point(
    documents: DocumentService, lease_seconds: float, key: str = "task", points: Sequence[str] = POINTS
) -> Table:
    """For each point: worker A holds there and is killed (SIGKILL); when its lease is over, worker B does all the rest.

    Both ask `documents` for a document, with the idempotency key of the kind `key` ("task", "attempt" or "none").
    Each row: the point, task 42 right after the kill and in the end, the documents of task 42 in the service's own
    rows, and how many of the three tasks are completed.
    """
    rows = []
    options = "--renew", "--retry", "--documents", documents.url, "--key", key, "--lease-seconds", lease_seconds
    for point in points:
        with redirect_stdout(io.StringIO()):  # seven times the same lines
            reset()
            documents.empty()
            start_worker("A", *options, "--hold-at", point).kill()
            then = _state()
            wait_until(FREE)
            start_worker("B", *options, "--drain")
        titles = [document["title"] for document in documents.rows()]
        count = sum("#42" in title for title in titles)
        rows.append([point, then, _state(), str(count), str(value(OTHERS_DONE))])
    return Table(COLUMNS, rows)


def _state() -> str:
    [row] = query(STATE).to_dict("records")
    return TEXTS["state"].format(**{str(name): entry for name, entry in row.items()})
