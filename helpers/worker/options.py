"""The command line of a worker."""

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from helpers.models import PRIORITIES
from helpers.processes.exits import EXIT_CRASH, EXIT_UNAVAILABLE, EXIT_USAGE
from helpers.repository.lease import checked_lease_seconds
from helpers.worker.faults import POINTS

TEXTS = {
    "description": "Claims one task of the lab, or a batch of them, does the work, completes it, and ends.",
    "epilog": (
        "Exit codes: 0 done, nothing to do, or stopped as asked; 2 a stale claim was refused; "
        f"{EXIT_CRASH} the crash that was asked for; {EXIT_USAGE} wrong usage; "
        f"{EXIT_UNAVAILABLE} the database cannot be used. "
        "After SIGTERM or Ctrl-C no task is claimed any more; the one in hand is finished in time or given back, "
        "and those of a batch whose work has not begun are given back."
    ),
    "name": "the worker's name in its lines and in the ledger: letters and digits, at most 20",
    "lease": "how long the claim is valid, in seconds (default: 10)",
    "without_lease": "claim as in lesson 3: for ever, and without an attempt number",
    "retry": "claim as in lesson 5: a task that fails is tried again later, at most max_attempts times",
    "renew": "renew the lease, from a thread of its own, while the work goes on",
    "by_priority": "claim as in lesson 7: the most urgent task first; implies --retry",
    "aging": "claim by priority, but let this many seconds of waiting make up for one step of it",
    "batch": "claim up to N tasks at once as in lesson 8, and process them one after the other; implies --retry",
    "quota": "how many tasks of a priority a batch takes first, at most, such as HIGH=5 (may be given more than once)",
    "drain": "work until nothing is left to claim; with --retry also wait for retry times and for leases of others",
    "work": "how long the work takes, in seconds of computing (default: 0)",
    "wait": "how long the work waits for something else, in seconds (default: 0)",
    "functions": "a file with functions that take the place of the course's own, as the lab's storm makes it",
    "no_file": "there is no file {!r}",
    "grace": "how long a task may still take after SIGTERM or Ctrl-C, in seconds (default: 5)",
    "documents": "the effect of a task is a document, which the document service at this URL creates",
    "key": (
        "the idempotency key of that request: the same for each attempt of a task (the default), "
        "another one for each attempt, or none"
    ),
    "outbox": "the request for the document is written into the outbox, with the completion",
    "crash_after_claim": "end without any cleanup, once the claim is committed",
    "hold": "wait for Enter before the claim's COMMIT, so that its transaction stays open",
    "hold_after_claim": "wait for Enter, once the claim is committed",
    "crash_at": "crash at this point (may be given more than once): " + ", ".join(POINTS),
    "hold_at": "wait for Enter at this point (may be given more than once)",
    "bad_name": "{!r} is not a name: use letters and digits, at most 20",
    "bad_number": "{!r} is not a number of seconds",
    "negative": "{!r} is not a number of seconds from 0 to a day",
    "not_above": "{!r} is not a number of seconds above 0, up to a day",
    "bad_batch": "{!r} is not a number of tasks from 1 to {}",
    "bad_quota": "{!r} is not a quota, such as HIGH=5; priorities are {}",
    "two_quotas": "--quota is given twice for {}",
    "no_batch": "--quota needs --batch",
    "bad_url": "{!r} is not the URL of a service on this machine, such as http://127.0.0.1:8080",
    "apart": "{one} cannot be used with {other}",
}
A_DAY = 86_400
LARGEST_BATCH = 1_000


