"""The rules of lesson 5's claim, failure, return and requeue. Each test's name is the rule."""

from collections.abc import Callable
from concurrent.futures import Future

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, event, text

from helpers import lab
from helpers.db import engine
from helpers.repository import lease
from helpers.repository.lease import MAX_LEASE_SECONDS, StaleClaimError, mark_as_completed
from helpers.repository.renewal import renew_lease
from helpers.repository.retry import (
    NEVER_CAME_BACK,
    NotFailedError,
    backoff_seconds,
    claim_task,
    fail_task,
    is_completed_by,
    requeue_task,
    return_task,
    seconds_until_due,
)
from helpers.scripts import run_script
from tests.repository.rows import change, stored

Expire = Callable[..., None]
StartBehind = Callable[[Connection, Callable[[], object]], Future[object]]

RETRY_WAITS = "SELECT extract(epoch FROM retry_at - clock_timestamp())::float FROM backend_training.tasks WHERE id = 42"


@pytest.fixture(autouse=True)
def tables(lesson5: None) -> None:
    """Lesson 5's tables, in every test of this module."""


def claim(lease_seconds: float = 60) -> tuple[int, int] | None:
    task = claim_task(lease_seconds)
    return None if task is None else (task["id"], task["attempts"])


def claim_until_the_last_attempt(task_id: int = 42) -> None:
    """Claim the first task, as its last attempt."""
    change("attempts = max_attempts - 1", task_id)
    assert claim() == (task_id, 3)


# -- claim_task --------------------------------------------------------------------------------------------------------


def test_a_claim_returns_id_type_attempts_and_lease_until() -> None:
    task = claim_task(60)
    assert task is not None
    assert dict(task) == {
        "id": 42,
        "type": "generate_report",
        "attempts": 1,
        "lease_until": stored()["lease_until"],
    }


def test_tasks_are_claimed_in_the_order_of_their_ids_and_each_once() -> None:
    assert [claim() for _ in range(4)] == [(42, 1), (43, 1), (44, 1), None]


def test_before_its_retry_time_a_task_is_not_claimed() -> None:
    change("retry_at = clock_timestamp() + interval '1 hour'")
    assert claim() == (43, 1)


def test_after_its_retry_time_it_is_claimed_and_the_time_is_cleared() -> None:
    change("retry_at = clock_timestamp() - interval '1 ms'")
    assert claim() == (42, 1)
    assert stored()["retry_at"] is None


def test_an_expired_lease_is_taken_over_with_the_next_attempt(expire: Expire) -> None:
    claim()
    assert claim() == (43, 1), "a lease in force is not taken over"
    expire()
    assert claim() == (42, 2)


def test_a_completed_or_failed_task_is_not_claimed() -> None:
    change("status = 'completed', attempts = 1")
    change("status = 'failed', attempts = 3", 43)
    assert claim() == (44, 1)


def test_a_last_attempt_that_did_not_come_back_is_failed_and_the_next_task_is_claimed(expire: Expire) -> None:
    claim_until_the_last_attempt()
    expire()
    assert claim() == (43, 1)
    assert stored() == {
        **stored(),
        "status": "failed",
        "attempts": 3,
        "lease_until": None,
        "retry_at": None,
        "last_error": NEVER_CAME_BACK,
    }


def test_one_claim_passes_over_several_of_them(expire: Expire) -> None:
    claim_until_the_last_attempt(42)
    claim_until_the_last_attempt(43)
    expire(42)
    expire(43)
    assert claim() == (44, 1)
    assert (stored(42)["status"], stored(43)["status"]) == ("failed", "failed")


def test_where_nothing_but_they_are_left_the_claim_returns_none(expire: Expire) -> None:
    for task_id in (42, 43, 44):
        claim_until_the_last_attempt(task_id)
        expire(task_id)
    assert claim() is None
    assert {stored(task_id)["status"] for task_id in (42, 43, 44)} == {"failed"}


