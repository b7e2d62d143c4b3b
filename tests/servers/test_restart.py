"""The server dies under three workers that drain the queue, and comes back: every task ends, once."""

import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from helpers import lab
from helpers.db import database_url, forget_engine
from helpers.lab.actors.documents import DocumentService
from helpers.servers import embedded

TASKS = 60
MANY_TASKS = f"""
    INSERT INTO backend_training.tasks (id, type)
    SELECT id, 'generate_report' FROM generate_series(100, {100 + TASKS - 4}) AS id
"""
SOME_DONE = "(SELECT count(*) >= 10 FROM backend_training.tasks WHERE status = 'completed')"
STATUSES = "SELECT status, count(*) AS tasks FROM backend_training.tasks GROUP BY status ORDER BY status"
COMPLETIONS = """
    SELECT task_id, count(*) AS times FROM backend_training.task_events
    WHERE event = 'update' AND new_status = 'completed' GROUP BY task_id HAVING count(*) <> 1
"""


@pytest.fixture
def documents(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DocumentService]:
    """The lab of lesson 6 on a server of its own, which may be killed."""
    url = embedded.find().url
    monkeypatch.setenv("DATABASE_URL", url.render_as_string(hide_password=False))
    monkeypatch.setenv("LAB_SERVER", "url")
    forget_engine()
    lab.rebuild(7)
    service = lab.start_documents()
    yield service
    lab.end_workers()
    service.kill()
    forget_engine()


def kill_server(home: Path) -> None:
    """SIGKILL for the postmaster, as a power cut: nothing is flushed and nobody is told."""
    pid = int((home / "postgres" / "cluster" / "data" / "postmaster.pid").read_text().splitlines()[0])
    postmaster = psutil.Process(pid)
    os.kill(pid, signal.SIGKILL)
    psutil.wait_procs([postmaster], timeout=20)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_server_that_is_killed_in_mid_drain_costs_no_task_and_no_second_document(
    home: Path, documents: DocumentService, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.execute(MANY_TASKS)
    options = "--renew", "--retry", "--drain", "--documents", documents.url, "--lease-seconds", 4
    workers = [lab.start_worker(name, *options, "--work-seconds", 0.1, follow=False) for name in "ABC"]
    lab.wait_until(SOME_DONE)
    kill_server(home)
    assert all(worker.returncode is None for worker in workers)
    assert embedded.find().url == database_url(), "the port is the same"
    for worker in workers:
        worker.follow()
    assert "The database does not answer. Trying again." in capsys.readouterr().out
    assert [worker.returncode for worker in workers] == [0, 0, 0]
    assert lab.query(STATUSES).to_dict("records") == [{"status": "completed", "tasks": TASKS}]
    assert lab.query(COMPLETIONS).empty
    documents_of = Counter(row["title"] for row in documents.rows())
    assert len(documents_of) == TASKS
    assert set(documents_of.values()) == {1}
