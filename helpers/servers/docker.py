"""PostgreSQL in Docker Compose: the service of this project's docker-compose.yml."""

import json
import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import CompletedProcess
from typing import Any

import psycopg
from filelock import FileLock, Timeout
from sqlalchemy import URL

from helpers.paths import ROOT, lab_home
from helpers.servers.command import run
from helpers.servers.failures import Cause, cause_of, place
from helpers.servers.server import Server, ServerError, connect, lab_database, open_server

SERVICE = "db"
MARK = "task42-compose"  # docker-compose.yml sets it as cluster_name
PROBE_SECONDS = 5  # whether there is an engine
ASK_SECONDS = 30  # a question to an engine that has answered before
PULL_SECONDS = 1800  # the download of the image
START_SECONDS = 120  # until the health check passes; the first time the server makes its files
STOP_SECONDS = 60
LOCK_SECONDS = PULL_SECONDS + START_SECONDS + STOP_SECONDS

log = logging.getLogger(__name__)

# What a user may read.
NOT_INSTALLED = "the docker command is not installed"
NO_ENGINE = "the engine does not answer"
NO_RIGHT = "the engine does not admit this user (on Linux, members of the group docker may use it)"
NO_COMPOSE = "docker compose (version 2) is missing"
DOWNLOAD = "Docker downloads the image %s. That happens once and may take some minutes."
UP_FAILED = "docker compose could not start PostgreSQL: {words}"
UP_ENDLESS = "it was not ready after {seconds} s"
LAST_LOG = "{words} (the server's log ends: {log})"
STOP_FAILED = "docker compose could not stop PostgreSQL: {words}"
SILENT = "the engine stopped answering"
BUSY = "Another process has held {lock} for {seconds} s to start or stop the PostgreSQL of Docker Compose. Try again."
NO_LOCK = "The lab cannot write {path}: {reason}. Mend that, or set LAB_HOME to another folder."
PORT_TAKEN = (
    "Another program has the port that docker-compose.yml publishes. Put LAB_DB_PORT=PORT with a free port into .env. "
    "Docker says: {words}"
)
NOT_THE_LABS = (
    "Another PostgreSQL answers at {place}, and it was left alone. Put LAB_DB_PORT=PORT with a free port into .env."
)
OLD_PASSWORD = (
    "The PostgreSQL of Docker Compose at {place} refuses the password. An existing volume keeps the password it was "
    "made with, whatever .env says now. Put the old LAB_DB_PASSWORD back into .env, or delete the volume with all its "
    "rows: docker compose down -v"
)
STOPPED = "Stopped the PostgreSQL of Docker Compose."

# What Docker says, which it says in English alone. The last of each is Windows'.
REFUSALS = ("permission denied while trying to connect", "access is denied")
PORT_SIGNS = ("port is already allocated", "address already in use", "ports are not available")


def why_not() -> str | None:
    """Why Docker Compose cannot be used here, or None if it can. Takes at most some seconds; starts nothing."""
    if shutil.which("docker") is None:
        return NOT_INSTALLED
    engine = _docker("version", "--format", "{{.Server.Version}}", seconds=PROBE_SECONDS)
    if engine is None or engine.returncode:
        return NO_RIGHT if engine and _says(engine, *REFUSALS) else NO_ENGINE
    compose = _docker("compose", "version", "--short", seconds=PROBE_SECONDS)
    if compose is None or compose.returncode or compose.stdout.strip().lstrip("v").startswith("1."):
        return NO_COMPOSE
    return None


def find() -> Server:
    """The server of the running service. Raises ServerError: another PostgreSQL, or no log-in."""
    url = _url(_service())
    _check_identity(url)
    return open_server("docker", url, require_auth="scram-sha-256")


def start() -> None:
    """`docker compose up`, until the health check passes. Raises ServerError with Docker's last words.

    Any number of processes may call this at once: one starts the service, the others find it started.
    """
    with _one_at_a_time():
        _download()
        up = _compose("up", "-d", "--wait", SERVICE, seconds=START_SECONDS)
        if up and not up.returncode:
            return
        if up and _says(up, *PORT_SIGNS):
            raise ServerError(PORT_TAKEN.format(words=_last_words(up)))
        words = _last_words(up) if up else UP_ENDLESS.format(seconds=START_SECONDS)
        logs = _compose("logs", "--no-log-prefix", "--tail", "3", SERVICE, seconds=ASK_SECONDS)
        if logs is None:
            words = SILENT
        elif not logs.returncode and logs.stdout.strip():
            words = LAST_LOG.format(words=words, log=_last_words(logs))
        raise ServerError(UP_FAILED.format(words=words))


