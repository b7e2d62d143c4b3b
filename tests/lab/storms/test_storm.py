"""Whole storms: real workers, struck as the seed says, and the verdict on what they leave behind."""

import io
import threading
from collections.abc import Iterator
from contextlib import redirect_stdout

import psutil
import pytest

from helpers import lab
from helpers.db import database_url
from helpers.errors import LabError
from helpers.exercises.lease.wrong import completes_by_id
from helpers.lab.frame.facts import value, wait_until
from helpers.lab.storms import storm as module
from helpers.lab.storms.progress import Progress
from helpers.lab.storms.result import Storm
from helpers.paths import lab_home
from helpers.views import Timeline

SESSIONS = """
    SELECT array_agg(pid) FROM pg_stat_activity
    WHERE application_name LIKE 'worker:%' AND datname = current_database() OR
          application_name = 'documents' AND datname = current_database() || '_documents'
"""
# Each of the four workers is frozen for longer than its lease, one after the other, before anybody is killed.
LONG_FREEZES = 2927
SOME_OF_ALL = 1068  # of each kind one, within the first three seconds


@pytest.fixture(autouse=True)
def lesson9() -> Iterator[None]:
    """The tables as lesson 9 finds them; and afterwards no process, no session, no thread of a storm, and no file."""
    lab.rebuild(9)
    processes = set(psutil.Process().children(recursive=True))  # other tests keep a document service
    sessions = value(SESSIONS) or []
    yield
    assert set(psutil.Process().children(recursive=True)) <= processes
    wait_until(f"coalesce(({SESSIONS}) <@ CAST(:before AS integer[]), true)", timeout=10, before=sessions)
    assert "proxies" not in [thread.name for thread in threading.enumerate()]
    assert list(lab_home().glob("storm-*")) == []


def test_the_courses_own_functions_pass() -> None:
    storm = lab.storm(seed=SOME_OF_ALL, tasks=16, workers=3, seconds=6, lease_seconds=2)
    assert storm.passed, repr(storm)
    assert value("SELECT count(*) FROM backend_training.tasks WHERE status = 'completed'") == 16
    assert {"launched", "killed", "cut", "stalled", "flowing", "frozen", "woken"} <= set(storm.ledger["event"])
    assert "No rule was broken." in repr(storm)
    assert "in the end all of the 16" in repr(storm.chart())
    assert storm.timeline() == "No rule was broken."


def test_without_the_fence_stale_completions_are_found() -> None:
    repository = lab.Repository(mark_as_completed=completes_by_id)
    storm = lab.storm(LONG_FREEZES, 40, workers=4, seconds=10, repository=repository, lease_seconds=2, renew=False)
    assert not storm.passed
    assert not {"every task is completed", "each task has one document"} & set(storm.broken), repr(storm)
    assert f"Rules that were broken: {len(storm.broken)}." in repr(storm)
    for picture in (storm.chart(), storm.timeline()):
        assert isinstance(picture, Timeline)
        assert "image/png" in picture._repr_mimebundle_()[0]


def test_a_lease_without_end_is_no_error_of_the_storm() -> None:
    module.prepare(1)
    lab.execute("UPDATE backend_training.tasks SET status = 'processing', attempts = 1, lease_until = 'infinity'")
    with redirect_stdout(io.StringIO()):
        documents = lab.start_documents()
    rulings, ledger = module.read_evidence(documents)
    documents.kill()
    storm = Storm(1, 1, 1, 5, [], rulings, ledger, [])
    assert storm.broken == ["every task is completed"]
    assert "1001  processing  1         never" in repr(storm)


def test_functions_that_always_fail_end_the_storm_early_and_their_error_is_named() -> None:
    def claim_nothing(_lease_seconds: float) -> None:
        raise ZeroDivisionError("mine")

    repository = lab.Repository(claim_task=claim_nothing)
    storm = lab.storm(1, 5, workers=1, seconds=600, repository=repository, lease_seconds=60)
    assert storm.broken == ["every task is completed"]
    assert "ZeroDivisionError: mine" in repr(storm)


def test_an_interrupted_storm_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: Progress, line: str) -> None:
        if " of " in line and " 0 of " not in line:  # so workers are at work
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "show", interrupt)
    with pytest.raises(KeyboardInterrupt):
        lab.storm(1, 200, workers=2, seconds=60)
    # What must be gone is checked by the fixture above.


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"tasks": 0}, "1 to 5000 tasks, not 0"),
        ({"tasks": 5001}, "1 to 5000 tasks, not 5001"),
        ({"workers": 0}, "1 to 8 workers, not 0"),
        ({"workers": 9}, "1 to 8 workers, not 9"),
        ({"seconds": 4}, "5 to 600 seconds, not 4"),
        ({"seconds": float("nan")}, "5 to 600 seconds, not nan"),
        ({"lease_seconds": 0.5}, "1 to 60 seconds, not 0.5"),
    ],
)
def test_a_wrong_argument_is_named_and_changes_nothing(arguments: dict[str, float], said: str) -> None:
    with pytest.raises(LabError, match=said):
        lab.storm(**arguments)  # type: ignore[arg-type]
    assert value("SELECT count(*) FROM backend_training.tasks WHERE id IN (42, 43, 44)") == 3


def test_a_server_without_a_port_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "database_url", lambda: database_url().set(host="/var/run/postgresql"))
    with pytest.raises(LabError, match="a server with a port"):
        lab.storm()


def test_the_tasks_are_new_ones_and_the_ledger_begins_with_them() -> None:
    lab.execute("UPDATE backend_training.tasks SET status = 'processing' WHERE id = 42")
    module.prepare(3)
    ids = lab.query("SELECT id FROM backend_training.tasks WHERE status = 'pending' ORDER BY id")["id"]
    assert list(ids) == [1001, 1002, 1003]
    assert value("SELECT count(*) FROM backend_training.task_events") == 3
