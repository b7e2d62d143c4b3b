"""Runs the SQL scripts of `lab_sql/`, as they stand, on the lab's database.

The guard on the database's name is in each script, so that it holds in psql and DBeaver too.
"""

import re
from pathlib import Path

import psycopg
from psycopg.errors import LockNotAvailable, RaiseException

from helpers.db import database_url, engine
from helpers.errors import LabError
from helpers.paths import LAB_SQL
from helpers.servers import connection_failure

TEXTS = {
    "no_folder": "Lesson {lesson} has no scripts in lab_sql/.",
    "unknown": 'There is no script "{name}". The scripts are: {known}.',
    "locked": (
        "The script {script} gave up and changed nothing: another session holds a lock on the lab's tables. "
        "It is {holders}. "
        "End that session (its COMMIT, ROLLBACK, or the end of its program), then run the script again."
    ),
    "holder": '"{name}" (server process {pid}, {state}, transaction open for {seconds:.0f} s)',
    "holder_gone": "already gone",
}

HOLDERS = """
    SELECT DISTINCT a.application_name, a.pid, a.state,
           extract(epoch FROM clock_timestamp() - a.xact_start)::float AS seconds
    FROM pg_locks AS l
    JOIN pg_stat_activity AS a USING (pid)
    JOIN pg_class AS c ON c.oid = l.relation
    WHERE l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND c.relnamespace = to_regnamespace('backend_training')
      AND l.granted AND a.pid <> pg_backend_pid()
    ORDER BY a.pid
"""


def find_script(name: str) -> Path:
    """The script's path from its name: `04_lease_and_attempts/01_migrate.sql`.

    Raises LabError, which lists the scripts, where there is none of that name.
    """
    known = {path.relative_to(LAB_SQL).as_posix(): path for path in sorted(LAB_SQL.glob("*/*.sql"))}
    if name not in known:
        raise LabError(TEXTS["unknown"].format(name=name, known=", ".join(known)))
    return known[name]


def lesson_folder(lesson: int) -> str:
    """The name of the lesson's folder in `lab_sql/`. Raises LabError where the lesson has none."""
    for folder in LAB_SQL.glob(f"{lesson:02}_*"):
        return folder.name
    raise LabError(TEXTS["no_folder"].format(lesson=lesson))


def migrations_before(lesson: int) -> list[str]:
    """The names of the migrations that lead to the state in which `lesson` begins, in order."""
    migrations = sorted(LAB_SQL.glob("*/01_migrate.sql"))
    return [p.relative_to(LAB_SQL).as_posix() for p in migrations if int(p.parent.name[:2]) < lesson]


def script_that_adds(name: str) -> str | None:
    """The first script that makes a schema, table, type or column called `name`, or None."""
    for path in sorted(LAB_SQL.glob("*/*.sql")):
        if re.search(rf"(IF NOT EXISTS|CREATE TYPE) (\w+\.)?{re.escape(name)}\b", path.read_text(encoding="utf-8")):
            return path.relative_to(LAB_SQL).as_posix()
    return None


def run_script(name: str) -> list[str]:
    """Run one script and return the server's notices ("column … already exists, skipping").

    Raises LabError where the script refuses the database, or gives up behind somebody's lock:
    in both cases nothing was changed. So it does where the server goes away or its disk is full.
    """
    sql = find_script(name).read_text(encoding="utf-8")
    notices: list[str] = []
    with engine().connect() as connection:
        driver: psycopg.Connection = connection.connection.driver_connection  # type: ignore[assignment]
        driver.set_autocommit(True)  # BEGIN and COMMIT stand in the script

        def note(diagnostic: psycopg.errors.Diagnostic) -> None:
            notices.append(diagnostic.message_primary or "")

        driver.add_notice_handler(note)
        try:
            driver.execute(sql.encode())
        except RaiseException as refusal:
            raise LabError(f"{refusal.diag.message_primary} {refusal.diag.message_hint or ''}") from None
        except LockNotAvailable:
            driver.rollback()
            raise LabError(TEXTS["locked"].format(script=name, holders=_holders(driver))) from None
        except psycopg.OperationalError as error:  # the server went away, or its disk is full
            raise LabError(connection_failure(error, database_url())) from None
        finally:
            driver.remove_notice_handler(note)
            if driver.closed:
                connection.invalidate()  # the server has ended it: the pool is not to have it back
            else:
                driver.rollback()
                driver.set_autocommit(False)
    return notices


def _holders(driver: psycopg.Connection) -> str:
    rows = driver.execute(HOLDERS).fetchall()
    sentences = [
        TEXTS["holder"].format(name=name, pid=pid, state=state, seconds=seconds or 0.0)
        for name, pid, state, seconds in rows
    ]
    return " and ".join(sentences) or TEXTS["holder_gone"]
