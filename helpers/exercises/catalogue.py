"""Which exercises there are: the packages in this folder, in the order of the lessons."""

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from helpers.checking.parts import Definition, definition_of, texts_of
from helpers.errors import LabError

FOLDER = Path(__file__).parent
LESSONS = {
    found.name: int(import_module(f"{__package__}.{found.name}").LESSON)
    for found in iter_modules([str(FOLDER)])
    if found.ispkg
}
NAMES = tuple(sorted(LESSONS, key=lambda name: (LESSONS[name], name)))

TEXTS = {"unknown": 'There is no exercise "{name}". The exercises are: {known}.'}


def definition(name: str) -> Definition:
    """The exercise called `name`. Raises LabError, which lists the exercises, where there is none."""
    if name not in LESSONS:
        raise LabError(TEXTS["unknown"].format(name=name, known=", ".join(NAMES)))
    return definition_of(package(name))


def exercise_texts(name: str) -> dict[str, Any]:
    """What a learner reads of the exercise called `name`."""
    return texts_of(package(name))


def package(name: str) -> str:
    return f"{__package__}.{name}"
