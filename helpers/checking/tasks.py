"""What the exercises that claim tasks share: rows to begin with, and what must be true of any claim."""

from collections.abc import Mapping
from dataclasses import replace

from helpers.checking.calls import article
from helpers.schedules import Invariant, Offence, Run, claims_do_not_wait

CLEAR = "DELETE FROM backend_training.tasks; DELETE FROM backend_training.task_events;"
EMPTY = (
    "TRUNCATE backend_training.tasks, backend_training.task_events;"  # slower; the next rows stand in order of writing
)
ROW = "INSERT INTO backend_training.tasks (id, type) VALUES ({id}, 'generate_report')"
ONE_TASK = f"{CLEAR} {ROW.format(id=42)}"
# Written from the last to the first: so a claim without ORDER BY finds #44.
THREE_TASKS = f"{CLEAR} {ROW.format(id=44)}; {ROW.format(id=43)}; {ROW.format(id=42)}"
IN_ORDER = f"{EMPTY} {ROW.format(id=42)}; {ROW.format(id=43)}; {ROW.format(id=44)}"
OTHER_PLANS = ("hashjoin", "mergejoin", "material", "hashagg", "sort")  # what is left runs a subquery again and again
LOCKER = "L"  # the session that only holds a lock
ERRORS = {"55P03": "raised_locked", "TooManyStatements": "endless", "TimeoutError": "pool", "42703": "column"}


def not_a_task(task: object, keys: tuple[str, ...], why: Mapping[str, str]) -> str | None:
    """The sentence where this is no mapping with these keys, or None."""
    if not isinstance(task, Mapping):
        return why["not_mapping"].format(kind=article(type(task).__name__))
    missing = [key for key in keys if key not in task]
    return why["keys"].format(key=missing[0]) if missing else None


def _claims_do_not_wait(run: Run) -> Offence | None:
    """The session that only holds a lock may wait, and so may a worker that has claimed and goes on."""
    claiming, working = [], {LOCKER}
    for step in run.steps:
        if step.actor not in working:
            claiming.append(step)
        if step.actor and step.call and step.call.kind == "mark":
            working.add(step.actor)
    return claims_do_not_wait.check(replace(run, steps=claiming))


DO_NOT_WAIT = Invariant(claims_do_not_wait.name, _claims_do_not_wait)
