"""Lesson 8's exercise: a batch by quotas and with a fallback, of which all is claimed or nothing."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import Any, TypeAlias

from sqlalchemy import select

from helpers.checking import database
from helpers.checking.batches import MISCONCEPTIONS, right
from helpers.checking.calls import Outcome, article, call, shown, written
from helpers.checking.leased import CALL_SECONDS, LEASE, LONG_LEASE, in_every_order, reason_of_a_dead_lease
from helpers.checking.orders import error_of, replayed_finding, sqlstate
from helpers.checking.parts import Calling, Definition, Finding, Functions, Rule, texts_of
from helpers.checking.queues import (
    STATES,
    THREE_TASKS,
    Made,
    Rows,
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
from helpers.db import engine
from helpers.exercises.claim_batch import LESSON
from helpers.models import PRIORITIES, Task
from helpers.repository.batch import claim_batch
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
)
from helpers.schedules.invariants import changes, comes_back
from helpers.schedules.program import EXPIRE

TEXTS = texts_of(__package__)
WHY: dict[str, str] = TEXTS["why"]
SAYS = TEXTS["offences"]
EXPECTED = TEXTS["expected"]

Quotas: TypeAlias = Mapping[str, int]
ClaimBatch: TypeAlias = Callable[[int, dict[str, int], float], Any]

RANDOM_CASES = 8
WITHOUT_INDEXES = ("indexscan", "indexonlyscan", "bitmapscan")


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
    if outcome.error is not None:
        return Came(
            outcome, None, why_raised(outcome, WHY) if not missing_quota(outcome, quotas) else WHY["missing_quota"]
        )
    if batch is None:
        return Came(outcome, None, WHY["none"])
    if not isinstance(batch, list):
        return Came(outcome, None, WHY["type"].format(kind=article(type(batch).__name__)))
    if wrong := wrong_entries(batch):
        return Came(outcome, None, wrong)
    ids = [task["id"] for task in batch]
    if quotas != dict(case.quotas):
        return Came(outcome, ids, WHY["changed_quotas"])
    if len(ids) > case.batch_size:
        return Came(outcome, ids, WHY["too_long"].format(n=len(ids), size=case.batch_size))
    return Came(outcome, ids, wrong_claims(batch, before, LONG_LEASE, WHY, others_open=1 if case.locked else 0))


def missing_quota(outcome: Outcome, quotas: Quotas) -> bool:
    error = outcome.error
    return isinstance(error, KeyError) and bool(error.args) and error.args[0] in set(PRIORITIES) - set(quotas)


def wrong_entries(batch: Sequence[object]) -> str:
    """The sentence where an entry is no mapping with an id, so that nothing more can be said about it."""
    for task in batch:
        if not isinstance(task, Mapping):
            return WHY["not_mapping"].format(kind=article(type(task).__name__))
        if "id" not in task:
            return WHY["keys"].format(key="id")
    return ""


# One call after another

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


# Which tasks, in which order

# The file has them in another order than that of age, and of the ids.
TEN = (
    Made(23, "HIGH", 40),
    Made(42, "LOW", 95, "processing", 1, lease=-5),
    Made(25, "HIGH", 120, "processing", 1, lease=3600),
    Made(31, "MEDIUM", 30),
    Made(24, "HIGH", 60, attempts=1),
    Made(43, "LOW", 20),
    Made(21, "HIGH", 90),
    Made(33, "MEDIUM", 70, retry=-5, attempts=1),
    Made(44, "LOW", 130, "processing", 2, lease=3600),
    Made(41, "LOW", 100),
    Made(22, "HIGH", 10),
    Made(32, "MEDIUM", 50),
)
EQUALLY_OLD = (
    Made(9, "HIGH", 30),
    Made(6, "LOW", 30),
    Made(8, "HIGH", 30),
    Made(5, "LOW", 30),
    Made(7, "HIGH", 30),
)
NO_HIGH = (Made(42, "LOW", 80), Made(31, "MEDIUM", 60), Made(41, "LOW", 90), Made(32, "MEDIUM", 50))
CASES = (
    Case(TEN, 6, {"HIGH": 2, "MEDIUM": 1, "LOW": 1}),
    Case(TEN, 3, {"HIGH": 2, "MEDIUM": 2, "LOW": 2}),
    Case(TEN, 5, {"LOW": 2}),
    Case(TEN, 4, {}),
    Case(TEN, 20, {"HIGH": 1, "MEDIUM": 0, "LOW": 2}),
    Case(TEN, 0, {"HIGH": 2, "LOW": 1}),
    Case(EQUALLY_OLD, 4, {"HIGH": 1, "LOW": 1}),
    Case(NO_HIGH, 3, {"HIGH": 2, "LOW": 1}),
)

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
# Those of the mistakes in `build_batch` that SQL can make as well.
SHARED = (
    "quota_as_total",
    "fallback_first",
    "ties_by_position",
    "past_the_size",
    "newest_first",
    "by_id",
    "priority_as_text",
    "sorted_in_the_end",
    "quota_carried_over",
    "missing_is_unlimited",
    "zero_means_never",
    "fallback_by_age",
    "quotas_again",
    "taken_twice",
)


def counts_what_is_in_work(tasks: Sequence[Mapping[str, Any]], quotas: Quotas, batch_size: int) -> list[int]:
    """The quota is what may be in work, and not what one batch gets."""
    left = dict(quotas)
    for task in tasks:
        if task["in_work"]:
            left[task["priority"]] = max(left.get(task["priority"], 0) - 1, 0)
    return right(tasks, left, batch_size)


def returned_as_written(tasks: Sequence[Mapping[str, Any]], quotas: Quotas, batch_size: int) -> list[int]:
    """The order in which an UPDATE meets the rows of the table's file."""
    chosen = right(tasks, quotas, batch_size)
    return [task["id"] for task in tasks if task["id"] in chosen]


