"""The lab's workers: followed, held, killed, and never left behind."""

import _thread
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from helpers import lab
from helpers.errors import LabError
from helpers.lab.frame import facts
from helpers.paths import ROOT

Row = Callable[..., dict[str, object]]
pytestmark = pytest.mark.usefixtures("lesson4")


def sessions_of(worker: str) -> str:
    return (
        f"SELECT count(*) = 0 FROM pg_stat_activity "
        f"WHERE application_name = 'worker:{worker}' AND datname = current_database()"
    )


def ledger() -> list[tuple[str, str, str | None]]:
    rows = facts.query(
        "SELECT actor, event, detail FROM backend_training.task_events WHERE task_id IS NULL ORDER BY id"
    )
    return list(rows.itertuples(index=False, name=None))


def test_lines_and_exit_code_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    worker = lab.start_worker("A")
    assert worker.returncode == 0
    assert capsys.readouterr().out.splitlines() == [
        "[A] Claimed #42 (generate_report) as attempt 1. The claim is committed.",
        "[A] Finished the work of #42, attempt 1.",
        "[A] Completed #42, attempt 1.",
        "[A] exit code 0",
    ]


def test_the_exit_code_is_in_the_ledger_when_the_call_returns() -> None:
    lab.start_worker("A", "--crash-after-claim")
    assert ledger()[-1] == ("worker:A", "exited", "17")


def test_a_held_worker_is_killed(row: Row) -> None:
    worker = lab.start_worker("A", "--hold-after-claim")
    worker.kill()
    assert worker.returncode not in (None, 0, 2, 17)
    assert ledger()[-1][:2] == ("worker:A", "killed")
    assert row()["status"] == "processing"


def test_enter_for_a_worker_that_has_ended_is_a_sentence() -> None:
    worker = lab.start_worker("A")
    with pytest.raises(LabError, match="not waiting for Enter"):
        worker.press_enter()


def test_an_interrupted_cell_leaves_no_worker() -> None:
    held = lab.start_worker("A", "--hold-after-claim")
    pid = held._process.pid
    threading.Timer(0.5, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        held.follow()  # nothing more to come while it holds: it waits until it is interrupted
    assert held.returncode is not None
    assert not psutil.pid_exists(pid)
    lab.wait_until(sessions_of("A"))


def test_a_script_ends_the_workers_of_this_notebook_first(capsys: pytest.CaptureFixture[str]) -> None:
    held = lab.start_worker("A", "--hold-at", "before-claim")
    lab.run_script("04_lease_and_attempts/02_reset.sql")
    assert held.returncode is not None
    assert "[A] killed" in capsys.readouterr().out


def test_the_password_is_not_in_the_process_list() -> None:
    held = lab.start_worker("A", "--hold-after-claim")
    password = os.environ["DATABASE_URL"].split(":")[2].split("@")[0]
    assert password not in " ".join(psutil.Process(held._process.pid).cmdline())


@pytest.fixture
def orphan() -> Iterator[psutil.Process]:
    """A process that is noted as the worker of a lab that is gone."""
    gone = subprocess.Popen([sys.executable, "-c", "pass"])
    gone.wait()
    process = psutil.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    note = Path(os.environ["LAB_HOME"]) / "workers" / f"{process.pid}.json"
    note.parent.mkdir(exist_ok=True)
    note.write_text(json.dumps({"name": "Z", "started": process.create_time(), "parent": gone.pid}))
    yield process
    if process.is_running():
        process.kill()
    process.wait()
    note.unlink(missing_ok=True)


def test_a_stray_worker_is_found_and_stopped(orphan: psutil.Process) -> None:
    line = f"worker Z, process {orphan.pid}"
    assert line in lab.find_stray_workers()
    assert line in lab.stop_stray_workers()
    assert lab.find_stray_workers() == []


def test_a_pid_that_is_used_again_is_not_taken_for_a_worker(orphan: psutil.Process) -> None:
    note = Path(os.environ["LAB_HOME"]) / "workers" / f"{orphan.pid}.json"
    note.write_text(json.dumps({**json.loads(note.read_text()), "started": 1.0}))
    assert lab.stop_stray_workers() == []
    assert orphan.is_running()
    assert not note.exists()


def test_a_worker_of_a_living_lab_is_no_stray() -> None:
    held = lab.start_worker("A", "--hold-after-claim")
    assert lab.stop_stray_workers() == []
    held.press_enter()
    assert held.returncode == 0


def test_a_kernel_that_is_killed_leaves_no_worker_and_no_session() -> None:
    code = (
        "from helpers.lab import start_worker; start_worker('A', '--hold-after-claim'); "
        "print('holds', flush=True); input()"
    )
    kernel = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert kernel.stdout is not None
    while kernel.stdout.readline() != "holds\n":
        pass
    kernel.kill()
    kernel.communicate()
    lab.wait_until(sessions_of("A"))
    assert lab.find_stray_workers() == []
