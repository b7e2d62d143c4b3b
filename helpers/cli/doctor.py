"""`doctor`: what the lab needs, one line each, and what mends it. Installs nothing; works without an environment."""

import importlib
import importlib.util
import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from helpers import bootstrap, surroundings
from helpers.cli.check import Check
from helpers.cli.oddities import oddities, unheard
from helpers.errors import LabError
from helpers.paths import lab_folder

if TYPE_CHECKING:
    import psycopg

    from helpers.servers import Server

NEEDED_MB, NEEDED_MB_FIRST = 200, 1500  # with the environment, and before it
CLOCK_SECONDS = 5  # between two machines on one network; on one machine there is no difference
IDLE_SECONDS = 2  # every transaction is idle for a moment between two statements

# What a person reads.
MARKS = {True: "✓", False: "✗", None: "–"}
ASCII_MARKS = {True: "ok", False: "X ", None: "- "}
LINE = "{mark} {text}"
CURE = " To mend it: {cure}"
ALL_WELL = "Everything is in order."
TO_MEND = "{count} to mend."
PYTHON = "Python {version} ({path})"
ENVIRONMENT = "environment complete ({path})"
NO_ENVIRONMENT = "The environment is missing."
INCOMPLETE = "The environment in {folder} is not complete, or older than the requirements."
NEEDS_ENVIRONMENT = "not checked without the environment: packages, PostgreSQL, database, workers, sessions"
DISK = "{free} MB of disk space free"
NO_DISK = "Only {free} MB of disk space are free, and {needed} MB are needed."
CURE_DISK = "free some space on the disk that holds {folder}"
NO_JUPYTER = "JupyterLab cannot be imported: {error}."
URL_UNSET = "DATABASE_URL is not set, which is fine"
URL_SET = "DATABASE_URL is set"
URL_VALID = "DATABASE_URL can be read: {url}"
CURE_URL = "set DATABASE_URL as said, or unset it to use Docker Compose or the embedded PostgreSQL"
DOCKER = "Docker Compose can be used"
NO_DOCKER = "Docker Compose is not used: {why}, which is fine"
DOCKER_WANTED = "Docker Compose was asked for (LAB_SERVER): {why}."
CURE_DOCKER = "start Docker, or use --server embedded"
NO_DOCKER_COMMAND = "the docker command is not installed"
DOCKER_COMMAND = "docker command present ({path})"
BINARIES = "embedded PostgreSQL installed"
NO_BINARIES = "The programs of the embedded PostgreSQL are missing."
CURE_BINARIES = "delete the folder .venv and run: {command} lab"
ANSWERS = "{server} (it is started where none runs)"
CURE_SERVER = "do what the sentence says; {command} stop ends a server that hangs"
SCHEMA = "tables as lesson {lesson} leaves them, {tasks} tasks"
SCHEMA_BASE = "tables as the course begins, {tasks} tasks"
NO_SCHEMA = "no tables yet; the first cell of each notebook makes them"
BAD_SCHEMA = "The lab's tables are not complete."
CURE_SCHEMA = "{command} reset"
NO_STRAYS = "no worker left behind"
CURE_STRAYS = "{command} stop"
NO_IDLE = "no session waits in an open transaction"
IDLE = 'The session "{name}" has been waiting in an open transaction for {seconds} s and may block others.'
CURE_IDLE = "COMMIT or ROLLBACK there, or restart its notebook's kernel, or end its program"
CLOCKS = "the server's clock and this machine's differ by {seconds} s, which is fine: the lab asks the server's alone"
UNNAMED = "without a name"

COLUMNS = """
    SELECT attname FROM pg_attribute
    WHERE attrelid = to_regclass('backend_training.tasks') AND attnum > 0 AND NOT attisdropped
"""
AHEAD = "SELECT (extract(epoch FROM clock_timestamp()) - %s)::int"
IDLE_SESSIONS = """
    SELECT application_name, extract(epoch FROM clock_timestamp() - state_change)::int
    FROM pg_stat_activity
    WHERE datname = current_database() AND state LIKE 'idle in transaction%%'
      AND clock_timestamp() - state_change > make_interval(secs => %s)
    ORDER BY state_change
"""


def run() -> int:
    """Print all checks; return 0 if all is well, else 1. Starts PostgreSQL where none runs."""
    marks, wrong = _marks(), 0
    for check in checks():
        text = check.text + (CURE.format(cure=check.cure.format(command=bootstrap.COMMAND)) if check.cure else "")
        print(LINE.format(mark=marks[check.well], text=text.replace("\n", "\n  ")), flush=True)
        wrong += check.well is False
    print(TO_MEND.format(count=wrong) if wrong else ALL_WELL)
    return 1 if wrong else 0


def checks() -> Iterator[Check]:
    """Yield the checks, the first causes first."""
    yield Check(True, PYTHON.format(version=sys.version.split()[0], path=sys.executable))
    ready = bootstrap.find_ready() == Path(sys.executable)
    yield _environment(ready)
    yield _disk(NEEDED_MB if ready else NEEDED_MB_FIRST)
    yield from oddities(bootstrap.ROOT, ready)
    if ready:
        yield from _with_environment()
    else:
        yield Check(True, URL_SET if os.environ.get("DATABASE_URL") else URL_UNSET)
        found = shutil.which("docker")
        yield Check(True, DOCKER_COMMAND.format(path=found) if found else NO_DOCKER.format(why=NO_DOCKER_COMMAND))
        yield Check(None, NEEDS_ENVIRONMENT)
    yield from unheard()


