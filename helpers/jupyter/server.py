"""How JupyterLab is started and ended."""

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from helpers import bootstrap, surroundings
from helpers.errors import LabError
from helpers.jupyter.address import Address
from helpers.jupyter.running import home

START_SECONDS = 120  # a cold disk and a virus scanner; normally it is three
STOP_SECONDS = 15  # JupyterLab gives its kernels some seconds to end by themselves
REST_SECONDS = 2  # for what is left after it
LOG_LINES = 15
PORT_TRIES = 3

# What a person reads.
NO_START = "JupyterLab did not start. The end of {log}:\n{tail}\nTo check the set-up: {command} doctor"

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
    """A running JupyterLab. Where `process.stdin` is closed, it ends with all that it started."""

    process: subprocess.Popen[bytes]
    address: Address
    log: Path

    def tail(self) -> str:
        """Return the last lines of the log, without the token."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:]
        return "\n".join(f"  {line}" for line in lines).replace(self.address.token, "...")


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
        if lab.address.ask("/api/shutdown", "POST") != 200:
            lab.process.terminate()
        psutil.wait_procs(family[:1], timeout=STOP_SECONDS)
        psutil.wait_procs(family[1:], timeout=REST_SECONDS)
    finally:  # a second Ctrl-C comes here at once
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        lab.process.wait()
        if lab.process.stdin:
            lab.process.stdin.close()


def _launch(root: Path, page: str, browser: bool) -> Lab:
    folder = home()
    overrides = folder / "config" / "labconfig" / "default_setting_overrides.json"
    overrides.parent.mkdir(parents=True, exist_ok=True)
    overrides.write_text(json.dumps(SETTINGS), encoding="utf-8")
    address, log = Address(_free_port(), secrets.token_urlsafe(24), page), folder / "jupyter.log"
    surroundings.settle_python(bootstrap.ROOT)  # kernels import this checkout's helpers
    environment = {
        **os.environ,
        "JUPYTER_TOKEN": address.token,  # a command line can be read by everybody on the machine
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
        "IPYTHONDIR": str(folder / "ipython"),
        # In a terminal of JupyterLab `python3` is this environment's.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
    }
    options = {
        **OPTIONS,
        "ServerApp.root_dir": str(root),
        "ServerApp.port": str(address.port),
        "ServerApp.open_browser": str(browser),
        "LabApp.default_url": page,
        "ServerApp.allow_root": "True",  # in a container root is the only user
    }
    log.touch(mode=0o600)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "helpers.jupyter", *(f"--{name}={value}" for name, value in options.items())],
            cwd=root,
            env=environment,
            stdin=subprocess.PIPE,  # its end says that this process is gone
            stdout=output,
            stderr=subprocess.STDOUT,
            # Ctrl-C must reach this process alone: JupyterLab would ask a question at it.
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
    return Lab(process, address, log)


def _wait_for_answer(lab: Lab) -> bool:
    deadline = time.monotonic() + START_SECONDS
    while lab.process.poll() is None and time.monotonic() < deadline:
        if lab.address.ask("/api/status") == 200:
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
