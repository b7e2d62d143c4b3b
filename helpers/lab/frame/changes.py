"""Runs a script and shows what it changed: in the schema, and in the rows of `tasks`."""

from IPython.display import display
from sqlalchemy import Connection, text

from helpers import scripts
from helpers.db import engine
from helpers.diagnosis import readable_errors
from helpers.lab.actors.leftovers import end_leftovers
from helpers.views import Table

TEXTS = {
    "changed": "{script} ran. It changed:",
    "same": "{script} ran. The schema and the rows of tasks are as they were before.",
    "notice": "PostgreSQL says: {notice}",
    "task": "task #{id}",
    "absent": "(none)",
    "set": "(set)",
}
COLUMNS = ["what", "before", "after"]

SCHEMA_PARTS = """
    SELECT 'column ' || table_name || '.' || column_name,
           data_type || CASE is_nullable WHEN 'NO' THEN ' NOT NULL' ELSE '' END
               || coalesce(' DEFAULT ' || column_default, '')
    FROM information_schema.columns WHERE table_schema = 'backend_training'
    UNION ALL
    SELECT 'constraint ' || conname, pg_get_constraintdef(oid)
    FROM pg_constraint WHERE connamespace = to_regnamespace('backend_training') AND contype <> 'n'
    UNION ALL
    SELECT 'index ' || indexname, indexdef FROM pg_indexes WHERE schemaname = 'backend_training'
    ORDER BY 1
"""
ROWS = "SELECT to_jsonb(t) AS task FROM backend_training.tasks AS t ORDER BY id LIMIT 20"


def run_script(name: str) -> None:
    """Run a script of `lab_sql/` and show what it changed.

    Workers and sessions of this notebook are ended first, since a migration needs the table for itself.
    Raises LabError where the script refuses the database, or another session holds a lock on the tables.
    """
    end_leftovers()
    with readable_errors(), engine().connect() as connection:
        before = _snapshot(connection)
        connection.rollback()  # our own reading must not hold a lock on the tables either
        notices = scripts.run_script(name)
        after = _snapshot(connection)

    changes = [
        [what, *_difference(before.get(what, {}), after.get(what, {}))]
        for what in sorted(before.keys() | after.keys())
        if before.get(what) != after.get(what)
    ]
    print(TEXTS["changed" if changes else "same"].format(script=name))
    for notice in notices:
        print(TEXTS["notice"].format(notice=notice))
    if changes:
        display(Table(COLUMNS, changes))


Part = dict[str, str]  # a part of the schema under the key "", or a row's columns under their names


def _snapshot(connection: Connection) -> dict[str, Part]:
    parts = {what: {"": state} for what, state in connection.execute(text(SCHEMA_PARTS))}
    if "column tasks.id" in parts:
        for task in connection.scalars(text(ROWS)):
            parts[TEXTS["task"].format(id=task["id"])] = {name: _shown(name, task[name]) for name in task}
    return parts


def _shown(column: str, value: object) -> str:
    """A value as text; a time only as set or not, since it differs from run to run."""
    if value is None:
        return "NULL"
    return TEXTS["set"] if column.endswith(("_until", "_at")) else str(value)


def _difference(before: Part, after: Part) -> tuple[str, str]:
    """What stands on one side only: `status=processing` and `status=pending`."""

    def words(part: Part, other: Part) -> str:
        differing = [f"{name}={value}" if name else value for name, value in part.items() if other.get(name) != value]
        return " ".join(differing) or TEXTS["absent"]

    return words(before, after), words(after, before)
