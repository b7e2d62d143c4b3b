"""JupyterLab for this project: on loopback, with a token of its own, quiet, and ended without leftovers."""

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from helpers import bootstrap
from helpers.errors import LabError
from helpers.paths import ROOT, lab_home

FIRST_NOTEBOOK = "notebooks/00_start_here.ipynb"
START_SECONDS = 120  # a cold disk and a virus scanner; normally it is three
STOP_SECONDS = 15  # kernels get some seconds to end by themselves
LOG_LINES = 15
PORT_TRIES = 3

# What a person reads.
STARTING = "Starting JupyterLab ..."
OPEN = "JupyterLab: {url}"
HOW_TO_END = "To end it, press Ctrl-C here."
ENDED = "JupyterLab has ended."
NO_START = "JupyterLab did not start. The end of {log}:\n{tail}\nTo check the set-up: {command} doctor"
BROKE_DOWN = "JupyterLab ended with an error. The end of {log}:\n{tail}\nTo start it again: {command} lab"

# Nothing may ask the network for news, versions or extensions, or a learner for consent to it.
SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
}
OPTIONS = {
    "ServerApp.ip": "127.0.0.1",
    "ServerApp.port_retries": "0",  # another port than the one that was told would be somebody else's
    "LanguageServerManager.autodetect": "False",  # would run programs of other projects to look for servers
    "LabApp.news_url": "None",
    "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
    "LabApp.extension_manager": "readonly",
}


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab."""

    process: subprocess.Popen[bytes]
    port: int
    token: str
    log: Path

    def ask(self, path: str, method: str = "GET") -> int:
        """Return the HTTP status of a request with the token, or 0 where nothing answers."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", method=method, headers={"Authorization": f"token {self.token}"}
        )
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with direct.open(request, timeout=5) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def tail(self) -> str:
        """Return the last lines of the log, without the token."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:]
        return "\n".join(f"  {line}" for line in lines).replace(self.token, "...")


def run(root: Path = ROOT, notebook: str = FIRST_NOTEBOOK, browser: bool = True) -> int:
    """Run JupyterLab on `root`, opened at `notebook` (a path below root), until Ctrl-C or its own end; return 0.

    Raises LabError where it does not start or breaks down.
    """
    page = f"/lab/tree/{notebook}" if (root / notebook).exists() else "/lab"
    with _ctrl_c_for_all_ends():
        print(STARTING, flush=True)
        lab = start(root, page, browser and has_display())
        try:
            print(OPEN.format(url=f"http://127.0.0.1:{lab.port}{page}?token={lab.token}"))
            print(HOW_TO_END, flush=True)
            while lab.process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    # Without a limit, Ctrl-C would not be seen on Windows.
                    lab.process.wait(timeout=1 if os.name == "nt" else None)
        except KeyboardInterrupt:
            print(flush=True)  # the terminal wrote ^C
        else:
            if lab.process.returncode != 0:
                raise LabError(BROKE_DOWN.format(log=lab.log, tail=lab.tail(), command=bootstrap.COMMAND))
        finally:
            stop(lab)
    print(ENDED, flush=True)
    return 0


def start(root: Path, page: str, browser: bool) -> Lab:
    """Start JupyterLab and return when it answers. Raises LabError where it does not."""
    for _ in range(PORT_TRIES):
        lab = _launch(root, page, browser)
        try:
            if _wait_for_answer(lab):
                return lab
        except BaseException:
            stop(lab)
            raise
        stop(lab)
        if "already in use" not in lab.tail():  # the port was free a moment ago: somebody was faster
            break
    raise LabError(NO_START.format(log=lab.log, tail=lab.tail(), command=bootstrap.COMMAND))


def stop(lab: Lab) -> None:
    """End JupyterLab, its kernels and whatever they started: by request, then by force."""
    if lab.process.poll() is not None:
        return
    family = [psutil.Process(lab.process.pid), *_descendants(lab.process.pid)]
    try:
        if lab.ask("/api/shutdown", "POST") != 200:
            lab.process.terminate()
        psutil.wait_procs(family, timeout=STOP_SECONDS)
    finally:  # a second Ctrl-C comes here at once
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        lab.process.wait()


def has_display() -> bool:
    """Can a browser open here? On Linux it needs a screen; BROWSER names one that may not."""
    return not sys.platform.startswith("linux") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )


def _launch(root: Path, page: str, browser: bool) -> Lab:
    home = lab_home().resolve() / "jupyter"
    home.mkdir(mode=0o700, exist_ok=True)
    overrides = home / "config" / "labconfig" / "default_setting_overrides.json"
    overrides.parent.mkdir(parents=True, exist_ok=True)
    overrides.write_text(json.dumps(SETTINGS), encoding="utf-8")
    token, port, log = secrets.token_urlsafe(24), _free_port(), home / "jupyter.log"
    bootstrap.export_path()  # kernels import this checkout's helpers
    environment = {
        **os.environ,
        "JUPYTER_TOKEN": token,  # a command line can be read by everybody on the machine
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "IPYTHONDIR": str(home / "ipython"),
        # In a terminal of JupyterLab `python3` is this environment's.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
    }
    options = {
        **OPTIONS,
        "ServerApp.root_dir": str(root),
        "ServerApp.port": str(port),
        "ServerApp.open_browser": str(browser),
        "LabApp.default_url": page,
        "ServerApp.allow_root": "True",  # in a container root is the only user
    }
    log.touch(mode=0o600)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *(f"--{name}={value}" for name, value in options.items())],
            cwd=root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            # Ctrl-C must reach this process alone: JupyterLab would ask a question at it.
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
    return Lab(process, port, token, log)


def _wait_for_answer(lab: Lab) -> bool:
    deadline = time.monotonic() + START_SECONDS
    while lab.process.poll() is None and time.monotonic() < deadline:
        if lab.ask("/api/status") == 200:
            return True
        time.sleep(0.1)
    return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


@contextlib.contextmanager
def _ctrl_c_for_all_ends() -> Iterator[None]:
    """Let a closed terminal or a plain kill end this process as Ctrl-C does, so that JupyterLab never stays behind."""
    names = [name for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)]
    before = {name: signal.signal(getattr(signal, name), signal.default_int_handler) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)
