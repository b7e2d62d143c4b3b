"""Lesson 7's exercise: a claim that is strict but for aging."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from helpers.checking.calls import call, shown, written
from helpers.checking.leased import (
    CALL_SECONDS,
    LEASE,
    LONG_LEASE,
    in_every_order,
    reason_of_a_dead_lease,
)
from helpers.checking.orders import error_of, replayed_finding, sqlstate
from helpers.checking.parts import Calling, Definition, Finding, Functions, Rule, texts_of
from helpers.checking.queues import (
    STATES,
    THREE_TASKS,
    Made,
    is_free,
    is_spent,
    locking,
    looked_without_a_lock,
    made,
    made_behind_the_planner,
    put,
    rows_by_id,
    waits_for_nobody,
    why_raised,
    with_few_disturbances,
    wrong_claims,
)
from helpers.checking.tasks import CLEAR, ERRORS, LOCKER
from helpers.exercises.aging import LESSON
from helpers.models import PRIORITIES
from helpers.repository.lease import StaleClaimError, mark_as_completed
from helpers.schedules import (
    Invariant,
    Offence,
    Program,
    Run,
    Violation,
    attempts_are_counted,
    attempts_never_repeat,
    claim_committed_before_work,
    lease_in_force,
    mark,
    no_error_but,
    no_task_lost,
    one_current_attempt,
    one_task_a_claim,
)
from helpers.schedules.invariants import changes, comes_back
from helpers.schedules.program import EXPIRE

TEXTS = texts_of(__package__)
WHY: dict[str, str] = TEXTS["why"]
SAYS = TEXTS["offences"]
EXPECTED = TEXTS["expected"]

Claim: TypeAlias = Callable[[float, float], Any]

AGING = 60  # seconds, of most calls


# One call after another

THREE = (Made(44, "HIGH", 30), Made(43, "MEDIUM", 40), Made(42, "LOW", 50))


def claims(tasks: Sequence[Made], functions: Functions) -> Iterator[Calling | Finding]:
    """Claims until none of these tasks is left: each is right by itself. In which order they come is not asked."""
    [claim] = functions
    put(tasks)
    called = written("my_claim", LONG_LEASE, AGING)
    while True:
        before = rows_by_id()
        free = [task_id for task_id, row in before.items() if is_free(row)]
        yield Calling(called, CALL_SECONDS)
        outcome = call(claim, LONG_LEASE, AGING)
        why = why_raised(outcome, WHY) or wrong_claim(outcome.value, free)
        if not why and outcome.value is not None:
            why = wrong_claims([outcome.value], before, LONG_LEASE, WHY)
        yield Finding(not why, called, outcome.came, either(free), why)
        if why or outcome.value is None:
            return


def wrong_claim(task: object, free: Sequence[int]) -> str:
    """The sentence on None where a task is free, on a task where none is, and on what was to be given up."""
    if task is not None:
        return ""
    if free:
        return WHY["none"].format(free=f"#{free[0]}")
    if spent := [task_id for task_id, row in rows_by_id().items() if is_spent(row)]:
        return WHY["not_given_up"].format(id=spent[0])
    return ""


def either(free: Sequence[int]) -> str:
    *first, last = [f"#{task_id}" for task_id in free] or ["None"]
    return TEXTS["or"].format(first=", ".join(first), last=last) if first else last


# The order

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


def values(functions: Functions) -> Iterator[Calling | Finding]:
    """An aging that makes no sense."""
    [claim] = functions
    for aging in (0, -AGING):
        put(THREE)
        called = written("my_claim", LONG_LEASE, aging)
        yield Calling(called, CALL_SECONDS)
        outcome = call(claim, LONG_LEASE, aging)
        raised = type(outcome.error).__name__ if outcome.error else outcome.came
        why = ""
        if not isinstance(outcome.error, ValueError):
            why = WHY["value_zero" if aging == 0 else "value_negative"].format(came=raised)
        elif any(row["attempts"] for row in rows_by_id().values()):
            why = WHY["value_changed"]
        yield Finding(not why, called, raised, "ValueError", why)
        if why:
            return


# Claimers at the same time


def claimer(claim: Claim) -> Any:
    task = claim(LEASE, AGING)
    mark("work")
    return None if task is None else task["id"]


def worker(claim: Claim) -> int | None:
    """Claims with the learner's claim, and completes with the course's."""
    task = claim(LEASE, AGING)
    if task is None:
        return None
    mark("work")
    mark_as_completed(task["id"], task["attempts"])
    return int(task["id"])


def all_claims(claim: Claim) -> list[int]:
    ids: list[int] = []
    while (task := claim(LEASE, AGING)) is not None:
        ids.append(task["id"])
    return ids


def _all_due_are_claimed(run: Run) -> Offence | None:
    """Whoever claimed until it got None has left no task that is due by the database's clock."""
    for who, result in run.results.items():
        left = [row for row in run.rows if isinstance(result, list) and row["id"] not in result]
        if left:
            return Offence(SAYS["due"].format(who=who, task=left[0]["id"]), tuple(left))
    return None


