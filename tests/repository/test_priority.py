"""The rules of lesson 7's claim: urgent tasks first, with aging and without; and the index that serves it."""

import threading
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Connection, select, text

from helpers.db import engine
from helpers.lab import rebuild
from helpers.models import Task
from helpers.repository import lease, locked, retry
from helpers.repository.lease import MAX_LEASE_SECONDS, mark_as_completed
from helpers.repository.priority import claim_task
from helpers.repository.retry import NEVER_CAME_BACK, fail_task
from helpers.schedules import explore
from helpers.scripts import run_script
from tests.repository.plans import Node, first_statement, plan_of, steps
from tests.repository.rows import change, stored
from tests.schedules.programs import two

Expire = Callable[..., None]

INSERT = text(
    "INSERT INTO backend_training.tasks (id, type, priority, created_at) "
    "VALUES (:id, 'generate_report', CAST(:priority AS backend_training.priority), now() - :seconds * interval '1 s')"
)


@pytest.fixture(autouse=True)
def tables() -> None:
    """The tables as lesson 7's migration leaves them: 42 is LOW and the oldest, 43 MEDIUM, 44 HIGH."""
    rebuild(8)
    run_script("07_priorities/02_reset.sql")


def put(*tasks: tuple[int, str, float]) -> None:
    """These tasks alone: an id, a priority, and the age in seconds."""
    with engine().begin() as connection:
        connection.execute(text("DELETE FROM backend_training.tasks"))
        rows = [dict(zip(("id", "priority", "seconds"), task, strict=True)) for task in tasks]
        connection.execute(INSERT, rows)


def claimed(aging_seconds: float | None = None) -> list[int]:
    """The ids of all tasks that can be claimed, in the order in which they are."""
    ids = []
    while (task := claim_task(60, aging_seconds)) is not None:
        ids.append(task["id"])
    return ids


# -- the order ---------------------------------------------------------------------------------------------------------


def test_urgent_tasks_come_first_even_if_they_are_the_youngest() -> None:
    assert claimed() == [44, 43, 42]


def test_within_a_priority_the_oldest_comes_first_and_then_the_lower_id() -> None:
    put((1, "LOW", 5), (4, "HIGH", 7), (3, "HIGH", 7), (2, "HIGH", 9), (5, "HIGH", 1))
    assert claimed() == [2, 3, 4, 5, 1]


def test_an_expired_lease_has_the_place_of_its_priority_and_age(expire: Expire) -> None:
    put((1, "HIGH", 9), (2, "HIGH", 5), (3, "MEDIUM", 99))
    assert claimed() == [1, 2, 3]
    expire(3)
    expire(1)
    assert claimed() == [1, 3]


def test_the_table_sorts_priorities_by_meaning() -> None:
    with engine().connect() as connection:
        by_priority = select(Task.priority).order_by(Task.priority)
        assert connection.scalars(by_priority).all() == ["HIGH", "MEDIUM", "LOW"]


def test_the_table_refuses_a_priority_that_nobody_knows() -> None:
    with pytest.raises(Exception, match="URGENT"):
        change("priority = 'URGENT'", 42)


# -- aging -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("aging_seconds", "order"),
    [(59, [42, 43, 44]), (60, [44, 43, 42]), (61, [44, 43, 42])],
)
def test_a_step_of_priority_is_worth_the_aging_seconds(aging_seconds: float, order: list[int]) -> None:
    assert claimed(aging_seconds) == order


@pytest.mark.parametrize(("younger_by", "order"), [(19, [2, 1]), (20, [2, 1]), (21, [1, 2])])
def test_a_low_task_waits_for_no_high_task_that_came_more_than_two_steps_later(
    younger_by: float, order: list[int]
) -> None:
    put((1, "LOW", 100), (2, "HIGH", 100 - younger_by))
    assert claimed(aging_seconds=10) == order


def test_under_a_stream_of_high_tasks_low_starves_without_aging_and_has_its_turn_with_it() -> None:
    run_script("07_priorities/03_stream_of_high.sql")
    assert claimed()[-2:] == [43, 42]
    run_script("07_priorities/03_stream_of_high.sql")
    order = claimed(aging_seconds=10)
    assert (order.index(43), order.index(42)) == (10, 21), "after 10 and 20 HIGH tasks"


def test_with_aging_the_same_tasks_are_available(expire: Expire) -> None:
    put((1, "HIGH", 9), (2, "LOW", 50), (3, "LOW", 40), (4, "LOW", 30), (5, "LOW", 20))
    change("retry_at = clock_timestamp() + interval '1 hour'", 3)
    change("status = 'completed'", 4)
    change("attempts = max_attempts, status = 'processing'", 5)
    expire(5)
    assert claimed(aging_seconds=1) == [2, 1]
    assert stored(5)["status"] == "failed"


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_an_aging_that_makes_no_sense_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="aging"):
        claim_task(60, seconds)
    assert claimed() == [44, 43, 42]


