"""The rules of lesson 5's renewal, and of the thread that renews beside the work. Each test's name is the rule."""

import hashlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import timedelta
from time import monotonic

import pytest
from sqlalchemy import Connection, create_engine, event, text

from helpers import db, lab
from helpers.db import engine
from helpers.repository import renewal
from helpers.repository.lease import MAX_LEASE_SECONDS, StaleClaimError, claim_task, mark_as_completed
from helpers.repository.renewal import LeaseKeeper, renew_lease
from tests.repository.rows import change, stored

Expire = Callable[..., None]
Eventually = Callable[[Callable[[], object]], None]
StartBehind = Callable[[Connection, Callable[[], object]], Future[object]]

RENEWALS = """
    SELECT count(*) FROM backend_training.task_events
    WHERE event = 'update' AND task_id = 42 AND old_status = 'processing' AND new_status = 'processing'
"""


@pytest.fixture(autouse=True)
def tables(lesson5: None) -> None:
    """Lesson 5's tables, in every test of this module."""


def renewals() -> int:
    return int(lab.value(RENEWALS))


# -- renew_lease -------------------------------------------------------------------------------------------------------


def test_a_renewed_lease_is_counted_from_the_moment_of_the_renewal(connection: Connection) -> None:
    claim_task(10)
    before = connection.scalar(text("SELECT clock_timestamp()"))
    lease_until = renew_lease(42, 1, 60)
    after = connection.scalar(text("SELECT clock_timestamp()"))
    assert before is not None and after is not None
    assert before + timedelta(seconds=60) <= lease_until <= after + timedelta(seconds=60)
    assert lease_until.utcoffset() == timedelta(0)


def test_nothing_but_the_end_of_the_lease_changes() -> None:
    claim_task(10)
    before = stored()
    lease_until = renew_lease(42, 1, 60)
    assert stored() == {**before, "lease_until": lease_until}
    assert lease_until > before["lease_until"]


def test_another_task_is_not_renewed_along() -> None:
    claim_task(10)
    claim_task(10)
    before = stored(43)
    renew_lease(42, 1, 60)
    assert stored(43) == before


def test_a_renewal_is_one_statement() -> None:
    claim_task(10)
    seen: list[str] = []
    event.listen(engine(), "before_cursor_execute", lambda _c, _k, statement, *_: seen.append(statement.split()[0]))
    event.listen(engine(), "commit", lambda _: seen.append("COMMIT"))
    renew_lease(42, 1, 60)
    assert seen == ["UPDATE", "COMMIT"]


STALE = {
    "completed by this attempt": "status = 'completed', lease_until = NULL",
    "not processing, although number and lease are right": "status = 'pending'",
    "a newer attempt works": "attempts = 2",
    "the lease has ended, and nobody has taken the task over": "lease_until = clock_timestamp()",
    "without a lease": "lease_until = NULL",
}


@pytest.mark.parametrize("what", STALE.values(), ids=STALE.keys())
def test_a_claim_that_is_out_of_date_is_not_renewed(what: str) -> None:
    claim_task(60)
    change(what)
    before = stored()
    with pytest.raises(StaleClaimError) as refusal:
        renew_lease(42, 1, 60)
    for words in ("#42", "attempt 1", "the renewal was refused", "completed", "lease has expired", "newer attempt"):
        assert words in str(refusal.value)
    assert (refusal.value.task_id, refusal.value.attempts) == (42, 1)
    assert stored() == before, "a refused renewal changes nothing"


def test_a_task_that_does_not_exist_is_not_renewed() -> None:
    with pytest.raises(StaleClaimError, match="#7"):
        renew_lease(7, 1, 60)


@pytest.mark.parametrize("attempts", [0, -1])
def test_an_attempt_below_one_is_a_mistake_of_the_caller(attempts: int) -> None:
    with pytest.raises(ValueError, match="attempt"):
        renew_lease(42, attempts, 60)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), MAX_LEASE_SECONDS + 1])
def test_a_lease_that_makes_no_sense_is_refused(seconds: float) -> None:
    claim_task(60)
    before = stored()
    with pytest.raises(ValueError, match="lease"):
        renew_lease(42, 1, seconds)
    assert stored() == before


def test_a_renewal_that_waits_for_a_newer_attempt_checks_again(start_behind: StartBehind) -> None:
    claim_task(60)
    with engine().connect() as other:
        other.execute(text("UPDATE backend_training.tasks SET attempts = 2 WHERE id = 42"))
        late = start_behind(other, lambda: renew_lease(42, 1, 600))
        other.commit()
        with pytest.raises(StaleClaimError):
            late.result(timeout=20)
    assert stored()["attempts"] == 2
    assert renewals() == 1, "the other session's UPDATE alone"


