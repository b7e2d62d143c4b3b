"""What a worker says and leaves behind: each line on its output is a row in the ledger too."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Insert, insert
from sqlalchemy.exc import DBAPIError

from helpers.db import engine
from helpers.models import TaskEvent

HOLD_PROMPT = "Press Enter to go on."

TEXTS = {
    "locked": "Locked #{id} ({type}) and set it to processing. Nothing is committed yet.",
    "claimed": "Claimed #{id} ({type}) as attempt {attempts}. The claim is committed.",
    "claimed.no_attempt": "Claimed #{id} ({type}). The claim is committed.",
    "idle": "No task is available.",
    "holding": "Holding at {detail}. " + HOLD_PROMPT,
    "crashed": "Crashing at {detail}: the process ends here, with no cleanup.",
    "effect": "Finished the work of #{id}, attempt {attempts}.",
    "effect.detail": "Finished the work of #{id}, attempt {attempts}: {detail}.",
    "effect.no_attempt": "Finished the work of #{id}.",
    "completed": "Completed #{id}, attempt {attempts}.",
    "completed.no_attempt": "Completed #{id}.",
    "refused": "Refused. {detail}",
    "failed": "The work of #{id}, attempt {attempts}, failed. {detail}",
    "failed.no_attempt": "The work of #{id} failed. {detail}",
    "retry": "#{id} is pending again, and waits for its retry time.",
    "given_up": "That was the last attempt of #{id}: it is failed.",
    "returned": "Gave #{id} back, attempt {attempts}.",
    "stopped": "Stopped, as asked.",
    "away": "The database does not answer. Trying again.",
    "lost": "The database was away for longer than the lease of #{id}, attempt {attempts}.",
    "asking_again": "{detail} Asking again.",
    "delivering": "Claimed the request of #{id} in the outbox.",
    "delivered": "Delivered the request of #{id}: {detail}.",
    "all_delivered": "Nothing is left to deliver.",
}


class Journal:
    """The voice of one worker: a short line `[A] …` for people, a ledger row for charts and checks."""

    def __init__(self, worker: str) -> None:
        self.worker = worker

    def record(self, event: str, task: Mapping[Any, Any] | None = None, detail: str | None = None) -> None:
        """Add the event to the ledger and print its line, if it has one.

        The row comes first: whoever reads the line may look at the ledger at once, or kill this process.

        Claims are numbered since lesson 4; before that `task` has no `attempts`, and the row's attempt is NULL.
        The ledger is evidence and not the work: where it cannot be written, the line alone must do.
        """
        task = task or {}
        row = ledger_row(f"worker:{self.worker}", event, detail)
        row = row.values(task_id=task.get("id"), attempt=task.get("attempts"))
        try:
            with engine().begin() as connection:
                connection.execute(row)
        except DBAPIError:
            pass
        variant = f"{event}.no_attempt" if "attempts" not in task else f"{event}.detail" if detail else event
        text = TEXTS.get(variant, TEXTS.get(event))
        if text is not None:
            print(f"[{self.worker}] {text.format(detail=detail, **task)}", flush=True)


def ledger_row(actor: str, event: str, detail: str | None = None) -> Insert:
    """The INSERT of one ledger row; the database adds the time.

    `actor` is who did it, in the form of an application name: `worker:A`.
    """
    return insert(TaskEvent).values(actor=actor, event=event, detail=detail)
