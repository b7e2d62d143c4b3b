"""What a learner sees in a real kernel when something is missing, and what a restart leaves behind."""

import pytest

from helpers import lab
from tests.lab.kernels import START_SECONDS, Kernel


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
