"""Reads and changes rows of `tasks`, past the functions that are tested."""

from typing import Any

from sqlalchemy import text

from helpers.db import engine


def stored(task_id: int = 42) -> dict[str, Any]:
    """The whole row as it is committed now."""
    with engine().connect() as connection:
        sql = text("SELECT * FROM backend_training.tasks WHERE id = :id")
        return dict(connection.execute(sql, {"id": task_id}).mappings().one())


def change(what: str, *ids: int) -> None:
    """Set columns of these tasks (of #42, where none is named) and commit. `what` is the test's own text."""
    with engine().begin() as connection:
        sql = text(f"UPDATE backend_training.tasks SET {what} WHERE id = ANY (:ids)")
        connection.execute(sql, {"ids": list(ids) or [42]})
