"""Which exercises there are: the packages in this folder, in the order of the lessons."""

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from helpers.errors import LabError
from helpers.exercises.parts import Definition

FOLDER = Path(__file__).parent
LESSONS = {
    found.name: int(import_module(f"helpers.exercises.{found.name}").LESSON)
    for found in iter_modules([str(FOLDER)])
    if found.ispkg
}
NAMES = tuple(sorted(LESSONS, key=lambda name: (LESSONS[name], name)))

TEXTS = {"unknown": 'There is no exercise "{name}". The exercises are: {known}.'}


def definition(name: str) -> Definition:
    """The exercise called `name`. Raises LabError, which lists the exercises, where there is none."""
    if name not in LESSONS:
        raise LabError(TEXTS["unknown"].format(name=name, known=", ".join(NAMES)))
    found: Definition = import_module(f"helpers.exercises.{name}.checks").EXERCISE
    return found
