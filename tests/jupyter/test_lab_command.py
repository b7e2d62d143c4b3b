"""The command `lab` as it is typed: killed, called twice, interrupted while JupyterLab starts."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from filelock import FileLock

from helpers import bootstrap, jupyter, lab
from helpers.errors import LabError
from helpers.jupyter import running
from helpers.jupyter.address import Address

if TYPE_CHECKING:
    from tests.jupyter.conftest import Running

LabCommand = Callable[..., "Running"]
WAIT_SECONDS = 90
IGNORING = ["sh", "-c", 'trap "" INT TERM HUP PIPE; exec "$@"', "sh"]
needs_signals = pytest.mark.skipif(os.name == "nt", reason="needs the signals of POSIX")

# What a notebook can have: a worker at work, one that is frozen, and a process of the learner's with a session of its
# own, which has nothing from the lab that would end it.
FAMILY = """
import subprocess, sys
from helpers import lab
for name in ("A", "B"):
    lab.start_worker(name, "--renew", "--retry", "--work-seconds", 600, follow=False)
lab.wait_until("(SELECT count(*) = 2 FROM backend_training.task_events WHERE event = 'started')")
lab.wait_until("(SELECT count(*) = 2 FROM backend_training.tasks WHERE status = 'processing')")
own = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
"""
NO_WORKER = """
    (SELECT count(*) = 0 FROM pg_stat_activity
     WHERE application_name LIKE 'worker:%' AND datname = current_database())
"""
# JupyterLab reads this at its start, and gets no further. A process is under it already.
NEVER_STARTS = """
import subprocess, sys, threading
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open({fact!r}, "w").close()
threading.Event().wait()
"""


def is_gone(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    return True


def call(home: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "helpers", "lab", *arguments],
        cwd=bootstrap.ROOT,
        env={**os.environ, "LAB_HOME": str(home), **environment},
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )


@needs_signals
@pytest.mark.usefixtures("lesson5")
def test_a_command_that_is_killed_takes_everything_with_it_and_hinders_no_other(
    lab_command: LabCommand, tmp_path: Path, eventually: Callable[[Callable[[], object]], None]
) -> None:
    command = lab_command(tmp_path, *IGNORING)
    command.start_kernel()
    command.run_cell(FAMILY)
    assert command.ask("/api/terminals", command.token, {})[0] == 200
    family = command.family()
    lines = [" ".join(process.cmdline()) for process in family]
    for part in ("helpers.jupyter", "ipykernel", "helpers.worker A", "helpers.worker B", "time.sleep"):
        assert any(part in line for line in lines), lines
    next(process for process, line in zip(family, lines, strict=True) if "helpers.worker B" in line).suspend()
    command.process.kill()
    eventually(lambda: all(is_gone(process) for process in family))
    lab.wait_until(NO_WORKER)

    assert (tmp_path / "jupyter" / "running.json").exists(), "the crash has left something"
    again = lab_command(tmp_path)
    assert again.token != command.token
    assert again.ask("/api/status", again.token)[0] == 200


def test_a_second_call_says_what_runs_starts_nothing_and_opens_the_browser_there(
    lab_command: LabCommand, tmp_path: Path, eventually: Callable[[Callable[[], object]], None]
) -> None:
    command = lab_command(tmp_path / "state")
    family = command.family()
    second = call(tmp_path / "state", "--no-browser")
    assert (second.returncode, second.stderr) == (0, "")
    assert second.stdout == jupyter.RUNS.format(url=command.url) + "\n"
    assert command.family() == family
    assert command.ask("/api/status", command.token)[0] == 200
    if os.name == "nt":
        return  # there a browser cannot be a shell script, and files have no mode
    for name in ("running.json", "open.html"):
        assert (tmp_path / "state" / "jupyter" / name).stat().st_mode & 0o077 == 0
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$@" > "{tmp_path}/draft" && mv "{tmp_path}/draft" "{tmp_path}/opened"\n')
    browser.chmod(0o700)
    assert call(tmp_path / "state", BROWSER=str(browser)).returncode == 0
    eventually((tmp_path / "opened").exists)
    opened = (tmp_path / "opened").read_text().strip()
    assert command.token not in opened, "a command line can be read by everybody"
    assert f"url={command.url}" in Path(opened.removeprefix("file://")).read_text()


@pytest.mark.thorough
def test_two_folders_do_not_disturb_each_other(lab_command: LabCommand, tmp_path: Path) -> None:
    one, other = lab_command(tmp_path / "one"), lab_command(tmp_path / "other")
    assert one.port != other.port
    for command in (one, other):
        assert command.ask("/api/status", command.token)[0] == 200
        assert call(command.home, "--no-browser").stdout == jupyter.RUNS.format(url=command.url) + "\n"


def test_a_call_that_comes_while_another_one_starts_waits_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    starting = FileLock(running.home() / "running.lock", is_singleton=False)
    starting.acquire()
    monkeypatch.setattr("time.sleep", lambda _: starting.release())  # it ends while we wait
    with running.reserve() as address:
        assert address is None
    assert capsys.readouterr().out == running.WAITING + "\n"


def test_one_that_does_not_answer_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    monkeypatch.setattr(running, "ANSWER_SECONDS", 0)
    with FileLock(running.home() / "running.lock", is_singleton=False):
        running.record(Address(9, "token", "/lab"))  # nobody listens there
        with pytest.raises(LabError, match="does not answer"), running.reserve():
            pass


def test_the_record_goes_with_the_reservation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    (running.home() / "running.json").write_text(json.dumps({"of": "another version"}))
    with running.reserve() as address:
        assert address is None
        running.record(Address(9, "token", "/lab"))
    assert [path.name for path in running.home().iterdir() if "lock" not in path.name] == []


@needs_signals
@pytest.mark.parametrize("name", ["SIGINT", pytest.param("SIGTERM", marks=pytest.mark.thorough)])
def test_an_interrupted_start_is_a_sentence_and_leaves_nothing(
    name: str, tmp_path: Path, eventually: Callable[[Callable[[], object]], None]
) -> None:
    fact, configuration = tmp_path / "fact", tmp_path / "state" / "jupyter" / "config"
    configuration.mkdir(parents=True)
    (configuration / "jupyter_server_config.py").write_text(NEVER_STARTS.format(fact=str(fact)))
    command = subprocess.Popen(
        [*IGNORING, sys.executable, "-m", "helpers", "lab", "--no-browser"],
        cwd=bootstrap.ROOT,
        env={**os.environ, "LAB_HOME": str(tmp_path / "state")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        eventually(fact.exists)
        family = psutil.Process(command.pid).children(recursive=True)
        assert len(family) == 2
    finally:
        command.send_signal(getattr(signal, name))
    out, err = command.communicate(timeout=WAIT_SECONDS)
    assert (command.returncode, err) == (130, "Interrupted.\n")
    assert out.endswith(jupyter.STARTING + "\n")
    assert all(is_gone(process) for process in family)


@needs_signals
def test_under_nohup_a_hang_up_does_not_end_it() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with jupyter._ctrl_c_for_all_ends():
            try:
                signal.raise_signal(signal.SIGHUP)
            except KeyboardInterrupt:
                pytest.fail("the hang-up was heard")
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGHUP, before)
