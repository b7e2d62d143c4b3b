"""What an exercise is made of, and what a check finds."""

import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from helpers.schedules import Program

LANGUAGE = "en"

Functions: TypeAlias = Sequence[Callable[..., Any]]  # the learner's, in the order in which the task names them


@dataclass(frozen=True)
class Calling:
    """A rule says this before it calls the learner's code: what it calls, and how many seconds that may take."""

    what: str
    seconds: float


@dataclass(frozen=True)
class Finding:
    """One line of the result. Where `ok` is false, `why` says in a sentence what is wrong.

    `rows` show it, where the database is concerned; `transcript` is the shortest order of steps that leads there, and
    `schedule` the string that replays it.
    """

    ok: bool
    called: str
    came: str
    expected: str
    why: str = ""
    rows: Sequence[dict[str, str]] = ()
    transcript: str = ""
    schedule: str | None = None

    def as_data(self) -> dict[str, Any]:
        return {**asdict(self), "rows": list(self.rows)}


@dataclass(frozen=True)
class Rule:
    """One thing that a check looks at.

    `run` takes the learner's functions, and gives what it calls and what it finds; the first finding that is not ok
    ends the check after this rule. `needs`: the positions of the functions it calls; None: all of them.
    `seconds`: how long the whole rule may take. `program`: what `Exercise.replay` runs, where the rule has schedules.
    """

    name: str
    run: Callable[[Functions], Iterator[Calling | Finding]]
    seconds: float = 60.0
    needs: frozenset[int] | None = None
    program: "Callable[[Functions], Program] | None" = None


@dataclass(frozen=True)
class Definition:
    """An exercise: the functions that it asks for, and the rules of the mini and of the full check.

    `package`: its folder, as a package. The full check is the mini rules, and behind them the full ones. `database`:
    whether the mini rules need one. `scripts`: what to run of `lab_sql/` beside the migrations up to this lesson.
    """

    package: str
    lesson: int
    functions: Sequence[str]
    mini: Sequence[Rule]
    full: Sequence[Rule]
    database: bool
    scripts: Sequence[str] = ()

    @property
    def name(self) -> str:
        return self.package.rpartition(".")[2]

    def rule(self, name: str) -> Rule:
        return next(rule for rule in (*self.mini, *self.full) if rule.name == name)


def definition_of(package: str) -> Definition:
    """The exercise in this package: `EXERCISE` of its module `checks`."""
    found: Definition = import_module(f"{package}.checks").EXERCISE
    return found


@cache
def texts_of(package: str) -> dict[str, Any]:
    """What a learner reads of the exercise in this package: `title`, `task`, `hints`, and tables of sentences."""
    return tomllib.loads((files(package) / "texts" / f"{LANGUAGE}.toml").read_text(encoding="utf-8"))
