"""The rules of lesson 8's batch: the claim, the completion and the renewal of many tasks at once."""

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

import pytest
from sqlalchemy import Connection, event, text

from helpers.db import engine
from helpers.lab import rebuild
from helpers.repository.batch import claim_batch, mark_as_completed, renew_leases
from helpers.repository.lease import MAX_LEASE_SECONDS
from helpers.repository.retry import NEVER_CAME_BACK, claim_task
from helpers.schedules import LEASED_QUEUE, Program, explore, one_task_a_claim
from helpers.scripts import run_script
from tests.repository.rows import change, stored
from tests.schedules.programs import ONE_TASK

Expire = Callable[..., None]
StartBehind = Callable[[Connection, Callable[[], object]], Future[object]]

QUOTAS = {"HIGH": 3, "MEDIUM": 2, "LOW": 1}
LEASE_ENDS = (
    "SELECT extract(epoch FROM lease_until - clock_timestamp())::float FROM backend_training.tasks WHERE id = :id"
)


@pytest.fixture(autouse=True)
def tables() -> None:
    """Thirty tasks: HIGH 101 to 110, MEDIUM 201 to 210, LOW 301 to 310, in each the lowest id is the oldest."""
    rebuild(9)
    run_script("08_batches_and_quotas/03_thirty_tasks.sql")


def ids(batch: Iterable[Any]) -> list[int]:
    return [task["id"] for task in batch]


def claims(batch: Iterable[Any]) -> list[tuple[int, int]]:
    return [(task["id"], task["attempts"]) for task in batch]


def claim(batch_size: int = 10, quotas: dict[str, int] = QUOTAS) -> list[int]:
    return ids(claim_batch(batch_size, quotas, 60))


def lock(connection: Connection, *ids: int) -> None:
    sql = text("SELECT FROM backend_training.tasks WHERE id = ANY (:ids) FOR UPDATE")
    connection.execute(sql, {"ids": list(ids)})


# -- claim_batch -------------------------------------------------------------------------------------------------------


def test_quotas_come_first_and_then_the_rest_by_priority() -> None:
    assert claim() == [101, 102, 103, 201, 202, 301, 104, 105, 106, 107]


def test_a_batch_never_has_more_than_its_size_however_large_the_quotas_are() -> None:
    assert claim(4, {"HIGH": 3, "MEDIUM": 3, "LOW": 3}) == [101, 102, 103, 201]
    assert claim(1, {"LOW": 5}) == [301]


def test_a_batch_takes_what_there_is() -> None:
    assert len(claim(100)) == 30
    assert claim(100) == []


def test_a_size_of_zero_claims_nothing() -> None:
    assert claim(0) == []
    assert stored(101)["attempts"] == 0


def test_a_missing_quota_is_zero_and_does_not_shut_out_of_the_fallback() -> None:
    assert claim(4, {"LOW": 2}) == [301, 302, 101, 102]
    assert claim(3, {}) == [103, 104, 105]


def test_of_equally_old_tasks_the_lower_id_comes_first() -> None:
    change("created_at = 'epoch'", *range(101, 111))
    change("id = 99", 105)
    assert claim(4, {"HIGH": 2}) == [99, 101, 102, 103]


def test_rows_that_others_have_locked_are_skipped_and_not_waited_for() -> None:
    with engine().connect() as other:
        lock(other, 101, 104, 201, *range(301, 311))
        assert claim() == [102, 103, 105, 202, 203, 106, 107, 108, 109, 110]


def test_two_batches_share_no_task() -> None:
    first, second = claim(), claim()
    assert len({*first, *second}) == 20


def test_a_batch_returns_id_type_priority_attempts_and_lease_until() -> None:
    [task] = claim_batch(1, {}, 60)
    assert dict(task) == {
        "id": 101,
        "type": "generate_report",
        "priority": "HIGH",
        "attempts": 1,
        "lease_until": stored(101)["lease_until"],
    }
    assert stored(101)["status"] == "processing", "another session sees it"


def test_each_task_gets_one_new_attempt_number_of_its_own() -> None:
    change("attempts = 1", 102)
    assert claims(claim_batch(3, {}, 60)) == [(101, 1), (102, 2), (103, 1)]
    assert [stored(task_id)["attempts"] for task_id in (101, 102, 103, 104)] == [1, 2, 1, 0]


def test_the_lease_is_counted_from_the_moment_of_the_claim() -> None:
    with engine().connect() as connection:
        before = connection.scalar(text("SELECT clock_timestamp()"))
        batch = claim_batch(3, {}, 60)
        after = connection.scalar(text("SELECT clock_timestamp()"))
    for task in batch:
        assert before.timestamp() + 60 <= task["lease_until"].timestamp() <= after.timestamp() + 60


def test_a_lease_in_force_is_not_taken_over_and_an_expired_one_has_its_old_place(expire: Expire) -> None:
    assert claim(3, {}) == [101, 102, 103]
    expire(102)
    assert claims(claim_batch(2, {}, 60)) == [(102, 2), (104, 1)]


