"""What a worker says and leaves behind: each line on its output is a row in the ledger too."""

from sqlalchemy import Insert, RowMapping, insert
from sqlalchemy.exc import DBAPIError

from helpers.db import engine
from helpers.models import TaskEvent

HOLD_PROMPT = "Press Enter to go on."

TEXTS = {
    "claimed": "Claimed #{id} ({type}) as attempt {attempts}. The claim is committed.",
    "idle": "No task is available.",
    "holding": "Holding at {detail}. " + HOLD_PROMPT,
    "crashed": "Crashing at {detail}: the process ends here, with no cleanup.",
    "effect": "Finished the work of #{id}, attempt {attempts}.",
    "completed": "Completed #{id}, attempt {attempts}.",
    "refused": "Refused. {detail}",
}


class Journal:
    """The voice of one worker: a short line `[A] …` for people, a ledger row for charts and checks."""

    def __init__(self, worker: str) -> None:
        self.worker = worker

    def record(self, event: str, task: RowMapping | None = None, detail: str | None = None) -> None:
        """Print the event's line, if it has one, and add the event to the ledger.

        The ledger is evidence and not the work: where it cannot be written, the line alone must do.
        """
        if event in TEXTS:
            print(f"[{self.worker}] {TEXTS[event].format(detail=detail, **(task or {}))}", flush=True)
        row = ledger_row(f"worker:{self.worker}", event, detail)
        if task is not None:
            row = row.values(task_id=task["id"], attempt=task["attempts"])
        try:
            with engine().begin() as connection:
                connection.execute(row)
        except DBAPIError:
            pass


def ledger_row(actor: str, event: str, detail: str | None = None) -> Insert:
    """The INSERT of one ledger row; the database adds the time.

    `actor` is who did it, in the form of an application name: `worker:A`.
    """
    return insert(TaskEvent).values(actor=actor, event=event, detail=detail)
