"""Each test gets a clean environment, and each embedded server a folder of its own that is gone afterwards."""

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from helpers.servers import Server, embedded, tools

ROOT = Path(__file__).resolve().parents[2]
Homes = Callable[..., Path]
# The interpreter may lie where an ordinary user cannot run it, so root imports everything and then steps down.
STEP_DOWN = f"""
import os, pwd
from helpers.servers import ServerError, find_server, stop_server
from sqlalchemy import make_url
make_url("postgresql+psycopg://").get_dialect()()
entry = pwd.getpwnam("{tools.UNPRIVILEGED}")
os.setgroups([]), os.setgid(entry.pw_gid), os.setuid(entry.pw_uid)
"""


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings of the caller's; an empty home and a Compose project of its own, for `stop_server` stops both."""
    for name in list(os.environ):
        if name.startswith(("PG", "LAB_", "COMPOSE_")) or name == "DATABASE_URL":
            monkeypatch.delenv(name)
    monkeypatch.setenv("LAB_HOME", str(tmp_path / "lab"))
    monkeypatch.setenv("COMPOSE_PROJECT_NAME", f"task42-test-{secrets.token_hex(4)}")


def remove_home(home: Path) -> None:
    """Stop the server of `home` and remove all that belongs to it."""
    server = embedded.Embedded(home / "postgres")
    try:
        if server.home.is_dir():
            server.stop()
            server._end_leftovers()
    finally:
        if server.home.is_dir():
            shutil.rmtree(server.folder, ignore_errors=True)
        shutil.rmtree(home.parent, ignore_errors=True)


def quick_place() -> str | None:
    """Memory where there is plenty, since these tests make many clusters; else the disk."""
    memory = Path("/dev/shm")
    if memory.is_dir() and shutil.disk_usage(memory).free > 4 << 30:
        return str(memory)
    return None if sys.platform == "win32" else "/var/tmp"


def make_home(parent: str | None = None, name: str = "home", model: Path | None = None) -> Path:
    """A folder for LAB_HOME that PostgreSQL's user can reach; pytest's own are closed to it when root runs the tests.

    With `model`, a stopped home, the new one holds a copy of its cluster: that is much faster than initdb.
    """
    parent = parent or quick_place()
    base = Path(tempfile.mkdtemp(prefix="task42-test-", dir=parent))
    base.chmod(0o755)
    home = base / name
    home.mkdir()
    if model:
        copy_cluster(model, home)
        (home / "postgres/cluster/data/lab.conf").unlink()  # it holds the model's port
    return home


def copy_cluster(one: Path, other: Path) -> None:
    shutil.copytree(one / "postgres" / "cluster", other / "postgres" / "cluster")
    if sys.platform != "win32" and (user := tools.account()):
        for path in (other / "postgres", *(other / "postgres").rglob("*")):
            os.chown(path, *user)


@pytest.fixture(scope="session")
def model() -> Iterator[Path]:
    """A home whose server was started once and is stopped."""
    home = make_home()
    server = embedded.Embedded(home / "postgres")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAB_HOME", str(home))
        patch.delenv("LAB_DATABASE", raising=False)
        embedded.find()
        server.stop()
    yield home
    remove_home(home)


@pytest.fixture
def homes(model: Path) -> Iterator[Homes]:
    """Makes homes; all their servers are stopped at the end. `new=True`: with no cluster yet."""
    made: list[Path] = []

    def make(parent: str | None = None, name: str = "home", new: bool = False) -> Path:
        made.append(make_home(parent, name, None if new else model))
        return made[-1]

    yield make
    for home in made:
        remove_home(home)


@pytest.fixture
def home(homes: Homes, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose cluster is made already; LAB_HOME names it."""
    made = homes()
    monkeypatch.setenv("LAB_HOME", str(made))
    return made


@pytest.fixture
def new_home(homes: Homes, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with nothing in it; LAB_HOME names it."""
    made = homes(new=True)
    monkeypatch.setenv("LAB_HOME", str(made))
    return made


@pytest.fixture(scope="session")
def shared(model: Path) -> Iterator[Server]:
    """One real PostgreSQL for the tests that only need somebody's server."""
    home = make_home(model=model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAB_HOME", str(home))
        patch.delenv("LAB_DATABASE", raising=False)
        server = embedded.find()
    yield server
    remove_home(home)


def python(code: str, **environment: str) -> subprocess.Popen[str]:
    """Start another Python process of the project; `output` reads what its code prints."""
    return subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out.strip()
