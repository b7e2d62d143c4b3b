"""Runs a script that makes rows, and says how many there are instead of showing each."""

from helpers import scripts
from helpers.db import engine
from helpers.diagnosis import readable_errors
from helpers.lab.actors.leftovers import end_leftovers
from helpers.lab.frame.facts import query

TEXTS = {"loaded": "{script} ran. Pending tasks: {counts}."}

COUNTS = """
    SELECT priority, count(*) FROM backend_training.tasks WHERE status = 'pending' GROUP BY priority ORDER BY priority
"""


def load(script: str) -> None:
    """Run a script of `lab_sql/` and print how many tasks of each priority are pending then (lessons 7 and 8).

    Workers and sessions of this notebook are ended first.
    Raises LabError where the script refuses the database, or another session holds a lock on the tables.
    """
    end_leftovers()
    with readable_errors():
        scripts.run_script(script)
    engine().dispose()  # a session keeps plans for statements, and they are for the rows of before
    counts = ", ".join(f"{count} {priority}" for priority, count in query(COUNTS).itertuples(index=False))
    print(TEXTS["loaded"].format(script=script, counts=counts))
