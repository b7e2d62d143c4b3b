"""Opens a lesson: the server found, old workers ended, and the schema in the state in which the lesson begins."""

import os

from sqlalchemy import text

from helpers.db import engine, forget_engine
from helpers.diagnosis import LESSON, readable_errors
from helpers.errors import LabError
from helpers.kernel import watch_cells
from helpers.lab.actors.leftovers import end_leftovers
from helpers.lab.actors.strays import stop_stray_workers
from helpers.repository.lease import checked_lease_seconds
from helpers.scripts import lesson_folder, migrations_before, run_script

TEXTS = {
    "opened": "Lesson {lesson} is open. PostgreSQL answers, and tasks {tasks} are pending.",
    "rebuilt": "The lab's tables were rebuilt for lesson {lesson}: tasks {tasks} are pending.",
    "rebuilt_base": "The lab's tables were rebuilt: tasks {tasks} are pending.",
    "reset": "{script} ran: tasks {tasks} are pending.",
    "lease": 'LAB_LEASE_SECONDS is "{value}", but it must be a number of seconds above 0, such as 10.',
    "not_open": "No lesson is open. Run the notebook's first code cell, then this one.",
}

LESSONS_LEASE = 10  # seconds, as the notebooks say
TABLES_OF_THE_TOUR = 5  # lesson 0 shows a worker of lesson 4, so it begins with the tables that lesson 4 leaves

_current: int | None = None


def open_lesson(lesson: int) -> None:
    """Rebuild the lab's tables as lesson `lesson` finds them. Rows of an earlier run are dropped.

    Raises LabError where no server can be reached, or somebody's open transaction is in the way.
    """
    global _current  # one notebook, one lesson: what later cells need not say again
    os.environ["PGAPPNAME"] = "lab"
    watch_cells(on_interrupt=end_leftovers)
    forget_engine()
    tasks = _rebuild(lesson or TABLES_OF_THE_TOUR)
    _current = lesson
    print(TEXTS["opened"].format(lesson=lesson, tasks=tasks))


def reset() -> None:
    """Run this lesson's reset script: rows and ledger afresh. First end this notebook's workers and sessions."""
    script = f"{lesson_folder(current_lesson())}/02_reset.sql"
    end_leftovers()
    run_script(script)
    print(TEXTS["reset"].format(script=script, tasks=_pending_tasks()))


def rebuild(lesson: int | None = None) -> str:
    """Rebuild the tables for the start of `lesson` (None: the base alone), and return a line that says so."""
    tasks = _rebuild(lesson or 0)
    return TEXTS["rebuilt" if lesson else "rebuilt_base"].format(lesson=lesson, tasks=tasks)


def current_lesson() -> int:
    """The number of the lesson that this notebook opened. Raises LabError where it opened none."""
    if _current is None:
        raise LabError(TEXTS["not_open"])
    return _current


def lease_seconds() -> float:
    """How long a lease lasts in the experiments, in seconds: 10 for people, less where LAB_LEASE_SECONDS says so."""
    value = os.environ.get("LAB_LEASE_SECONDS", str(LESSONS_LEASE))
    try:
        return checked_lease_seconds(float(value))
    except ValueError:
        raise LabError(TEXTS["lease"].format(value=value)) from None


def _rebuild(lesson: int) -> str:
    os.environ[LESSON] = str(lesson)  # for our workers, too: what these tables have
    end_leftovers()
    stop_stray_workers()
    with readable_errors():
        for script in ("00_base/00_drop.sql", "00_base/01_migrate.sql", *migrations_before(lesson)):
            run_script(script)
        run_script("00_base/02_reset.sql")
        engine().dispose()  # a session keeps plans for statements, and they are for the tables of before
    return _pending_tasks()


def _pending_tasks() -> str:
    with readable_errors(), engine().connect() as connection:
        ids = connection.scalars(text("SELECT id FROM backend_training.tasks WHERE status = 'pending' ORDER BY id"))
        return ", ".join(f"#{task_id}" for task_id in ids)
