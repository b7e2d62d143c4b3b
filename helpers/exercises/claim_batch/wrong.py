"""Wrong answers to the exercise `claim_batch`."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import String as Text
from sqlalchemy import and_, cast, func, or_, select, text, update
from sqlalchemy.orm import Session

from helpers.db import SessionFactory
from helpers.exercises.claim_batch.answers import my_claim_batch
from helpers.models import PRIORITIES, Task

Quotas = Mapping[str, int]

NOW = func.clock_timestamp()
PENDING = Task.status == "pending"
ABANDONED = and_(Task.status == "processing", Task.lease_until <= NOW)
DUE = or_(and_(PENDING, or_(Task.retry_at.is_(None), Task.retry_at <= NOW)), ABANDONED)
LEFT = Task.attempts < Task.max_attempts
SKIP = {"skip_locked": True}
BY_AGE = (Task.created_at, Task.id)
ORDER = (Task.priority, *BY_AGE)
RETURNED = (Task.id, Task.type, Task.attempts, Task.lease_until)


def _check(batch_size: int, quotas: Quotas) -> None:
    if batch_size < 0 or any(quota < 0 or priority not in PRIORITIES for priority, quota in quotas.items()):
        raise ValueError


def _give_up(session: Session, lock: Mapping[str, bool] = SKIP) -> None:
    spent = select(Task.id).where(or_(PENDING, ABANDONED), ~LEFT).with_for_update(**lock)  # type: ignore[arg-type]
    session.execute(update(Task).where(Task.id.in_(spent)).values(status="failed", lease_until=None))


class _Pass:
    """Finds tasks as it is right, or as it is told."""

    def __init__(
        self, session: Session, lock: Mapping[str, bool] | None = SKIP, where: Any = DUE, left: Any = LEFT
    ) -> None:
        self.session, self.lock, self.where, self.left = session, lock, where, left

    def __call__(self, most: int, *conditions: Any, order: Sequence[Any] = ORDER) -> list[int]:
        found = select(Task.id).where(self.where, self.left, *conditions).order_by(*order).limit(most)
        if self.lock is not None:
            found = found.with_for_update(**self.lock)  # type: ignore[arg-type]
        return list(self.session.scalars(found))


Choose = Callable[[_Pass, int, Quotas], list[int]]


def _chosen(
    find: _Pass,
    size: int,
    quotas: Quotas,
    *,
    order: Sequence[Any] = ORDER,
    missing: int = 0,
    priorities: Sequence[str] = PRIORITIES,
) -> list[int]:
    """Both passes, as they should be where nothing else is given."""
    chosen = _by_quota(find, size, quotas, order=order, missing=missing, priorities=priorities)
    return chosen + find(size - len(chosen), Task.id.not_in(chosen), order=order)


def _by_quota(
    find: _Pass,
    size: int,
    quotas: Quotas,
    *,
    order: Sequence[Any] = ORDER,
    missing: int = 0,
    priorities: Sequence[str] = PRIORITIES,
) -> list[int]:
    chosen: list[int] = []
    for priority in priorities:
        places = min(quotas.get(priority, missing), size - len(chosen))
        chosen += find(places, Task.priority == priority, order=order)
    return chosen


def _claim(session: Session, ids: Sequence[int], seconds: float, **other: Any) -> dict[int, Any]:
    """Claims these tasks. By id, as they were written."""
    new = {
        "status": "processing",
        "attempts": Task.attempts + 1,
        "lease_until": NOW + timedelta(seconds=seconds),
        "retry_at": None,
    } | other
    claim = update(Task).where(Task.id.in_(ids)).values(new).returning(*RETURNED)
    return {task["id"]: task for task in session.execute(claim).mappings()}


def _batch(
    size: int,
    quotas: Quotas,
    seconds: float,
    choose: Choose = _chosen,
    *,
    as_returned: bool = False,
    give_up: bool = True,
    lock: Mapping[str, bool] | None = SKIP,
    where: Any = DUE,
    left: Any = LEFT,
    **other: Any,
) -> Any:
    """A right batch, where nothing else is given."""
    _check(size, quotas)
    with SessionFactory.begin() as session:
        if give_up:
            _give_up(session)
        ids = choose(_Pass(session, lock, where, left), size, quotas)
        claimed = _claim(session, ids, seconds, **other)
        return list(claimed.values()) if as_returned else [claimed[task_id] for task_id in ids if task_id in claimed]


# Which tasks


def quota_is_a_limit(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    return _batch(batch_size, quotas, lease_seconds, _by_quota)


def fallback_comes_first(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    return _batch(batch_size, quotas, lease_seconds, lambda find, size, _: find(size))


def ties_by_position(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    order = (Task.priority, Task.created_at)
    return _batch(batch_size, quotas, lease_seconds, partial(_chosen, order=order))


def beyond_the_size(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    def choose(find: _Pass, size: int, quotas: Quotas) -> list[int]:
        chosen = _by_quota(find, 1000, quotas)
        return chosen + find(max(size - len(chosen), 0), Task.id.not_in(chosen))

    return _batch(batch_size, quotas, lease_seconds, choose)


def newest_first(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    order = (Task.priority, Task.created_at.desc(), Task.id.desc())
    return _batch(batch_size, quotas, lease_seconds, partial(_chosen, order=order))


def by_id(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    return _batch(batch_size, quotas, lease_seconds, partial(_chosen, order=(Task.priority, Task.id)))


def priority_as_text(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    order = (cast(Task.priority, Text), *BY_AGE)
    choose = partial(_chosen, order=order, priorities=sorted(PRIORITIES))
    return _batch(batch_size, quotas, lease_seconds, choose)


def sorted_by_priority_in_the_end(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    """The ids are right; a last SELECT brings them into another order."""

    def choose(find: _Pass, size: int, quotas: Quotas) -> list[int]:
        return find(size, Task.id.in_(_chosen(find, size, quotas)))

    return _batch(batch_size, quotas, lease_seconds, choose)


def as_returning_gives_them(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    return _batch(batch_size, quotas, lease_seconds, as_returned=True)


def carries_a_quota_over(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    def choose(find: _Pass, size: int, quotas: Quotas) -> list[int]:
        chosen: list[int] = []
        spare = 0
        for priority in PRIORITIES:
            quota = quotas.get(priority, 0) + spare
            found = find(min(quota, size - len(chosen)), Task.priority == priority)
            chosen += found
            spare = quota - len(found)
        return chosen + find(size - len(chosen), Task.id.not_in(chosen))

    return _batch(batch_size, quotas, lease_seconds, choose)


def missing_is_unlimited(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    return _batch(batch_size, quotas, lease_seconds, partial(_chosen, missing=1000))


def asks_for_every_quota(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    return my_claim_batch(batch_size, {priority: quotas[priority] for priority in PRIORITIES}, lease_seconds)


def zero_shuts_out(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    def choose(find: _Pass, size: int, quotas: Quotas) -> list[int]:
        chosen = _by_quota(find, size, quotas)
        with_quota = Task.priority.in_([priority for priority in PRIORITIES if quotas.get(priority, 0)])
        return chosen + find(size - len(chosen), Task.id.not_in(chosen), with_quota)

    return _batch(batch_size, quotas, lease_seconds, choose)


def fallback_by_age(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    def choose(find: _Pass, size: int, quotas: Quotas) -> list[int]:
        chosen = _by_quota(find, size, quotas)
        return chosen + find(size - len(chosen), Task.id.not_in(chosen), order=BY_AGE)

    return _batch(batch_size, quotas, lease_seconds, choose)


def takes_tasks_again(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    def choose(find: _Pass, size: int, quotas: Quotas) -> list[int]:
        chosen = _by_quota(find, size, quotas)
        return chosen + find(size - len(chosen))

    return _batch(batch_size, quotas, lease_seconds, choose)


def counts_what_is_in_work(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    def choose(find: _Pass, size: int, quotas: Quotas) -> list[int]:
        in_force = and_(Task.status == "processing", Task.lease_until > NOW)
        counted = select(Task.priority, func.count()).where(in_force).group_by(Task.priority)
        in_work = dict(find.session.execute(counted).tuples().all())
        return _chosen(find, size, {p: max(quota - in_work.get(p, 0), 0) for p, quota in quotas.items()})

    return _batch(batch_size, quotas, lease_seconds, choose)


def takes_only_what_is_pending(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    due = and_(PENDING, or_(Task.retry_at.is_(None), Task.retry_at <= NOW))
    return _batch(batch_size, quotas, lease_seconds, where=due)


def ignores_the_retry_time(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    return _batch(batch_size, quotas, lease_seconds, where=or_(PENDING, ABANDONED))


def claims_without_end(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    return _batch(batch_size, quotas, lease_seconds, give_up=False, left=Task.id == Task.id)


def leaves_the_spent_ones(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    return _batch(batch_size, quotas, lease_seconds, give_up=False)


# The claim itself


def one_number_for_all(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    def next_number() -> Any:
        return select(func.max(Task.attempts) + 1).where(DUE).scalar_subquery()

    return _batch(batch_size, quotas, lease_seconds, attempts=next_number())


def forgets_the_lease(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    return _batch(batch_size, quotas, lease_seconds, lease_until=Task.lease_until)


def keeps_the_retry_time(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    return _batch(batch_size, quotas, lease_seconds, retry_at=Task.retry_at)


def uses_up_the_quotas(batch_size: int, quotas: dict[str, int], lease_seconds: float) -> Any:
    batch = my_claim_batch(batch_size, quotas, lease_seconds)
    for priority in quotas:
        quotas[priority] = 0
    return batch


def returns_none_for_nothing(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    return my_claim_batch(batch_size, quotas, lease_seconds) or None


def returns_ids(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    return [task["id"] for task in my_claim_batch(batch_size, quotas, lease_seconds)]


def returns_a_generator(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    return (task for task in my_claim_batch(batch_size, quotas, lease_seconds))


def leases_by_its_own_clock(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    lease_until = datetime.now(UTC) + timedelta(seconds=lease_seconds)
    return _batch(batch_size, quotas, lease_seconds, lease_until=lease_until)


def leases_from_now(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    return _batch(batch_size, quotas, lease_seconds, lease_until=func.now() + timedelta(seconds=lease_seconds))


def claims_without_a_lock(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    return _batch(batch_size, quotas, lease_seconds, lock=None)


def waits_for_locks(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    return _batch(batch_size, quotas, lease_seconds, lock={})


def stops_at_a_lock(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    return _batch(batch_size, quotas, lease_seconds, lock={"nowait": True})


def locks_everything(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    """Locks all that is free, and chooses in Python."""

    def choose(find: _Pass, size: int, quotas: Quotas) -> list[int]:
        free = find(1000)
        rows = find.session.execute(select(Task.id, Task.priority).where(Task.id.in_(free)))
        priorities = {row.id: row.priority for row in rows}
        chosen: list[int] = []
        for priority in PRIORITIES:
            of_priority = [task_id for task_id in free if priorities[task_id] == priority]
            chosen += of_priority[: min(quotas.get(priority, 0), size - len(chosen))]
        return chosen + [task_id for task_id in free if task_id not in chosen][: size - len(chosen)]

    return _batch(batch_size, quotas, lease_seconds, choose)


def in_several_transactions(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    """Each pass claims and commits what it finds. Between them a crash leaves a part of the batch claimed."""
    _check(batch_size, quotas)
    batch: list[Any] = []
    for priority in (*PRIORITIES, None):
        with SessionFactory.begin() as session:
            _give_up(session)
            places = batch_size - len(batch)
            find = _Pass(session)
            if priority is None:
                ids = find(places)
            else:
                ids = find(min(quotas.get(priority, 0), places), Task.priority == priority)
            claimed = _claim(session, ids, lease_seconds)
            batch += [claimed[task_id] for task_id in ids]
    return batch


def chooses_in_one_transaction_and_claims_in_another(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    _check(batch_size, quotas)
    with SessionFactory.begin() as session:
        _give_up(session)
        ids = _chosen(_Pass(session), batch_size, quotas)
    with SessionFactory.begin() as session:
        claimed = _claim(session, ids, lease_seconds)
        return [claimed[task_id] for task_id in ids]


_open: list[Session] = []


def leaves_its_session_open(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    session = SessionFactory()
    _open.append(session)  # so that nothing closes it
    ids = _chosen(_Pass(session), batch_size, quotas)
    claimed = _claim(session, ids, lease_seconds)
    return [claimed[task_id] for task_id in ids]


def limit_under_in(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    """The fallback pass, which has most of the work, in one statement: right but for one thing."""
    _check(batch_size, quotas)
    rest = text("""
        UPDATE backend_training.tasks SET status = 'processing', attempts = attempts + 1, retry_at = NULL,
               lease_until = clock_timestamp() + make_interval(secs => :lease)
        WHERE id IN (SELECT id FROM backend_training.tasks
                     WHERE attempts < max_attempts
                       AND (status = 'pending' AND (retry_at IS NULL OR retry_at <= clock_timestamp())
                            OR status = 'processing' AND lease_until <= clock_timestamp())
                     ORDER BY priority, created_at, id LIMIT :places FOR UPDATE SKIP LOCKED)
        RETURNING id, type, attempts, lease_until, priority, created_at
    """)
    with SessionFactory.begin() as session:
        _give_up(session)
        ids = _by_quota(_Pass(session), batch_size, quotas)
        claimed = _claim(session, ids, lease_seconds)
        found = session.execute(rest, {"lease": lease_seconds, "places": batch_size - len(ids)}).mappings()
        more = sorted(found, key=lambda task: (PRIORITIES.index(task["priority"]), task["created_at"], task["id"]))
        return [*(claimed[task_id] for task_id in ids), *more]


def accepts_a_negative_size(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    return my_claim_batch(max(batch_size, 0), quotas, lease_seconds)


def accepts_a_negative_quota(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    return my_claim_batch(batch_size, {p: max(quota, 0) for p, quota in quotas.items()}, lease_seconds)


def accepts_an_unknown_priority(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    known = {priority: quota for priority, quota in quotas.items() if priority in PRIORITIES}
    return my_claim_batch(batch_size, known, lease_seconds)


def looks_only_where_there_is_a_place(batch_size: int, quotas: Quotas, lease_seconds: float) -> Any:
    return [] if batch_size == 0 else my_claim_batch(batch_size, quotas, lease_seconds)


WRONG: dict[str, tuple[tuple[Callable[..., Any], ...], str]] = {
    "quota is a limit": ((quota_is_a_limit,), "A quota is not a limit of the batch"),
    "fallback comes first": ((fallback_comes_first,), "Here the quotas change nothing"),
    "ties by position": ((ties_by_position,), "Here it is the one that stands first in the table"),
    "beyond the size": ((beyond_the_size,), "The quota pass does not stop at batch_size here"),
    "as RETURNING gives them": ((as_returning_gives_them,), "returned as RETURNING gives them"),
    "fallback by age": ((fallback_by_age,), "The fallback pass goes by age alone here"),
    "takes tasks again": ((takes_tasks_again,), "is in the batch twice"),
    "counts what is in work": ((counts_what_is_in_work,), "count against the quota here"),
    "takes only what is pending": ((takes_only_what_is_pending,), "places, and #43 is free"),
    "claims without end": ((claims_without_end,), "A task that kills its workers would do so for ever"),
    "one number for all": ((one_number_for_all,), "Each task of a batch counts its own attempts"),
    "forgets the lease": ((forgets_the_lease,), "the old one, of the attempt before"),
    "uses up the quotas": ((uses_up_the_quotas,), "It changed the quotas that it was given"),
    "leases by its own clock": ((leases_by_its_own_clock,), "when it computed the end of the leases"),
    "leases from now()": ((leases_from_now,), "stand still at the start of the transaction"),
    "claims without a lock": ((claims_without_a_lock,), "must be locked by the same statement"),
    "waits for locks": ((waits_for_locks,), "stands in line behind the first"),
    "locks everything": ((locks_everything,), "Another batch had it locked and did not claim it"),
    "in several transactions": ((in_several_transactions,), "That takes more than one transaction"),
    "leaves its session open": ((leaves_its_session_open,), "It returned while its transaction was still open"),
    "LIMIT under IN": ((limit_under_in,), "under IN the planner may run that subquery again"),
    "accepts a negative size": ((accepts_a_negative_size,), "A batch_size below 0 was accepted"),
}
FULL = {
    "LIMIT under IN",
    "accepts a negative size",
}

# More of them, with the rule that finds them: `tests/exercises/test_queues.py` runs that rule alone, which is quicker.
MORE: dict[str, tuple[tuple[Callable[..., Any], ...], str, str]] = {
    "newest first": ((newest_first,), "choice", "The newest task of a priority comes first here"),
    "by id": ((by_id,), "choice", "Within a priority the tasks come by their ids here"),
    "priority as text": ((priority_as_text,), "choice", "As text, LOW comes before MEDIUM"),
    "sorted in the end": ((sorted_by_priority_in_the_end,), "choice", "and then sorted by priority"),
    "carries a quota over": ((carries_a_quota_over,), "choice", "goes to the next one here"),
    "missing is unlimited": (
        (missing_is_unlimited,),
        "choice",
        "A priority without a quota is taken without limit here",
    ),
    "asks for every quota": ((asks_for_every_quota,), "choice", "A quota may be missing, and is 0 then"),
    "zero shuts out": ((zero_shuts_out,), "choice", "is shut out of the fallback pass here"),
    "ignores the retry time": ((ignores_the_retry_time,), "states", "whose retry_at lies ahead"),
    "leaves the spent ones": ((leaves_the_spent_ones,), "states", "so nobody will ever change it again"),
    "keeps the retry time": ((keeps_the_retry_time,), "states", "#56 still has its retry_at"),
    "returns None for nothing": (
        (returns_none_for_nothing,),
        "batches",
        "A batch is a list, also where there is nothing",
    ),
    "returns ids": ((returns_ids,), "batches", "The batch holds an int"),
    "returns a generator": ((returns_a_generator,), "batches", "and the caller needs a list"),
    "stops at a lock": ((stops_at_a_lock,), "locked", "Somebody else's lock is no error here"),
    "chooses in one transaction and claims in another": (
        (chooses_in_one_transaction_and_claims_in_another,),
        "two",
        "The lock ended before the row was changed",
    ),
    "accepts a negative quota": ((accepts_a_negative_quota,), "errors", "A quota below 0 was accepted"),
    "accepts an unknown priority": (
        (accepts_an_unknown_priority,),
        "errors",
        "for a priority that does not exist was accepted",
    ),
    "looks only where there is a place": (
        (looks_only_where_there_is_a_place,),
        "errors",
        "refused also where the batch has no",
    ),
}