def test_a_task_waits_for_its_retry_time_which_the_claim_clears() -> None:
    change("retry_at = clock_timestamp() + interval '1 hour'", 101)
    change("retry_at = clock_timestamp()", 102)
    assert claim(2, {}) == [102, 103]
    assert stored(102)["retry_at"] is None


@pytest.mark.parametrize("status", ["completed", "failed"])
def test_a_task_that_is_done_is_not_claimed(status: str) -> None:
    change(f"status = '{status}'", 101, 102)
    assert claim(2, {}) == [103, 104]


def test_a_processing_task_without_a_lease_is_never_claimed() -> None:
    change("status = 'processing'", 101)
    assert claim(2, {}) == [102, 103]


def test_tasks_without_an_attempt_left_fail_and_take_no_place(expire: Expire) -> None:
    change("attempts = 2", 101, 301)
    assert claim(1, {"LOW": 1}) + claim(1, {}) == [301, 101]  # their last attempts
    expire(301)
    expire(101)
    assert claim(3, {"HIGH": 1, "LOW": 1}) == [102, 302, 103]
    for task_id in (101, 301):
        row = stored(task_id)
        assert (row["status"], row["attempts"], row["lease_until"]) == ("failed", 3, None)
        assert row["last_error"] == NEVER_CAME_BACK


def test_a_last_attempt_that_is_still_working_is_left_alone() -> None:
    change("attempts = 2", 101)
    assert claim(1, {}) == [101]
    assert claim(1, {}) == [102]
    assert stored(101)["status"] == "processing"


def test_a_pending_task_whose_attempts_were_cut_fails_too() -> None:
    change("attempts = 3", 101)
    assert claim(1, {}) == [102]
    assert stored(101)["status"] == "failed"


def test_a_batch_is_one_statement_and_one_commit() -> None:
    seen: list[str] = []
    event.listen(engine(), "before_cursor_execute", lambda _c, _k, statement, *_: seen.append(statement.split()[0]))
    event.listen(engine(), "commit", lambda _: seen.append("COMMIT"))
    claim()
    assert seen == ["WITH", "COMMIT"]


