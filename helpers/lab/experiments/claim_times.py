"""How long one claim takes beside a thousand finished tasks, and beside a million: with the index and without it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

from IPython.display import display
from sqlalchemy import Engine, create_engine, text

from helpers.db import database_url, use_engine
from helpers.diagnosis import readable_errors
from helpers.lab.actors.leftovers import end_leftovers
from helpers.repository.priority import claim_task
from helpers.scripts import run_script
from helpers.views.lines import lines

THIRTY_TASKS = "08_batches_and_quotas/03_thirty_tasks.sql"
WITHOUT_INDEX = "07_priorities/05_without_index.sql"
WITH_INDEX = "07_priorities/01_migrate.sql"
AFTERWARDS = "08_batches_and_quotas/02_reset.sql"
CLAIMS = {"with the index": 40, "without the index": 4}  # how many are measured: the fastest counts
LEASE_SECONDS = 60.0

TEXTS = {
    "title": "One claim, beside more and more finished tasks",
    "x": "finished tasks in the table",
    "y": "milliseconds",
    "name": "{name}: {value:g} ms",
    "description": "One claim beside {fewest:,} finished tasks and beside {most:,}: {facts}",
    "fact": "{name} {first:,.1f} and {last:,.1f} ms.",
}

WAITING = """
    INSERT INTO backend_training.tasks (id, type, priority, created_at)
    SELECT 1000 + number, 'generate_report', 'MEDIUM', now() FROM generate_series(1, :count) AS number
"""
FINISHED = """
    INSERT INTO backend_training.tasks (id, type, status, attempts, priority, created_at)
    SELECT 1000000 + number, 'generate_report', 'completed', 1, 'MEDIUM', now() - number * interval '1 second'
    FROM generate_series(CAST(:first AS bigint), :last) AS number
"""
# Neither the ledger nor autovacuum is to be measured.
QUIET = """
    ALTER TABLE backend_training.tasks DISABLE TRIGGER tasks_are_noted;
    ALTER TABLE backend_training.tasks SET (autovacuum_enabled = false)
"""
NOT_QUIET = """
    ALTER TABLE backend_training.tasks ENABLE TRIGGER tasks_are_noted;
    ALTER TABLE backend_training.tasks RESET (autovacuum_enabled)
"""


@dataclass(frozen=True)
class ClaimTimes:
    """What was measured: `with the index`, `without the index` → number of finished tasks → milliseconds."""

    times: dict[str, dict[int, float]]

    @property
    def growth(self) -> float:
        """How many times as long a claim with the index takes beside the most finished tasks as beside the fewest."""
        measured = list(self.times["with the index"].values())
        return measured[-1] / measured[0]

    @property
    def worth(self) -> float:
        """How many times as long a claim takes without the index, beside the most finished tasks."""
        with_index, without = (list(self.times[name].values())[-1] for name in CLAIMS)
        return without / with_index


def claim_times(finished: Sequence[int] = (1_000, 10_000, 100_000, 1_000_000)) -> ClaimTimes:
    """Measure claims beside so many finished tasks, in ascending order. Afterwards the rows are reset.

    A million rows take a few seconds, and about 150 MB until then.
    """
    end_leftovers()
    times: dict[str, dict[int, float]] = {name: {} for name in CLAIMS}
    with readable_errors(), long_table(waiting=sum(CLAIMS.values()) * len(finished)) as engine:
        before = 0
        for count in sorted(finished):
            with engine.begin() as connection:
                connection.execute(text(FINISHED), {"first": before + 1, "last": count})
                connection.execute(text("ANALYZE backend_training.tasks"))
            before = count
            run_script(WITH_INDEX)
            times["with the index"][count] = fastest_claim(engine, CLAIMS["with the index"])
            run_script(WITHOUT_INDEX)
            times["without the index"][count] = fastest_claim(engine, CLAIMS["without the index"])
    return ClaimTimes(times)


def claim_times_chart(measured: ClaimTimes) -> None:
    """Draw what was measured. The numbers are this machine's, and differ from run to run."""
    counts = list(measured.times["with the index"])
    values = {name: list(times.values()) for name, times in measured.times.items()}
    facts = " ".join(TEXTS["fact"].format(name=name, first=ms[0], last=ms[-1]) for name, ms in values.items())
    chart = lines(
        values,
        counts,
        title=TEXTS["title"],
        x_label=TEXTS["x"],
        y_label=TEXTS["y"],
        name=TEXTS["name"],
        description=TEXTS["description"].format(fewest=counts[0], most=counts[-1], facts=facts),
    )
    data, metadata = chart._repr_mimebundle_()
    display({"image/png": data["image/png"]}, metadata=metadata, raw=True)


@contextmanager
def long_table(waiting: int) -> Iterator[Engine]:
    """So many tasks that wait, in a table that will grow; and the lesson's own rows and index afterwards.

    The connections do not wait until a COMMIT is on the disk: that costs the same in each case, and varies most.
    """
    options = "-c timezone=UTC -c synchronous_commit=off"
    engine = create_engine(database_url(), connect_args={"options": options})
    run_script(THIRTY_TASKS)
    try:
        with engine.begin() as connection:
            connection.execute(text(QUIET))
            connection.execute(text(WAITING), {"count": waiting})
        yield engine
    finally:
        with engine.begin() as connection:
            connection.execute(text(NOT_QUIET))
        engine.dispose()
        run_script(AFTERWARDS)
        run_script(WITH_INDEX)  # last of all: it need not read a million rows


def fastest_claim(engine: Engine, count: int) -> float:
    """The shortest time of a claim, of so many, in milliseconds: the one in which nobody else had the processor."""
    times = []
    with use_engine(engine):
        for _ in range(count):
            begun = perf_counter()
            task = claim_task(LEASE_SECONDS)
            times.append(perf_counter() - begun)
            assert task is not None
    return min(times) * 1000