def test_a_renewal_that_waits_for_a_transaction_that_is_rolled_back_succeeds(start_behind: StartBehind) -> None:
    claim_task(60)
    with engine().connect() as other:
        other.execute(text("UPDATE backend_training.tasks SET attempts = 2 WHERE id = 42"))
        late = start_behind(other, lambda: renew_lease(42, 1, 600))
        other.rollback()
        assert late.result(timeout=20) == stored()["lease_until"]
    assert stored()["attempts"] == 1


# -- LeaseKeeper -------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert keepers() == []


def keepers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "lease"]


def is_lost(keeper: LeaseKeeper) -> bool:
    try:
        keeper.check()
    except StaleClaimError:
        return True
    return False


def test_the_lease_is_renewed_while_the_main_thread_computes() -> None:
    claim_task(3)
    with LeaseKeeper(42, 1, 3, monotonic()) as keeper:
        digest = b""
        while renewals() < 3:  # the third comes when the first lease is over
            for _ in range(20_000):
                digest = hashlib.sha256(digest).digest()
        keeper.check()
    assert stored()["attempts"] == 1
    mark_as_completed(42, 1)


def test_the_session_that_renews_holds_no_transaction_open() -> None:
    claim_task(60)
    with LeaseKeeper(42, 1, 60, monotonic()) as keeper:
        keeper.confirm()
        states = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in %'"
        assert lab.value(states) == 0


def test_after_a_takeover_the_check_raises(
    expire: Expire, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renewal, "monotonic", lambda: 0.0)  # so that it is the refusal that tells, and not the counting
    claim_task(60)
    with LeaseKeeper(42, 1, 1.5, monotonic()) as keeper:
        keeper.check()
        expire()
        assert claim_task(60) is not None
        newer = stored()
        eventually(lambda: is_lost(keeper))
        with pytest.raises(StaleClaimError, match="the renewal was refused"):
            keeper.confirm()
    assert newer["attempts"] == 2
    assert stored() == newer, "the newer attempt's lease is its own"


def test_the_lease_is_counted_from_before_the_claim() -> None:
    """A worker that was frozen right after its claim, for longer than the lease, finds it lost and asks nobody."""
    claim_task(60)
    with LeaseKeeper(42, 1, 60, monotonic() - 61) as keeper:
        assert is_lost(keeper)
    assert renewals() == 0


def test_a_confirmation_renews_at_once() -> None:
    claim_task(10)
    with LeaseKeeper(42, 1, 600, monotonic()) as keeper:  # the thread would renew in 200 seconds
        keeper.confirm()
    assert renewals() == 1
    assert lab.value(
        "SELECT lease_until > clock_timestamp() + interval '300 s' FROM backend_training.tasks WHERE id = 42"
    )


def test_after_the_end_of_the_lease_the_confirmation_is_refused(expire: Expire) -> None:
    claim_task(60)
    with LeaseKeeper(42, 1, 60, monotonic()) as keeper:
        expire()
        keeper.check()  # nobody has told it yet
        with pytest.raises(StaleClaimError):
            keeper.confirm()
    assert renewals() == 1, "the one that let the lease end"


def test_a_lease_that_must_have_ended_is_lost_although_no_server_answers(
    eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim_task(60)
    before = stored()
    nobody = create_engine("postgresql+psycopg://nobody@127.0.0.1:9/nothing")
    with monkeypatch.context() as without_server, LeaseKeeper(42, 1, 1, monotonic()) as keeper:
        without_server.setattr(db, "engine", lambda: nobody)
        keeper.check()
        eventually(lambda: is_lost(keeper))
        eventually(lambda: keepers() == [])  # it has stopped asking
    assert stored() == before


def test_a_dropped_connection_is_no_lost_lease(eventually: Eventually) -> None:
    waiting = "SELECT pid FROM pg_stat_activity WHERE :holder = ANY (pg_blocking_pids(pid))"
    claim_task(60)
    with LeaseKeeper(42, 1, 3, monotonic()) as keeper:
        with engine().connect() as holder:
            holder.execute(text("SELECT 1 FROM backend_training.tasks WHERE id = 42 FOR UPDATE"))
            pid = holder.scalar(text("SELECT pg_backend_pid()"))
            lab.wait_until(f"EXISTS ({waiting})", holder=pid)
            assert lab.value(f"SELECT pg_terminate_backend(({waiting}))", holder=pid), "in the middle of a renewal"
        eventually(renewals)
        keeper.check()
    mark_as_completed(42, 1)


def test_leaving_the_block_ends_the_thread_at_once_also_by_an_error() -> None:
    with pytest.raises(ZeroDivisionError), LeaseKeeper(42, 1, MAX_LEASE_SECONDS, monotonic()):
        assert keepers() == ["lease"]
        raise ZeroDivisionError
    assert keepers() == []
    assert stored()["status"] == "pending"
