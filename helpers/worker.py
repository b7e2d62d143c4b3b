"""One worker process: it claims a task, does the work, completes the task, and ends.

    python -m helpers.worker NAME [--lease-seconds S] [--crash-after-claim] [--hold-after-claim] [--hold]
    python -m helpers.worker NAME --without-lease …      as in lesson 3: no lease, no attempt number

Exit codes: 0 done, or nothing to do; 2 the completion was refused, because the claim is stale; 17 the crash
that was asked for; 64 wrong usage; 69 the database cannot be used (no server, or a migration is missing).
"""

import argparse
import os
import re
import sys
from typing import NoReturn

from sqlalchemy import RowMapping
from sqlalchemy.exc import DBAPIError

from helpers.diagnosis import explain
from helpers.errors import LabError
from helpers.faults import EXIT_CRASH, POINTS, Faults, end_with_parent
from helpers.journal import Journal
from helpers.repository import locked
from helpers.repository.lease import StaleClaimError, checked_lease_seconds, claim_task, mark_as_completed

EXIT_DONE = 0
EXIT_STALE = 2
EXIT_USAGE = 64
EXIT_UNAVAILABLE = 69
EXIT_INTERRUPTED = 130

TEXTS = {
    "description": "Claims one task of the lab, does its work, completes it, and ends.",
    "epilog": (
        "Exit codes: 0 done or nothing to do, 2 a stale claim was refused, "
        f"{EXIT_CRASH} the crash that was asked for, {EXIT_USAGE} wrong usage, "
        f"{EXIT_UNAVAILABLE} the database cannot be used."
    ),
    "name": "the worker's name in its lines and in the ledger: letters and digits, at most 20",
    "lease": "how long the claim is valid, in seconds (default: 10)",
    "without_lease": "claim as in lesson 3: for ever, and without an attempt number",
    "crash_after_claim": "end without any cleanup, once the claim is committed",
    "hold": "wait for Enter before the claim's COMMIT, so that its transaction stays open",
    "hold_after_claim": "wait for Enter, once the claim is committed",
    "crash_at": "crash at this point (may be given more than once): " + ", ".join(POINTS),
    "hold_at": "wait for Enter at this point (may be given more than once)",
    "bad_name": "{!r} is not a name: use letters and digits, at most 20",
    "bad_number": "{!r} is not a number of seconds",
}


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
    """Do the work. Saying so is its external effect: once the line is out, nothing takes it back."""
    journal.record("effect", task)


class Parser(argparse.ArgumentParser):
    """Wrong usage ends with 64 (EX_USAGE): argparse's own 2 is taken by the refused completion."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"{self.prog}: {message}\n")


def lease_argument(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(TEXTS["bad_number"].format(text)) from None
    try:
        return checked_lease_seconds(seconds)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def name_argument(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9]{1,20}", text):
        raise argparse.ArgumentTypeError(TEXTS["bad_name"].format(text))
    return text


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser(prog="helpers.worker", description=TEXTS["description"], epilog=TEXTS["epilog"], allow_abbrev=False)
    parser.add_argument("name", metavar="NAME", type=name_argument, help=TEXTS["name"])
    lease = parser.add_mutually_exclusive_group()
    lease.add_argument("--lease-seconds", metavar="S", type=lease_argument, default=10.0, help=TEXTS["lease"])
    lease.add_argument("--without-lease", action="store_true", help=TEXTS["without_lease"])
    parser.add_argument(
        "--crash-after-claim",
        dest="crash_at",
        action="append_const",
        const="after-claim",
        help=TEXTS["crash_after_claim"],
    )
    parser.add_argument("--hold", dest="hold_at", action="append_const", const="before-commit", help=TEXTS["hold"])
    parser.add_argument(
        "--hold-after-claim", dest="hold_at", action="append_const", const="after-claim", help=TEXTS["hold_after_claim"]
    )
    parser.add_argument("--crash-at", metavar="POINT", action="append", choices=POINTS, help=TEXTS["crash_at"])
    parser.add_argument("--hold-at", metavar="POINT", action="append", choices=POINTS, help=TEXTS["hold_at"])
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    end_with_parent()
    os.environ["PGAPPNAME"] = f"worker:{options.name}"  # who we are, for the ledger and for pg_stat_activity
    journal = Journal(options.name)
    faults = Faults(journal, crash_at=options.crash_at or (), hold_at=options.hold_at or ())
    try:
        journal.record("started")
        if options.without_lease:
            return run_without_lease(journal, faults)
        return run(options.lease_seconds, journal, faults)
    except LabError as error:
        message = str(error)
    except DBAPIError as error:
        message = explain(error)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    print(f"[{options.name}] {message}", file=sys.stderr)
    return EXIT_UNAVAILABLE


if __name__ == "__main__":
    sys.exit(main())
