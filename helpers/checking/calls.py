"""Calls a learner's function once, and says what came of it."""

import io
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from typing import Any, TypeAlias

from helpers.checking.parts import Calling, Finding

CALL_SECONDS = 10.0  # for one call, with nobody else there
MOST_CHARACTERS = 60
MOST_PRINTED = 2_000

TEXTS = {
    "raised": "raised {kind}: {message}",
    "raised_bare": "raised {kind}",
    "type_error": "It could not be called like this: {message}.",
    "eof": "It asked for input with input(). Nobody answers in a check: take everything from the arguments.",
    "raised_why": "It raised {kind}: {message}",
    "raised_bare_why": "It raised {kind}.",
}


@dataclass(frozen=True)
class Outcome:
    """What one call gave: a value, or an exception; and what was printed meanwhile."""

    value: Any = None
    error: BaseException | None = None
    printed: str = ""

    @property
    def came(self) -> str:
        """For the table."""
        if self.error is not None:
            return _error_words(self.error, "raised")
        return shown(self.value)

    @property
    def refusal(self) -> str:
        """For the table of a call that should be refused: the class of the exception, or what came instead."""
        return type(self.error).__name__ if self.error else self.came

    @property
    def why_raised(self) -> str:
        """A sentence on the exception."""
        assert self.error is not None
        return sentence_on(self.error)


class Output(io.TextIOBase):
    """Passes on what is printed, and keeps the beginning: a function may print for ever."""

    def __init__(self) -> None:
        self.kept = ""
        self._behind = sys.stdout

    def write(self, text: str) -> int:
        if len(self.kept) < MOST_PRINTED:
            self.kept += text[:MOST_PRINTED]
            self._behind.write(text[:MOST_PRINTED])
            self._behind.flush()
        return len(text)


def call(function: Callable[..., Any], *arguments: object) -> Outcome:
    """Call the function, whatever it does, except that it ends the process."""
    output = Output()
    try:
        with redirect_stdout(output):
            return Outcome(function(*arguments), printed=output.kept)
    except BaseException as error:
        return Outcome(error=error, printed=output.kept)


Tried: TypeAlias = Generator[Calling | Finding, None, Outcome | None]


def tried(
    called: str,
    function: Callable[..., Any],
    *arguments: object,
    wrong: Callable[[Outcome], str | None],
    expected: str = "",
    refused_with: str = "",
    came: Callable[[Outcome], str] = lambda outcome: outcome.came,
    rows: Sequence[dict[str, str]] = (),
    seconds: float = CALL_SECONDS,
) -> Tried:
    """Call the function and give one finding. `wrong` says what is wrong with the outcome, if anything is.

    `expected` and `came` are for the table; or `refused_with`, the class of the exception that is expected.
    Returns the outcome where it is right, and else None: `if not (yield from tried(…)): return`.
    """
    yield Calling(called, seconds)
    outcome = call(function, *arguments)
    why = wrong(outcome) or ""
    shows = outcome.refusal if refused_with and outcome.error else came(outcome)
    yield Finding(not why, called, shows, refused_with or expected, why, rows if why else ())
    return None if why else outcome


def in_one_line(trials: Iterable[Tried], came: str, expected: str) -> Iterator[Calling | Finding]:
    """Many calls and one finding: the first that is wrong, or `came`, with how many were right at its {n}."""
    count = 0
    for trial in trials:
        for said in trial:
            if isinstance(said, Calling) or not said.ok:
                yield said
            if isinstance(said, Finding) and not said.ok:
                return
        count += 1
    yield Finding(True, "", came.format(n=count), expected)


def written(name: str, *arguments: object) -> str:
    """The call as one would write it: `simulate("naive", ["A", "B"])`."""
    return f"{name}({', '.join(as_code(argument) for argument in arguments)})"


def as_code(value: object) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list):
        return "[" + ", ".join(map(as_code, value)) + "]"
    return repr(value)


def shown(value: object) -> str:
    """A value for the table; times are left out, since they differ from run to run."""
    if isinstance(value, Mapping):
        parts = [f"{name} {entry}" for name, entry in value.items() if not hasattr(entry, "isoformat")]
        return _cut(", ".join(parts))
    try:
        return _cut(" ".join(repr(value).split()))
    except Exception:  # a learner's class may have a __repr__ of its own, or an ORM object has lost its session
        return type(value).__name__


def sentence_on(error: BaseException) -> str:
    """Why a function ended with an exception, as a sentence."""
    if isinstance(error, EOFError):
        return TEXTS["eof"]
    if isinstance(error, TypeError) and "argument" in str(error):
        return TEXTS["type_error"].format(message=error)
    return _error_words(error, "raised", "_why")


def _error_words(error: BaseException, key: str, suffix: str = "") -> str:
    message = _cut(reason(error), 200)
    name = f"{key}{'' if message else '_bare'}{suffix}"
    return TEXTS[name].format(kind=type(error).__name__, message=message)


def article(noun: str) -> str:
    """The noun with its article: `an int`."""
    return f"{'an' if noun[0].lower() in 'aeiou' else 'a'} {noun}"


def reason(error: BaseException) -> str:
    """The error in one line, without the statement and the links that SQLAlchemy adds."""
    message = str(getattr(error, "orig", None) or error)
    return (message.strip().splitlines() or [""])[0]


def _cut(text: str, most: int = MOST_CHARACTERS) -> str:
    return text if len(text) <= most else text[: most - 2] + " …"
