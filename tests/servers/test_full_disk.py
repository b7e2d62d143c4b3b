"""A full disk under the embedded server: what is said, and that nothing committed is lost."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.servers import ServerError, find_server, stop_server
from tests.servers.conftest import output, python

MEGABYTE = 1 << 20

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(
        not Path("/proc/mounts").exists() or os.geteuid() != 0,
        reason="needs a small disk of its own, which root mounts",
    ),
]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A disk of 90 MB. The lab's folder is to be made on it."""
    with tempfile.TemporaryDirectory(prefix="task42-test-", dir="/var/tmp") as folder:
        mount = ["mount", "-t", "tmpfs", "-o", "size=90m,mode=755", "small", folder]
        if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
            pytest.skip("no disk may be mounted here")
        monkeypatch.setenv("LAB_HOME", f"{folder}/lab")
        try:
            yield Path(folder)
        finally:
            (Path(folder) / "ballast").unlink(missing_ok=True)
            stop_server()
            subprocess.run(["umount", folder], check=True)


def fill(disk: Path) -> None:
    with (disk / "ballast").open("wb", buffering=0) as ballast:
        try:
            while True:
                ballast.write(bytes(MEGABYTE))
        except OSError:
            return


def command(*arguments: str) -> str:
    """What a command of the lab says on the embedded server; its exit code in front."""
    code = f"""
import contextlib, io
from helpers import cli
said = io.StringIO()
with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
    code = cli.main({list(arguments)!r})
print(code, said.getvalue())
"""
    return output(python(code, LAB_SERVER="embedded"))


def test_a_cluster_that_does_not_fit_is_a_sentence_and_leaves_nothing_behind(disk: Path) -> None:
    fill(disk)
    with pytest.raises(ServerError, match=r"Is the disk full|No space left"):
        find_server("embedded")
    (disk / "ballast").unlink()
    assert find_server("embedded").kind == "embedded"


# A very long list writes files that no log repeats: it is the query that fails, and not the server.
TOO_MUCH = """
from sqlalchemy import text
from helpers.db import engine
from helpers.processes.exits import exit_code

def overdo():
    with engine().begin() as connection:
        connection.execute(text("UPDATE backend_training.tasks SET status = 'completed'"))
        connection.execute(text("SELECT count(*) FROM generate_series(1, 20000000)"))
    return 0

print(exit_code("A", overdo))
with engine().connect() as connection:
    pending = "SELECT array_agg(id ORDER BY id) FROM backend_training.tasks WHERE status = 'pending'"
    print(connection.scalar(text(pending)))
"""


def test_a_disk_that_fills_up_costs_a_sentence_and_no_row(disk: Path) -> None:
    assert command("reset").startswith("0 ")
    said = output(python(f"import sys; sys.stderr = sys.stdout\n{TOO_MUCH}", LAB_SERVER="embedded"))
    assert said.startswith("[A] The disk of the server at 127.0.0.1:"), said
    assert "free some space there, then try again" in said
    assert said.endswith("69\n[42, 43, 44]"), "the rows are as they were"


def test_a_reset_on_a_full_disk_is_a_sentence_and_works_when_there_is_space(disk: Path) -> None:
    assert command("reset").startswith("0 ")
    fill(disk)
    said = command("reset", "7")
    assert said.startswith("1 "), said
    assert "free some space there" in said
    assert f"free some space on the disk that holds {disk}" in command("doctor")
    said = command("run", "0")
    assert said.startswith("1 "), said
    assert "Traceback" not in said
    (disk / "ballast").unlink()
    assert command("reset", "7").startswith("0 ")
