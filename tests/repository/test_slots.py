"""The rules of lesson 8's slots: a bound that holds across workers. Each test's name is the rule."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine, event, text
from sqlalchemy.exc import IntegrityError

from helpers.db import database_url, engine, use_engine
from helpers.lab import rebuild, wait_until
from helpers.repository import priority, retry
from helpers.repository.lease import mark_as_completed
from helpers.repository.retry import NEVER_CAME_BACK, fail_task, return_task
from helpers.repository.slots import claim_task
from helpers.scripts import run_script
from tests.repository.rows import change, stored

Expire = Callable[..., None]

SOMEBODY_WAITS = "EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')"


@pytest.fixture(autouse=True)
def tables() -> None:
    """Ten LOW tasks, 301 to 310, the lowest id is the oldest; and others that no test here claims."""
    rebuild(9)
    run_script("08_batches_and_quotas/03_thirty_tasks.sql")


def claim(slots: int = 2) -> tuple[int, int, int] | None:
    """Claim a LOW task: its id, its attempt number and its slot."""
    task = claim_task("LOW", slots, 60)
    return None if task is None else (task["id"], task["attempts"], stored(task["id"])["slot"])


# -- one worker after the other ----------------------------------------------------------------------------------------


def test_each_claim_takes_a_slot_and_where_none_is_free_it_gets_nothing() -> None:
    assert [claim() for _ in range(3)] == [(301, 1, 1), (302, 1, 2), None]
    assert [claim(3), claim(3)] == [(303, 1, 3), None]


def test_a_claim_returns_what_other_claims_return() -> None:
    task = claim_task("HIGH", 1, 60)
    assert task is not None
    assert dict(task) == {
        "id": 101,
        "type": "generate_report",
        "priority": "HIGH",
        "attempts": 1,
        "lease_until": stored(101)["lease_until"],
    }


def test_each_priority_has_slots_of_its_own() -> None:
    assert claim(1) == (301, 1, 1)
    assert claim_task("HIGH", 1, 60) is not None
    assert claim_task("MEDIUM", 1, 60) is not None
    assert claim(1) is None


def test_without_slots_nothing_is_claimed() -> None:
    assert claim(0) is None


def end_completed() -> None:
    mark_as_completed(301, 1)


def end_failed() -> None:
    assert fail_task(301, 1, "no paper") == "pending"


def end_given_back() -> None:
    return_task(301, 1)
    change("retry_at = clock_timestamp() + interval '1 hour'", 301)


@pytest.mark.parametrize("end", [end_completed, end_failed, end_given_back])
def test_a_slot_is_free_when_its_task_has_ended_in_whatever_way(end: Callable[[], None]) -> None:
    assert [claim(), claim()] == [(301, 1, 1), (302, 1, 2)]
    end()
    assert [claim(), claim()] == [(303, 1, 1), None]


def test_the_slot_of_a_crashed_worker_is_kept_until_its_lease_ends_and_then_taken_over_with_the_task(
    expire: Expire,
) -> None:
    assert [claim(), claim()] == [(301, 1, 1), (302, 1, 2)]
    assert claim() is None
    expire(302)
    assert [claim(), claim()] == [(302, 2, 2), None]
    expire(301)
    expire(302)
    assert [claim(), claim(), claim()] == [(301, 2, 1), (302, 3, 2), None]


def test_the_slot_of_a_task_without_an_attempt_left_is_free(expire: Expire) -> None:
    change("attempts = 2", 301)
    assert claim(1) == (301, 3, 1)
    expire(301)
    assert claim(1) == (302, 1, 1)
    assert (stored(301)["status"], stored(301)["last_error"]) == ("failed", NEVER_CAME_BACK)


def test_a_task_that_is_claimed_again_elsewhere_leaves_its_old_slot(expire: Expire) -> None:
    """Other claims know no slots: an old number must neither hold a slot nor hinder them."""
    assert claim(1) == (301, 1, 1)
    expire(301)
    change("status = 'completed'", *range(101, 111), *range(201, 211))
    task = priority.claim_task(60)
    assert task is not None and (task["id"], task["attempts"]) == (301, 2)
    assert claim(1) == (302, 1, 1)
    fail_task(302, 1, "no paper")
    change("retry_at = NULL", 302)
    assert claim(1) == (302, 2, 1)
    return_task(302, 2)
    assert claim(1) == (302, 3, 1)
    mark_as_completed(302, 3)
    assert claim(1) == (303, 1, 1)
    return_task(303, 1)
    change("status = 'completed'", 302)
    task = retry.claim_task(60)
    assert task is not None and task["id"] == 303, "with the number of a slot that is free"
    assert claim(1) == (304, 1, 1)


def test_with_fewer_slots_a_task_in_a_high_slot_waits_for_a_low_one(expire: Expire) -> None:
    assert [claim(2), claim(2)] == [(301, 1, 1), (302, 1, 2)]
    expire(302)
    assert claim(1) is None
    mark_as_completed(301, 1)
    assert claim(1) == (302, 2, 1)


def test_a_locked_row_is_skipped() -> None:
    with engine().connect() as other:
        other.execute(text("SELECT FROM backend_training.tasks WHERE id = 301 FOR UPDATE"))
        assert claim() == (302, 1, 1)


@pytest.mark.parametrize(
    ("priority", "slots", "seconds", "says"),
    [("URGENT", 1, 60, "URGENT"), ("LOW", -1, 60, "slots"), ("LOW", 1, 0, "lease"), ("LOW", 1, float("nan"), "lease")],
)
def test_arguments_that_make_no_sense_are_refused(priority: str, slots: int, seconds: float, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        claim_task(priority, slots, seconds)
    assert stored(301)["status"] == "pending"


def test_the_index_refuses_a_second_task_in_a_slot_whoever_writes_it() -> None:
    assert claim() == (301, 1, 1)
    with pytest.raises(IntegrityError, match="one_task_a_slot"):
        change("status = 'processing', attempts = 1, slot = 1, slot_attempt = 1", 302)


# -- two workers at the same time --------------------------------------------------------------------------------------


class Crash(Exception):
    """The worker's connection is gone before its COMMIT."""