Choice: TypeAlias = Callable[[Sequence[Mapping[str, Any]], Quotas, int], list[int]]
MISTAKES: dict[str, Choice] = {name: MISCONCEPTIONS[name] for name in SHARED} | {
    "in_work": counts_what_is_in_work,
    "as_written": returned_as_written,
}


def as_lists(case: Case) -> list[dict[str, Any]]:
    """The tasks of a case as `build_batch` gets them."""
    return [
        {
            "id": task.id,
            "priority": task.priority,
            "status": "pending" if task.free else "processing",
            "locked": task.id in case.locked,
            "created_at": START - timedelta(seconds=task.age),
            "in_work": task.status == "processing" and not task.free,
        }
        for task in case.tasks
    ]


def choice(functions: Functions) -> Iterator[Calling | Finding]:
    """All that a batch is to take, in the right order: a mistake is known by the results of all cases.

    Without indexes: else one of them could bring tasks into an order that was not asked for, by chance.
    """
    [claim] = functions
    database.planner(*WITHOUT_INDEXES)
    try:
        results: list[tuple[Case, Came, list[int]]] = []
        for case in CASES:
            put(case.tasks)
            yield Calling(case.called, CALL_SECONDS)
            results.append((case, run(claim, case), right(as_lists(case), case.quotas, case.batch_size)))
    finally:
        database.planner()
    for case, came, expected in results:
        why = ""
        if came.ids is None or came.ids != expected:
            why = misconception(results) or came.why or wrong_choice(came.ids or [], expected, case)
        why = why or came.why
        yield Finding(not why, case.called, came.shown, shown(expected), why, case.rows if why else ())
        if why:
            return


def both(claim: ClaimBatch, case: Case) -> tuple[Came, list[int]]:
    """What the learner's function gives for a case, and what the course's `claim_batch` does with the same rows."""
    came: list[Any] = []
    for function in (claim_batch, claim):
        put(case.tasks)
        with engine().connect() as other:
            if case.locked:
                other.execute(select(Task.id).where(Task.id.in_(case.locked)).with_for_update())
            if function is claim:
                came.append(run(claim, case))
            else:
                batch = claim_batch(case.batch_size, case.quotas, LONG_LEASE)
                came.append([task["id"] for task in batch])
    return came[1], came[0]


