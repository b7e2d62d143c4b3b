"""A command that ends within a time limit, with all that it has started."""

import subprocess
from contextlib import suppress
from pathlib import Path

import psutil


def run(command: list[str], folder: Path, seconds: float) -> subprocess.CompletedProcess[str] | None:
    """Run `command` in `folder` and return how it ended. None: it did not end in `seconds`, or could not be run.

    After the time limit nothing of it is left. `subprocess.run` would kill the command alone: `docker` hands
    `docker compose` on to a second process, which would go on, and on Windows hold the pipes that are read here.
    """
    try:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
    except OSError:
        return None
    with process:
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            _kill_family(process.pid)
            return None
        except BaseException:  # Ctrl-C
            _kill_family(process.pid)
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def _kill_family(pid: int) -> None:
    family: list[psutil.Process] = []
    with suppress(psutil.NoSuchProcess):
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    for member in family:
        with suppress(psutil.Error):
            member.kill()
