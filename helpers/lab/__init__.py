"""What a notebook's cell calls. `from helpers import lab`, then `lab.open(4)`.

`frame` opens a lesson, runs scripts, asks and shows; `actors` are sessions, workers and services; `quiz` is predictions
and questions, `experiments` one module an experiment, `storms` the storm of lesson 9.
"""

from helpers.lab.actors.documents import start_documents
from helpers.lab.actors.sessions import Session, session
from helpers.lab.actors.strays import find_stray_workers, stop_stray_workers
from helpers.lab.actors.waiting import locks
from helpers.lab.actors.workers import (
    Worker,
    end_workers,
    start_long_transaction,
    start_relay,
    start_worker,
)
from helpers.lab.experiments.claim_times import claim_times, claim_times_chart
from helpers.lab.experiments.crashes import kill_at_each_point
from helpers.lab.experiments.explain import explain, explain_generic, pages_chart, vacuum
from helpers.lab.experiments.orders import choose_order, order_table, replay_calls, replay_order, sequence_chart
from helpers.lab.experiments.plan import plan
from helpers.lab.experiments.race import race, race_chart, run_racer
from helpers.lab.experiments.remaining import remaining_lease
from helpers.lab.experiments.stream import stream, stream_chart
from helpers.lab.experiments.throughput import throughput, throughput_chart
from helpers.lab.frame.changes import run_script
from helpers.lab.frame.exercise import exercise, progress
from helpers.lab.frame.facts import execute, query, rehearse, value, wait_until
from helpers.lab.frame.lesson import lease_seconds, rebuild, reset
from helpers.lab.frame.lesson import open_lesson as open
from helpers.lab.frame.load import load
from helpers.lab.frame.parts import body, part
from helpers.lab.frame.show import script, source, task, tasks, timeline
from helpers.lab.frame.trace import trace
from helpers.lab.quiz.predictions import compare, predict, predictions, questions
from helpers.lab.storms.functions import Repository, my_repository
from helpers.lab.storms.storm import storm

__all__ = [
    "Repository",
    "Session",
    "Worker",
    "body",
    "choose_order",
    "claim_times",
    "claim_times_chart",
    "compare",
    "end_workers",
    "execute",
    "exercise",
    "explain",
    "explain_generic",
    "find_stray_workers",
    "kill_at_each_point",
    "lease_seconds",
    "load",
    "locks",
    "my_repository",
    "open",
    "order_table",
    "pages_chart",
    "part",
    "plan",
    "predict",
    "predictions",
    "progress",
    "query",
    "questions",
    "race",
    "race_chart",
    "rebuild",
    "rehearse",
    "remaining_lease",
    "replay_calls",
    "replay_order",
    "reset",
    "run_racer",
    "run_script",
    "script",
    "sequence_chart",
    "session",
    "source",
    "start_documents",
    "start_long_transaction",
    "start_relay",
    "start_worker",
    "stop_stray_workers",
    "storm",
    "stream",
    "stream_chart",
    "task",
    "tasks",
    "throughput",
    "throughput_chart",
    "timeline",
    "trace",
    "vacuum",
    "value",
    "wait_until",
]
