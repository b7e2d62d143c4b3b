"""Which exercises there are, in the order of the lessons. One module each, imported at the first use."""

from importlib import import_module

from helpers.errors import LabError
from helpers.exercises.parts import Definition

LESSONS = {
    "simulate": 1,
    "transfer": 2,
    "claim": 3,
    "lease": 4,
    "renew": 5,
    "effect": 6,
    "aging": 7,
    "claim_batch": 8,
    "build_batch": 9,
}
NAMES = tuple(LESSONS)

TEXTS = {"unknown": 'There is no exercise "{name}". The exercises are: {known}.'}


def definition(name: str) -> Definition:
    """The exercise called `name`. Raises LabError, which lists the exercises, where there is none."""
    if name not in LESSONS:
        raise LabError(TEXTS["unknown"].format(name=name, known=", ".join(NAMES)))
    found: Definition = import_module(f"helpers.exercises.{name}").EXERCISE
    return found
