"""JupyterLab for this project: on loopback, with a token of its own, quiet, one a folder, ended without leftovers.

`running` which one runs, `server` its start and end, `__main__` the process itself, `address` where it answers.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from helpers import bootstrap
from helpers.errors import LabError
from helpers.jupyter.address import Address
from helpers.jupyter.running import open_browser, record, reserve
from helpers.jupyter.server import start, stop
from helpers.paths import ROOT

FIRST_NOTEBOOK = "notebooks/00_start_here.ipynb"

# What a person reads.
STARTING = "Starting JupyterLab ..."
OPEN = "JupyterLab: {url}"
HOW_TO_END = "To end it, press Ctrl-C here."
ENDED = "JupyterLab has ended."
BROKE_DOWN = "JupyterLab ended with an error. The end of {log}:\n{tail}\nTo start it again: {command} lab"
RUNS = "JupyterLab runs on this folder already: {url}\nTo end it, press Ctrl-C where it was started."

__all__ = ["has_display", "reserve", "run", "show"]


def run(root: Path = ROOT, notebook: str = FIRST_NOTEBOOK, browser: bool = True) -> int:
    """Run JupyterLab on `root`, opened at `notebook` (a path below root), until Ctrl-C or its own end; return 0.

    To be called with a reservation. Raises LabError where it does not start or breaks down.
    """
    page = f"/lab/tree/{notebook}" if (root / notebook).exists() else "/lab"
    with _ctrl_c_for_all_ends():
        print(STARTING, flush=True)
        lab = start(root, page, browser and has_display())
        try:
            record(lab.address)
            print(OPEN.format(url=lab.address.url))
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


def show(address: Address, browser: bool = True) -> int:
    """Say that JupyterLab runs at `address` already, and open the browser there; return 0.

    Whoever calls `lab` wants to get to the page, and has it now.
    """
    print(RUNS.format(url=address.url), flush=True)
    if browser and has_display():
        open_browser()
    return 0


def has_display() -> bool:
    """Can a browser open here? On Linux it needs a screen; BROWSER names one that may not."""
    return not sys.platform.startswith("linux") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )


@contextlib.contextmanager
def _ctrl_c_for_all_ends() -> Iterator[None]:
    """Let a closed terminal or a plain kill end this process as Ctrl-C does: JupyterLab is asked to end.

    A hang-up that is ignored stays ignored: under `nohup` the lab is to survive its terminal.
    """
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    heard = [number for number in numbers if before[number] is not signal.SIG_IGN]
    for number in heard:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, before[number])
