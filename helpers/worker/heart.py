"""The worker of lessons 3 and 4: one task, from its claim to its completion. `life` has all that came later."""

import sys

from sqlalchemy import RowMapping

from helpers.processes.exits import EXIT_DONE, EXIT_STALE
from helpers.repository import locked
from helpers.repository.lease import StaleClaimError, claim_task, mark_as_completed
from helpers.worker.faults import Faults
from helpers.worker.journal import Journal
from helpers.worker.work import compute


def run(lease_seconds: float, journal: Journal, faults: Faults) -> int:
    """Process one task, from its claim to its completion, and return the exit code."""
    faults.reach("before-claim")
    task = claim_task(lease_seconds)
    if task is None:
        journal.record("idle")
        return EXIT_DONE
    journal.record("claimed", task)
    faults.reach("after-claim", task)

    work_on(task, journal)

    faults.reach("before-completion", task)
    try:
        mark_as_completed(task["id"], task["attempts"])
    except StaleClaimError as refusal:
        journal.record("refused", task, detail=str(refusal))
        return EXIT_STALE
    journal.record("completed", task)
    faults.reach("after-completion", task)
    return EXIT_DONE


def run_without_lease(journal: Journal, faults: Faults) -> int:
    """Process one task as in lesson 3, from its claim to its completion, and return the exit code."""
    faults.reach("before-claim")
    task = locked.claim_task()
    if task is None:
        journal.record("idle")
        return EXIT_DONE
    journal.record("claimed", task)
    faults.reach("after-claim", task)

    work_on(task, journal)

    faults.reach("before-completion", task)
    locked.mark_as_completed(task["id"])
    journal.record("completed", task)
    faults.reach("after-completion", task)
    return EXIT_DONE


def work_on(task: RowMapping, journal: Journal) -> None:
    """Do the work. Saying so is its external effect: once the line is out, nothing takes it back.

    Where the work fails, the worker ends: nobody tries again before the lease has ended.
    """
    try:
        compute(task, seconds=0, between=lambda: None)
    except Exception as error:
        journal.record("failed", task, detail=f"{type(error).__name__}: {error}")
        sys.exit(EXIT_DONE)
    journal.record("effect", task)
