"""A race of real processes for a hundred tasks. How often each task's work was done is counted in the ledger."""

import io
import time
from contextlib import redirect_stdout
from dataclasses import dataclass

from IPython.display import display
from sqlalchemy import Connection, text

from helpers.db import engine
from helpers.diagnosis import readable_errors
from helpers.errors import LabError
from helpers.lab.actors.workers import Worker, end_workers
from helpers.lab.frame.facts import POLL_SECONDS, query
from helpers.scripts import run_script
from helpers.views.bars import bars
from helpers.worker.racer import CLAIMS, START_LOCK

MANY_TASKS = "01_race_condition/03_many_tasks.sql"
NAMES = "ABCDEFGH"
MOST_ROUNDS = 5
TIMEOUT_SECONDS = 60.0

TEXTS = {
    "unknown": 'There is no claim "{claim}". The claims are: {known}.',
    "not_there": "After {seconds:g} s not all processes of the race stood at its start. They were ended.",
    "failed": "A process of the race failed, with exit code {code}: {lines}",
    "race": (
        "{workers} processes, {tasks} tasks, {claim} claim.\n"
        "Every task was done at least once:      {all}\n"
        "Some tasks were done more than once:    {twice}"
    ),
    "title": "How many times was work done?",
    "wanted": "{tasks} tasks",
    "note": "for example {examples}",
    "example": "#{task} by {workers}",
    "and": " and ",
    "once": "{claim}: {tasks} tasks, and the work of each was done once.",
    "double": "{claim}: {tasks} tasks, and the work of some was done more than once.",
}

WHO_DID_IT = """
    SELECT t.id, array_remove(array_agg(right(e.actor, 1) ORDER BY e.id), NULL) AS workers
    FROM backend_training.tasks AS t
    LEFT JOIN backend_training.task_events AS e ON e.task_id = t.id AND e.event = 'effect'
    GROUP BY t.id ORDER BY t.id
"""
AT_THE_START = text("""
    SELECT count(*) FROM pg_locks
    WHERE locktype = 'advisory' AND objid = :key AND NOT granted
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
""")
CLOSE_THE_START = text("SELECT pg_advisory_lock(:key)")
OPEN_THE_START = text("SELECT pg_advisory_unlock(:key)")
KEY = {"key": START_LOCK}


@dataclass(frozen=True)
class Race:
    """What the ledger says after a race. `done`: task id → the names of those who did its work, in order."""

    claim: str
    workers: int
    done: dict[int, list[str]]

    @property
    def tasks(self) -> int:
        """How many tasks there were."""
        return len(self.done)

    @property
    def work_done(self) -> int:
        """How many times work was done, over all tasks."""
        return sum(map(len, self.done.values()))

    @property
    def done_more_than_once(self) -> list[int]:
        """The ids of the tasks whose work was done more than once."""
        return [task for task, workers in self.done.items() if len(workers) > 1]

    def __repr__(self) -> str:
        """What does not change from race to race. How many were done more than once is a matter of chance."""
        every, some = all(self.done.values()), bool(self.done_more_than_once)
        return TEXTS["race"].format(workers=self.workers, tasks=self.tasks, claim=self.claim, all=every, twice=some)


def race(claim: str, workers: int = 4) -> Race:
    """Let `workers` processes (2 to 8) race for a hundred pending tasks, and count in the ledger what they did.

    `claim` is "naive" or "atomic". All processes wait at the start until the last one is connected. What happens then
    is a matter of chance: a naive race in which no task was done more than once is run again, up to five times in all.
    Raises LabError where a process fails, or does not come to the start within a minute.
    """
    if claim not in CLAIMS:
        raise LabError(TEXTS["unknown"].format(claim=claim, known=", ".join(CLAIMS)))
    for _ in range(MOST_ROUNDS if claim == "naive" else 1):
        end_workers()
        run_script(MANY_TASKS)
        _run(claim, NAMES[:workers])
        done = dict(query(WHO_DID_IT).itertuples(index=False, name=None))
        result = Race(claim, workers, done)
        if result.done_more_than_once:
            break
    return result


def run_racer(name: str, claim: str, *options: str) -> Worker:
    """Run one process of the race by itself, and show its lines until it ends."""
    racer = _start(name, claim, *options)
    racer.follow()
    return racer


def race_chart(*races: Race) -> None:
    """Draw how many times work was done in each race. Below the picture the same in words, without the numbers."""
    tasks = races[0].tasks
    sentences = [
        TEXTS["double" if race.done_more_than_once else "once"].format(claim=race.claim, tasks=race.tasks)
        for race in races
    ]
    chart = bars(
        {race.claim: race.work_done for race in races},
        wanted=tasks,
        title=TEXTS["title"],
        wanted_label=TEXTS["wanted"].format(tasks=tasks),
        description="\n".join(sentences),
        notes={race.claim: _examples(race) for race in races if race.done_more_than_once},
    )
    data, metadata = chart._repr_mimebundle_()
    display({"image/png": data["image/png"]}, metadata=metadata, raw=True)
    print(chart.description)


def _examples(race: Race) -> str:
    examples = [
        TEXTS["example"].format(task=task, workers=TEXTS["and"].join(race.done[task]))
        for task in race.done_more_than_once[:3]
    ]
    return TEXTS["note"].format(examples=", ".join(examples))


def _run(claim: str, names: str) -> None:
    """Start the processes, let them go when all are at the start, and wait until all have ended."""
    with readable_errors(), engine().connect() as connection:
        connection = connection.execution_options(isolation_level="AUTOCOMMIT")
        connection.execute(CLOSE_THE_START, KEY)
        try:
            racers = [_start(name, claim, "--wait-for-start") for name in names]
            _wait_at_the_start(connection, racers)
        except BaseException:
            end_workers()
            raise
        finally:
            connection.execute(OPEN_THE_START, KEY)
    for racer in racers:
        lines = io.StringIO()
        with redirect_stdout(lines):  # a hundred times "Claimed", and in another order each time
            racer.follow()
        if racer.returncode != 0:
            end_workers()
            raise LabError(TEXTS["failed"].format(code=racer.returncode, lines=lines.getvalue().strip()))


def _wait_at_the_start(connection: Connection, racers: list[Worker]) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while connection.scalar(AT_THE_START, KEY) != len(racers):
        if any(racer._process.poll() is not None for racer in racers):
            return  # it has failed, and says why
        if time.monotonic() > deadline:
            raise LabError(TEXTS["not_there"].format(seconds=TIMEOUT_SECONDS))
        time.sleep(POLL_SECONDS)


def _start(name: str, claim: str, *options: str) -> Worker:
    return Worker(name, "helpers.worker.racer", [name, "--claim", claim, *options])