def misconception(results: Sequence[tuple[Case, Came, list[int]]]) -> str:
    """The sentence on a known mistake, where all results are those of the mistake; or nothing."""
    for name, mistake in MISTAKES.items():
        if all(came.ids == mistake(as_lists(case), case.quotas, case.batch_size) for case, came, _ in results):
            return str(TEXTS["misconceptions"][name])
    return ""


def wrong_choice(ids: Sequence[int], expected: Sequence[int], case: Case) -> str:
    if len(ids) < len(expected):
        missing = next(task_id for task_id in expected if task_id not in ids)
        return WHY["too_short"].format(n=len(ids), size=case.batch_size, id=missing)
    if sorted(ids) == sorted(expected):
        return WHY["order"]
    place = next(n for n, pair in enumerate(zip(ids, expected, strict=False)) if pair[0] != pair[1])
    return WHY["place"].format(n=place + 1, id=expected[place], came=ids[place])


def random_case(random: Random) -> Case:
    """Few ages, so that there are ties; and every state a task can have."""
    tasks = []
    for task_id in random.sample(range(1, 100), random.randint(1, 12)):
        state = random.choice(STATES if random.random() < 0.7 else STATES[-3:-2])
        tasks.append(replace(state, id=task_id, priority=random.choice(PRIORITIES), age=60 * random.randint(1, 4)))
    quotas = {priority: random.randint(0, 3) for priority in PRIORITIES if random.random() < 0.8}
    locked = [task.id for task in tasks if random.random() < 0.2]
    return Case(tasks, random.randint(0, len(tasks) + 1), quotas, locked)


def random_cases(functions: Functions) -> Iterator[Calling | Finding]:
    [claim] = functions
    random = Random(8)
    for _ in range(RANDOM_CASES):
        case = random_case(random)
        yield Calling(case.called, CALL_SECONDS * 2)
        came, expected = both(claim, case)
        why = came.why
        if not why and came.ids != expected:
            why = wrong_choice(came.ids or [], expected, case)
        if why:
            yield Finding(False, case.called, came.shown, shown(expected), why, case.rows)
            return
    yield Finding(True, "", TEXTS["came"]["random"].format(n=RANDOM_CASES), EXPECTED["random"])


FOUR = (Made(43, "LOW", 70), Made(44, "LOW", 60), Made(41, "HIGH", 90), Made(42, "HIGH", 80))


def plans(functions: Functions) -> Iterator[Calling | Finding]:
    """One batch, when PostgreSQL thinks that a subquery may well run once for each row."""
    [claim] = functions
    case = Case(FOUR, 2, {"LOW": 1})
    expected = right(as_lists(case), case.quotas, case.batch_size)
    database.set_rows(made_behind_the_planner(FOUR))
    yield Calling(case.called, CALL_SECONDS)
    came = run(claim, case)
    why = came.why if came.ids is None else WHY["many"] if came.ids != expected else came.why
    yield Finding(not why, case.called, came.shown, shown(expected), why, case.rows if why else ())


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
        case = Case(SIX, batch_size, quotas)
        yield Calling(case.called, CALL_SECONDS)
        outcome = call(claim, batch_size, dict(quotas), LONG_LEASE)
        raised = type(outcome.error).__name__ if outcome.error else outcome.came
        why = ""
        if outcome.error is None:
            why = WHY[name]
        elif not isinstance(outcome.error, ValueError):
            why = WHY["other_error"].format(kind=article(raised))
        elif any(row["status"] == "processing" and is_new(row) for row in rows_by_id().values()):
            why = WHY["refusal_changed"]
        yield Finding(not why, case.called, raised, "ValueError", why)
        if why:
            return


def is_new(row: Mapping[str, Any]) -> bool:
    return row["lease_until"] is None or bool(row["lease_until"] > row["now"])


# Batches at the same time

SIZE = 2
QUOTAS = {"HIGH": 1, "LOW": 1}

