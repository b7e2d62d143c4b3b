"""A real JupyterLab: who may talk to it, where it listens, what it tells, and how it ends."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from helpers import bootstrap, jupyter
from helpers.errors import LabError

WAIT_SECONDS = 90
PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from helpers import jupyter
sys.exit(jupyter.run(Path(sys.argv[1]), "first.ipynb", browser=False))
"""
EMPTY_NOTEBOOK = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


class Running:
    """JupyterLab under a process of its own, as the command line runs it."""

    def __init__(self, root: Path) -> None:
        (root / "first.ipynb").write_text(json.dumps(EMPTY_NOTEBOOK))
        self.home = root / "state"
        others = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(root), str(bootstrap.ROOT)],
            env={**others, "LAB_HOME": str(self.home), "LAB_PROOF": "inherited"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.process.stdout is not None
        self.told = ""
        while "Ctrl-C" not in self.told:
            line = self.process.stdout.readline()
            assert line, f"JupyterLab did not start: {self.told}"
            self.told += line
        found = re.search(r"(http://127\.0\.0\.1:(\d+))/lab/tree/first\.ipynb\?token=(\S+)", self.told)
        assert found, self.told
        self.address, self.port, self.token = found[1], int(found[2]), found[3]

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
        status, _ = self.ask("/api/kernels", self.token, {})
        assert status == 201
        (kernel,) = (process for process in self.family() if any("ipykernel" in part for part in process.cmdline()))
        return kernel


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    lab = Running(tmp_path_factory.mktemp("a lab"))
    yield lab
    if lab.process.poll() is None:
        lab.process.terminate()
    lab.process.communicate(timeout=WAIT_SECONDS)


def test_only_the_token_opens_the_door(running: Running) -> None:
    assert running.ask("/api/status")[0] == 403
    assert running.ask("/api/status", "wrong")[0] == 403
    assert running.ask("/api/status", running.token)[0] == 200


def test_the_token_is_in_no_command_line_and_in_no_file_that_others_can_read(running: Running) -> None:
    for process in psutil.process_iter(["cmdline"]):
        assert not any(running.token in part for part in process.info["cmdline"] or ())
    if os.name != "nt":
        assert (running.home / "jupyter").stat().st_mode & 0o077 == 0
        assert (running.home / "jupyter" / "jupyter.log").stat().st_mode & 0o077 == 0


def test_it_listens_on_loopback_alone(running: Running) -> None:
    listening = {
        connection.laddr.ip
        for process in running.family()
        for connection in process.net_connections()
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}


def test_it_asks_nobody_for_news(running: Running) -> None:
    _, page = running.ask("/lab", running.token)
    found = re.search(r'<script id="jupyter-config-data"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert found
    told = json.loads(found[1])
    assert told["news"] == {"disabled": True}
    assert told["extensionManager"]["can_install"] is False
    _, answer = running.ask("/lab/api/settings/@jupyterlab/apputils-extension:notification", running.token)
    properties = json.loads(answer)["schema"]["properties"]
    assert properties["fetchNews"]["default"] == "false"
    assert properties["checkForUpdates"]["default"] is False


def test_a_kernel_imports_this_checkout_and_inherits_the_environment(running: Running) -> None:
    environment = running.start_kernel().environ()
    assert environment["PYTHONPATH"].split(os.pathsep)[0] == str(bootstrap.ROOT)
    assert environment["LAB_PROOF"] == "inherited"


@pytest.mark.skipif(os.name == "nt", reason="needs SIGINT")
@pytest.mark.parametrize("name", ["SIGINT", "SIGHUP"])
def test_it_ends_with_its_kernels_and_says_so(name: str, tmp_path: Path) -> None:
    lab = Running(tmp_path)
    try:
        family = [lab.start_kernel(), *lab.family()]
    finally:
        lab.process.send_signal(getattr(signal, name))
    out, _ = lab.process.communicate(timeout=WAIT_SECONDS)
    assert lab.process.returncode == 0
    assert out.strip() == "JupyterLab has ended."
    _, alive = psutil.wait_procs(family, timeout=0)
    assert alive == []


def test_a_port_that_was_taken_meanwhile_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_HOME", str(tmp_path / "state"))
    free = jupyter._free_port()
    with socket.socket() as somebody:
        somebody.bind(("127.0.0.1", 0))
        somebody.listen()
        ports = iter([somebody.getsockname()[1], free])
        monkeypatch.setattr(jupyter, "_free_port", lambda: next(ports))
        lab = jupyter.start(tmp_path, "/lab", browser=False)
        try:
            assert lab.port == free
        finally:
            jupyter.stop(lab)


def test_a_failure_to_start_shows_the_end_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_HOME", str(tmp_path / "state"))
    monkeypatch.setitem(jupyter.OPTIONS, "ServerApp.ip", "no.such.host.invalid")
    began = time.monotonic()
    with pytest.raises(LabError, match=r"did not start(.|\n)*jupyter\.log(.|\n)*helpers doctor"):
        jupyter.start(tmp_path, "/lab", browser=False)
    assert time.monotonic() - began < jupyter.START_SECONDS, "the end of the process is noticed"


def test_without_a_screen_there_is_no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert not jupyter.has_display()
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    assert jupyter.has_display()
    monkeypatch.delenv("WAYLAND_DISPLAY")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert jupyter.has_display()