@pytest.mark.parametrize(
    ("batch_size", "quotas", "seconds", "says"),
    [
        (-1, {}, 60, "batch_size"),
        (3, {"LOW": -1}, 60, "quota of LOW"),
        (3, {"low": 1}, 60, "'low'"),
        (0, {"URGENT": 0}, 60, "'URGENT'"),
        (3, {}, 0, "lease"),
        (3, {}, float("nan"), "lease"),
        (3, {}, MAX_LEASE_SECONDS + 1, "lease"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(
    batch_size: int, quotas: dict[str, int], seconds: float, says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        claim_batch(batch_size, quotas, seconds)
    assert claim(1, {}) == [101]


def test_two_workers_together_exceed_a_quota_which_holds_for_one_batch() -> None:
    """What quotas do not promise. `slots` does."""
    low = [task for task in claim(3, QUOTAS | {"HIGH": 1, "MEDIUM": 1}) if task > 300]
    low += [task for task in claim(3, QUOTAS | {"HIGH": 1, "MEDIUM": 1}) if task > 300]
    assert low == [301, 302]
    with engine().connect() as connection:
        in_work = text("SELECT count(*) FROM backend_training.tasks WHERE status = 'processing' AND priority = 'LOW'")
        assert connection.scalar(in_work) == 2 > QUOTAS["LOW"]


def test_after_a_crash_in_mid_batch_only_the_rest_is_claimed_again(expire: Expire) -> None:
    batch = claim_batch(4, {}, 60)
    mark_as_completed(claims(batch)[:2])
    for task in batch:
        if stored(task["id"])["status"] == "processing":
            expire(task["id"])
    assert claims(claim_batch(3, {}, 60)) == [(103, 2), (104, 2), (105, 1)]


def work() -> None:
    mark_as_completed(claims(claim_batch(2, QUOTAS, 10)))


def test_the_rules_of_a_leased_queue_hold_in_every_order_of_two_workers_that_claim_batches() -> None:
    rules = [rule for rule in LEASED_QUEUE if rule is not one_task_a_claim]
    report = explore(Program({"A": work, "B": work}, ONE_TASK, rules, expiries=1), time_limit=200)
    assert report.exhausted
    assert report.violation is None, str(report)


# -- mark_as_completed -------------------------------------------------------------------------------------------------


def test_all_current_claims_are_completed_in_one_statement() -> None:
    batch = claim_batch(5, QUOTAS, 60)
    seen: list[str] = []
    event.listen(engine(), "before_cursor_execute", lambda _c, _k, statement, *_: seen.append(statement.split()[0]))
    assert mark_as_completed(claims(batch)) == sorted(ids(batch))
    assert seen == ["WITH"]
    for task_id in ids(batch):
        assert (stored(task_id)["status"], stored(task_id)["lease_until"]) == ("completed", None)


def test_each_claim_is_fenced_on_its_own_and_the_others_are_completed(expire: Expire) -> None:
    batch = claim_batch(6, {}, 60)
    expire(101)  # the lease ended
    expire(102)
    assert claims(claim_batch(1, {}, 60)) == [(101, 2)]
    assert claim_task(60) is not None  # 102 in its second attempt
    change("status = 'pending'", 103)  # given back
    assert mark_as_completed([(104, 1)]) == [104]
    assert mark_as_completed([*claims(batch), (107, 1), (999, 1)]) == [105, 106]
    assert [stored(task_id)["status"] for task_id in range(101, 108)] == [
        "processing",
        "processing",
        "pending",
        "completed",
        "completed",
        "completed",
        "pending",
    ]
    assert mark_as_completed([(101, 2), (102, 2)]) == [101, 102]


def test_an_expired_lease_is_refused_even_if_nobody_took_the_task_over(expire: Expire) -> None:
    batch = claim_batch(2, {}, 60)
    expire(101)
    assert mark_as_completed(claims(batch)) == [102]
    assert stored(101)["status"] == "processing"


def test_the_number_of_one_task_does_not_serve_another() -> None:
    change("attempts = 1", 101)
    assert claims(claim_batch(2, {}, 60)) == [(101, 2), (102, 1)]
    assert mark_as_completed([(101, 1), (102, 2)]) == []


def test_no_claims_are_no_work() -> None:
    assert mark_as_completed([]) == []
    assert renew_leases([], 60) == []


def test_a_claim_that_is_named_twice_is_completed_once() -> None:
    claim(1, {})
    assert mark_as_completed([(101, 1), (101, 1), (101, 2)]) == [101]


def test_a_number_below_one_is_a_mistake_of_the_caller_and_changes_nothing() -> None:
    claim(2, {})
    for change_all in (mark_as_completed, lambda pairs: renew_leases(pairs, 60)):
        with pytest.raises(ValueError, match="attempt"):
            change_all([(101, 1), (102, 0)])
    assert stored(101)["status"] == "processing"


@pytest.mark.parametrize("takeover", [True, False])
def test_a_completion_that_had_to_wait_looks_at_the_row_as_it_is_then(
    takeover: bool, start_behind: StartBehind
) -> None:
    """Another session is just changing the row: whether it commits decides."""
    claim(2, {})
    with engine().connect() as other:
        other.execute(text("UPDATE backend_training.tasks SET attempts = 2 WHERE id = 101"))
        result = start_behind(other, lambda: mark_as_completed([(101, 1), (102, 1)]))
        if takeover:
            other.commit()
        else:
            other.rollback()
        assert result.result(timeout=30) == ([102] if takeover else [101, 102])


# -- renew_leases ------------------------------------------------------------------------------------------------------


def test_current_leases_are_renewed_and_the_answer_says_which(expire: Expire) -> None:
    batch = claim_batch(4, {}, 60)
    expire(101)
    mark_as_completed([(102, 1)])
    assert renew_leases(claims(batch), 600) == [103, 104]
    with engine().connect() as connection:
        for task_id in (103, 104):
            assert 500 < connection.scalar(text(LEASE_ENDS), {"id": task_id}) <= 600
        assert connection.scalar(text(LEASE_ENDS), {"id": 101}) < 0, "a lease that has ended is not renewed"


def test_a_stale_worker_does_not_renew_the_new_owners_lease(expire: Expire) -> None:
    claim(1, {})
    expire(101)
    assert claims(claim_batch(1, {}, 60)) == [(101, 2)]
    assert renew_leases([(101, 1)], 600) == []
    with engine().connect() as connection:
        assert connection.scalar(text(LEASE_ENDS), {"id": 101}) <= 60


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), MAX_LEASE_SECONDS + 1])
def test_a_lease_that_makes_no_sense_is_refused(seconds: float) -> None:
    claim(1, {})
    with pytest.raises(ValueError, match="lease"):
        renew_leases([(101, 1)], seconds)


@pytest.mark.parametrize("change_all", [mark_as_completed, lambda pairs: renew_leases(pairs, 60)])
def test_rows_are_locked_in_the_order_of_their_ids_so_that_two_changes_cannot_deadlock(
    change_all: Callable[[list[tuple[int, int]]], list[int]], start_behind: StartBehind
) -> None:
    """However the claims are ordered: a call that waits for the lowest id has locked no other row yet."""
    batch = claims(claim_batch(4, {}, 60))
    change("type = type", 101)  # its newest version is the last in the file: no plan meets it first by chance
    with engine().connect() as other, engine().connect() as onlooker:
        lock(other, 101)
        result = start_behind(other, lambda: change_all(batch[::-1]))
        free = text(
            "SELECT id FROM backend_training.tasks WHERE id BETWEEN 101 AND 104 ORDER BY id FOR UPDATE SKIP LOCKED"
        )
        assert onlooker.scalars(free).all() == [102, 103, 104]
        onlooker.rollback()
        other.rollback()
        assert result.result(timeout=30) == [101, 102, 103, 104]
