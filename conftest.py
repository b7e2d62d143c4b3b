"""Gives every test, and every kernel and worker that a test starts, a database of its own.

The server is somebody's: a lesson may be open on it. LAB_HOME and COMPOSE_PROJECT_NAME lead whatever a test stops to
servers of the tests alone, and the run fails where the found server is not the same process afterwards.
"""

import os
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from sqlalchemy import URL

from helpers.inherited import restore

restore()  # tests interrupt themselves and end what they start; and pytest may have been called without the command

_interrupted = False

LEASE_SECONDS = "4"  # short, for a notebook waits three leases; long enough for a busy machine
DATABASE = "backend_training_lab_test"
COMPOSE = ("compose", "--file", "docker-compose.yml")
STARTED = "{{.Name}}, started {{.State.StartedAt}}"
ASK_SECONDS = 30

HOME = pytest.StashKey[str]()
URL_FOUND = pytest.StashKey[URL]()
OUTSIDE = pytest.StashKey[dict[str, str]]()  # the environment as it was given
BEFORE = pytest.StashKey[dict[str, str]]()

# What a person reads.
THE_SERVER = "the server that was found"
THE_SERVICE = "the service of Docker Compose in this folder"
TOUCHED = "{what} is not the process that ran before the tests: a test stopped it, or somebody else did.\n{facts}"
FACTS = "before: {before}\nafter:  {after}"
NOTHING = "none runs"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--thorough", action="store_true", help="run the tests marked thorough, too: half an hour more")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked `thorough`, unless it is asked for."""
    if config.getoption("thorough"):
        return
    left_out = [item for item in items if item.get_closest_marker("thorough")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def pytest_configure(config: pytest.Config) -> None:
    """Before anything is collected: notebook cells get no fixtures, only the environment.

    The first process finds the server, once; those that pytest-xdist starts inherit it, and take a database each.
    """
    from helpers import surroundings
    from helpers.paths import ROOT

    surroundings.settle_python(ROOT)
    os.environ.pop("PYTHONIOENCODING", None)  # pytest's own processes talk in pipes
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None:
        config.stash[OUTSIDE] = dict(os.environ)
        config.stash[URL_FOUND] = _use(DATABASE)
        config.stash[BEFORE] = _who_runs(config)
        if config.getoption("numprocesses", None):
            return  # this process only hands out the work
    else:
        _use(f"{DATABASE}_{worker}")
    config.stash[HOME] = os.environ["LAB_HOME"] = tempfile.mkdtemp(prefix="task42-test-")
    surroundings.settle_folders(Path(os.environ["LAB_HOME"]))
    os.environ["COMPOSE_PROJECT_NAME"] = f"task42-test-{secrets.token_hex(4)}"
    os.environ.setdefault("LAB_LEASE_SECONDS", LEASE_SECONDS)


def pytest_unconfigure(config: pytest.Config) -> None:
    if home := config.stash.get(HOME, None):
        shutil.rmtree(home, ignore_errors=True)


def pytest_keyboard_interrupt(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """Tell Ctrl-C from the other ends of a run for which pytest has the same exit code, such as `-x`."""
    global _interrupted
    _interrupted = excinfo.type is KeyboardInterrupt


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """In the first process, after all tests: what ran before them must still run, and never have been restarted.

    After Ctrl-C the exit code is that of all commands. (A worker's is a message to pytest-xdist.)
    """
    before = session.config.stash.get(BEFORE, {})
    after = _who_runs(session.config) if before else {}
    for what in before:
        if before[what] not in (after[what], NOTHING):
            facts = FACTS.format(before=before[what], after=after[what])
            report = pytest.TestReport(
                nodeid=f"conftest.py::{what}",
                location=("conftest.py", None, what),
                keywords={},
                outcome="failed",
                longrepr=TOUCHED.format(what=what, facts=facts),
                when="teardown",
            )
            session.config.hook.pytest_runtest_logreport(report=report)
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if _interrupted and not hasattr(session.config, "workerinput"):
        session.exitstatus = 130


def _use(database: str) -> URL:
    """Find the server and lead this process and all its children to it."""
    from helpers.servers import ServerError, find_server

    os.environ["LAB_DATABASE"] = database
    try:
        url = find_server().url
    except ServerError as error:
        pytest.exit(str(error), returncode=1)
    os.environ["DATABASE_URL"] = url.render_as_string(hide_password=False)
    os.environ["LAB_SERVER"] = "url"  # kernels and workers use this server, and search for no other
    return url


def _who_runs(config: pytest.Config) -> dict[str, str]:
    """When the found server was started, and which container of the folder's service runs since when."""
    return {THE_SERVER: _start_of(config.stash[URL_FOUND]), THE_SERVICE: _container(config.stash[OUTSIDE])}


def _start_of(url: URL) -> str:
    import psycopg

    from helpers.servers.failures import connection_failure, place
    from helpers.servers.server import connect

    try:
        with connect(url) as connection:
            row = connection.execute("SELECT pg_postmaster_start_time()").fetchone()
    except psycopg.Error as error:
        return connection_failure(error, url)
    return f"{place(url)}, started {row[0] if row else ''}"


def _container(environment: dict[str, str]) -> str:
    running = _docker(environment, *COMPOSE, "ps", "--quiet", "--status", "running", "db").split()
    return _docker(environment, "inspect", "--format", STARTED, *running) if running else NOTHING


def _docker(environment: dict[str, str], *arguments: str) -> str:
    """What docker says; nothing where it fails, as without an engine or a service."""
    folder = Path(__file__).parent
    try:
        result = subprocess.run(
            ["docker", *arguments], cwd=folder, env=environment, capture_output=True, check=True, timeout=ASK_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return result.stdout.decode(errors="replace").strip()
