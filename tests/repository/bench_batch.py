"""How fast are the claims of lessons 7 and 8? `python tests/repository/bench_batch.py`, with DATABASE_URL at a lab
database, whose tables it rebuilds.

Trust the ratios, not the numbers: what is compared is measured in turn, in one run. First the time of a claim beside a
thousand and beside a million finished tasks (in two databases, so that the two alternate), with the index and without;
then the throughput of single tasks against batches, claimed together and completed together.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from time import perf_counter

import psycopg
from sqlalchemy import Engine, create_engine, text

from helpers import db
from helpers.lab import rebuild
from helpers.models import PRIORITIES
from helpers.repository import batch, lease, priority
from helpers.scripts import run_script

QUOTAS = {"HIGH": 50, "MEDIUM": 30, "LOW": 20}
OPTIONS = {"options": "-c timezone=UTC"}

FINISHED = text(
    "INSERT INTO backend_training.tasks (id, type, status, attempts, priority, created_at) "
    "SELECT 1000000 + n, 'generate_report', 'completed', 1, "
    "       (ARRAY['HIGH', 'MEDIUM', 'LOW'])[1 + mod(n, 3)]::backend_training.priority, now() - n * interval '1 s' "
    "FROM generate_series(1, :count) AS n"
)
NO_LEDGER = text("ALTER TABLE backend_training.tasks DISABLE TRIGGER tasks_are_noted")


def seconds(call: Callable[[], object]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def in_turn(calls: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The median of each call's time, in ms. In each round each call is made once."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    gc.disable()
    for call in calls.values():
        for _ in range(10):  # until the statements are prepared, and their plans are kept
            call()
    for _ in range(rounds):
        for name, call in calls.items():
            times[name].append(seconds(call) * 1e3)
    gc.enable()
    return {name: median(values) for name, values in times.items()}


@contextmanager
def copy_of_the_database(suffix: str) -> Iterator[Engine]:
    """A second database with the same tables, removed at the end."""
    url = db.database_url()
    name = f"{url.database}_{suffix}"
    db.engine().dispose()
    admin = url.set(drivername="postgresql", database="postgres").render_as_string(hide_password=False)
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{url.database}"'.encode())
    engine = create_engine(url.set(database=name), connect_args=OPTIONS)
    yield engine
    engine.dispose()
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


def on(engine: Engine, call: Callable[[], object]) -> Callable[[], object]:
    def run() -> object:
        with db.use_engine(engine):
            return call()

    return run


def change(engine: Engine, *statements: str) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for statement in statements:
            connection.execute(text(statement))


def claim_one() -> None:
    task = priority.claim_task(60)
    assert task is not None
    lease.mark_as_completed(task["id"], task["attempts"])


def claim_with_aging() -> None:
    task = priority.claim_task(60, aging_seconds=600)
    assert task is not None
    lease.mark_as_completed(task["id"], task["attempts"])


def claim_ten() -> None:
    tasks = batch.claim_batch(10, {"HIGH": 5, "MEDIUM": 3, "LOW": 2}, 60)
    assert len(tasks) == 10
    batch.mark_as_completed([(task["id"], task["attempts"]) for task in tasks])


def growth() -> None:
    """Claim and completion beside 10^3 and 10^6 finished tasks."""
    rebuild(9)
    run_script("08_batches_and_quotas/04_many_tasks.sql")
    small = db.engine()
    change(small, str(NO_LEDGER))
    with copy_of_the_database("million") as big:
        small = db.engine()
        for engine, count in ((small, 1_000), (big, 1_000_000)):
            with engine.begin() as connection:
                connection.execute(FINISHED, {"count": count})
            change(engine, "VACUUM ANALYZE backend_training.tasks")
        for name, call, rounds in (("one task", claim_one, 300), ("a batch of 10", claim_ten, 300)):
            times = in_turn({"10^3": on(small, call), "10^6": on(big, call)}, rounds)
            show(f"{name}, claimed and completed", times, "10^6", "10^3")
        times = in_turn({"strict": on(big, claim_one), "with aging": on(big, claim_with_aging)}, 30)
        show("one task beside about 4,000 that wait", times, "with aging", "strict")
        for engine in (small, big):
            change(engine, "DROP INDEX backend_training.tasks_in_claim_order")
        show(
            "one task, without the index",
            in_turn({"10^3": on(small, claim_one), "10^6": on(big, claim_one)}, 10),
            "10^6",
            "10^3",
        )


def throughput(ledger: bool) -> None:
    """Tasks a second: one at a time, against batches that are claimed together and completed together."""
    rebuild(9)
    if not ledger:
        change(db.engine(), str(NO_LEDGER))

    def batches(size: int) -> Callable[[], None]:
        def work() -> None:
            for _ in range(200 // size):
                tasks = batch.claim_batch(size, {name: QUOTAS[name] * size // 100 for name in PRIORITIES}, 60)
                done = batch.mark_as_completed([(task["id"], task["attempts"]) for task in tasks])
                assert len(done) == size

        return work

    def singles() -> None:
        for _ in range(200):
            claim_one()

    calls = {"one by one": singles, "batches of 10": batches(10), "batches of 100": batches(100)}
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(7):
        run_script("08_batches_and_quotas/04_many_tasks.sql")
        if not ledger:
            change(db.engine(), str(NO_LEDGER))
        for name, call in calls.items():
            call()
            times[name].append(seconds(call) / 200 * 1e3)
    title = f"200 tasks in one worker, {'with' if ledger else 'without'} the ledger (ms a task)"
    medians = {name: median(values) for name, values in times.items()}
    for name in ("batches of 10", "batches of 100"):
        show(title, medians, "one by one", name)


def show(title: str, times: dict[str, float], above: str, below: str) -> None:
    ratio = times[above] / times[below]
    print(f"{title}: {above} {times[above]:.2f} ms, {below} {times[below]:.2f} ms, ratio {ratio:.2f}")


if __name__ == "__main__":
    growth()
    throughput(ledger=False)
    throughput(ledger=True)
