"""Which JupyterLab runs on this folder: one at a time, and another call learns where it is.

    .lab/jupyter/running.lock   held by the command as long as it lives; the system frees it at any death
    .lab/jupyter/running.json   where its JupyterLab answers, with the token; readable by the owner alone
    .lab/jupyter/open.html      a page that leads there: a URL in a browser's command line could be read by everybody

The lock is the proof; the files may be what a crash has left.
"""

import contextlib
import html
import json
import os
import time
import webbrowser
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from helpers.errors import LabError
from helpers.jupyter.address import Address
from helpers.paths import lab_home

ANSWER_SECONDS = 60
POLL_SECONDS = 0.2
PAGE = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={url}">\n'

# What a person reads.
WAITING = "Another call is starting JupyterLab on this folder; waiting for it."
SILENT = (
    "JupyterLab runs on this folder already, but does not answer. End it with Ctrl-C where it was started, "
    "then run the same command again."
)


def home() -> Path:
    """The folder of JupyterLab's own files. Nobody else may look into it."""
    folder = lab_home() / "jupyter"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@contextlib.contextmanager
def reserve() -> Iterator[Address | None]:
    """Reserve the right to run JupyterLab on this folder, for the time of the `with` block.

    Yields None where we have it; or else the address of the JupyterLab that runs already. One that is just starting or
    ending is waited for. Raises LabError where it runs and does not answer.
    """
    lock = FileLock(home() / "running.lock", timeout=0)
    asked_since: float | None = None
    told = False
    while True:
        try:
            lock.acquire()
        except Timeout:
            address = _recorded()
            if address and address.ask("/api/status") == 200:
                yield address
                return
            if address is None:
                asked_since = None
                if not told:
                    print(WAITING, flush=True)
                told = True
            else:
                asked_since = asked_since or time.monotonic()
                if time.monotonic() > asked_since + ANSWER_SECONDS:
                    raise LabError(SILENT) from None
            time.sleep(POLL_SECONDS)
            continue
        try:
            forget()  # what a crash has left
            yield None
        finally:
            forget()
            lock.release()
        return


def record(address: Address) -> None:
    """Note where JupyterLab answers. Called by whoever has the reservation."""
    _write("open.html", PAGE.format(url=html.escape(address.url)))
    _write("running.json", json.dumps(address.__dict__))


def forget() -> None:
    """Nothing answers any more."""
    for name in ("running.json", "open.html"):
        (home() / name).unlink(missing_ok=True)


def open_browser() -> None:
    """Open the browser at the JupyterLab that is recorded."""
    webbrowser.open((home() / "open.html").as_uri())


def _recorded() -> Address | None:
    try:
        return Address(**json.loads((home() / "running.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _write(name: str, text: str) -> None:
    """Write a file that only its owner can read, and that is never seen half-written."""
    draft = home() / f"{name}.new"
    draft.unlink(missing_ok=True)
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:  # noqa: PTH123
        file.write(text)
    draft.replace(home() / name)
