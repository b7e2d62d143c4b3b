"""What a notebook's cell calls. `from helpers import lab`, then `lab.open(4)`."""

from helpers.lab.changes import run_script
from helpers.lab.claim_times import claim_times, claim_times_chart
from helpers.lab.crashes import kill_at_each_point
from helpers.lab.documents import start_documents
from helpers.lab.exercise import exercise, progress
from helpers.lab.explain import explain, explain_generic, pages_chart, vacuum
from helpers.lab.facts import execute, query, rehearse, value, wait_until
from helpers.lab.lesson import lease_seconds, rebuild, reset
from helpers.lab.lesson import open_lesson as open
from helpers.lab.load import load
from helpers.lab.orders import choose_order, order_table, replay_calls, replay_order, sequence_chart
from helpers.lab.parts import body, part
from helpers.lab.plan import plan
from helpers.lab.processes import (
    Worker,
    end_workers,
    find_stray_workers,
    start_long_transaction,
    start_relay,
    start_worker,
    stop_stray_workers,
)
from helpers.lab.quiz import compare, predict, predictions, questions
from helpers.lab.race import race, race_chart, run_racer
from helpers.lab.remaining import remaining_lease
from helpers.lab.sessions import Session, session
from helpers.lab.show import script, source, task, tasks, timeline
from helpers.lab.storms.functions import Repository, my_repository
from helpers.lab.storms.storm import storm
from helpers.lab.stream import stream, stream_chart
from helpers.lab.throughput import throughput, throughput_chart
from helpers.lab.trace import trace
from helpers.lab.waiting import locks

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
