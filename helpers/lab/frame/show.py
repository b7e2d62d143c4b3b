"""Shows the tasks as a table, what happened to them as a timeline, and the code and the scripts as they stand."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import pandas as pd
from IPython.display import display
from sqlalchemy import text

from helpers import views
from helpers.db import engine
from helpers.diagnosis import readable_errors
from helpers.errors import LabError
from helpers.lab.frame.facts import query
from helpers.scripts import find_script

TEXTS = {
    "no_task": "There is no task #{id} in the table.",
    "guard": "-- (here stands the guard on the database's name)",
}
GUARD = re.compile(r"^DO \$guard\$.*?^\$guard\$;", re.DOTALL | re.MULTILINE)

WITHOUT_LEASE = "SELECT id, type, status FROM backend_training.tasks ORDER BY id"
WITH_LEASE = """
    SELECT id, type, status, attempts, lease_until <= clock_timestamp() AS lease_expired
    FROM backend_training.tasks ORDER BY id
"""
HAS_LEASE = """
    SELECT count(*) = 1 FROM information_schema.columns
    WHERE table_schema = 'backend_training' AND table_name = 'tasks' AND column_name = 'lease_until'
"""

# Up to now, but not far beyond the last thing that happened: who looks at the picture later sees the same.
SECONDS_TO_SHOW = text("""
    SELECT extract(epoch FROM least(clock_timestamp(), greatest(max(at), max(lease_until)) + interval '1 s')
                              - min(at))::float
    FROM backend_training.task_events
""")


def tasks() -> views.Table:
    """The rows of `tasks`. Since lesson 4 with the attempt number, and whether the lease has expired."""
    return views.task_table(_rows())


def task(task_id: int) -> dict[str, Any]:
    """One row of `tasks`, with the columns that `tasks` shows. Raises LabError where there is none."""
    for row in _rows().to_dict("records"):
        if row["id"] == task_id:
            return {str(column): value for column, value in row.items()}
    raise LabError(TEXTS["no_task"].format(id=task_id))


def timeline(*task_ids: int) -> None:
    """Show what happened since the last reset, from the ledger: a picture, and below it the same in words.

    Without `task_ids` it shows all tasks.
    """
    with readable_errors(), engine().connect() as connection:
        ledger = views.read_ledger(connection)
        now = connection.scalar(SECONDS_TO_SHOW)
    chart = views.timeline(ledger, list(task_ids) or None, until=now)
    data, metadata = chart._repr_mimebundle_()
    if "image/png" in data:  # an empty ledger gives no picture, only a sentence
        display({"image/png": data["image/png"]}, metadata=metadata, raw=True)
    print(chart.description)


def source(function: Callable[..., Any]) -> "Listing":
    """The code of a function, as it stands in its module."""
    return Listing(inspect.getsource(function), "python")


def script(name: str, guard: bool = True) -> "Listing":
    """A script of `lab_sql/`, as it stands; with `guard=False` without the lines that check the database's name.

    Raises LabError where there is none of that name.
    """
    code = find_script(name).read_text(encoding="utf-8")
    if not guard:
        code = GUARD.sub(TEXTS["guard"], code)
    return Listing(code, "sql")


class Listing:
    """Code for a reader: coloured where Markdown is shown, else plain."""

    def __init__(self, code: str, language: str) -> None:
        self.code = code.strip("\n")
        self.language = language

    def __repr__(self) -> str:
        return self.code

    def _repr_markdown_(self) -> str:
        return f"```{self.language}\n{self.code}\n```"


def _rows() -> pd.DataFrame:
    has_lease = query(HAS_LEASE).iat[0, 0]
    return query(WITH_LEASE if has_lease else WITHOUT_LEASE)