def test_a_task_that_kills_every_worker_is_claimed_max_attempts_times(expire: Expire) -> None:
    change("max_attempts = 5")
    attempts = []
    while (task := claim()) is not None and task[0] == 42:
        attempts.append(task[1])
        expire()
    assert attempts == [1, 2, 3, 4, 5]
    assert (stored()["status"], stored()["attempts"]) == ("failed", 5)


def test_the_worker_of_a_last_attempt_that_is_only_slow_is_refused_in_the_end(expire: Expire) -> None:
    claim_until_the_last_attempt()
    expire()
    claim()
    before = stored()
    with pytest.raises(StaleClaimError):
        mark_as_completed(42, 3)
    assert stored() == before


def test_a_claim_skips_a_locked_row_and_does_not_wait() -> None:
    with engine().connect() as other:
        other.execute(text("SELECT 1 FROM backend_training.tasks WHERE id = 42 FOR UPDATE"))
        other.execute(text("SET LOCAL idle_in_transaction_session_timeout = '20 s'"))  # a failing test ends too
        assert claim() == (43, 1)


def test_a_claim_is_one_transaction_with_two_statements() -> None:
    seen: list[str] = []
    event.listen(engine(), "before_cursor_execute", lambda _c, _k, statement, *_: seen.append(statement.split()[0]))
    event.listen(engine(), "commit", lambda _: seen.append("COMMIT"))
    claim()
    assert seen == ["SELECT", "UPDATE", "COMMIT"]


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), MAX_LEASE_SECONDS + 1])
def test_a_lease_that_makes_no_sense_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="lease"):
        claim_task(seconds)
    assert stored()["status"] == "pending"


def test_the_claim_of_lesson_4_still_works_on_these_tables(expire: Expire) -> None:
    change("status = 'failed', attempts = 3", 43)
    assert [task and task["id"] for task in (lease.claim_task(60), lease.claim_task(60))] == [42, 44]
    expire()
    task = lease.claim_task(60)
    assert task is not None
    mark_as_completed(task["id"], task["attempts"])
    assert stored()["status"] == "completed"


# -- fail_task ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attempts", [1, 2, 3])
def test_a_failed_attempt_waits_within_the_backoffs_window(attempts: int) -> None:
    change(f"max_attempts = 9, attempts = {attempts - 1}")
    claim()
    assert fail_task(42, attempts, "the printer is on fire") == "pending"
    waits = lab.value(RETRY_WAITS)
    row = stored()
    assert waits <= 2 * 2 ** (attempts - 1)
    assert lab.value(
        "SELECT retry_at >= max(at) FROM backend_training.tasks, backend_training.task_events "
        "WHERE tasks.id = 42 AND task_id = 42 GROUP BY retry_at"
    ), "not earlier than the failure"
    assert (row["status"], row["attempts"], row["lease_until"]) == ("pending", attempts, None)
    assert row["last_error"] == "the printer is on fire"


def test_the_retry_time_is_the_backoff_after_the_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("helpers.repository.retry.backoff_seconds", lambda attempts: 1000.0 * attempts)
    change("attempts = 1")
    claim()
    fail_task(42, 2, "oh")
    assert 1900 < lab.value(RETRY_WAITS) <= 2000
    assert claim() == (43, 1)


def test_after_the_last_attempt_the_task_is_failed_and_has_no_retry_time() -> None:
    claim_until_the_last_attempt()
    assert fail_task(42, 3, "the last straw") == "failed"
    row = stored()
    assert (row["status"], row["attempts"], row["lease_until"], row["retry_at"]) == ("failed", 3, None, None)
    assert row["last_error"] == "the last straw"
    assert claim() == (43, 1)


def test_another_task_does_not_fail_along() -> None:
    claim()
    claim()
    before = stored(43)
    fail_task(42, 1, "oh")
    assert stored(43) == before


# -- the fence: who fails or returns a task ----------------------------------------------------------------------------