# -- lesson 5's rules --------------------------------------------------------------------------------------------------


def test_a_claim_returns_id_type_priority_attempts_and_lease_until() -> None:
    task = claim_task(60)
    assert task is not None
    assert dict(task) == {
        "id": 44,
        "type": "generate_report",
        "priority": "HIGH",
        "attempts": 1,
        "lease_until": stored(44)["lease_until"],
    }
    assert stored(44)["status"] == "processing", "another session sees it"


def test_a_task_is_not_claimed_before_its_retry_time_and_then_its_retry_time_is_cleared() -> None:
    change("retry_at = clock_timestamp() + interval '1 hour'", 44)
    assert claimed() == [43, 42]
    change("retry_at = clock_timestamp()", 44)
    assert claimed() == [44]
    assert stored(44)["retry_at"] is None


def test_a_lease_in_force_is_not_taken_over_and_an_expired_one_gets_the_next_attempt(expire: Expire) -> None:
    assert claimed() == [44, 43, 42]
    assert claim_task(60) is None
    expire(43)
    task = claim_task(60)
    assert task is not None
    assert (task["id"], task["attempts"]) == (43, 2)


def test_a_task_whose_last_attempt_did_not_come_back_fails_and_the_next_one_is_claimed(expire: Expire) -> None:
    change("attempts = max_attempts - 1", 44)
    assert claim_task(60) is not None
    expire(44)
    task = claim_task(60)
    assert task is not None
    assert task["id"] == 43
    failed = stored(44)
    assert (failed["status"], failed["attempts"], failed["lease_until"]) == ("failed", 3, None)
    assert failed["last_error"] == NEVER_CAME_BACK


def test_a_claim_skips_a_locked_row_and_does_not_wait() -> None:
    with engine().connect() as other:
        other.execute(text("SELECT FROM backend_training.tasks WHERE id = 44 FOR UPDATE"))
        ids: list[list[int]] = []
        claimer = threading.Thread(target=lambda: ids.append(claimed()), daemon=True)
        claimer.start()
        claimer.join(timeout=20)
        other.rollback()  # a claimer that waits is let go, so that a failing test ends too
        claimer.join(timeout=20)
    assert ids == [[43, 42]]


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), MAX_LEASE_SECONDS + 1])
def test_a_lease_that_makes_no_sense_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="lease"):
        claim_task(seconds)
    assert claimed() == [44, 43, 42]


def work() -> None:
    task = claim_task(10)
    if task is not None:
        mark_as_completed(task["id"], task["attempts"])


def test_the_rules_of_a_leased_queue_hold_in_every_order_of_two_workers() -> None:
    report = explore(two(work, expiries=1), time_limit=200)
    assert report.exhausted
    assert report.violation is None, str(report)


# -- the migration -----------------------------------------------------------------------------------------------------


def test_tasks_from_before_the_migration_are_medium_and_keep_their_order() -> None:
    rebuild(7)  # tasks 42, 43 and 44, without priority and time
    with engine().begin() as connection:
        connection.execute(text("UPDATE backend_training.tasks SET type = type WHERE id = 42"))  # the last in the file
    run_script("07_priorities/01_migrate.sql")
    assert [stored(task_id)["priority"] for task_id in (42, 43, 44)] == ["MEDIUM"] * 3
    assert len({stored(task_id)["created_at"] for task_id in (42, 43, 44)}) == 1
    assert claimed() == [42, 43, 44]


def test_new_tasks_get_the_moment_of_their_own_insert_and_are_medium() -> None:
    with engine().begin() as connection:
        for task_id in (1, 2):
            connection.execute(text("INSERT INTO backend_training.tasks (id, type) VALUES (:id, 'x')"), {"id": task_id})
        start = connection.scalar(text("SELECT now()"))
    assert start < stored(1)["created_at"] < stored(2)["created_at"]
    assert stored(1)["priority"] == "MEDIUM"


def test_the_claims_of_earlier_lessons_work_on_the_migrated_tables() -> None:
    first, second, third = locked.claim_task(), lease.claim_task(60), retry.claim_task(60)
    assert first is not None and second is not None and third is not None
    assert (first["id"], second["id"], third["id"]) == (42, 43, 44)
    mark_as_completed(43, 1)
    assert fail_task(44, 1, "no paper") == "pending"


# -- the index ---------------------------------------------------------------------------------------------------------

ACTIVE = "id BETWEEN 9000001 AND 9002000"
MAKE_ACTIVE = f"UPDATE backend_training.tasks SET status = 'pending' WHERE {ACTIVE}"
FINISH_ACTIVE = f"UPDATE backend_training.tasks SET status = 'completed' WHERE {ACTIVE}"


