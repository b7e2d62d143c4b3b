"""A worker as it should not be: its claim, its work and its completion are one long transaction.

    python -m helpers.worker.long_transaction NAME

It holds in the middle, so that it can be killed there. Lesson 2 shows what PostgreSQL does then.
"""

import os
import sys

from sqlalchemy import update

from helpers.db import SessionFactory
from helpers.models import Task
from helpers.processes.exits import EXIT_ABANDONED, EXIT_DONE, exit_code
from helpers.processes.parent import end_with_parent
from helpers.worker.journal import HOLD_PROMPT

TEXTS = {
    "claimed": "[{name}] Set #{id} to processing. The transaction is open. " + HOLD_PROMPT,
    "completed": "[{name}] Set #{id} to completed, and committed.",
    "idle": "[{name}] #{id} is not pending.",
}


def process_in_one_transaction(name: str, task_id: int) -> None:
    """Claim the task, work, complete it; commit at the end alone. All that time the row is locked."""
    with SessionFactory.begin() as session:
        claim = update(Task).where(Task.id == task_id, Task.status == "pending").values(status="processing")
        if session.scalar(claim.returning(Task.id)) is None:
            print(TEXTS["idle"].format(name=name, id=task_id), flush=True)
            return
        print(TEXTS["claimed"].format(name=name, id=task_id), flush=True)
        wait_for_enter()  # the work
        session.execute(update(Task).where(Task.id == task_id).values(status="completed"))
    print(TEXTS["completed"].format(name=name, id=task_id), flush=True)


def wait_for_enter() -> None:
    if not sys.stdin.readline():  # end of input: nobody is left who could press Enter
        os._exit(EXIT_ABANDONED)


def main() -> int:
    name = sys.argv[1]
    end_with_parent()
    os.environ["PGAPPNAME"] = f"worker:{name}"

    def process() -> int:
        process_in_one_transaction(name, task_id=42)
        return EXIT_DONE

    return exit_code(name, process)


if __name__ == "__main__":
    sys.exit(main())
