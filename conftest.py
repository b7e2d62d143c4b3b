"""Gives every test, and every kernel and worker that a test starts, a database of its own."""

import os
import shutil
import tempfile

import pytest

from helpers.inherited import restore

restore()  # tests interrupt themselves and end what they start; and pytest may have been called without the command

_interrupted = False

LEASE_SECONDS = "4"  # short, for a notebook waits three leases; long enough for a busy machine


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
    """Before anything is collected: notebook cells get no fixtures, only the environment."""
    from helpers.servers import ServerError, find_server

    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None and config.getoption("numprocesses", None):
        return  # this process only hands out the work
    os.environ["LAB_DATABASE"] = "backend_training_lab_test" + (f"_{worker}" if worker else "")
    try:
        url = find_server().url
    except ServerError as error:
        pytest.exit(str(error), returncode=1)
    os.environ["DATABASE_URL"] = url.render_as_string(hide_password=False)
    os.environ["LAB_SERVER"] = "url"  # kernels and workers use this server, and search for no other
    os.environ["LAB_HOME"] = tempfile.mkdtemp(prefix="task42-test-")
    os.environ.setdefault("LAB_LEASE_SECONDS", LEASE_SECONDS)


def pytest_keyboard_interrupt(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """Tell Ctrl-C from the other ends of a run for which pytest has the same exit code, such as `-x`."""
    global _interrupted
    _interrupted = excinfo.type is KeyboardInterrupt


def pytest_sessionfinish(session: pytest.Session) -> None:
    """After Ctrl-C the exit code is that of all commands. (A worker's is a message to pytest-xdist.)"""
    if _interrupted and not hasattr(session.config, "workerinput"):
        session.exitstatus = 130


def pytest_unconfigure() -> None:
    home = os.environ.get("LAB_HOME", "")
    if "task42-test-" in home:
        shutil.rmtree(home, ignore_errors=True)
