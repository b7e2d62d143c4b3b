"""A real JupyterLab: who may talk to it, where it listens, what it tells, and how it ends."""

import json
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from helpers import bootstrap, jupyter
from helpers.errors import LabError
from helpers.jupyter import server

if TYPE_CHECKING:
    from tests.jupyter.conftest import Running

WAIT_SECONDS = 90


@pytest.fixture(scope="module")
def running(jupyter_on: Callable[[Path], "Running"], tmp_path_factory: pytest.TempPathFactory) -> Iterator["Running"]:
    lab = jupyter_on(tmp_path_factory.mktemp("a lab"))
    yield lab
    if lab.process.poll() is None:
        lab.process.terminate()
    lab.process.communicate(timeout=WAIT_SECONDS)


def test_only_the_token_opens_the_door(running: "Running") -> None:
    assert running.ask("/api/status")[0] == 403
    assert running.ask("/api/status", "wrong")[0] == 403
    assert running.ask("/api/status", running.token)[0] == 200


def test_the_token_is_in_no_command_line_and_in_no_file_that_others_can_read(running: "Running") -> None:
    for process in psutil.process_iter(["cmdline"]):
        assert not any(running.token in part for part in process.info["cmdline"] or ())
    if os.name != "nt":
        assert (running.home / "jupyter").stat().st_mode & 0o077 == 0
        assert (running.home / "jupyter" / "jupyter.log").stat().st_mode & 0o077 == 0


def test_it_listens_on_loopback_alone(running: "Running") -> None:
    listening = {
        connection.laddr.ip
        for process in running.family()
        for connection in process.net_connections()
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}


def test_it_asks_nobody_for_news(running: "Running") -> None:
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


def test_a_kernel_imports_this_checkout_and_inherits_the_environment(running: "Running") -> None:
    environment = running.start_kernel().environ()
    assert environment["PYTHONPATH"].split(os.pathsep)[0] == str(bootstrap.ROOT)
    assert environment["LAB_PROOF"] == "inherited"


@pytest.mark.skipif(os.name == "nt", reason="needs SIGINT")
@pytest.mark.parametrize("name", ["SIGINT", "SIGHUP"])
def test_it_ends_with_its_kernels_and_says_so(
    name: str, jupyter_on: Callable[[Path], "Running"], tmp_path: Path
) -> None:
    lab = jupyter_on(tmp_path)
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
    free = server._free_port()
    with socket.socket() as somebody:
        somebody.bind(("127.0.0.1", 0))
        somebody.listen()
        ports = iter([somebody.getsockname()[1], free])
        monkeypatch.setattr(server, "_free_port", lambda: next(ports))
        lab = server.start(tmp_path, "/lab", browser=False)
        try:
            assert lab.address.port == free
        finally:
            server.stop(lab)


def test_a_failure_to_start_shows_the_end_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_HOME", str(tmp_path / "state"))
    monkeypatch.setitem(server.OPTIONS, "ServerApp.ip", "no.such.host.invalid")
    began = time.monotonic()
    with pytest.raises(LabError, match=r"did not start(.|\n)*jupyter\.log(.|\n)*helpers doctor"):
        server.start(tmp_path, "/lab", browser=False)
    assert time.monotonic() - began < server.START_SECONDS, "the end of the process is noticed"


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
