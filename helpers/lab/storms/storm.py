"""A storm, from its beginning to the verdict."""

import io
from collections import Counter
from contextlib import ExitStack, redirect_stdout
from typing import Any

import pandas as pd
from sqlalchemy import URL, text

from helpers.db import database_url, engine
from helpers.diagnosis import readable_errors
from helpers.errors import LabError
from helpers.lab.actors.documents import DocumentService, start_documents
from helpers.lab.actors.leftovers import end_leftovers
from helpers.lab.storms.fleet import LETTERS, Place
from helpers.lab.storms.forecast import forecast
from helpers.lab.storms.functions import Repository, packed
from helpers.lab.storms.progress import Progress
from helpers.lab.storms.proxy import network
from helpers.lab.storms.result import Storm
from helpers.lab.storms.verdict import Ruling, judge
from helpers.lab.storms.weather import settle, work_off
from helpers.schedules.monitor import EndlessTimestamptzLoader
from helpers.scripts import run_script
from helpers.views import read_ledger

STUCK_LEASES = 8  # where no task is completed for so long, none will be
DEFAULT_PORT = 5432
FIRST_ID = 1001
BOUNDS = {"tasks": (1, 5000), "workers": (1, len(LETTERS)), "seconds": (5, 600), "lease_seconds": (1, 60)}

TEXTS = {
    "tasks": "A storm needs 1 to 5000 tasks, not {value}.",
    "workers": "A storm has 1 to 8 workers, not {value}.",
    "seconds": "A storm lasts 5 to 600 seconds, not {value}.",
    "lease_seconds": "In a storm a lease lasts 1 to 60 seconds, not {value}.",
    "no_port": "A storm needs a server with a port, and DATABASE_URL names none.",
    "start": "The workers start.",
    "storm": "Storm: {done} of {tasks} tasks are completed.",
    "calm": "The storm is over, what is left is worked off: {done} of {tasks} tasks are completed.",
}

OLD_ROWS = text("TRUNCATE backend_training.tasks, backend_training.task_events")
# A death in a storm counts as an attempt, and no task is to end as failed for it.
NEW_TASKS = text("""
    INSERT INTO backend_training.tasks (id, type, max_attempts)
    SELECT id, 'generate_report', 1000 FROM generate_series(CAST(:first AS bigint), :last) AS id
""")
NEEDED = text("SELECT attempts, lease_until, max_attempts, retry_at, last_error FROM backend_training.tasks LIMIT 0")
TASKS = text("SELECT * FROM backend_training.tasks ORDER BY id")
LEDGER = text("SELECT * FROM backend_training.task_events ORDER BY id")


def storm(
    seed: int = 1,
    tasks: int = 300,
    workers: int = 6,
    seconds: float = 60.0,
    repository: Repository | None = None,
    lease_seconds: float = 3.0,
    renew: bool = True,
) -> Storm:
    """Let `workers` processes work off `tasks` tasks in a storm of `seconds` seconds, which `seed` decides.

    They are killed, frozen and woken, cut off from the server, and replaced; the document service is beside them. Then
    the storm is over, and what is left is worked off. The workers call the functions of `repository`, or the course's
    own; they renew their leases if `renew`. The rows of the lab's tables are replaced, and what this notebook has
    started before is ended: workers, sessions, the document service.

    Returns the storm with its verdict. Raises LabError where an argument is out of bounds.
    """
    check_bounds(tasks=tasks, workers=workers, seconds=seconds, lease_seconds=lease_seconds)
    server = server_with_port()
    strikes = forecast(seed, workers, seconds, lease_seconds)
    # Half of the time is work, the rest is left for all that goes wrong. Without renewals the work must fit the lease.
    work_seconds = min(0.5 * workers * seconds / tasks, 0.5 * lease_seconds)
    progress = Progress()
    progress.show(TEXTS["start"])

    def say(calm: bool, left: int) -> None:
        progress.show(TEXTS["calm" if calm else "storm"].format(done=tasks - left, tasks=tasks))

    with redirect_stdout(io.StringIO()), readable_errors(), ExitStack() as stack:  # each process prints lines
        documents = start_documents()
        stack.callback(documents.kill)
        prepare(tasks)
        options = ["--retry", "--drain", "--documents", documents.url, "--wait-seconds", f"{work_seconds:.3f}"]
        options += ["--lease-seconds", f"{lease_seconds:g}", *(["--renew"] if renew else [])]
        options += stack.enter_context(packed(repository))
        proxies = stack.enter_context(network(str(server.host), server.port or DEFAULT_PORT, workers))
        places = [Place(letter, proxy, options) for letter, proxy in zip(LETTERS, proxies, strict=False)]
        for place in places:
            stack.callback(place.end)
        work_off(places, strikes, seconds, STUCK_LEASES * lease_seconds, say)
        settle(places, lease_seconds)
        rulings, ledger = read_evidence(documents)
    failures = [line for place in places for line in place.failures]
    return Storm(seed, tasks, workers, seconds, strikes, rulings, ledger, failures)


def check_bounds(**values: float) -> None:
    for name, value in values.items():
        least, most = BOUNDS[name]
        if not least <= value <= most:  # NaN fails both comparisons
            raise LabError(TEXTS[name].format(value=value))


def server_with_port() -> URL:
    """Where the server listens: a proxy stands before a port, and not before a socket in a folder."""
    url = database_url()
    if not url.host or url.host.startswith("/"):
        raise LabError(TEXTS["no_port"])
    return url


def prepare(tasks: int) -> None:
    """Nothing but so many pending tasks, and an empty ledger. First end this notebook's workers and sessions."""
    end_leftovers()
    with engine().connect() as connection:
        connection.execute(NEEDED)  # before rows are dropped: these may be the tables of another lesson
    run_script("00_base/02_reset.sql")  # it checks the database's name
    with engine().begin() as connection:
        connection.execute(OLD_ROWS)
        connection.execute(NEW_TASKS, {"first": FIRST_ID, "last": FIRST_ID + tasks - 1})


def read_evidence(documents: DocumentService) -> tuple[list[Ruling], pd.DataFrame]:
    """The verdict on what is in the tables now, and in the document service; and the ledger."""
    titles = Counter(document["title"].rpartition("#")[2] for document in documents.rows())
    with engine().connect() as connection:
        driver: Any = connection.connection.driver_connection
        driver.adapters.register_loader("timestamptz", EndlessTimestamptzLoader)
        tasks, rows = ([dict(row) for row in connection.execute(sql).mappings()] for sql in (TASKS, LEDGER))
        return judge(tasks, rows, {task["id"]: titles[str(task["id"])] for task in tasks}), read_ledger(connection)