Claims: TypeAlias = list[tuple[int, int]]


def claims_of(batch: Sequence[Mapping[str, Any]]) -> Claims:
    return [(task["id"], task["attempts"]) for task in batch]


def claimer(claim: ClaimBatch) -> Claims:
    batch = claim(SIZE, dict(QUOTAS), LEASE)
    mark("work")
    return claims_of(batch)


def rescue(claim: ClaimBatch) -> object:
    """None where nothing is left."""
    return claim(SIZE, dict(QUOTAS), LEASE) or None


def all_batches(claim: ClaimBatch) -> list[Claims]:
    batches: list[Claims] = []
    while batch := claims_of(claim(SIZE, dict(QUOTAS), LEASE)):
        batches.append(batch)
    return batches


def claimed(run: Run, who: str) -> Claims:
    """The claims of an actor that were committed."""
    of_actor = (change for change in changes(run) if change.who == who and change.is_claim)
    return [(change.row["task_id"], change.row["attempt"]) for change in of_actor]


def _at_most_its_size(run: Run) -> Offence | None:
    for who, result in sorted(run.results.items()):
        if who != LOCKER and not is_all_batches(result) and len(found := claimed(run, who)) > SIZE:
            return Offence(SAYS["size"].format(who=who, n=len(found), size=SIZE), tuple(run.rows))
    return None


def is_all_batches(result: object) -> bool:
    return isinstance(result, list) and bool(result) and isinstance(result[0], list)


def _returns_what_it_claimed(run: Run) -> Offence | None:
    for who, result in sorted(run.results.items()):
        if who == LOCKER or not isinstance(result, list) or is_all_batches(result):
            continue
        for task_id, attempts in result:
            if (task_id, attempts) not in claimed(run, who):
                return Offence(SAYS["returned"].format(who=who, id=task_id, attempts=attempts), tuple(run.rows))
    return None


def _all_or_none(run: Run) -> Offence | None:
    """For an actor that is alone with enough tasks: its batch has SIZE tasks, or none where it crashed before."""
    for who in sorted(run.crashed):
        if len(found := claimed(run, who)) not in (0, SIZE):
            return Offence(SAYS["part"].format(who=who, n=len(found), size=SIZE), tuple(run.rows))
    return None


def _all_due_are_claimed(run: Run) -> Offence | None:
    for who, result in run.results.items():
        ids = [task_id for batch in result for task_id, _ in batch] if isinstance(result, list) else []
        left = [row for row in run.rows if row["id"] not in ids]
        if isinstance(result, list) and left:
            return Offence(SAYS["due"].format(who=who, task=left[0]["id"]), tuple(left))
    return None


def _free_tasks_are_found(run: Run) -> Offence | None:
    """Who got less than it wanted has left nothing that nobody took. What a batch locks, it claims."""
    free = [row for row in run.rows if row["status"] == "pending"]
    for who, result in sorted(run.results.items()):
        if who != LOCKER and isinstance(result, list) and len(result) < SIZE and free and not run.crashed:
            return Offence(SAYS["free"].format(who=who, n=len(result), id=free[0]["id"]), tuple(run.rows))
    return None


AT_MOST = Invariant(SAYS["size_name"], _at_most_its_size)
RETURNS_WHAT_IT_CLAIMED = Invariant(SAYS["returned_name"], _returns_what_it_claimed)
ALL_OR_NONE = Invariant(SAYS["part_name"], _all_or_none)
ALL_DUE = Invariant(SAYS["due_name"], _all_due_are_claimed)
FREE_TASKS_ARE_FOUND = Invariant(SAYS["free_name"], _free_tasks_are_found)
WAITS_FOR_NOBODY = waits_for_nobody(SAYS["waits_name"], SAYS["waits"])
NO_ERROR = no_error_but()
OF_BATCHES = (
    AT_MOST,
    one_current_attempt,
    attempts_never_repeat,
    attempts_are_counted,
    WAITS_FOR_NOBODY,
    RETURNS_WHAT_IT_CLAIMED,
    lease_in_force,
    NO_ERROR,
    claim_committed_before_work,
    no_task_lost,
    FREE_TASKS_ARE_FOUND,
)

