"""Ctrl-C at odd moments: exit code 130, one sentence, and nothing is left running that the command started."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parent.parent
WAIT_SECONDS = 90
WHILE_IMPORTING = """
import runpy, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "helpers.cli":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
runpy.run_module("helpers", run_name="__main__")
"""

Start = Callable[..., subprocess.Popen[str]]
needs_signals = pytest.mark.skipif(os.name == "nt", reason="Windows sends no SIGINT to one process")


@pytest.fixture
def start() -> Iterator[Start]:
    """A function that starts Python with the given arguments, in a group of its own as a shell does."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield run
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def read_until(process: subprocess.Popen[str], words: str) -> None:
    assert process.stdout is not None
    while words not in (line := process.stdout.readline()):
        assert line, process.stderr.read() if process.stderr else ""


def press_ctrl_c(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Send SIGINT to the whole group, as a terminal does. Returns what the command said after it."""
    family = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGINT)
    told = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 130, told
    _, alive = psutil.wait_procs(family, timeout=0)
    assert alive == []
    return told


def test_while_the_command_line_itself_is_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WHILE_IMPORTING], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Interrupted.\n")


@needs_signals
def test_while_a_lesson_runs(start: Start) -> None:
    process = start("-m", "helpers", "run", "1")
    read_until(process, "==")
    assert press_ctrl_c(process)[1] == "Interrupted.\n"


@needs_signals
@pytest.mark.thorough
def test_while_a_kernel_starts(start: Start, eventually: Callable[[Callable[[], object]], None]) -> None:
    process = start("-m", "helpers", "run", "1")
    eventually(lambda: psutil.Process(process.pid).children())
    assert press_ctrl_c(process)[1] == "Interrupted.\n"


@needs_signals
def test_while_tests_run(start: Start) -> None:
    """The test that is interrupted never ends by itself, and has started a worker."""
    process = start(
        *("-m", "helpers", "test", "-p", "no:xdist", "-p", "no:cacheprovider", "--override-ini", "addopts=", "-s"),
        "tests/endless.py",
    )
    read_until(process, "holding")
    _, err = press_ctrl_c(process)
    assert "Traceback" not in err