def stop() -> str | None:
    """Stop the service if it runs; its volume stays. Returns what was stopped, or None. Raises ServerError."""
    if why_not():
        return None
    running = _compose("ps", "--services", "--status", "running", seconds=ASK_SECONDS)
    if running is None or running.returncode:
        raise ServerError(STOP_FAILED.format(words=_last_words(running)))
    if SERVICE not in running.stdout.split():
        return None
    with _one_at_a_time():
        stopped = _compose("stop", SERVICE, seconds=STOP_SECONDS)
    if stopped is None or stopped.returncode:
        raise ServerError(STOP_FAILED.format(words=_last_words(stopped)))
    return STOPPED


def _download() -> None:
    """Fetch the image unless it is here, with a time limit of its own: a network is slower than any start."""
    image = _service()["image"]
    found = _docker("image", "inspect", image, seconds=ASK_SECONDS)
    if found and found.returncode:
        log.warning(DOWNLOAD, image)
        pulled = _compose("pull", SERVICE, seconds=PULL_SECONDS)
        if pulled is None or pulled.returncode:
            raise ServerError(UP_FAILED.format(words=_last_words(pulled)))


def _service() -> dict[str, Any]:
    """The service as Compose resolves it, from docker-compose.yml, .env and the environment. Raises ServerError."""
    config = _compose("config", "--format", "json", seconds=ASK_SECONDS)
    if config is None or config.returncode:
        raise ServerError(UP_FAILED.format(words=_last_words(config)))
    service: dict[str, Any] = json.loads(config.stdout)["services"][SERVICE]
    return service


def _url(service: dict[str, Any]) -> URL:
    environment, port = service["environment"], service["ports"][0]
    return URL.create(
        "postgresql+psycopg",
        username=environment["POSTGRES_USER"],
        password=environment["POSTGRES_PASSWORD"].replace("$$", "$"),  # Compose prints a $ doubled
        host=port["host_ip"],
        port=int(port["published"]),
        database=lab_database(),
    )


def _check_identity(url: URL) -> None:
    """Raise ServerError unless the lab's own server answers at `url`."""
    try:
        with connect(url.set(database="postgres"), require_auth="scram-sha-256") as connection:
            row = connection.execute("SELECT current_setting('cluster_name')").fetchone()
    except psycopg.OperationalError as error:
        if cause_of(error) is Cause.PASSWORD:
            raise ServerError(OLD_PASSWORD.format(place=place(url))) from None
        if cause_of(error) is not Cause.NOT_THE_LABS:
            return  # open_server meets the same failure and words it
        row = None
    if row != (MARK,):
        raise ServerError(NOT_THE_LABS.format(place=place(url)))


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Let one process at a time start or stop the service: two `up` at once make two networks of one name."""
    try:
        lock = lab_home() / "docker.lock"
        with FileLock(lock, timeout=LOCK_SECONDS):
            yield
    except Timeout as error:
        raise ServerError(BUSY.format(seconds=LOCK_SECONDS, lock=error.lock_file)) from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ServerError(NO_LOCK.format(path=error.filename, reason=reason)) from None


def _compose(*arguments: str, seconds: float) -> CompletedProcess[str] | None:
    # The file by name, so that COMPOSE_FILE in somebody's environment cannot put another one in its place.
    return _docker("compose", "--file", "docker-compose.yml", *arguments, seconds=seconds)


def _docker(*arguments: str, seconds: float) -> CompletedProcess[str] | None:
    """Run docker in the project's folder. None: it did not end in time, or could not be run at all."""
    return run(["docker", *arguments], ROOT, seconds)


def _says(result: CompletedProcess[str], *signs: str) -> bool:
    return any(sign in result.stderr.lower() for sign in signs)


def _last_words(result: CompletedProcess[str] | None) -> str:
    lines = (result.stderr or result.stdout).rstrip().splitlines() if result else []
    told = [line for line in lines if not line.startswith(" ")] or lines  # Compose indents what is mere progress
    return " ".join(line.strip() for line in told[-3:]) or SILENT