LATER = made((Made(42, "HIGH", 30), Made(43, "MEDIUM", 40, retry=3600), Made(44, "LOW", 50, "processing", 1, 3600)))
WITH_A_PAST = made(
    (
        Made(42, "LOW", 50, "processing", 1, lease=-5),
        Made(43, "HIGH", 40),
        Made(44, "HIGH", 60, "processing", 3, lease=-5),
    ),
    CLEAR,
)


def two_batches(functions: Functions) -> Program:
    one = partial(claimer, functions[0])
    return Program(actors={"A": one, "B": one}, reset=THREE_TASKS, invariants=OF_BATCHES)


def beside_a_lock(functions: Functions) -> Program:
    return Program(
        actors={LOCKER: locking(44), "A": partial(claimer, functions[0])},
        reset=THREE_TASKS,
        invariants=OF_BATCHES,
    )


def dying_batch(functions: Functions) -> Program:
    return Program(
        actors={"A": partial(claimer, functions[0])},
        reset=THREE_TASKS,
        invariants=(ALL_OR_NONE, no_task_lost, NO_ERROR),
        crashes=1,
        rescue=partial(rescue, functions[0]),
    )


def one_batch(functions: Functions) -> Program:
    return Program(
        actors={"A": partial(claimer, functions[0])},
        reset=THREE_TASKS,
        invariants=(AT_MOST, lease_in_force, NO_ERROR),
        expiries=1,
    )


def on_a_slow_clock(functions: Functions) -> Program:
    """When the clock is moved, a retry time comes and a lease ends: both are due by the database's clock."""
    return Program(
        actors={"A": partial(all_batches, functions[0])},
        reset=LATER,
        invariants=(lease_in_force, ALL_DUE, NO_ERROR),
        expiries=1,
    )


def beside_another(functions: Functions) -> Program:
    """Beside a batch of the course's, since two of many statements make too many orders: those are in `two_batches`."""
    return Program(
        actors={"A": partial(claimer, functions[0]), "B": partial(claimer, claim_batch)},
        reset=WITH_A_PAST,
        invariants=OF_BATCHES,
        crashes=1,
        rescue=partial(rescue, functions[0]),
    )


REASONS = {
    AT_MOST.name: "many",
    WAITS_FOR_NOBODY.name: "waits",
    one_current_attempt.name: "claimed_twice",
    attempts_never_repeat.name: "repeat",
    attempts_are_counted.name: "counted",
    RETURNS_WHAT_IT_CLAIMED.name: "other_row",
    ALL_OR_NONE.name: "part",
    claim_committed_before_work.name: "committed",
    no_task_lost.name: "lost",
    ALL_DUE.name: "own_comparison",
    FREE_TASKS_ARE_FOUND.name: "locks_more",
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
few_disturbances = partial(with_few_disturbances, expected=EXPECTED, why=why)


def clock(functions: Functions) -> Iterator[Calling | Finding]:
    """The database's clock is moved on by a day, and Python's is not."""
    yield Calling("", CALL_SECONDS * 3)
    yield replayed_finding(on_a_slow_clock(functions), EXPIRE, expected=EXPECTED["clock"], why=why)


EXERCISE = Definition(
    package=__package__,
    lesson=LESSON,
    functions=("my_claim_batch",),
    mini=(
        Rule("batches", partial(batches, (3, 3, 3), SIX)),
        Rule("states", partial(batches, (20, 20), STATES)),
        Rule("choice", choice),
        Rule("clock", clock, program=on_a_slow_clock),
        every_order("moment", one_batch),
        every_order("crash", dying_batch),
        few_disturbances("two", two_batches),
        every_order("locked", beside_a_lock),
    ),
    full=(
        Rule("errors", errors),
        Rule("random", random_cases, seconds=300.0),
        Rule("plans", plans),
        few_disturbances("every", beside_another, most=1),
    ),
    database=True,
)
