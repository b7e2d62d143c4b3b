"""One worker process of lesson 1: it reads which tasks are pending, claims them one by one, and does their work.

    python -m helpers.worker.racer NAME --claim {naive,atomic} [--wait-for-start] [--crash-after-work]

Exit codes: 0 no task is left; 17 the crash that was asked for; 64 wrong usage; 69 the database cannot be used.
"""

import os
import sys
from collections.abc import Callable, Sequence

from sqlalchemy import RowMapping, func, select

from helpers.db import SessionFactory
from helpers.models import Task
from helpers.processes.exits import EXIT_DONE, exit_code
from helpers.processes.parent import end_with_parent
from helpers.repository import atomic, naive
from helpers.worker.faults import Faults
from helpers.worker.journal import Journal
from helpers.worker.options import Parser, name_argument

CLAIMS: dict[str, Callable[[int], int | None]] = {"naive": naive.try_claim_task, "atomic": atomic.try_claim_task}
START_LOCK = 4_242_001  # the key of an advisory lock: who holds it keeps all racers at the start

TEXTS = {
    "description": "Claims the lab's pending tasks one by one, and does their work, until none is left.",
    "name": "the worker's name in its lines and in the ledger: letters and digits, at most 20",
    "claim": "how it claims a task",
    "wait": "wait at the start until the lab lets everybody go at once",
    "crash": "end without any cleanup after the first task's work, before it is noted as completed",
}


def run(claim: Callable[[int], int | None], journal: Journal, faults: Faults) -> None:
    """Go through the pending tasks, and again, until there are none."""
    while tasks := pending_tasks():
        for task in tasks:
            if claim(task["id"]) is None:
                continue  # another worker has it
            journal.record("claimed", task)
            journal.record("effect", task)  # the work: once it is in the ledger, nothing takes it back
            faults.reach("before-completion", task)
            naive.set_status(task["id"], "completed")


def pending_tasks() -> Sequence[RowMapping]:
    """`id` and `type` of all pending tasks, in the order of their ids."""
    with SessionFactory.begin() as session:
        pending = select(Task.id, Task.type).where(Task.status == "pending").order_by(Task.id)
        return session.execute(pending).mappings().all()


def wait_for_start() -> None:
    """Wait until nobody holds the start lock."""
    with SessionFactory.begin() as session:
        session.execute(select(func.pg_advisory_xact_lock_shared(START_LOCK)))


def main(arguments: list[str] | None = None) -> int:
    parser = Parser(prog="helpers.worker.racer", description=TEXTS["description"], allow_abbrev=False)
    parser.add_argument("name", metavar="NAME", type=name_argument, help=TEXTS["name"])
    parser.add_argument("--claim", choices=CLAIMS, required=True, help=TEXTS["claim"])
    parser.add_argument("--wait-for-start", action="store_true", help=TEXTS["wait"])
    parser.add_argument("--crash-after-work", action="store_true", help=TEXTS["crash"])
    options = parser.parse_args(arguments)
    end_with_parent()
    os.environ["PGAPPNAME"] = f"worker:{options.name}"  # who we are, for the ledger and for pg_stat_activity
    journal = Journal(options.name)

    def race() -> int:
        if options.wait_for_start:
            wait_for_start()
        run(CLAIMS[options.claim], journal, Faults(journal, crash_at=["before-completion"] * options.crash_after_work))
        return EXIT_DONE

    return exit_code(options.name, race)


if __name__ == "__main__":
    sys.exit(main())
