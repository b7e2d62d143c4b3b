"""One batch after another, with nobody else there: is each right by itself?"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from helpers.checking import Calling, Finding, Functions, Outcome, article, call, shown, texts_of, tried, written
from helpers.checking.calls import CALL_SECONDS
from helpers.checking.queues import Made, is_free, is_spent, put, why_raised, wrong_claims
from helpers.checking.tasks import LONG_LEASE, Rows, rows_by_id
from helpers.models import PRIORITIES

TEXTS = texts_of(__package__)
WHY: dict[str, str] = TEXTS["why"]

Quotas: TypeAlias = Mapping[str, int]
ClaimBatch: TypeAlias = Callable[[int, dict[str, int], float], Any]


@dataclass(frozen=True)
class Case:
    """One call, on a queue of which another session has locked some tasks."""

    tasks: Sequence[Made]
    batch_size: int
    quotas: Quotas
    locked: Sequence[int] = ()

    @property
    def called(self) -> str:
        return written("my_claim_batch", self.batch_size, dict(self.quotas), LONG_LEASE).replace("'", '"')

    @property
    def rows(self) -> list[dict[str, str]]:
        return [
            task.shown() | ({TEXTS["locked"]: TEXTS["yes"]} if task.id in self.locked else {}) for task in self.tasks
        ]


@dataclass(frozen=True)
class Came:
    """What one call gave: the ids, or None where there are none to speak of; and what is wrong with it by itself."""

    outcome: Outcome
    ids: list[int] | None
    why: str

    @property
    def shown(self) -> str:
        return self.outcome.came if self.ids is None else shown(self.ids)


def run(claim: ClaimBatch, case: Case) -> Came:
    """Call the function on the rows as they stand now."""
    before, quotas = rows_by_id(), dict(case.quotas)
    outcome = call(claim, case.batch_size, quotas, LONG_LEASE)
    batch = outcome.value
    if wrong := wrong_outcome(outcome, quotas):
        return Came(outcome, None, wrong)
    ids = [task["id"] for task in batch]
    if quotas != dict(case.quotas):
        return Came(outcome, ids, WHY["changed_quotas"])
    if len(ids) > case.batch_size:
        return Came(outcome, ids, WHY["too_long"].format(n=len(ids), size=case.batch_size))
    return Came(outcome, ids, wrong_claims(batch, before, LONG_LEASE, WHY, others_open=1 if case.locked else 0))


def wrong_outcome(outcome: Outcome, quotas: Quotas) -> str:
    """The sentence where this is no list of mappings with an id, so that nothing more can be said about it."""
    error, batch = outcome.error, outcome.value
    if isinstance(error, KeyError) and error.args and error.args[0] in set(PRIORITIES) - set(quotas):
        return WHY["missing_quota"]
    if error is not None:
        return why_raised(outcome, WHY)
    if batch is None:
        return WHY["none"]
    if not isinstance(batch, list):
        return WHY["type"].format(kind=article(type(batch).__name__))
    for task in batch:
        if not isinstance(task, Mapping):
            return WHY["not_mapping"].format(kind=article(type(task).__name__))
        if "id" not in task:
            return WHY["keys"].format(key="id")
    return ""


SIX = (
    Made(44, "HIGH", 30),
    Made(41, "LOW", 80, attempts=1),
    Made(45, "MEDIUM", 20),
    Made(42, "LOW", 70),
    Made(43, "HIGH", 60, "processing", 2, lease=-5),
    Made(46, "MEDIUM", 50),
)
EVENLY = {"HIGH": 1, "MEDIUM": 1, "LOW": 1}
GENEROUS = {"HIGH": 9, "MEDIUM": 9, "LOW": 9}


def batches(sizes: Sequence[int], tasks: Sequence[Made], functions: Functions) -> Iterator[Calling | Finding]:
    """One batch after another, until nothing is left. Each is right by itself; which tasks it takes is not asked."""
    [claim] = functions
    put(tasks)
    for batch_size in sizes:
        case = Case(tasks, batch_size, GENEROUS if batch_size > len(PRIORITIES) else EVENLY)
        free = [task_id for task_id, row in rows_by_id().items() if is_free(row)]
        number = min(batch_size, len(free))
        yield Calling(case.called, CALL_SECONDS)
        came = run(claim, case)
        why = came.why or wrong_number(came, free, number, case) or not_given_up(rows_by_id(), free, batch_size)
        yield Finding(not why, case.called, came.shown, TEXTS["tasks"].format(n=number), why)
        if why:
            return


def wrong_number(came: Came, free: Sequence[int], number: int, case: Case) -> str:
    missing = [task_id for task_id in free if task_id not in (came.ids or [])]
    if len(came.ids or []) == number:
        return ""
    return WHY["too_short"].format(n=len(came.ids or []), size=case.batch_size, id=missing[0])


def not_given_up(rows: Rows, free: Sequence[int], batch_size: int) -> str:
    """A batch that found less than it wanted has met all tasks, also those without an attempt left."""
    spent = [task_id for task_id, row in rows.items() if is_spent(row)]
    return WHY["not_given_up"].format(id=spent[0]) if spent and len(free) < batch_size else ""


REFUSED = {
    "negative_size": (-1, {"HIGH": 1}),
    "negative_quota": (3, {"HIGH": 1, "LOW": -2}),
    "unknown_quota": (3, {"HIGH": 1, "URGENT": 2}),
    "nothing_to_do": (0, {"HIGH": -1}),
}


def errors(functions: Functions) -> Iterator[Calling | Finding]:
    """Arguments that are refused."""
    [claim] = functions
    for name, (batch_size, quotas) in REFUSED.items():
        put(SIX)
        case, wrong = Case(SIX, batch_size, quotas), partial(wrong_refusal, name)
        arguments = batch_size, dict(quotas), LONG_LEASE
        if not (yield from tried(case.called, claim, *arguments, wrong=wrong, refused_with="ValueError")):
            return


def wrong_refusal(name: str, outcome: Outcome) -> str:
    if outcome.error is None:
        return WHY[name]
    if not isinstance(outcome.error, ValueError):
        return WHY["other_error"].format(kind=article(outcome.refusal))
    return WHY["refusal_changed"] if any(map(is_new_claim, rows_by_id().values())) else ""


def is_new_claim(row: Mapping[str, Any]) -> bool:
    return row["status"] == "processing" and (row["lease_until"] is None or bool(row["lease_until"] > row["now"]))
