"""Ctrl-C while the embedded server is made: a sentence, nothing is left running, and the next call mends it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from helpers.paths import ROOT
from helpers.servers import embedded

WAIT_SECONDS = 90


@pytest.mark.thorough
@pytest.mark.skipif(os.name == "nt", reason="Windows sends no SIGINT to one process")
def test_an_interrupted_first_start_is_made_good(
    new_home: Path, eventually: Callable[[Callable[[], object]], None]
) -> None:
    server = embedded.Embedded(new_home / "postgres")
    server.home.mkdir(parents=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "helpers", "reset", "--server", "embedded"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    eventually(lambda: list(server.folder.glob("new-*/data")))  # initdb is at work
    family = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=WAIT_SECONDS) == ("", "Interrupted.\n")
    assert process.returncode == 130
    _, alive = psutil.wait_procs(family, timeout=WAIT_SECONDS)
    assert alive == []
    assert embedded.find().kind == "embedded"
