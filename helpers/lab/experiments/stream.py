"""A stream of tasks, most of them HIGH, that brings more than one worker can do: who is claimed when, and who waits."""

import io
import threading
import time
from contextlib import redirect_stdout
from dataclasses import dataclass

import pandas as pd
from IPython.display import display
from sqlalchemy import text

from helpers.db import engine
from helpers.diagnosis import readable_errors
from helpers.errors import LabError
from helpers.lab.actors.workers import start_worker
from helpers.lab.frame.facts import POLL_SECONDS, query, value, wait_until
from helpers.lab.frame.lesson import reset
from helpers.views.waits import Wait, waits

FIRST = 42  # LOW, and the first of all
TASKS = 30
EVERY_SECONDS = 0.1
WORK_SECONDS = 0.15  # longer than that: a worker that keeps up lets nobody starve
BACKLOG = 6  # tasks that wait when the worker asks for its first one

TEXTS = {
    "came": "{tasks} tasks came, one every {every} s: {high} HIGH and {low} LOW. One worker did them all, one by one.",
    "before": "HIGH tasks claimed before #{id}, which is LOW and came first:  {high}",
    "passed": "A LOW task was claimed while a HIGH one waited:            {passed}",
    "all": "all",
    "some": "some",
    "none": "none",
    "failed": "The worker ended with exit code {code}: {lines}",
    "chart": "{run}: {high} of the HIGH tasks were claimed before #{id}.",
}

EMPTY = text("TRUNCATE backend_training.tasks, backend_training.task_events")
INSERT = text(
    "INSERT INTO backend_training.tasks (id, type, priority) "
    "VALUES (:id, 'generate_report', CAST(:priority AS backend_training.priority))"
)
BACKLOG_WAITS = "(SELECT count(*) FROM backend_training.tasks) >= :backlog"
SOMETHING_WAITS = "SELECT count(*) > 0 FROM backend_training.tasks WHERE status = 'pending'"
CLAIMS = """
    SELECT t.id, t.priority::text AS priority,
           extract(epoch FROM t.created_at - min(t.created_at) OVER ())::float AS came,
           extract(epoch FROM e.at - min(t.created_at) OVER ())::float AS claimed
    FROM backend_training.tasks AS t
    JOIN backend_training.task_events AS e
        ON e.task_id = t.id AND e.event = 'update' AND e.new_status = 'processing'
    ORDER BY e.id
"""


@dataclass(frozen=True)
class Stream:
    """What the ledger says after a stream. `claims` has a row for each claim, in their order.

    Its columns: `id`, `priority`, and when the task `came` and was `claimed`, in seconds since the first one came.
    """

    claims: pd.DataFrame

    @property
    def high_before_first(self) -> str:
        """How many of the HIGH tasks were claimed before the first task: `all`, `some` or `none`."""
        high = self.claims["priority"] == "HIGH"
        before = high & (self.claims["claimed"] < self._claimed(FIRST))
        return "all" if before.sum() == high.sum() else "some" if before.any() else "none"

    @property
    def low_passed_high(self) -> bool:
        """Whether a LOW task was claimed while a HIGH one, which had come before that, went on waiting."""
        high = self.claims[self.claims["priority"] == "HIGH"]
        low = self.claims[self.claims["priority"] == "LOW"]
        return any(((high["came"] < moment) & (high["claimed"] > moment)).any() for moment in low["claimed"])

    def high_before_first_but_later_by(self, seconds: float) -> int:
        """How many HIGH tasks were claimed before the first task though they came more than `seconds` s after it."""
        claims = self.claims
        before = (claims["priority"] == "HIGH") & (claims["claimed"] < self._claimed(FIRST))
        return int((before & (claims["came"] > seconds)).sum())

    def __repr__(self) -> str:
        """What does not change from run to run. How long who waited does: that is for the chart."""
        counts = self.claims["priority"].value_counts()
        lines = [
            TEXTS["came"].format(
                tasks=len(self.claims), every=EVERY_SECONDS, high=counts["HIGH"], low=counts.get("LOW", 0)
            ),
            TEXTS["before"].format(id=FIRST, high=TEXTS[self.high_before_first]),
            TEXTS["passed"].format(passed="true" if self.low_passed_high else "false"),
        ]
        return "\n".join(lines)

    def _claimed(self, task_id: int) -> float:
        return float(self.claims.loc[self.claims["id"] == task_id, "claimed"].iloc[0])


def stream(*options: str | float) -> Stream:
    """Let a worker with `options` work on a stream of tasks until all are done, and read in the ledger what it did.

    The first task is 42, which is LOW; then come 101, 102 and so on, one every EVERY_SECONDS. Of them 110 and 120 are
    LOW, the others are HIGH. The worker makes its first claim when BACKLOG tasks wait. From then on they come faster
    than it can work, whatever the machine.
    Raises LabError where the worker does not start.
    """
    over = threading.Event()
    with redirect_stdout(io.StringIO()) as lines:  # three lines for each task
        reset()
        worker = start_worker("A", *options, "--drain", "--work-seconds", WORK_SECONDS, "--hold-at", "before-claim")
        if worker.returncode is not None:
            raise LabError(TEXTS["failed"].format(code=worker.returncode, lines=lines.getvalue().strip()))
        with readable_errors(), engine().begin() as connection:
            connection.execute(EMPTY)
        customers = threading.Thread(target=_insert, args=[over], daemon=True)
        customers.start()
        try:
            wait_until(BACKLOG_WAITS, backlog=BACKLOG)
            for _ in range(TASKS):
                while not value(SOMETHING_WAITS):
                    time.sleep(POLL_SECONDS)
                worker.press_enter()  # for one claim
        finally:
            over.set()
            customers.join()
        worker.kill()
    claims = query(CLAIMS)
    return Stream(claims.astype({"id": int, "came": float, "claimed": float}))


def stream_chart(**runs: Stream) -> None:
    """Draw how long each task waited, one panel a run. Below the picture in words what does not vary."""
    panels = {name.replace("_", " "): run for name, run in runs.items()}
    chart = waits(
        {name: _waits(run) for name, run in panels.items()},
        description="\n".join(
            TEXTS["chart"].format(run=name, id=FIRST, high=TEXTS[run.high_before_first]) for name, run in panels.items()
        ),
        named=FIRST,
    )
    data, metadata = chart._repr_mimebundle_()
    display({"image/png": data["image/png"]}, metadata=metadata, raw=True)
    print(chart.description)


def _waits(run: Stream) -> list[Wait]:
    rows = run.claims.itertuples(index=False)
    return [Wait(int(row.id), str(row.priority), row.claimed - row.came) for row in rows]  # type: ignore[operator,arg-type]


def _insert(over: threading.Event) -> None:
    """Bring the tasks, each at its time. What comes late does not make the next one late."""
    with engine().connect() as connection:
        connection = connection.execution_options(isolation_level="AUTOCOMMIT")
        start = 0.0
        for number in range(TASKS):
            over.wait(max(start + number * EVERY_SECONDS - time.monotonic(), 0) if number else 0)
            if over.is_set():
                return
            priority = "HIGH" if number % 10 else "LOW"
            connection.execute(INSERT, {"id": 100 + number if number else FIRST, "priority": priority})
            start = start or time.monotonic()
