"""Work of five leases' length, and a worker whose own clock is wrong: one run, one document."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from helpers import lab
from helpers.db import database_url
from helpers.lab.actors.documents import DocumentService
from helpers.lab.actors.workers import environment_for
from helpers.paths import ROOT

LEASE = 3.0
REMAINING = """
    SELECT extract(epoch FROM before_this - at)::float AS seconds
    FROM (SELECT at, attempt, old_status, new_status,
                 lag(lease_until) OVER (PARTITION BY task_id ORDER BY id) AS before_this
          FROM backend_training.task_events WHERE task_id = 42 AND event = 'update') AS changes
    WHERE old_status = 'processing' AND new_status = 'processing'
    ORDER BY at
"""
WRONG_CLOCK = """
import datetime, sys, time, time_machine
wrong = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes={minutes})
with time_machine.travel(wrong, tick=True):
    assert abs(datetime.datetime.now(datetime.timezone.utc) - wrong).total_seconds() < 60
    from helpers.worker.__main__ import main
    sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def documents() -> Iterator[DocumentService]:
    lab.rebuild(7)
    service = lab.start_documents()
    yield service
    lab.end_workers()
    service.kill()


def smallest_remaining_lease(renewals: int) -> float:
    """How much of the lease was left, in seconds, when it was renewed: the least of all renewals."""
    seconds = lab.query(REMAINING)["seconds"]
    assert len(seconds) >= renewals
    return float(seconds.min())


def test_work_of_five_leases_is_done_once(documents: DocumentService, capsys: pytest.CaptureFixture[str]) -> None:
    options = "--renew", "--retry", "--documents", documents.url, "--lease-seconds", LEASE
    busy = lab.start_worker("A", *options, "--work-seconds", 5 * LEASE, follow=False)
    lab.wait_until("(SELECT attempts = 1 FROM backend_training.tasks WHERE id = 42)")
    greedy = lab.start_worker("B", *options, "--drain", follow=False)
    busy.follow()
    greedy.follow()
    assert (busy.returncode, greedy.returncode) == (0, 0)
    assert lab.task(42)["attempts"] == 1
    assert [row["title"] for row in documents.rows()].count("Report of task #42") == 1
    assert lab.value("SELECT count(*) FROM backend_training.tasks WHERE status = 'completed'") == 3
    smallest = smallest_remaining_lease(renewals=5)
    with capsys.disabled():
        print(f"\nsmallest remaining lease: {smallest:.2f} s of {LEASE:g} s ({smallest / LEASE:.0%})")
    assert smallest > 0


def test_a_clock_five_minutes_wrong_changes_nothing(documents: DocumentService) -> None:
    """A worker with a wrong clock works for two leases, beside one that would take an expired task at once."""
    options = ["--renew", "--retry", "--documents", documents.url, "--lease-seconds", str(LEASE)]
    wrong = subprocess.Popen(
        [sys.executable, "-c", WRONG_CLOCK.format(minutes=5), "A", *options, "--work-seconds", str(2 * LEASE)],
        env=environment_for(database_url()),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    lab.wait_until("(SELECT attempts = 1 FROM backend_training.tasks WHERE id = 42)")
    assert lab.value(
        "SELECT lease_until - clock_timestamp() BETWEEN interval '0' AND make_interval(secs => :lease) "
        "FROM backend_training.tasks WHERE id = 42",
        lease=LEASE,
    )
    assert lab.start_worker("B", *options, "--drain").returncode == 0
    wrong.communicate(timeout=60)
    assert wrong.returncode == 0
    assert lab.task(42)["status"] == "completed"
    assert lab.task(42)["attempts"] == 1
    assert len(documents.rows()) == 3
    assert smallest_remaining_lease(renewals=2) > 0


@pytest.mark.parametrize("minutes", [5, -5])
def test_neither_does_it_give_or_take_a_lease(documents: DocumentService, minutes: int) -> None:
    """A worker with a wrong clock takes nothing over that another holds, and takes over what has expired."""

    def run_with_wrong_clock() -> str:
        done = subprocess.run(
            [sys.executable, "-c", WRONG_CLOCK.format(minutes=minutes), "W", "--retry"],
            env=environment_for(database_url()),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return done.stdout

    holder = lab.start_worker("A", "--retry", "--hold-after-claim", "--lease-seconds", 60)
    assert "Claimed #43" in run_with_wrong_clock()
    holder.kill()
    lab.execute("UPDATE backend_training.tasks SET lease_until = clock_timestamp() WHERE id = 42")
    assert "Claimed #42 (generate_report) as attempt 2" in run_with_wrong_clock()