@contextmanager
def held_before_its_commit(crash: bool) -> Iterator[tuple[Future[Any], threading.Event]]:
    """A claim in a thread, with an engine of its own, that waits before its COMMIT until the event is set."""
    own = create_engine(database_url())
    reached, go_on = threading.Event(), threading.Event()

    def hold(_connection: Connection) -> None:
        reached.set()
        assert go_on.wait(timeout=60)
        if crash:
            raise Crash

    event.listen(own, "commit", hold)

    def work(slots: int) -> Any:
        with use_engine(own):
            return claim_task("LOW", slots, 60)

    with ThreadPoolExecutor(1) as thread:
        try:
            claimed = thread.submit(work, 2)
            assert reached.wait(timeout=60)
            yield claimed, go_on
        finally:
            go_on.set()
    own.dispose()


@pytest.mark.parametrize(
    ("slots", "crash", "second"),
    [(1, False, None), (2, False, (302, 1, 2)), (1, True, (302, 1, 1))],
    ids=["no other slot", "another slot", "the first worker crashes"],
)
def test_a_claim_that_finds_its_slot_just_taken_waits_for_the_commit_and_looks_again(
    slots: int, crash: bool, second: tuple[int, int, int] | None
) -> None:
    with held_before_its_commit(crash) as (first, go_on), ThreadPoolExecutor(1) as thread:
        other = thread.submit(claim, slots)
        try:
            wait_until(SOMEBODY_WAITS, timeout=30)
        finally:
            go_on.set()
        assert other.result(timeout=60) == second
        if crash:
            assert isinstance(first.exception(timeout=60), Crash)
        else:
            assert first.result(timeout=60)["id"] == 301


def test_several_workers_together_never_have_more_tasks_than_slots() -> None:
    with engine().begin() as connection:
        more = "INSERT INTO backend_training.tasks (id, type, priority) SELECT n, 'x', 'LOW'"
        connection.execute(text(f"{more} FROM generate_series(401, 450) AS n"))
    in_work = text("SELECT count(*) FROM backend_training.tasks WHERE status = 'processing' AND priority = 'LOW'")
    left = text("SELECT count(*) FROM backend_training.tasks WHERE status <> 'completed' AND priority = 'LOW'")
    seen: Counter[int] = Counter()

    def work(_: int) -> list[int]:
        done = []
        with engine().connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            while connection.scalar(left):
                if (task := claim_task("LOW", 3, 60)) is not None:
                    seen[connection.scalar(in_work) or 0] += 1
                    mark_as_completed(task["id"], task["attempts"])
                    done.append(task["id"])
        return done

    with ThreadPoolExecutor(5) as workers:
        done = [task_id for part in workers.map(work, range(5)) for task_id in part]
    assert sorted(done) == [*range(301, 311), *range(401, 451)]
    assert max(seen) <= 3
    assert seen[2] or seen[3], "they did work at the same time"
