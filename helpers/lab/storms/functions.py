"""Whose functions the workers of a storm call, and how they get there."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from html import escape
from pathlib import Path
from typing import Any

from helpers.checking.courier import pack
from helpers.checking.kept import kept
from helpers.errors import LabError
from helpers.paths import lab_home
from helpers.views import Table

Function = Callable[..., Any]

NAMES = ("claim_task", "mark_as_completed", "renew_lease", "fail_task", "request_key")
# The exercises in which a learner writes some of them, as the first functions of the answer.
EXERCISES = {
    "lease": ("claim_task", "mark_as_completed"),
    "renew": ("renew_lease",),
    "effect": ("request_key",),
}
# The claim of lesson 7 does all that the one of lesson 4 does, so it takes its place where it is there.
BETTER_CLAIM = "aging"
AGING_SECONDS = 60.0
COLUMNS = ["function", "whose"]
TEXTS = {
    "yours": "yours: {name}",
    "course": "the course's",
    "unsolved": 'The exercise "{exercise}" is not solved yet, so its functions are the course\'s.',
}


@dataclass(frozen=True, repr=False)
class Repository:
    """The functions that the workers of a storm call. What is None is the course's own function.

    claim_task(lease_seconds) → a mapping or None; mark_as_completed(task_id, attempts);
    renew_lease(task_id, attempts, lease_seconds); fail_task(task_id, attempts, error) → the new status;
    request_key(task) → the idempotency key of the task's document.
    """

    claim_task: Function | None = None
    mark_as_completed: Function | None = None
    renew_lease: Function | None = None
    fail_task: Function | None = None
    request_key: Function | None = None
    remarks: Sequence[str] = ()  # why some are the course's

    @property
    def own(self) -> dict[str, Function]:
        """The functions that take the place of the course's, by name."""
        return {name: getattr(self, name) for name in NAMES if getattr(self, name) is not None}

    def table(self) -> Table:
        """Which function is whose."""
        whose = {name: TEXTS["yours"].format(name=getattr(own, "__name__", name)) for name, own in self.own.items()}
        return Table(COLUMNS, [[name, whose.get(name, TEXTS["course"])] for name in NAMES])

    def __repr__(self) -> str:
        return "\n".join([repr(self.table()), *(["", *self.remarks] if self.remarks else [])])

    def _repr_html_(self) -> str:
        return "\n".join([self.table()._repr_html_(), *(f"<p>{escape(remark)}</p>" for remark in self.remarks)])


def my_repository() -> Repository:
    """The learner's own functions, of each exercise whose full check has passed, and the course's for all others."""
    own: dict[str, Any] = {}
    remarks: list[str] = []
    for exercise, names in EXERCISES.items():
        try:
            functions = kept(exercise)
        except LabError as error:
            remarks.append(str(error))
            continue
        if not functions:
            remarks.append(TEXTS["unsolved"].format(exercise=exercise))
        own |= dict(zip(names, functions, strict=False))
    try:
        for claim in kept(BETTER_CLAIM):
            own["claim_task"] = with_aging(claim)
    except LabError as error:
        remarks.append(str(error))
    return Repository(**own, remarks=remarks)


def with_aging(claim: Function) -> Function:
    """The claim of the exercise `aging` as a worker calls it, without the second argument."""

    @wraps(claim)
    def claim_task(lease_seconds: float) -> Any:
        return claim(lease_seconds, AGING_SECONDS)

    return claim_task


@contextmanager
def packed(repository: Repository | None) -> Iterator[list[str]]:
    """The worker's options for these functions: a file with the functions in it, for as long as the block lasts."""
    if repository is None or not repository.own:
        yield []
        return
    with tempfile.TemporaryDirectory(prefix="storm-", dir=lab_home()) as folder:
        path = Path(folder) / "functions"
        path.write_text(pack([repository.own]), encoding="ascii")  # type: ignore[list-item]  # one parcel with them all
        yield ["--functions", str(path)]
