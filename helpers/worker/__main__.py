"""Runs one worker process; see the package's description."""

import os
import sys

from helpers.processes.exits import exit_code
from helpers.processes.parent import end_with_parent
from helpers.worker.faults import Faults
from helpers.worker.heart import run, run_without_lease
from helpers.worker.journal import Journal
from helpers.worker.life import Life
from helpers.worker.options import is_of_lesson_3_or_4, parse
from helpers.worker.queues import queue_of
from helpers.worker.stopping import Stopping


def main(arguments: list[str] | None = None) -> int:
    """Run one worker and return its exit code."""
    options = parse(arguments)
    end_with_parent()
    os.environ["PGAPPNAME"] = f"worker:{options.name}"  # who we are, for the ledger and for pg_stat_activity
    journal = Journal(options.name)
    faults = Faults(journal, crash_at=options.crash_at or (), hold_at=options.hold_at or ())
    stopping = Stopping(options.grace_seconds)
    stopping.listen()

    def live() -> int:
        journal.record("started")
        if not is_of_lesson_3_or_4(options):
            return Life(options, queue_of(options), journal, faults, stopping).live()
        if options.without_lease:
            return run_without_lease(journal, faults)
        return run(options.lease_seconds, journal, faults)

    return exit_code(options.name, live)


if __name__ == "__main__":
    sys.exit(main())
