"""What a notebook's cell calls. `from helpers import lab`, then `lab.open(4)`."""

from helpers.lab.changes import run_script
from helpers.lab.facts import execute, query, rehearse, value, wait_until
from helpers.lab.lesson import lease_seconds, rebuild, reset
from helpers.lab.lesson import open_lesson as open
from helpers.lab.processes import (
    Worker,
    end_workers,
    find_stray_workers,
    start_worker,
    stop_stray_workers,
)
from helpers.lab.quiz import compare, predict, predictions, questions
from helpers.lab.show import script, source, task, tasks, timeline
from helpers.lab.trace import trace

__all__ = [
    "Worker",
    "compare",
    "end_workers",
    "execute",
    "find_stray_workers",
    "lease_seconds",
    "open",
    "predict",
    "predictions",
    "query",
    "questions",
    "rebuild",
    "rehearse",
    "reset",
    "run_script",
    "script",
    "source",
    "start_worker",
    "stop_stray_workers",
    "task",
    "tasks",
    "timeline",
    "trace",
    "value",
    "wait_until",
]