def _returns_what_it_claimed(run: Run) -> Offence | None:
    claimed = {(change.who, change.row["task_id"]) for change in changes(run) if change.is_claim}
    for who, result in sorted(run.results.items()):
        if isinstance(result, int) and (who, result) not in claimed:
            return Offence(SAYS["returned"].format(who=who, id=result), tuple(run.rows))
    return None


ALL_DUE = Invariant(SAYS["due_name"], _all_due_are_claimed)
RETURNS_WHAT_IT_CLAIMED = Invariant(SAYS["returned_name"], _returns_what_it_claimed)
WAITS_FOR_NOBODY = waits_for_nobody(SAYS["waits_name"], SAYS["waits"])
NO_ERROR = no_error_but(StaleClaimError)
OF_CLAIMS = (
    one_task_a_claim,
    one_current_attempt,
    attempts_never_repeat,
    attempts_are_counted,
    WAITS_FOR_NOBODY,
    RETURNS_WHAT_IT_CLAIMED,
    lease_in_force,
    NO_ERROR,
    claim_committed_before_work,
    no_task_lost,
)

BEHIND_THE_PLANNER = made_behind_the_planner(THREE)
LATER = made((Made(42, "HIGH", 30), Made(43, "MEDIUM", 40, retry=3600), Made(44, "LOW", 50, "processing", 1, 3600)))
# #42 has no attempt left: it is given up by whoever meets it, and the other one finds #43.
A_SPENT_ONE = made((Made(42, "HIGH", 50, "processing", 3, lease=-5), Made(43, "LOW", 30)), CLEAR)
ONE_EXPIRED = made((Made(42, "MEDIUM", 50, "processing", 1, lease=-5),), CLEAR)


def two_claims(reset: str, functions: Functions) -> Program:
    one = partial(claimer, functions[0])
    return Program(actors={"A": one, "B": one}, reset=reset, invariants=OF_CLAIMS)


def beside_a_lock(functions: Functions) -> Program:
    return Program(
        actors={LOCKER: locking(44), "A": partial(claimer, functions[0])},
        reset=THREE_TASKS,
        invariants=OF_CLAIMS,
    )


def one_claim(reset: str, functions: Functions) -> Program:
    return Program(
        actors={"A": partial(claimer, functions[0])},
        reset=reset,
        invariants=(one_task_a_claim, lease_in_force, NO_ERROR),
        expiries=1,
    )


def on_a_slow_clock(functions: Functions) -> Program:
    """When the clock is moved, a retry time comes and a lease ends: both are due by the database's clock."""
    return Program(
        actors={"A": partial(all_claims, functions[0])},
        reset=LATER,
        invariants=(lease_in_force, ALL_DUE, NO_ERROR),
        expiries=1,
    )


def two_workers(functions: Functions) -> Program:
    one = partial(worker, functions[0])
    return Program(
        actors={"A": one, "B": one},
        reset=ONE_EXPIRED,
        invariants=OF_CLAIMS,
        expiries=1,
        crashes=1,
        rescue=partial(functions[0], LEASE, AGING),
    )


REASONS = {
    one_task_a_claim.name: "many",
    WAITS_FOR_NOBODY.name: "waits",
    one_current_attempt.name: "claimed_twice",
    attempts_never_repeat.name: "repeat",
    attempts_are_counted.name: "counted",
    RETURNS_WHAT_IT_CLAIMED.name: "other_row",
    claim_committed_before_work.name: "committed",
    no_task_lost.name: "lost",
    ALL_DUE.name: "own_comparison",
    comes_back.name: "comes_back",
}


def why(violation: Violation) -> str:
    error = error_of(violation)
    if violation.invariant == NO_ERROR.name and error is not None:
        return WHY.get({**ERRORS, "55P03": "locked"}.get(sqlstate(error) or type(error).__name__, ""), "")
    if violation.invariant == lease_in_force.name:
        return WHY[reason_of_a_dead_lease(violation.run)]
    key = REASONS.get(violation.invariant, "")
    if key == "claimed_twice" and not looked_without_a_lock(violation.run):
        key += "_locked"
    return WHY.get(key, "")


every_order = partial(in_every_order, expected=EXPECTED, why=why)


def clock(functions: Functions) -> Iterator[Calling | Finding]:
    """The database's clock is moved on by a day, and Python's is not."""
    yield Calling("", CALL_SECONDS * 3)
    yield replayed_finding(on_a_slow_clock(functions), EXPIRE, expected=EXPECTED["clock"], why=why)


EXERCISE = Definition(
    package=__package__,
    lesson=LESSON,
    functions=("my_claim",),
    mini=(
        Rule("claims", partial(claims, THREE)),
        Rule("states", partial(claims, STATES)),
        Rule("order", order),
        every_order("two", partial(two_claims, THREE_TASKS)),
        every_order("locked", beside_a_lock),
        Rule("clock", clock, program=on_a_slow_clock),
        every_order("moment", partial(one_claim, THREE_TASKS)),
    ),
    full=(
        Rule("values", values),
        every_order("plans", partial(one_claim, BEHIND_THE_PLANNER)),
        every_order("spent", partial(two_claims, A_SPENT_ONE)),
        with_few_disturbances("every", two_workers, expected=EXPECTED, why=why),
    ),
    database=True,
)