@pytest.fixture
def autocommit() -> Iterator[Connection]:
    with engine().connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        yield connection


@pytest.fixture
def finished(autocommit: Connection) -> None:
    """A hundred thousand finished tasks, and 2,000 more that a test makes active; the statistics are fresh."""
    run_script("07_priorities/04_finished_tasks.sql")
    autocommit.execute(text("ALTER TABLE backend_training.tasks DISABLE TRIGGER tasks_are_noted"))
    autocommit.execute(text("ALTER TABLE backend_training.tasks SET (autovacuum_enabled = false)"))
    autocommit.execute(
        text(
            "INSERT INTO backend_training.tasks (id, type, status, priority) "
            "SELECT n, 'x', 'completed', (ARRAY['HIGH', 'LOW'])[1 + mod(n, 2)]::backend_training.priority "
            "FROM generate_series(9000001, 9002000) AS n"
        )
    )
    autocommit.execute(text("VACUUM ANALYZE backend_training.tasks"))


def uses_the_index_alone(plan: list[Node]) -> bool:
    """Whether the first row comes from the index in order: nothing is sorted, nothing else is read."""
    return [node["Node Type"] for node in plan] == ["Limit", "LockRows", "Index Scan"] and (
        plan[-1]["Index Name"] == "tasks_in_claim_order"
    )


def test_the_index_serves_the_claim_with_fresh_and_stale_statistics(finished: None, autocommit: Connection) -> None:
    statement = first_statement(lambda: claim_task(60))
    analyze = "ANALYZE backend_training.tasks"
    for what, preparation in [
        ("fresh, few tasks wait", analyze),
        ("stale: they say that few wait", MAKE_ACTIVE),
        ("fresh, many wait", analyze),
        ("stale: they say that many wait", FINISH_ACTIVE),
    ]:
        autocommit.execute(text(preparation))
        for mode in ("force_custom_plan", "force_generic_plan"):
            plan = plan_of(autocommit, statement, mode)
            assert uses_the_index_alone(plan), f"{what}, {mode}: {plan}"


def test_a_claim_that_psycopg_has_prepared_still_uses_the_index(finished: None, autocommit: Connection) -> None:
    autocommit.execute(text(MAKE_ACTIVE))
    engine().dispose()  # so that the pool has one connection for all claims
    for _ in range(20):
        assert claim_task(60) is not None
    with engine().connect() as connection:
        prepared = connection.execute(
            text(
                "SELECT name, generic_plans + custom_plans AS runs FROM pg_prepared_statements "
                "WHERE statement LIKE '%SKIP LOCKED%' AND statement LIKE '%tasks.priority%'"
            )
        ).one()
        assert prepared.runs > 5, "long enough for a generic plan"
        found = connection.exec_driver_sql(f'EXPLAIN (FORMAT JSON) EXECUTE "{prepared.name}" (1)').scalar_one()
    assert uses_the_index_alone(list(steps(found[0]["Plan"])))


def test_with_statuses_as_parameters_a_generic_plan_would_not_use_it(finished: None, autocommit: Connection) -> None:
    """The trap that the literals avoid. If this test fails, PostgreSQL has learned something."""
    statement, values = first_statement(lambda: claim_task(60))
    statement = statement.replace("'pending'", "$2").replace("'processing'", "$3")
    with_parameters = statement, [*values, "'pending'", "'processing'"]
    assert uses_the_index_alone(plan_of(autocommit, with_parameters, "force_custom_plan"))
    plan = plan_of(autocommit, with_parameters, "force_generic_plan")
    assert "Seq Scan" in [node["Node Type"] for node in plan]


def test_tasks_that_are_done_are_not_in_the_index(finished: None, autocommit: Connection) -> None:
    autocommit.execute(text(MAKE_ACTIVE))
    autocommit.execute(text(FINISH_ACTIVE))
    autocommit.execute(text("UPDATE backend_training.tasks SET status = 'failed' WHERE id = 43"))
    autocommit.execute(text("VACUUM backend_training.tasks"))
    size = text("SELECT reltuples FROM pg_class WHERE oid = 'backend_training.tasks_in_claim_order'::regclass")
    assert autocommit.scalar(size) == 2  # tasks 42 and 44


def test_the_price_of_aging_is_that_each_claim_sorts_all_that_wait(finished: None, autocommit: Connection) -> None:
    autocommit.execute(text(MAKE_ACTIVE))
    statement = first_statement(lambda: claim_task(60, aging_seconds=10))
    plan = plan_of(autocommit, statement, "force_generic_plan")
    assert [node["Node Type"] for node in plan][:3] == ["Limit", "LockRows", "Sort"]
    assert plan[-1]["Index Name"] == "tasks_in_claim_order", "finished tasks are still not read"