class Parser(argparse.ArgumentParser):
    """Wrong usage ends with 64 (EX_USAGE): argparse's own 2 is taken by the refused completion."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"{self.prog}: {message}\n")


def name_argument(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9]{1,20}", text):
        raise argparse.ArgumentTypeError(TEXTS["bad_name"].format(text))
    return text


def lease_argument(text: str) -> float:
    try:
        return checked_lease_seconds(number(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def seconds_argument(text: str) -> float:
    seconds = number(text)
    if not 0 <= seconds <= A_DAY:  # NaN fails both comparisons
        raise argparse.ArgumentTypeError(TEXTS["negative"].format(text))
    return seconds


def aging_argument(text: str) -> float:
    seconds = number(text)
    if not 0 < seconds <= A_DAY:
        raise argparse.ArgumentTypeError(TEXTS["not_above"].format(text))
    return seconds


def batch_argument(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or not 1 <= int(text) <= LARGEST_BATCH:
        raise argparse.ArgumentTypeError(TEXTS["bad_batch"].format(text, LARGEST_BATCH))
    return int(text)


def quota_argument(text: str) -> tuple[str, int]:
    priority, _, quota = text.partition("=")
    if priority not in PRIORITIES or not re.fullmatch(r"[0-9]{1,9}", quota):
        raise argparse.ArgumentTypeError(TEXTS["bad_quota"].format(text, ", ".join(PRIORITIES)))
    return priority, int(quota)


def url_argument(text: str) -> str:
    if not re.fullmatch(r"http://(127\.0\.0\.1|localhost):\d+", text):
        raise argparse.ArgumentTypeError(TEXTS["bad_url"].format(text))
    return text


def file_argument(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise argparse.ArgumentTypeError(TEXTS["no_file"].format(text))
    return path


def number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(TEXTS["bad_number"].format(text)) from None


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The options of one worker. Ends the process with EXIT_USAGE where they make no sense."""
    parser = Parser(prog="helpers.worker", description=TEXTS["description"], epilog=TEXTS["epilog"], allow_abbrev=False)
    parser.add_argument("name", metavar="NAME", type=name_argument, help=TEXTS["name"])
    lease = parser.add_mutually_exclusive_group()
    lease.add_argument("--lease-seconds", metavar="S", type=lease_argument, default=10.0, help=TEXTS["lease"])
    lease.add_argument("--without-lease", action="store_true", help=TEXTS["without_lease"])
    parser.add_argument("--renew", action="store_true", help=TEXTS["renew"])
    parser.add_argument("--retry", action="store_true", help=TEXTS["retry"])
    order = parser.add_mutually_exclusive_group()
    order.add_argument("--by-priority", action="store_true", help=TEXTS["by_priority"])
    order.add_argument("--aging-seconds", metavar="S", type=aging_argument, help=TEXTS["aging"])
    order.add_argument("--batch", metavar="N", type=batch_argument, help=TEXTS["batch"])
    parser.add_argument(
        "--quota", metavar="PRIORITY=N", type=quota_argument, action="append", default=[], help=TEXTS["quota"]
    )
    parser.add_argument("--drain", action="store_true", help=TEXTS["drain"])
    parser.add_argument("--work-seconds", metavar="S", type=seconds_argument, default=0.0, help=TEXTS["work"])
    parser.add_argument("--wait-seconds", metavar="S", type=seconds_argument, default=0.0, help=TEXTS["wait"])
    parser.add_argument("--grace-seconds", metavar="S", type=seconds_argument, default=5.0, help=TEXTS["grace"])
    effect = parser.add_mutually_exclusive_group()
    effect.add_argument("--documents", metavar="URL", type=url_argument, help=TEXTS["documents"])
    effect.add_argument("--outbox", action="store_true", help=TEXTS["outbox"])
    parser.add_argument("--key", choices=("task", "attempt", "none"), help=TEXTS["key"])
    parser.add_argument("--functions", metavar="FILE", type=file_argument, help=TEXTS["functions"])
    add_points(parser)
    options = parser.parse_args(arguments)
    check(parser, options)
    return options


def check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Refuse what makes sense for itself, but not together."""
    if options.without_lease:
        for later in "renew", "retry", "outbox", "by_priority", "aging_seconds", "batch":
            if getattr(options, later):
                parser.error(TEXTS["apart"].format(one="--without-lease", other="--" + later.replace("_", "-")))
    priorities = [priority for priority, _ in options.quota]
    if priorities and not options.batch:
        parser.error(TEXTS["no_batch"])
    for priority in priorities:
        if priorities.count(priority) > 1:
            parser.error(TEXTS["two_quotas"].format(priority))


def is_of_lesson_3_or_4(options: argparse.Namespace) -> bool:
    """Whether nothing is asked for that came after lesson 4."""
    later = (
        *("renew", "retry", "drain", "work_seconds", "wait_seconds", "documents", "outbox", "functions"),
        *("by_priority", "aging_seconds", "batch"),
    )
    points = {*(options.crash_at or ()), *(options.hold_at or ())}
    return not any(getattr(options, name) for name in later) and not points & {"in-work", "after-effect"}


def add_points(parser: argparse.ArgumentParser) -> None:
    """The options that say where to crash and where to hold."""
    add: Callable[..., object] = parser.add_argument
    add(
        "--crash-after-claim",
        dest="crash_at",
        action="append_const",
        const="after-claim",
        help=TEXTS["crash_after_claim"],
    )
    add("--hold", dest="hold_at", action="append_const", const="before-commit", help=TEXTS["hold"])
    add(
        "--hold-after-claim", dest="hold_at", action="append_const", const="after-claim", help=TEXTS["hold_after_claim"]
    )
    add("--crash-at", metavar="POINT", action="append", choices=POINTS, help=TEXTS["crash_at"])
    add("--hold-at", metavar="POINT", action="append", choices=POINTS, help=TEXTS["hold_at"])
