"""How many tasks a second are claimed and completed: one by one, and in batches, by one worker and by several.

A worker is a thread of this process here, with a connection of its own. Its work takes no time, so that what is
measured is the queue alone. Absolute numbers differ from machine to machine; what is shown are ratios.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from time import perf_counter

from IPython.display import display
from sqlalchemy import Engine, create_engine, text

from helpers.db import database_url, use_engine
from helpers.diagnosis import readable_errors
from helpers.lab.actors.leftovers import end_leftovers
from helpers.repository import lease, priority
from helpers.repository.batch import claim_batch, mark_as_completed
from helpers.scripts import run_script
from helpers.views.lines import lines

MANY_TASKS = "08_batches_and_quotas/04_many_tasks.sql"
AFTERWARDS = "08_batches_and_quotas/02_reset.sql"
SHARES = {"HIGH": 0.5, "MEDIUM": 0.3, "LOW": 0.2}  # of a batch: its quotas
SECONDS = 0.25  # for each measurement
LEASE_SECONDS = 60.0

ONE_BY_ONE = "one by one"
TOGETHER = "batches of {size}"
ALONE = "batches of {size}, completed one by one"

TEXTS = {
    "at_least": "{way}: at least {factor:g} times as many tasks a second as one by one: {answer}",
    "title": "Tasks a second, as a multiple of one worker that claims one by one",
    "x": "workers",
    "y": "multiple",
    "name": "{name}: {value:g} ×",
    "description": "Measured with {workers} workers: {ways}. One worker, beside one that claims one by one: {facts}",
    "fact": "{way} {value:,.1f} times.",
}

# The trigger writes a row for each change, and would cost the same in each way.
NO_LEDGER = "ALTER TABLE backend_training.tasks DISABLE TRIGGER tasks_are_noted"
LEDGER = "ALTER TABLE backend_training.tasks ENABLE TRIGGER tasks_are_noted"

Cycle = Callable[[], int]  # claim and complete once; how many tasks that were


@dataclass(frozen=True)
class Throughput:
    """What was measured: way → number of workers → tasks a second, of all workers together."""

    rates: dict[str, dict[int, float]]

    def ratio(self, way: str, workers: int = 1) -> float:
        """How many times as fast as one worker that claims one by one."""
        return self.rates[way][workers] / self.rates[ONE_BY_ONE][1]

    def at_least(self, way: str, factor: float) -> None:
        """Print whether one worker is at least `factor` times as fast in this way as one by one."""
        print(TEXTS["at_least"].format(way=way, factor=factor, answer=self.ratio(way) >= factor))


def throughput(sizes: Sequence[int] = (10, 100), workers: Sequence[int] = (1, 2, 4, 8)) -> Throughput:
    """Measure each way with each number of workers, for a quarter of a second each. Afterwards the rows are reset.

    The ways are `one by one`; `batches of N` for each N of `sizes`, completed in one statement as well; and batches of
    the smallest size, completed one by one.
    """
    end_leftovers()
    ways: dict[str, Cycle] = {ONE_BY_ONE: one_task}
    ways |= {TOGETHER.format(size=size): partial(batch_together, size) for size in sizes}
    ways[ALONE.format(size=min(sizes))] = partial(batch_completed_alone, min(sizes))
    rates = {way: dict.fromkeys(workers, 0.0) for way in ways}
    with readable_errors(), own_connections(max(workers)) as engine:
        # The first number comes again: with it all others are compared, so no mishap should slow it down.
        for n in *workers, workers[0]:
            for way, cycle in ways.items():
                rates[way][n] = max(rates[way][n], rate(engine, cycle, n))
    return Throughput(rates)


def throughput_chart(measured: Throughput) -> None:
    """Draw what was measured. The numbers are this machine's, and differ from run to run."""
    workers = list(measured.rates[ONE_BY_ONE])
    ratios = {way: [measured.ratio(way, n) for n in workers] for way in measured.rates}
    facts = " ".join(TEXTS["fact"].format(way=way, value=ratio[0]) for way, ratio in ratios.items())
    chart = lines(
        ratios,
        workers,
        title=TEXTS["title"],
        x_label=TEXTS["x"],
        y_label=TEXTS["y"],
        name=TEXTS["name"],
        description=TEXTS["description"].format(
            workers=", ".join(map(str, workers)), ways=", ".join(ratios), facts=facts
        ),
    )
    data, metadata = chart._repr_mimebundle_()
    display({"image/png": data["image/png"]}, metadata=metadata, raw=True)


def one_task() -> int:
    """As in lesson 7: a claim with its COMMIT, a completion with its COMMIT."""
    task = priority.claim_task(LEASE_SECONDS)
    if task is None:
        return 0
    lease.mark_as_completed(task["id"], task["attempts"])
    return 1


def batch_together(size: int) -> int:
    tasks = claim_batch(size, {name: round(share * size) for name, share in SHARES.items()}, LEASE_SECONDS)
    return len(mark_as_completed([(task["id"], task["attempts"]) for task in tasks]))


def batch_completed_alone(size: int) -> int:
    tasks = claim_batch(size, {name: round(share * size) for name, share in SHARES.items()}, LEASE_SECONDS)
    for task in tasks:
        lease.mark_as_completed(task["id"], task["attempts"])
    return len(tasks)


@contextmanager
def own_connections(count: int) -> Iterator[Engine]:
    """Connections that stay open between two claims, as a worker's does; and rows that are reset afterwards."""
    engine = create_engine(database_url(), pool_size=count, connect_args={"options": "-c timezone=UTC"})
    try:
        yield engine
    finally:
        with engine.begin() as connection:
            connection.execute(text(LEDGER))
        engine.dispose()
        run_script(AFTERWARDS)


def rate(engine: Engine, cycle: Cycle, workers: int) -> float:
    """Tasks a second, of so many workers together, on ten thousand new tasks."""
    run_script(MANY_TASKS)
    with engine.begin() as connection:
        connection.execute(text(NO_LEDGER))
    start = threading.Barrier(workers, timeout=60)

    def work(_: int) -> float:
        with use_engine(engine):
            one_task()  # connect
            start.wait()
            begun, done = perf_counter(), 0
            while perf_counter() < begun + SECONDS and (tasks := cycle()):
                done += tasks
            return done / (perf_counter() - begun)

    with ThreadPoolExecutor(workers) as threads:
        return sum(threads.map(work, range(workers)))
