"""A real JupyterLab under a process of its own."""

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from jupyter_client.blocking.client import BlockingKernelClient

from helpers import bootstrap

WAIT_SECONDS = 90
EMPTY_NOTEBOOK = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
# What the command `lab` does, on a folder of ours.
PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from helpers.inherited import restore
restore(own_session=True)  # a test sends the signals that `nohup` would ignore
from helpers import jupyter
sys.exit(jupyter.run(Path(sys.argv[1]), "first.ipynb", browser=False))
"""


class Running:
    """A command that runs JupyterLab with its state in `home`. Made when JupyterLab answers."""

    def __init__(self, command: list[str], home: Path, **environment: str) -> None:
        self.home = home
        others = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self.process = subprocess.Popen(
            command,
            cwd=bootstrap.ROOT,
            env={**others, "LAB_HOME": str(home), **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.read_until("Ctrl-C")
        found = re.search(r"((http://127\.0\.0\.1:(\d+))/lab/tree/\S+\.ipynb\?token=(\S+))", self.told)
        assert found, self.told
        self.url, self.address, self.port, self.token = found[1], found[2], int(found[3]), found[4]

    told = ""

    def read_until(self, words: str) -> None:
        assert self.process.stdout is not None
        while words not in self.told:
            line = self.process.stdout.readline()
            assert line, f"it ended: {self.told}"
            self.told += line

    def ask(self, path: str, token: str = "", body: object = None) -> tuple[int, str]:
        headers = {"Authorization": f"token {token}"} if token else {}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.address}{path}", data=data, headers=headers)
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, ""

    def family(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def start_kernel(self) -> psutil.Process:
        status, answer = self.ask("/api/kernels", self.token, {})
        assert status == 201
        self.kernel_id = json.loads(answer)["id"]
        (kernel,) = (process for process in self.family() if any("ipykernel" in part for part in process.cmdline()))
        return kernel

    def run_cell(self, code: str) -> None:
        """Run a cell in the kernel that was started, to its end. It must raise nothing."""
        client = BlockingKernelClient(
            connection_file=str(self.home / "jupyter" / "runtime" / f"kernel-{self.kernel_id}.json")
        )
        client.load_connection_file()
        client.start_channels()
        try:
            reply = client.execute(code, reply=True, timeout=WAIT_SECONDS)
        finally:
            client.stop_channels()
        assert reply["content"]["status"] == "ok", reply["content"]


def end(process: subprocess.Popen[str]) -> None:
    """End what a test has left, with all its descendants."""
    with suppress(psutil.NoSuchProcess):
        for member in [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]:
            with suppress(psutil.NoSuchProcess):
                member.kill()
    process.wait()
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()


@pytest.fixture(scope="module")
def jupyter_on() -> Iterator[Callable[[Path], Running]]:
    """A function that runs JupyterLab on a folder."""
    started: list[Running] = []

    def start(root: Path) -> Running:
        (root / "first.ipynb").write_text(json.dumps(EMPTY_NOTEBOOK))
        command = [sys.executable, "-c", PROGRAM, str(root), str(bootstrap.ROOT)]
        started.append(Running(command, root / "state", LAB_PROOF="inherited"))
        return started[-1]

    yield start
    for lab in started:
        end(lab.process)


@pytest.fixture
def lab_command() -> Iterator[Callable[..., Running]]:
    """A function that runs the command `lab` with its state in a folder; `prefix` stands before the command."""
    started: list[Running] = []

    def start(home: Path, *prefix: str, **environment: str) -> Running:
        command = [*prefix, sys.executable, "-m", "helpers", "lab", "--no-browser"]
        started.append(Running(command, home, **environment))
        return started[-1]

    yield start
    for lab in started:
        end(lab.process)
