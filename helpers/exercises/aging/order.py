"""The order in which tasks are claimed, and the mistakes that are known by it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from helpers.checking import Calling, Finding, Functions, call, shown, texts_of, written
from helpers.checking.calls import CALL_SECONDS
from helpers.checking.queues import Made, put, why_raised
from helpers.checking.tasks import LONG_LEASE
from helpers.models import PRIORITIES

TEXTS = texts_of(__package__)
WHY: dict[str, str] = TEXTS["why"]

Claim: TypeAlias = Callable[[float, float], Any]

AGING = 60  # seconds, of most calls

# Behind each task: how many seconds it has waited, less its steps of priority, where a step is AGING.
MIXED = (
    Made(1, "HIGH", 10),  # 10
    Made(5, "MEDIUM", 75),  # 15
    Made(2, "LOW", 200),  # 80
    Made(8, "LOW", 20),  # -100
    Made(7, "HIGH", 130),  # 130
    Made(6, "LOW", 140, attempts=2),  # 20
    Made(3, "MEDIUM", 100, "processing", 1, lease=-5),  # 40
    Made(4, "HIGH", 30),  # 30
)
# All of them count as equally old. The file has them in another order than they are claimed.
TIES = (
    Made(9, "HIGH", 30),
    Made(7, "HIGH", 30),
    Made(5, "LOW", 150),
    Made(8, "MEDIUM", 90),
    Made(6, "MEDIUM", 90),
    Made(4, "LOW", 150),
)
QUEUES = {"sixty": (MIXED, AGING), "ten": (MIXED, 10), "ties": (TIES, AGING)}

Key: TypeAlias = Callable[[Made, float], Any]


def counted(task: Made, aging: float, steps: Sequence[float] = (0, 1, 2)) -> float:
    """When the task counts as created: the lower, the older. Zero is now."""
    return -task.age + steps[task.rank] * aging


# What some known mistakes order by. Behind that come the priority, the age and the id, as is right.
MISTAKES: dict[str, tuple[Key, ...]] = {
    "no_aging": (lambda task, _: task.rank,),
    "age_alone": (lambda task, _: -task.age,),
    "as_text": (
        lambda task, _: task.priority,
        lambda task, aging: counted(task, aging, [sorted(PRIORITIES).index(p) for p in PRIORITIES]),
    ),
    "low_first": (lambda task, _: -task.rank,),
    "wrong_direction": (lambda task, aging: -task.age - task.rank * aging,),
    "one_step": (lambda task, aging: counted(task, aging, (0, 1, 1)),),
    "only_low": (
        lambda task, aging: counted(task, aging, (0, 0, 1)),
        lambda task, aging: counted(task, aging, (0, 0, 2)),
    ),
    "newest_first": (
        lambda task, aging: -counted(task, aging),
        lambda task, _: (task.rank, task.age),
    ),
    "whole_steps": (
        lambda task, aging: (task.rank - task.age // aging, -task.age),
        lambda task, aging: (max(task.rank - task.age // aging, 0), -task.age),
    ),
    "by_attempts": (
        lambda task, _: task.rank - task.attempts,
        lambda task, aging: -task.age + (task.rank - task.attempts) * aging,
    ),
    "from_lease": (
        lambda task, aging: (-task.age if task.lease is None else task.lease) + task.rank * aging,
        lambda task, aging: (1e9 if task.lease is None else task.lease) + task.rank * aging,
    ),
}
OF_TIES: dict[str, Key] = {
    "ties_by_id": lambda task, aging: (counted(task, aging), task.id),
    "ties_by_age": lambda task, aging: (counted(task, aging), -task.age, task.id),
}


def ordered(tasks: Sequence[Made], aging: float, key: Key = counted) -> list[int]:
    """The ids of the tasks in the order of `key`, and then as it is right."""
    found = sorted(tasks, key=lambda task: (key(task, aging), task.rank, -task.age, task.id))
    return [task.id for task in found]


def order(functions: Functions) -> Iterator[Calling | Finding]:
    """All tasks of a queue are claimed, one after the other: in which order?"""
    [claim] = functions
    came: dict[str, Any] = {}
    for name, (tasks, aging) in QUEUES.items():
        yield Calling(written("my_claim", LONG_LEASE, aging), CALL_SECONDS * 3)
        came[name] = emptied(claim, tasks, aging)
    for name, (tasks, aging) in QUEUES.items():
        right = ordered(tasks, aging)
        why = "" if came[name] == right else wrong_order(name, came)
        rows = [with_age_that_counts(task, aging) for task in tasks] if why else []
        called = TEXTS["calls"]["order"].format(call=written("my_claim", LONG_LEASE, aging))
        yield Finding(not why, called, shown(came[name]), shown(right), why, rows)
        if why:
            return


def emptied(claim: Claim, tasks: Sequence[Made], aging: float) -> list[int] | str:
    """The ids in the order in which they were claimed; or a sentence, where that was not possible."""
    put(tasks)
    ids: list[int] = []
    for _ in tasks:
        outcome = call(claim, LONG_LEASE, aging)
        if outcome.error is not None:
            return why_raised(outcome, WHY)
        if outcome.value is None:
            break
        ids.append(outcome.value["id"])
    return ids


def wrong_order(name: str, came: Mapping[str, Any]) -> str:
    """The sentence on what is wrong with the order in the queue `name`: a known mistake, or the first wrong place."""
    if isinstance(came[name], str):
        return str(came[name])
    tasks, aging = QUEUES[name]
    if name == "ties":
        known = (mistake for mistake, key in OF_TIES.items() if came[name] == ordered(tasks, aging, key))
        return WHY[next(known, "ties")]
    for mistake, keys in MISTAKES.items():
        if any(all(came[queue] == ordered(*QUEUES[queue], key) for queue in ("sixty", "ten")) for key in keys):
            return WHY[mistake]
    if came["sixty"] == came["ten"]:
        return WHY["ignores_aging"]
    pairs = zip(came[name], ordered(tasks, aging), strict=False)
    got, right = next((pair for pair in pairs if pair[0] != pair[1]), (None, None))
    return WHY["order"].format(got=got, right=right)


def with_age_that_counts(task: Made, aging: int) -> dict[str, str]:
    facts = {name: fact for name, fact in task.shown().items() if name in ("id", "priority", "created", "attempts")}
    return facts | {TEXTS["counts"]: f"{-counted(task, aging):g}"}
