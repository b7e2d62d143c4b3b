"""Docker Compose on a real engine: what only an engine can show. Each test has a Compose project of its own."""

import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import psutil
import pytest

from helpers.servers import Server, ServerError, docker, find_server, stop_server
from helpers.servers.server import connect

from .conftest import ROOT
from .relay import Relay, engine_socket
from .test_rule import GOOD, run_tests

SHORT_SECONDS = 5  # a limit that is to be met
STARTERS = 5
Eventually = Callable[[Callable[[], object]], None]


def ask(*command: str, **environment: str) -> str:
    """Run docker and return what it prints. It must succeed."""
    result = subprocess.run(
        ["docker", *command], cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def compose(*command: str, **environment: str) -> str:
    return ask("compose", "--file", "docker-compose.yml", *command, **environment)


@pytest.fixture(scope="module")
def engine() -> None:
    """Skips the test where no engine answers, or where it would have to download the image."""
    if reason := docker.why_not():
        pytest.skip(f"Docker Compose cannot be used: {reason}")
    image = docker._service()["image"]
    if docker._docker("image", "inspect", image, seconds=docker.ASK_SECONDS).returncode:  # type: ignore[union-attr]
        pytest.skip(f"the engine has no image {image}: docker compose pull")


@pytest.fixture
def project(engine: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a Compose project with a port, a password and a volume of its own, of which nothing is left."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        monkeypatch.setenv("LAB_DB_PORT", str(probe.getsockname()[1]))
    monkeypatch.setenv("LAB_DB_PASSWORD", f"a$b c'{secrets.token_hex(4)}")
    given = dict(os.environ)
    yield given["COMPOSE_PROJECT_NAME"]
    compose("down", "--volumes", "--timeout", "0", **given)


def one(server: Server, query: str) -> object:
    with connect(server.url) as connection:
        row = connection.execute(query).fetchone()
        return row[0] if row else None


def keep_a_row(server: Server) -> None:
    with connect(server.url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS id")


def kept(server: Server) -> object:
    return one(server, "SELECT id FROM kept")


def docker_processes(project: str) -> list[str]:
    """The command lines of this project's docker commands that still run."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.name().startswith("docker") and process.environ().get("COMPOSE_PROJECT_NAME") == project:
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


def test_a_first_start_serves_the_labs_database_on_loopback_alone(project: str) -> None:
    server = find_server()
    port = int(os.environ["LAB_DB_PORT"])
    assert server.describe() == (
        f"PostgreSQL {server.version}, Docker Compose, 127.0.0.1:{port}, database backend_training_lab"
    )
    assert compose("port", "db", "5432") == f"127.0.0.1:{port}"
    assert ask("inspect", "--format", "{{.State.Health.Status}}", f"{project}-db-1") == "healthy"
    for name, value in {
        "cluster_name": docker.MARK,
        "TimeZone": "UTC",
        "max_connections": "200",
        "client_connection_check_interval": "1s",
    }.items():
        assert one(server, f"SHOW {name}") == value
    assert find_server("docker") == server


def test_processes_that_start_it_at_once_start_one(project: str) -> None:
    together = Barrier(STARTERS)

    def start() -> Server:
        together.wait()
        return find_server("docker")

    with ThreadPoolExecutor(STARTERS) as threads:
        assert len({thread.result().url for thread in [threads.submit(start) for _ in range(STARTERS)]}) == 1
    assert len(ask("network", "ls", "--quiet", "--filter", f"name={project}_default").splitlines()) == 1


@pytest.mark.parametrize("way", ["docker kill", "docker compose kill"])
def test_a_killed_container_starts_again_with_its_rows(project: str, way: str) -> None:
    server = find_server("docker")
    keep_a_row(server)
    if way == "docker kill":
        ask("kill", f"{project}-db-1")
    else:
        compose("kill")
    assert find_server("docker") == server
    assert kept(server) == 42


def test_stop_and_the_next_start_keep_the_rows(project: str) -> None:
    server = find_server("docker")
    keep_a_row(server)
    assert stop_server() == docker.STOPPED
    assert compose("ps", "--quiet") == ""
    assert stop_server() is None
    assert find_server("docker") == server
    assert kept(server) == 42


def test_the_commands_stop_and_reset(project: str) -> None:
    def call(*arguments: str) -> str:
        command = [sys.executable, "-m", "helpers", *arguments]
        result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        return result.stdout

    assert ", Docker Compose, " in call("reset", "--server", "docker")
    assert call("stop").strip() == docker.STOPPED
    assert compose("ps", "--quiet") == ""
    assert ", Docker Compose, " in call("reset")


@pytest.mark.parametrize("holder", ["another program", "another project"])
def test_a_port_in_use_is_told_and_the_embedded_server_serves(
    project: str, home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, holder: str
) -> None:
    other = f"{project}-other"
    with socket.socket() as program:
        if holder == "another program":
            program.bind(("127.0.0.1", int(os.environ["LAB_DB_PORT"])))
            program.listen()
        else:
            compose("up", "--detach", COMPOSE_PROJECT_NAME=other)
        try:
            with pytest.raises(ServerError, match=r"Another program has the port.*LAB_DB_PORT") as failure:
                find_server("docker")
            assert " Created" not in str(failure.value), "the cause alone, and not how far Docker came"
            assert find_server().kind == "embedded"
            assert "LAB_DB_PORT" in caplog.text
        finally:
            compose("down", "--volumes", "--timeout", "0", COMPOSE_PROJECT_NAME=other)
    assert find_server().kind == "docker", "once the port is free, all is well"


def test_a_changed_password_meets_the_old_volume(project: str, monkeypatch: pytest.MonkeyPatch) -> None:
    server = find_server("docker")
    keep_a_row(server)
    with monkeypatch.context() as changed:
        changed.setenv("LAB_DB_PASSWORD", "changed")
        for kind in ("docker", None):
            with pytest.raises(ServerError, match=r"existing volume keeps.*docker compose down -v"):
                find_server(kind)
    assert find_server() == server
    assert kept(server) == 42


def test_a_server_that_exits_at_once_tells_its_last_words(project: str) -> None:
    find_server("docker")
    compose("exec", "-T", "db", "sh", "-c", 'echo "no_such_setting = 1" >> "$PGDATA/postgresql.conf"')
    docker.stop()
    with pytest.raises(ServerError, match=r"could not start PostgreSQL.*no_such_setting") as failure:
        find_server("docker")
    assert len(str(failure.value).splitlines()) == 1
    assert os.environ["LAB_DB_PASSWORD"] not in str(failure.value)


def test_a_server_that_never_becomes_healthy_meets_a_time_limit(
    project: str, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    with connect(find_server("docker").url) as connection:
        connection.execute("ALTER SYSTEM SET port = 5433")  # where the health check does not look
    docker.stop()
    monkeypatch.setattr(docker, "START_SECONDS", SHORT_SECONDS)
    with pytest.raises(ServerError, match=f"not ready after {SHORT_SECONDS} s"):
        find_server("docker")
    eventually(lambda: not docker_processes(project))


@pytest.fixture
def freeze_at(engine: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes], None]]:
    """A function that puts a relay before the engine, which passes nothing on after a request with the given words."""
    target = engine_socket()
    if target is None:
        pytest.skip("the engine is not at a Unix socket")
    for name in ("ASK_SECONDS", "START_SECONDS", "STOP_SECONDS"):
        monkeypatch.setattr(docker, name, SHORT_SECONDS)
    relays: list[Relay] = []

    def freeze(words: bytes) -> None:
        relays.append(Relay(target, words))
        monkeypatch.setenv("DOCKER_HOST", f"unix://{relays[-1].path}")

    yield freeze
    for relay in relays:
        relay.close()


def test_an_engine_that_stops_answering_in_a_start_meets_a_time_limit(
    project: str,
    home: Path,
    freeze_at: Callable[[bytes], None],
    caplog: pytest.LogCaptureFixture,
    eventually: Eventually,
) -> None:
    freeze_at(b"/containers/create")
    with pytest.raises(ServerError, match=docker.SILENT):
        find_server("docker")
    freeze_at(b"/containers/create")
    assert find_server().kind == "embedded"
    assert docker.SILENT in caplog.text
    eventually(lambda: not docker_processes(project))


@pytest.mark.parametrize("request_", [b"/containers/json", b"/stop"])
def test_an_engine_that_stops_answering_in_a_stop_meets_a_time_limit(
    project: str, freeze_at: Callable[[bytes], None], eventually: Eventually, request_: bytes
) -> None:
    compose("up", "--detach")
    freeze_at(request_)
    with pytest.raises(ServerError, match=f"could not stop.*{docker.SILENT}"):
        stop_server()
    eventually(lambda: not docker_processes(project))


def test_an_engine_that_answers_nothing_is_no_engine(
    project: str, freeze_at: Callable[[bytes], None], monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    monkeypatch.setattr(docker, "PROBE_SECONDS", 1)
    freeze_at(b"/")
    assert docker.why_not() == docker.NO_ENGINE
    eventually(lambda: not docker_processes(project))


def test_a_run_fails_where_a_test_restarted_the_service(
    project: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_SERVER", "docker")
    command = ["docker", "restart", "-t", "0", f"{project}-db-1"]
    file = tmp_path / "test_some.py"
    file.write_text(
        f"{GOOD}\ndef test_that_restarts_it():\n    import subprocess\n    subprocess.check_call({command})\n"
    )
    run = run_tests(file, "1")
    assert run.returncode == 1, run.stdout + run.stderr
    assert "2 passed, 2 errors" in run.stdout
    assert "the service of Docker Compose in this folder is not the process" in run.stdout
