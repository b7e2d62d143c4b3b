"""PostgreSQL in Docker Compose: the service of this project's docker-compose.yml."""

import json
import shutil
import subprocess

import psycopg
from sqlalchemy import URL

from helpers.paths import ROOT
from helpers.servers.failures import Cause, cause_of, place
from helpers.servers.server import Server, ServerError, connect, lab_database, open_server

SERVICE = "db"
MARK = "task42-compose"  # docker-compose.yml sets it as cluster_name
PROBE_SECONDS = 5
UP_SECONDS = 600  # the first time downloads the image

# What a user may read.
NOT_INSTALLED = "the docker command is not installed"
NO_ENGINE = "the engine does not answer"
NO_COMPOSE = "docker compose (version 2) is missing"
UP_FAILED = "docker compose could not start PostgreSQL: {words}"
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


def why_not() -> str | None:
    """Why Docker Compose cannot be used here, or None if it can. Takes at most some seconds; starts nothing."""
    if shutil.which("docker") is None:
        return NOT_INSTALLED
    engine = _docker("version", "--format", "{{.Server.Version}}", seconds=PROBE_SECONDS)
    if engine is None or engine.returncode:
        return NO_ENGINE
    compose = _docker("compose", "version", "--short", seconds=PROBE_SECONDS)
    if compose is None or compose.returncode or compose.stdout.strip().lstrip("v").startswith("1."):
        return NO_COMPOSE
    return None


def find() -> Server:
    """The server of the running service. Raises ServerError: another PostgreSQL, or no log-in."""
    url = _url()
    _check_identity(url)
    return open_server("docker", url, require_auth="scram-sha-256")


def start() -> None:
    """`docker compose up`, until the health check passes. Raises ServerError with Docker's last words."""
    up = _compose("up", "-d", "--wait", SERVICE, seconds=UP_SECONDS)
    if up is None:
        raise ServerError(UP_FAILED.format(words=f"no end after {UP_SECONDS} s"))
    if up.returncode:
        words = _last_words(up)
        taken = "port is already allocated" in up.stderr or "address already in use" in up.stderr
        raise ServerError((PORT_TAKEN if taken else UP_FAILED).format(words=words))


def stop() -> str | None:
    """Stop the service if it runs; its volume stays. Returns what was stopped, or None."""
    if why_not():
        return None
    running = _compose("ps", "--services", "--status", "running", seconds=PROBE_SECONDS)
    if running is None or running.returncode or SERVICE not in running.stdout.split():
        return None
    stopped = _compose("stop", SERVICE, seconds=60)
    if stopped is None or stopped.returncode:
        raise ServerError(f"docker compose could not stop PostgreSQL: {_last_words(stopped)}")
    return STOPPED


def _url() -> URL:
    """Host, port, user and password as Compose resolves them, from .env and the environment."""
    config = _compose("config", "--format", "json", seconds=PROBE_SECONDS)
    if config is None or config.returncode:
        raise ServerError(UP_FAILED.format(words=_last_words(config)))
    service = json.loads(config.stdout)["services"][SERVICE]
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


def _compose(*arguments: str, seconds: float) -> subprocess.CompletedProcess[str] | None:
    # The file by name, so that COMPOSE_FILE in somebody's environment cannot put another one in its place.
    return _docker("compose", "--file", "docker-compose.yml", *arguments, seconds=seconds)


def _docker(*arguments: str, seconds: float) -> subprocess.CompletedProcess[str] | None:
    """Run docker in the project's folder. None: it did not end in time, or could not be run at all."""
    try:
        return subprocess.run(
            ["docker", *arguments],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=seconds,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def _last_words(result: subprocess.CompletedProcess[str] | None) -> str:
    lines = (result.stderr or result.stdout).strip().splitlines() if result else []
    return " ".join(line.strip() for line in lines[-3:]) or "it did not answer"