def _environment(ready: bool) -> Check:
    if ready:
        return Check(True, ENVIRONMENT.format(path=sys.prefix))
    folder = bootstrap.ROOT / ".venv"
    text = INCOMPLETE.format(folder=folder) if folder.exists() else NO_ENVIRONMENT
    return Check(False, text, "{command} lab")


def _disk(needed: int) -> Check:
    home = lab_folder()  # it may be on another disk, and is not always made yet
    folders = (bootstrap.ROOT, next(folder for folder in (home, *home.parents) if folder.is_dir()))
    free, folder = min((shutil.disk_usage(folder).free // 1_000_000, folder) for folder in folders)
    if free >= needed:
        return Check(True, DISK.format(free=free))
    return Check(False, NO_DISK.format(free=free, needed=needed), CURE_DISK.format(folder=folder))


def _with_environment() -> Iterator[Check]:
    from helpers.paths import lab_home
    from helpers.servers import find_server

    try:
        surroundings.settle_folders(lab_home())
    except LabError as error:
        yield Check(False, str(error))
        return
    yield _jupyter()
    yield _database_url()
    yield _docker()
    yield _binaries()
    try:
        server = find_server()
    except LabError as error:
        yield Check(False, str(error), CURE_SERVER)
    else:
        yield Check(True, ANSWERS.format(server=server.describe()))
        yield from _database(server)
    from helpers.lab import find_stray_workers

    strays = find_stray_workers()
    yield from (Check(False, line, CURE_STRAYS) for line in strays)
    if not strays:
        yield Check(True, NO_STRAYS)


def _jupyter() -> Check:
    try:
        version = importlib.import_module("jupyterlab").__version__
    except Exception as error:  # a broken package raises anything
        return Check(False, NO_JUPYTER.format(error=error), CURE_BINARIES)
    return Check(True, f"JupyterLab {version}")


def _database_url() -> Check:
    from helpers.servers import given
    from helpers.servers.server import check_name

    if not given.is_set():
        return Check(True, URL_UNSET)
    try:
        url = given.parse(os.environ["DATABASE_URL"])
        name = os.environ.get("LAB_DATABASE") or check_name(url.database or "", "DATABASE_URL")
    except LabError as error:
        return Check(False, str(error), CURE_URL)
    return Check(True, URL_VALID.format(url=url.set(database=name).render_as_string(hide_password=True)))


def _docker() -> Check:
    from helpers.servers import docker

    why = docker.why_not()
    if why is None:
        return Check(True, DOCKER)
    if os.environ.get("LAB_SERVER") == "docker":
        return Check(False, DOCKER_WANTED.format(why=why), CURE_DOCKER)
    return Check(True, NO_DOCKER.format(why=why))


def _binaries() -> Check:
    from helpers.servers.tools import PACKAGE, SUFFIX

    spec = importlib.util.find_spec(PACKAGE)
    programs = Path(spec.origin).parent / "pginstall" / "bin" if spec and spec.origin else Path()
    if all((programs / f"{name}{SUFFIX}").is_file() for name in ("initdb", "pg_ctl", "postgres")):
        return Check(True, BINARIES)
    return Check(False, NO_BINARIES, CURE_BINARIES)


def _database(server: "Server") -> Iterator[Check]:
    from helpers.servers.server import connect

    with closing(connect(server.url, application_name="doctor")) as connection:
        yield _schema(connection)
        idle = connection.execute(IDLE_SESSIONS, [IDLE_SECONDS]).fetchall()
        ahead = connection.execute(AHEAD, [time.time()]).fetchone()
    if ahead and abs(ahead[0]) > CLOCK_SECONDS:
        yield Check(None, CLOCKS.format(seconds=abs(ahead[0])))
    for name, seconds in idle:
        yield Check(False, IDLE.format(name=name or UNNAMED, seconds=seconds), CURE_IDLE)
    if not idle:
        yield Check(True, NO_IDLE)


def _schema(connection: "psycopg.Connection") -> Check:
    """Which lesson's migration was the last? Each one adds columns, so the columns tell."""
    from helpers.scripts import script_that_adds

    columns = [str(name) for (name,) in connection.execute(COLUMNS)]
    if not columns:
        return Check(True, NO_SCHEMA)
    if connection.execute("SELECT to_regclass('backend_training.task_events')").fetchone() == (None,):
        return Check(False, BAD_SCHEMA, CURE_SCHEMA)
    lesson = max(int((script_that_adds(name) or "00")[:2]) for name in columns)
    counted = connection.execute("SELECT count(*) FROM backend_training.tasks").fetchone()
    tasks = counted[0] if counted else 0
    return Check(True, (SCHEMA if lesson else SCHEMA_BASE).format(lesson=lesson, tasks=tasks))


def _marks() -> dict[bool | None, str]:
    try:
        "".join(MARKS.values()).encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return ASCII_MARKS
    return MARKS
