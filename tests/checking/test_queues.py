"""Made queues: what is free in them, what a table shows of them, and what the planner does with them."""

from sqlalchemy import text

from helpers.checking.queues import STATES, Made, made, made_behind_the_planner
from helpers.db import engine
from helpers.exercises.aging.checks import THREE
from helpers.lab import rebuild
from helpers.repository import batch


def put(sql: str) -> None:
    with engine().begin() as connection:
        for statement in sql.split(";"):
            connection.exec_driver_sql(statement)


def test_a_made_task_is_free_or_spent_as_its_row_says() -> None:
    rebuild(9)
    put(made(STATES))
    free = {task["id"] for task in batch.claim_batch(99, {}, 60)}
    with engine().connect() as connection:
        failed = connection.scalars(
            text("SELECT id FROM backend_training.tasks WHERE last_error IS NOT NULL AND status = 'failed'")
        ).all()
    assert free == {task.id for task in STATES if task.free}
    assert set(failed) == {task.id for task in STATES if task.spent}


def test_a_made_task_says_what_decides_about_it() -> None:
    task = Made(7, "LOW", 30, "processing", 1, lease=-5, retry=60)
    assert task.shown() == {
        "id": "7",
        "priority": "LOW",
        "status": "processing",
        "created": "30 s ago",
        "attempts": "1 of 3",
        "lease": "-5 s",
        "retry": "in 60 s",
    }


def test_with_the_statistics_of_one_row_a_limit_under_in_takes_more_rows_than_it_says() -> None:
    """What both exercises rely on. If this test fails, PostgreSQL has learned something."""
    rebuild(8)
    claim = text("""
        UPDATE backend_training.tasks SET status = 'processing' WHERE id IN (
            SELECT id FROM backend_training.tasks WHERE status = 'pending'
            ORDER BY priority, created_at + interval '1 second', id LIMIT 1 FOR UPDATE SKIP LOCKED)
    """)
    put(made_behind_the_planner(THREE))
    with engine().begin() as connection:
        assert connection.execute(claim).rowcount == 3
