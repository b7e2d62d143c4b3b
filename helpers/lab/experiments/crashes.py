"""Kills a worker at each of its named points, and shows what became of its task and of the document."""

import io
from collections.abc import Sequence
from contextlib import redirect_stdout
from itertools import zip_longest

from helpers.lab.actors.documents import DocumentService
from helpers.lab.actors.workers import Worker, start_worker
from helpers.lab.frame.facts import query, value
from helpers.lab.frame.lesson import current_lesson, reset
from helpers.scripts import lesson_folder, run_script
from helpers.views import Table
from helpers.worker.faults import POINTS

STATE = "SELECT status, attempts FROM backend_training.tasks WHERE id = 42"
LEFT = "SELECT count(*) FROM backend_training.tasks WHERE status IN ('pending', 'processing')"
DONE = "SELECT count(*) FROM backend_training.tasks WHERE status = 'completed'"
FIRST_POINT = POINTS[0]  # before the claim

TEXTS = {"state": "{status}, attempts {attempts}"}
COLUMNS = ["A was killed", "the row then", "the row in the end", "documents", "tasks completed"]


def kill_at_each_point(
    documents: DocumentService, lease_seconds: float, key: str = "task", points: Sequence[str] = POINTS
) -> Table:
    """For each point: a worker A holds there and is killed (SIGKILL); worker B does the rest, and waits for A's lease.

    Both ask `documents` for a document, with the idempotency key of the kind `key` ("task", "attempt" or "none").
    Each row: the point, task 42 right after the kill and in the end, the documents of task 42 in the service's own
    rows, and how many of the three tasks are completed.
    """
    options = "--renew", "--retry", "--documents", documents.url, "--key", key, "--lease-seconds", lease_seconds

    def start(name: str, *more: str) -> Worker:
        # Nothing here takes as long as starting a process. So each starts early, and holds until it is its turn.
        return start_worker(name, *options, "--hold-at", FIRST_POINT, *more, follow=False)

    rows = []
    with redirect_stdout(io.StringIO()):  # the same lines again and again
        reset()
        b = start("B", "--drain")
        a = start("A", "--hold-at", points[0])
        b.follow()
        for point, next_point in zip_longest(points, points[1:]):
            a.follow()
            _fresh_rows(documents)
            if point != FIRST_POINT:
                a.press_enter()
            a.kill()
            then = _state()
            if next_point is not None:
                a = start("A", "--hold-at", next_point)
            while value(LEFT):
                b.press_enter()  # for one claim
            titles = [document["title"] for document in documents.rows()]
            count = sum("#42" in title for title in titles)
            rows.append([point, then, _state(), str(count), str(value(DONE))])
        b.kill()
    return Table(COLUMNS, rows)


def _fresh_rows(documents: DocumentService) -> None:
    """As `reset`, but the workers that hold go on holding."""
    run_script(f"{lesson_folder(current_lesson())}/02_reset.sql")
    documents.empty()


def _state() -> str:
    [row] = query(STATE).to_dict("records")
    return TEXTS["state"].format(**{str(name): entry for name, entry in row.items()})
