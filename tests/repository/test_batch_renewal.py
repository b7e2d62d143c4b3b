"""The rules of the thread that renews a whole batch beside the work. Each test's name is the rule."""

import threading
from collections.abc import Callable
from time import monotonic

import pytest
from sqlalchemy import create_engine, event, text

from helpers import db, lab
from helpers.db import engine
from helpers.lab import rebuild
from helpers.repository.batch import Claim, claim_batch
from helpers.repository.batch_renewal import BatchKeeper
from helpers.repository.lease import StaleClaimError, mark_as_completed
from helpers.repository.retry import claim_task
from helpers.scripts import run_script
from tests.repository.rows import change, stored

Eventually = Callable[[Callable[[], object]], None]

RENEWED = """
    SELECT array_agg(DISTINCT task_id ORDER BY task_id) FROM backend_training.task_events
    WHERE event = 'update' AND old_status = 'processing' AND new_status = 'processing'
"""


@pytest.fixture(autouse=True)
def tables() -> None:
    """Lesson 8's thirty tasks: HIGH are 101 to 110."""
    rebuild(9)
    run_script("08_batches_and_quotas/03_thirty_tasks.sql")


def claim(size: int, lease_seconds: float = 60) -> list[Claim]:
    return [(task["id"], task["attempts"]) for task in claim_batch(size, {}, lease_seconds)]


def take_over(task_id: int) -> None:
    """Let this lease end, and let somebody else claim the task: attempt 2."""
    change("lease_until = clock_timestamp() - interval '1 ms'", task_id)
    change("priority = 'HIGH', created_at = '2000-01-01'", task_id)
    taken = claim_task(60)
    assert taken is not None and (taken["id"], taken["attempts"]) == (task_id, 2)


def is_lost(keeper: BatchKeeper, claim: Claim) -> bool:
    try:
        keeper.check(claim)
    except StaleClaimError:
        return True
    return False


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "leases"]


def test_all_claims_are_kept_for_longer_than_the_lease_with_which_they_were_claimed(eventually: Eventually) -> None:
    claims = claim(3, lease_seconds=1.5)
    first_ends = stored(101)["lease_until"]
    with BatchKeeper(claims, 1.5, monotonic()) as keeper:
        lab.wait_until("clock_timestamp() > CAST(:ends AS timestamptz)", ends=first_ends)
        for each in claims:
            keeper.check(each)
    assert lab.value(RENEWED) == [101, 102, 103]
    for each in claims:
        mark_as_completed(*each)


def test_one_statement_renews_them_all() -> None:
    claims = claim(5)
    statements: list[str] = []

    def note(_conn: object, _cursor: object, statement: str, *_: object) -> None:
        statements.append(statement)

    event.listen(engine(), "before_cursor_execute", note)
    try:
        with BatchKeeper(claims, 600, monotonic()) as keeper:  # the thread would renew in 200 seconds
            keeper.renew()
    finally:
        event.remove(engine(), "before_cursor_execute", note)
    assert len(statements) == 1
    assert lab.value(RENEWED) == [101, 102, 103, 104, 105]


def test_a_claim_that_is_lost_leaves_the_others_alone() -> None:
    claims = claim(3)
    with BatchKeeper(claims, 60, monotonic()) as keeper:
        take_over(102)
        newer = stored(102)
        keeper.renew()
        assert [is_lost(keeper, each) for each in claims] == [False, True, False]
        keeper.renew()
        assert stored(102) == newer, "the newer attempt's lease is its own"
        assert [is_lost(keeper, each) for each in claims] == [False, True, False]


def test_what_is_lost_is_told_by_its_turn_before_the_effect() -> None:
    claims = claim(2)
    with BatchKeeper(claims, 60, monotonic()) as keeper, keeper.turn(claims[0]) as turn:
        take_over(101)
        turn.check()  # nobody has told it yet
        with pytest.raises(StaleClaimError, match="the renewal was refused"):
            turn.confirm()
        with pytest.raises(StaleClaimError):
            turn.check()


def test_a_confirmation_renews_the_others_along() -> None:
    claims = claim(2)
    with BatchKeeper(claims, 600, monotonic()) as keeper, keeper.turn(claims[0]) as turn:
        turn.confirm()
    assert lab.value(RENEWED) == [101, 102]


def test_once_its_turn_is_over_a_claim_is_renewed_no_more() -> None:
    claims = claim(2)
    with BatchKeeper(claims, 60, monotonic()) as keeper:
        with keeper.turn(claims[0]):
            pass
        keeper.renew()
    assert lab.value(RENEWED) == [102]


def test_a_lease_that_must_have_ended_is_lost_and_the_server_is_not_asked() -> None:
    claims = claim(2)
    with BatchKeeper(claims, 60, monotonic() - 61) as keeper:
        assert all(is_lost(keeper, each) for each in claims)
        keeper.renew()
    assert lab.value(RENEWED) is None


def test_without_a_server_the_claims_are_lost_when_their_leases_must_have_ended(
    eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = claim(2)
    nobody = create_engine("postgresql+psycopg://nobody@127.0.0.1:9/nothing")
    with monkeypatch.context() as without_server, BatchKeeper(claims, 1, monotonic()) as keeper:
        without_server.setattr(db, "engine", lambda: nobody)
        assert not is_lost(keeper, claims[0])
        eventually(lambda: all(is_lost(keeper, each) for each in claims))


def test_a_server_that_was_away_for_a_moment_costs_no_claim(eventually: Eventually) -> None:
    claims = claim(2, lease_seconds=3)
    waiting = "SELECT pid FROM pg_stat_activity WHERE :holder = ANY (pg_blocking_pids(pid))"
    with BatchKeeper(claims, 3, monotonic()) as keeper:
        with engine().connect() as holder:
            holder.execute(text("SELECT 1 FROM backend_training.tasks WHERE id = 101 FOR UPDATE"))
            pid = holder.scalar(text("SELECT pg_backend_pid()"))
            lab.wait_until(f"EXISTS ({waiting})", holder=pid)
            assert lab.value(f"SELECT pg_terminate_backend(({waiting}))", holder=pid), "in the middle of a renewal"
        eventually(lambda: lab.value(RENEWED) == [101, 102])
        for each in claims:
            keeper.check(each)


def test_leaving_the_block_ends_the_thread_also_by_an_error() -> None:
    with pytest.raises(ZeroDivisionError), BatchKeeper(claim(1), 60, monotonic()):
        assert threads() == ["leases"]
        raise ZeroDivisionError
    assert threads() == []
