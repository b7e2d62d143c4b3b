"""How many schedules a second? `python tests/schedules/bench.py [RUNS]`, with DATABASE_URL at a lab database.

Two workers claim and complete with the course's own functions, in random orders. Beside it stands the *floor*: the same
two workers, one after the other, without any scheduler. What the scheduler costs is the difference. CPU time says more
than wall time where other programs use the machine.
"""

import sys
from collections.abc import Callable
from random import Random
from time import perf_counter, process_time

import psycopg
from sqlalchemy import create_engine

from helpers import db
from helpers.repository.lease import claim_task, mark_as_completed
from helpers.schedules import LEASED_QUEUE, Program, explore
from helpers.schedules.invariants import first_offence
from helpers.schedules.situation import Situation
from helpers.schedules.stage import Stage, open_stage
from helpers.scripts import find_script, run_script

RESET = find_script("04_lease_and_attempts/02_reset.sql").read_text(encoding="utf-8")

CLAIM = """
    UPDATE backend_training.tasks
    SET status = 'processing', attempts = attempts + 1, lease_until = clock_timestamp() + interval '10 s'
    WHERE id = (SELECT id FROM backend_training.tasks WHERE status = 'pending'
                ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
"""
COMPLETE = "UPDATE backend_training.tasks SET status = 'completed' WHERE id = 42 AND status = 'processing'"


def worker() -> None:
    task = claim_task(10)
    if task is not None:
        mark_as_completed(task["id"], task["attempts"])


def measure(name: str, runs: int, once: Callable[[], object]) -> float:
    """Time `runs` calls, print wall and CPU time of this process, and return the wall time of one call in ms."""
    for _ in range(runs // 10 + 1):
        once()
    wall, cpu = perf_counter(), process_time()
    for _ in range(runs):
        once()
    wall, cpu = (perf_counter() - wall) / runs * 1e3, (process_time() - cpu) / runs * 1e3
    print(f"{name:<62} {1e3 / wall:7.1f} /s {wall:8.2f} ms {cpu:8.2f} ms CPU")
    return wall


def at_random(stage: Stage, random: Random, crash: bool = False) -> None:
    def choose(situation: Situation) -> str | None:
        if crash and len(situation.moves) == 4 and situation.last in situation.ready:
            return f"{situation.last}!"
        return random.choice(list(situation.ready) or [None])

    stage.run(choose)


def main(runs: int) -> None:
    for script in ("00_base/00_drop.sql", "00_base/01_migrate.sql", "04_lease_and_attempts/01_migrate.sql"):
        run_script(script)
    program = Program({"A": worker, "B": worker}, RESET, LEASED_QUEUE)

    url = db.database_url().render_as_string(hide_password=False).replace("+psycopg", "")
    own = create_engine(db.database_url(), pool_size=1, connect_args={"options": "-c synchronous_commit=off"})
    with psycopg.connect(url, autocommit=True, options="-c synchronous_commit=off") as reset, db.use_engine(own):

        def floor() -> None:
            reset.execute(RESET.encode())
            worker()
            worker()

        least = measure("floor: reset, and the two workers one after the other", runs, floor)
        measure("  of that, the reset", runs, lambda: reset.execute(RESET.encode()))
    own.dispose()

    with open_stage(program) as stage:
        wall = measure("the course's functions in random orders", runs, lambda: at_random(stage, Random(1)))
        run = stage.run(lambda _: None)
        measure("  of that, the rules", runs, lambda: first_offence(program.invariants, run))
        measure("  with a crash in each run", max(runs // 4, 1), lambda: at_random(stage, Random(1), crash=True))
    with open_stage(Program({"A": [CLAIM, COMPLETE], "B": [CLAIM, COMPLETE]}, RESET)) as stage:
        measure("SQL text (two statements each) in random orders", runs, lambda: at_random(stage, Random(1)))
    print(f"A schedule takes {wall / least:.2f} times the floor.")
    report = explore(program)
    print(f"explore: {report.runs} runs in {report.seconds:.1f} s, start and end of all sessions included. {report}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
