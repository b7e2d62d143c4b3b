"""The exercises, from a notebook: `ex = lab.exercise("simulate")`, and `lab.progress()`."""

from helpers.exercises.exercise import Exercise, progress_table
from helpers.views import Table


def exercise(name: str) -> Exercise:
    """The exercise called `name`; showing it shows its task. See `Exercise` for check, hint, solution and replay.

    Raises LabError, which lists the exercises, where there is none of that name.
    """
    return Exercise(name)


def progress() -> Table:
    """A table of all exercises: not attempted, attempted, mini passed, or solved; and which help was used."""
    return progress_table()
