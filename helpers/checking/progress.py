"""What a learner has solved: one small file below `.lab`, written anew at each change."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from filelock import FileLock

from helpers.paths import lab_home

# From the first to the last; the best that was reached is kept.
STATES = ("not attempted", "attempted", "mini passed", "solved")


@dataclass(frozen=True)
class Entry:
    """How far one exercise has come. `hints`: how many were shown. `solution`: looked at before it was solved."""

    state: str = STATES[0]
    hints: int = 0
    solution: bool = False


def entry(name: str) -> Entry:
    """The entry of one exercise."""
    return _read().get(name, Entry())


def note(name: str, *, state: str = STATES[0], hints: int = 0, solution: bool = False) -> None:
    """Note what was reached. Nothing is ever taken back: a later failure leaves a solved exercise solved."""
    with FileLock(f"{_path()}.lock"):
        entries = _read()
        old = entries.get(name, Entry())
        new = replace(
            old,
            state=max(old.state, state, key=STATES.index),
            hints=max(old.hints, hints),
            solution=old.solution or (solution and old.state != STATES[-1]),
        )
        if new == old:
            return
        entries[name] = new
        draft = _path().with_suffix(".new")
        draft.write_text(json.dumps({key: asdict(value) for key, value in entries.items()}, indent=1), encoding="utf-8")
        draft.replace(_path())  # a reader sees the old file or the new one, never a part


def _path() -> Path:
    return lab_home() / "progress.json"


def _read() -> dict[str, Entry]:
    """All entries. A file that cannot be read counts as empty: progress is a convenience, and no reason to stop."""
    try:
        data = json.loads(_path().read_text(encoding="utf-8"))
        entries = {str(name): Entry(**fields) for name, fields in data.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
    return {name: found for name, found in entries.items() if found.state in STATES}
