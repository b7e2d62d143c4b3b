"""What a learner sees in a real kernel when something is missing, and what a restart leaves behind."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel

from helpers import lab
from helpers.db import forget_engine
from helpers.servers import stop_server

START_SECONDS = 120


class Kernel:
    """A kernel that runs one piece of code after the other."""

    def __init__(self) -> None:
        self.manager: KernelManager
        self.client: BlockingKernelClient
        self.manager, self.client = start_new_kernel(startup_timeout=START_SECONDS)

    def run(self, code: str) -> str:
        """Run `code` and return what it printed, or the lines that it shows for an error."""
        shown: list[str] = []

        def note(message: dict[str, Any]) -> None:
            content = message["content"]
            if message["msg_type"] == "stream":
                shown.append(content["text"])
            elif message["msg_type"] == "error":
                shown.append("\n".join(content["traceback"]))

        self.client.execute_interactive(code, output_hook=note, timeout=START_SECONDS)
        return "".join(shown)


@pytest.fixture(autouse=True)
def name_of_the_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The sessions of this process are not called `lab`, as those of a kernel are."""
    monkeypatch.setenv("PGAPPNAME", "test")
    forget_engine()
    yield
    forget_engine()


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    kernel = Kernel()
    yield kernel
    kernel.client.stop_channels()
    kernel.manager.shutdown_kernel(now=True)


@pytest.fixture
def server_of_its_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An embedded server that a test may stop. PostgreSQL's user must reach its folder, so pytest's own will not do."""
    home = Path(tempfile.mkdtemp(prefix="task42-test-", dir="/var/tmp" if os.name == "posix" else None))
    home.chmod(0o755)
    monkeypatch.delenv("DATABASE_URL")
    monkeypatch.setenv("LAB_SERVER", "embedded")
    monkeypatch.setenv("LAB_HOME", str(home))
    yield
    stop_server()
    shutil.rmtree(home, ignore_errors=True)


def test_a_server_that_was_stopped_in_mid_lesson_is_a_sentence(server_of_its_own: None, kernel: Kernel) -> None:
    kernel.run("from helpers import lab; lab.open(4); lab.run_script('04_lease_and_attempts/01_migrate.sql')")
    kernel.run(
        "from helpers.repository.lease import claim_task; from helpers.servers import stop_server; stop_server()"
    )
    for cell in ("lab.tasks()", "lab.query('SELECT 1')", "claim_task(10)"):
        said = kernel.run(cell)
        assert "python3 -m helpers doctor" in said, cell
        assert "Traceback" not in said, cell
    assert "Lesson 4 is open" in kernel.run("lab.open(4)"), "opening the lesson starts the server again"


def test_an_error_of_the_learner_keeps_its_traceback(kernel: Kernel) -> None:
    kernel.run("from helpers import lab; lab.open(4)")
    said = kernel.run("from helpers.repository.lease import claim_task\nclaim_task(10)")
    assert "Traceback" in said
    assert "lease_until" in said


def test_a_name_of_an_earlier_cell_is_explained(kernel: Kernel) -> None:
    assert kernel.run("lab.tasks()") == "This notebook is not set up yet. Run its first code cell, then this one."
    said = kernel.run("LEASE")
    assert "Traceback" in said
    assert "run the cells above first" in said


@pytest.mark.parametrize("restart", ["request", "kill"])
def test_a_restarted_kernel_leaves_no_worker_and_no_session(kernel: Kernel, restart: str) -> None:
    kernel.run("from helpers import lab; lab.open(4); lab.run_script('04_lease_and_attempts/01_migrate.sql')")
    assert "Holding" in kernel.run("lab.start_worker('A', '--hold-after-claim')")
    if restart == "kill":
        kernel.manager.shutdown_kernel(now=True)
    else:
        kernel.manager.restart_kernel()
    sessions = (
        "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = current_database() AND application_name = :name"
    )
    lab.wait_until(sessions, name="worker:A")
    lab.wait_until(sessions, name="lab")
    assert lab.find_stray_workers() == []


def test_an_interrupted_cell_leaves_no_worker(kernel: Kernel) -> None:
    kernel.run("from helpers import lab; lab.open(4); lab.run_script('04_lease_and_attempts/01_migrate.sql')")
    assert "Holding" in kernel.run("lab.start_worker('A', '--hold-after-claim')")
    kernel.client.execute("print('now'); import time; time.sleep(600)")
    while kernel.client.get_iopub_msg(timeout=START_SECONDS)["msg_type"] != "stream":
        pass
    kernel.manager.interrupt_kernel()
    assert kernel.client.get_shell_msg(timeout=START_SECONDS)["content"]["ename"] == "KeyboardInterrupt"
    lab.wait_until(
        "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'worker:A'"
    )
