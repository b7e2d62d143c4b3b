"""The document service of lesson 6, as a notebook starts it, spoils its answers, and counts its documents."""

from typing import Any

import httpx
from sqlalchemy import URL

from helpers.db import database_url
from helpers.documents.service import FAULTS
from helpers.errors import LabError
from helpers.lab.actors.leftovers import end_leftovers
from helpers.lab.actors.workers import Worker
from helpers.scripts import run_script
from helpers.servers.server import check_name
from helpers.views import Table

SUFFIX = "_documents"  # of the service's own database, beside the lab's
TIMEOUT_SECONDS = 30.0

TEXTS = {
    "listening": "Listening on ",
    "started": "The document service runs, in a process and with a database of its own. It has no documents.",
    "no_start": "The document service did not start: {lines}",
    "silent": "The document service does not answer. Run the cell with lab.start_documents() again.",
    "empty": "The document service has no documents.",
    "copied": "The tables of the document service are in the lab's database too, and empty there.",
    "none": "no documents",
    "unknown": 'There is no fault "{fault}". The faults are: {known}.',
}
COLUMNS = ["document_id", "title"]


class DocumentService:
    """A running service. `url` is what workers are told."""

    def __init__(self) -> None:
        self._database = service_database()
        self._process = Worker("documents", "helpers.documents", [], url=self._database, survives_reset=True)
        line = self._process.next_line()
        if line is None or not line.startswith(TEXTS["listening"]):
            self._process.kill()
            raise LabError(TEXTS["no_start"].format(lines=line or ""))
        self.url = line.removeprefix(TEXTS["listening"])

    def __repr__(self) -> str:
        return TEXTS["started"]

    def empty(self) -> None:
        """Drop all documents and keys, and forget about faults that were not used up."""
        self._ask("DELETE", "/documents")
        print(TEXTS["empty"])

    def documents(self) -> Table:
        """The service's own rows: what it has created, in this order."""
        rows = [[str(document[name]) for name in COLUMNS] for document in self.rows()]
        return Table(COLUMNS, rows, empty=TEXTS["none"])

    def rows(self) -> list[dict[str, Any]]:
        """The same rows as mappings with `document_id` and `title`."""
        found: list[dict[str, Any]] = self._ask("GET", "/documents").json()["documents"]
        return found

    def spoil(self, *faults: str) -> None:
        """Let the next answers go wrong, one after the other: "slow", "drop" or "fail".

        slow: the document is created, and the answer comes when nobody waits any more. drop: the document is created,
        and the connection is closed without an answer. fail: nothing is created, and the answer is an error.
        """
        for fault in faults:
            if fault not in FAULTS:
                raise LabError(TEXTS["unknown"].format(fault=fault, known=", ".join(FAULTS)))
        self._ask("PUT", "/faults", json={"next": list(faults)})

    def copy_tables(self) -> None:
        """Make the service's tables in the lab's database too, without rows: to see its SQL at work from the notebook.

        Sessions and workers of this notebook are ended first.
        """
        end_leftovers()
        run_script("06_idempotent_effects/03_document_service.sql")
        run_script("06_idempotent_effects/04_empty_service.sql")
        print(TEXTS["copied"])

    def is_usable(self) -> bool:
        """Whether the service answers, and has its database beside the one that the lab uses now."""
        try:
            self._ask("GET", "/documents")
        except LabError:
            return False
        return self._database == service_database()

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()

    def _ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        try:
            answer = httpx.request(method, self.url + path, timeout=TIMEOUT_SECONDS, trust_env=False, **more)
            return answer.raise_for_status()
        except httpx.HTTPError:
            raise LabError(TEXTS["silent"]) from None


def service_database() -> URL:
    """The service's own database: on the lab's server, and beside the lab's."""
    lab = database_url()
    return lab.set(database=check_name(f"{lab.database}{SUFFIX}", "the database of the document service"))


_service: DocumentService | None = None


def start_documents() -> DocumentService:
    """Start the document service, without documents.

    One that this notebook started before goes on, if it is usable: cells that know its address may be run again.
    """
    global _service
    if _service is None or not _service.is_usable():
        if _service is not None:
            _service.kill()
        _service = DocumentService()
    _service._ask("DELETE", "/documents")
    print(TEXTS["started"])
    return _service