Ending = Callable[[int, int], object]
ENDINGS: dict[str, Ending] = {"fail": lambda task_id, n: fail_task(task_id, n, "late"), "return": return_task}
REFUSED = {"fail": "the failure was refused", "return": "the return was refused"}
STALE = {
    "completed": "status = 'completed', lease_until = NULL",
    "failed": "status = 'failed', lease_until = NULL",
    "waiting for its retry": "status = 'pending', lease_until = NULL, retry_at = clock_timestamp()",
    "pending, although number and lease are right": "status = 'pending'",
    "a newer attempt works": "attempts = 2",
    "the lease has ended": "lease_until = clock_timestamp()",
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("what", STALE.values(), ids=STALE.keys())
def test_an_old_attempt_changes_nothing(ending: str, what: str) -> None:
    claim()
    change(what)
    before = stored()
    with pytest.raises(StaleClaimError, match=f"#42, attempt 1: {REFUSED[ending]}"):
        ENDINGS[ending](42, 1)
    assert stored() == before


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("attempts", [0, -1])
def test_an_attempt_below_one_is_a_mistake_of_the_caller(ending: str, attempts: int) -> None:
    with pytest.raises(ValueError, match="attempt"):
        ENDINGS[ending](42, attempts)


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_ending_is_one_statement(ending: str) -> None:
    claim()
    seen: list[str] = []
    event.listen(engine(), "before_cursor_execute", lambda _c, _k, statement, *_: seen.append(statement.split()[0]))
    ENDINGS[ending](42, 1)
    assert seen == ["UPDATE"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_whoever_waits_for_a_completion_checks_again(ending: str, start_behind: StartBehind) -> None:
    claim()
    with engine().connect() as other:
        other.execute(text("UPDATE backend_training.tasks SET status = 'completed', lease_until = NULL WHERE id = 42"))
        late = start_behind(other, lambda: ENDINGS[ending](42, 1))
        other.commit()
        with pytest.raises(StaleClaimError):
            late.result(timeout=20)
    assert stored()["status"] == "completed"


# -- return_task -------------------------------------------------------------------------------------------------------


def test_a_returned_task_keeps_its_number_and_gets_one_more_attempt() -> None:
    claim()
    before = stored()
    return_task(42, 1)
    assert stored() == {**before, "status": "pending", "lease_until": None, "max_attempts": 4}
    assert claim() == (42, 2), "at once, and with a number that was never used"


def test_a_returned_last_attempt_is_made_again() -> None:
    claim_until_the_last_attempt()
    return_task(42, 3)
    assert claim() == (42, 4)
    assert fail_task(42, 4, "oh") == "failed"


# -- requeue_task ------------------------------------------------------------------------------------------------------


def test_a_requeued_task_is_claimed_at_once_with_a_new_number() -> None:
    claim_until_the_last_attempt()
    fail_task(42, 3, "oh")
    requeue_task(42)
    assert claim() == (42, 4)
    assert fail_task(42, 4, "again") == "failed"


def test_it_gets_as_many_attempts_as_were_asked_for(expire: Expire) -> None:
    change("status = 'failed', attempts = 3")
    requeue_task(42, more_attempts=2)
    claims = []
    while (task := claim()) is not None and task[0] == 42:
        claims.append(task[1])
        expire()
    assert claims == [4, 5]


@pytest.mark.parametrize("status", ["pending", "processing", "completed"])
def test_only_a_failed_task_is_requeued(status: str) -> None:
    change(f"status = '{status}', attempts = 1, lease_until = clock_timestamp()")
    before = stored()
    with pytest.raises(NotFailedError, match="#42"):
        requeue_task(42)
    assert stored() == before


def test_a_task_that_does_not_exist_is_not_requeued() -> None:
    with pytest.raises(NotFailedError, match="#7"):
        requeue_task(7)


@pytest.mark.parametrize("more", [0, -1])
def test_fewer_than_one_more_attempt_is_a_mistake_of_the_caller(more: int) -> None:
    change("status = 'failed'")
    with pytest.raises(ValueError, match="more_attempts"):
        requeue_task(42, more_attempts=more)
    assert stored()["status"] == "failed"


# -- is_completed_by, seconds_until_due, backoff_seconds ---------------------------------------------------------------


def test_a_task_is_completed_by_the_attempt_that_completed_it_and_by_no_other(expire: Expire) -> None:
    claim()
    assert not is_completed_by(42, 1)
    expire()
    claim()
    mark_as_completed(42, 2)
    assert [is_completed_by(42, attempts) for attempts in (1, 2, 3)] == [False, True, False]
    assert not is_completed_by(43, 2)


def test_a_task_that_is_pending_or_abandoned_is_due_now(expire: Expire) -> None:
    change("status = 'completed'", 43)
    change("status = 'completed'", 44)
    assert seconds_until_due() == 0
    claim()
    expire()
    assert seconds_until_due() == 0


def test_the_next_retry_time_or_end_of_a_lease_is_what_counts() -> None:
    change("status = 'completed'", 44)
    change("retry_at = clock_timestamp() + interval '1 hour'", 43)
    claim(600)
    until_the_lease_ends = seconds_until_due()
    assert until_the_lease_ends is not None and 500 < until_the_lease_ends <= 600
    mark_as_completed(42, 1)
    until_the_retry = seconds_until_due()
    assert until_the_retry is not None and 3500 < until_the_retry <= 3600


def test_where_nothing_will_ever_be_due_there_is_no_time() -> None:
    change("status = 'completed'", 42)
    change("status = 'failed'", 43)
    change("status = 'processing', lease_until = NULL", 44)
    assert seconds_until_due() is None
    run_script("05_renewal_and_retries/02_reset.sql")
    assert seconds_until_due() == 0


@pytest.mark.parametrize(("attempts", "longest"), [(1, 2), (2, 4), (3, 8), (7, 128), (8, 256), (9, 300), (10_000, 300)])
def test_the_backoff_is_random_within_its_window_and_fills_it(attempts: int, longest: float) -> None:
    pauses = sorted(backoff_seconds(attempts) for _ in range(300))
    assert pauses[0] >= 0
    assert pauses[-1] <= longest
    # The probability that 300 draws miss a tenth of the window is below 10 ** -13.
    for tenth in range(10):
        assert any(tenth * longest / 10 <= pause <= (tenth + 1) * longest / 10 for pause in pauses)


# -- all of it together ------------------------------------------------------------------------------------------------

# A completion ends the story, so it is rare.
STEPS = st.sampled_from(
    ["claim", "claim", "fail", "expire", "due", "due", "requeue", "return", "renew"] * 2 + ["complete"]
)


@given(st.lists(st.tuples(STEPS, st.sampled_from([0, 0, 0, 1, 2])), min_size=40, max_size=40))
@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_happens_numbers_only_grow_and_never_above_the_maximum(steps: list[tuple[str, int]]) -> None:
    """Steps of one worker and of time, in any order. `back` says how old the attempt is that the worker believes in."""
    run_script("05_renewal_and_retries/02_reset.sql")
    change("status = 'completed'", 43)
    change("status = 'completed'", 44)
    numbers = [0]
    for step, back in steps:
        believed = max(numbers[-1] - back, 1)
        try:
            if step == "claim" and (claimed := claim()) is not None:
                assert claimed == (42, numbers[-1] + 1), "each number is given once, and none is left out"
                numbers.append(claimed[1])
            elif step == "complete":
                mark_as_completed(42, believed)
            elif step == "fail":
                fail_task(42, believed, "oh")
            elif step == "return":
                return_task(42, believed)
            elif step == "renew":
                renew_lease(42, believed, 60)
            elif step == "requeue":
                requeue_task(42)
            elif step == "expire":
                change("lease_until = lease_until - interval '1 day'")
            elif step == "due":
                change("retry_at = retry_at - interval '1 day'")
        except (StaleClaimError, NotFailedError):
            pass
        row = stored()
        assert row["attempts"] == numbers[-1] <= row["max_attempts"]
        assert (row["lease_until"] is not None) == (row["status"] == "processing")
        assert row["retry_at"] is None or row["status"] == "pending"
