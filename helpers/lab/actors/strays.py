"""Workers that outlived the notebook that started them.

Each worker is noted in a file below `.lab/workers`, so that another process can find what a dead one left.
"""

import json
import os
from pathlib import Path

import psutil

from helpers.paths import lab_home

STRAY = "worker {name}, process {pid}"


def note(pid: int, name: str) -> Path:
    """Note that this process has started the worker, and return the file; whoever sees the worker end removes it."""
    folder = lab_home() / "workers"
    folder.mkdir(exist_ok=True)
    file = folder / f"{pid}.json"
    started = psutil.Process(pid).create_time()
    file.write_text(json.dumps({"name": name, "started": started, "parent": os.getpid()}))
    return file


def _strays() -> list[tuple[psutil.Process, str]]:
    """Worker processes whose lab is gone. A pid alone is no proof: it is used again, so the start time counts."""
    found = []
    for file in sorted((lab_home() / "workers").glob("*.json")):
        entry = json.loads(file.read_text())
        try:
            process = psutil.Process(int(file.stem))
            is_worker = process.create_time() == entry["started"] and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            is_worker = False
        if not is_worker:
            file.unlink(missing_ok=True)
        elif not psutil.pid_exists(entry["parent"]):
            found.append((process, entry["name"]))
    return found


def find_stray_workers() -> list[str]:
    """One line for each worker process that outlived the notebook that started it."""
    return [STRAY.format(name=name, pid=process.pid) for process, name in _strays()]


def stop_stray_workers() -> list[str]:
    """Kill the workers that `find_stray_workers` finds, and return its lines."""
    strays = _strays()
    for process, _ in strays:
        process.kill()
    psutil.wait_procs([process for process, _ in strays], timeout=10)
    return [STRAY.format(name=name, pid=process.pid) for process, name in strays]
