"""Programs that several tests run."""

from collections.abc import Callable, Sequence

from helpers.repository.lease import claim_task
from helpers.schedules import LEASED_QUEUE, Invariant, Program
from helpers.scripts import find_script

THREE_TASKS = find_script("04_lease_and_attempts/02_reset.sql").read_text(encoding="utf-8")

ONE_TASK = """
    DELETE FROM backend_training.tasks;
    DELETE FROM backend_training.task_events;
    INSERT INTO backend_training.tasks (id, type, status) VALUES (42, 'generate_report', 'pending');
"""

TWO_ROWS = """
    DELETE FROM public.queue;
    INSERT INTO public.queue VALUES (1, 'foo'), (2, 'bar');
"""


def two(
    worker: Callable[[], object],
    invariants: Sequence[Invariant] = LEASED_QUEUE,
    *,
    reset: str = ONE_TASK,
    expiries: int = 0,
    crashes: int = 0,
    rescue: Callable[[], object] | None = None,
) -> Program:
    """Two workers that run the same code, on one task."""
    return Program(
        actors={"A": worker, "B": worker},
        reset=reset,
        invariants=invariants,
        expiries=expiries,
        crashes=crashes,
        rescue=rescue,
    )


def claim_for_ten_seconds() -> object:
    return claim_task(10)


def sessions(**actors: Sequence[str]) -> Program:
    """Sessions that run SQL text on a small table of their own."""
    return Program(actors=actors, reset=TWO_ROWS, rows="SELECT * FROM public.queue ORDER BY id", ledger=None)
