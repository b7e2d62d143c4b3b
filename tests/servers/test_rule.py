"""The rule for all tests: the server on which they run is somebody's. A run that restarts it fails."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.servers import embedded

from .conftest import ROOT

GOOD = "def test_good(): pass\n"
RESTARTS = f"""{GOOD}
def test_that_restarts_it():
    from pathlib import Path
    from helpers.servers.embedded import Embedded
    server = Embedded(Path({{home!r}}) / "postgres")
    assert server.stop()
    server.start()
"""
STOPS = RESTARTS.replace("    server.start()\n", "")


def run_tests(file: Path, processes: str) -> subprocess.CompletedProcess[str]:
    """A run of its own, under this project's conftest; with `processes`, they do the work and this one hands it out."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "-o", "addopts="]
    return subprocess.run(
        [*command, "-p", "no:cacheprovider", "-p", "conftest", "-n", processes, str(file)],
        cwd=ROOT,
        env={**others, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("code", "processes"), [(RESTARTS, "1"), (STOPS, "0")], ids=["restarts it", "stops it"])
def test_a_run_fails_where_a_test_touched_the_server(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, processes: str
) -> None:
    monkeypatch.setenv("DATABASE_URL", embedded.find().url.render_as_string(hide_password=False))
    file = tmp_path / "test_some.py"
    file.write_text(code.format(home=str(home)))
    run = run_tests(file, processes)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "2 passed, 1 error" in run.stdout, "every test passed, and yet"
    assert "is not the process that ran before the tests" in run.stdout
