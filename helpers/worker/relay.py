"""The sender of the outbox: a process of its own, which delivers what the workers have noted.

    python -m helpers.worker.relay NAME --documents URL [--lease-seconds S] [--crash-at POINT]

It ends when nothing is left to deliver. Exit codes as in `helpers.worker`.
"""

import os
import sys

from helpers.documents.client import create_document
from helpers.processes.exits import EXIT_DONE, exit_code
from helpers.processes.parent import end_with_parent
from helpers.repository.outbox import claim_request, mark_as_delivered
from helpers.worker.faults import Faults
from helpers.worker.journal import Journal
from helpers.worker.options import Parser, lease_argument, name_argument, url_argument

POINTS = ("before-delivery", "after-delivery")

TEXTS = {
    "description": "Sends the requests of the outbox to the document service, until none is left.",
    "name": "the sender's name in its lines and in the ledger: letters and digits, at most 20",
    "documents": "the URL of the document service",
    "lease": "how long a request is this sender's alone, in seconds (default: 10)",
    "crash_at": "crash at this point: " + ", ".join(POINTS),
    "document": "document {document_id}",
}


def run(url: str, lease_seconds: float, journal: Journal, faults: Faults) -> int:
    """Deliver request after request. An error leaves the request to its lease: it is delivered later."""
    while (request := claim_request(lease_seconds)) is not None:
        task = {"id": request["task_id"]}
        journal.record("delivering", task)
        faults.reach("before-delivery", task)

        def on_retry(reason: str, task: dict[str, int] = task) -> None:
            journal.record("asking_again", task, detail=reason)

        answer = create_document(url, request["request"], request["idempotency_key"], on_retry)
        faults.reach("after-delivery", task)
        mark_as_delivered(request["id"])
        journal.record("delivered", task, detail=TEXTS["document"].format(**answer))
    journal.record("all_delivered")
    return EXIT_DONE


def main(arguments: list[str] | None = None) -> int:
    parser = Parser(prog="helpers.worker.relay", description=TEXTS["description"], allow_abbrev=False)
    parser.add_argument("name", metavar="NAME", type=name_argument, help=TEXTS["name"])
    parser.add_argument("--documents", metavar="URL", type=url_argument, required=True, help=TEXTS["documents"])
    parser.add_argument("--lease-seconds", metavar="S", type=lease_argument, default=10.0, help=TEXTS["lease"])
    parser.add_argument("--crash-at", metavar="POINT", action="append", choices=POINTS, help=TEXTS["crash_at"])
    options = parser.parse_args(arguments)
    end_with_parent()
    os.environ["PGAPPNAME"] = f"worker:{options.name}"
    journal = Journal(options.name)
    faults = Faults(journal, crash_at=options.crash_at or ())
    return exit_code(options.name, lambda: run(options.documents, options.lease_seconds, journal, faults))


if __name__ == "__main__":
    sys.exit(main())
