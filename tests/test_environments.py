"""The commands among a person's own settings: each works, or ends in a sentence that says what to do.

What libpq hears is in tests/servers/test_variables.py, odd folders and locales in tests/test_bootstrap.py.
"""

import errno
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from helpers import cli, surroundings
from helpers.cli import oddities
from helpers.paths import ROOT

SECONDS = 240
DEAD = "http://127.0.0.1:9"  # the port of "discard": nobody answers there
OLD = "Metadata-Version: 2.1\nName: SQLAlchemy\nVersion: 1.0\n"
PROXIES = [f"{kind}_PROXY" for kind in ("HTTP", "HTTPS", "ALL")]


@pytest.fixture
def odd(tmp_path: Path) -> dict[str, str]:
    """An environment in which nearly everything is somebody else's."""
    strange = tmp_path / "strange"
    for package in ("helpers", "sqlalchemy", "tests"):
        (strange / package).mkdir(parents=True)
        (strange / package / "__init__.py").write_text("raise SystemExit('the wrong package')")
    (strange / "SQLAlchemy-1.0.dist-info").mkdir()
    (strange / "SQLAlchemy-1.0.dist-info" / "METADATA").write_text(OLD)
    kernel = strange / "kernels" / "python3"
    kernel.mkdir(parents=True)
    (kernel / "kernel.json").write_text('{"argv": ["no-such-python"], "display_name": "", "language": "python"}')
    if os.name != "nt":
        for name in ("python", "python3"):
            (strange / name).write_text("#!/bin/sh\nexit 77\n")
            (strange / name).chmod(0o755)
    (tmp_path / "home").write_text("not a folder")
    startup = tmp_path / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "00.py").write_text("import os; os._exit(77)")  # what a person's own kernels do at their start
    return {
        **{name: value for name, value in os.environ.items() if name not in ("NO_PROXY", "no_proxy", "MPLCONFIGDIR")},
        **dict.fromkeys([*PROXIES, *map(str.lower, PROXIES)], DEAD),
        "LC_ALL": "C",
        "PYTHONIOENCODING": "ascii",
        "PYTHONUTF8": "0",
        "PYTHONHOME": sys.base_prefix,
        "PYTHONPATH": str(strange),
        "PYTHONOPTIMIZE": "2",
        "PYTHONWARNINGS": "error",
        "PYTHONDONTWRITEBYTECODE": "1",
        "JUPYTER_PATH": str(strange),
        "PATH": os.pathsep.join([str(strange), os.environ.get("PATH", "")]),
        "VIRTUAL_ENV": str(strange),
        "CONDA_PREFIX": str(strange),
        "HOME": str(tmp_path / "home"),
        "XDG_CONFIG_HOME": str(tmp_path / "home"),
        "XDG_CACHE_HOME": str(tmp_path / "home"),
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "TMPDIR": str(tmp_path / "gone"),
        "TZ": "Asia/Kolkata",
        "PGHOST": "127.0.0.2",
        "PGSERVICE": "unknown",
        "PGOPTIONS": "-c nonsense=1",
    }


def call(environment: dict[str, str], *arguments: str) -> tuple[int, str]:
    """Run `python -m helpers arguments`; return its exit code and what it said, which is ASCII."""
    result = subprocess.run(
        [sys.executable, "-m", "helpers", *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS,
        check=False,
    )
    return result.returncode, result.stdout.decode("ascii")


def test_doctor_finds_all_well_and_names_what_is_odd(odd: dict[str, str]) -> None:
    code, said = call(odd, "doctor")
    assert code == 0, said
    assert "Everything is in order." in said
    assert "atplotlib" not in said, "it found a place for its files"
    (set_aside,) = (line for line in said.splitlines() if "not heard by the lab" in line)
    for name in ("JUPYTER_PATH", "PGHOST", "PGOPTIONS", "PGSERVICE", "PYTHONHOME", "PYTHONOPTIMIZE", "PYTHONPATH"):
        assert name in set_aside
    for part in ("a proxy is set", "another environment is active", "shows ASCII only", "TMPDIR names a folder"):
        assert part in said
    if os.name != "nt":
        assert "cannot be written; the lab keeps its files in .lab" in said


def test_a_lesson_gives_what_it_always_gives(odd: dict[str, str]) -> None:
    """With a kernel, workers, charts; and in a language that this terminal cannot show."""
    code, said = call(odd, "run", "0")
    assert code == 0, said
    assert "gave what the stored notebook shows" in said
    assert "Traceback" not in said


def test_the_project_is_installed_without_a_path_that_a_locale_could_spoil() -> None:
    """Up to Python 3.12 a .pth file is read in the locale's encoding, and what cannot be read stops every Python."""
    files = metadata.distribution("task42").files or []
    paths = [path for path in files if path.suffix == ".pth"]
    assert paths
    for path in paths:
        assert str(path.locate()).isascii() or path.read_text().isascii()
        assert str(ROOT) not in path.read_text()


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.ENOSPC, "The disk is full: a name could not be written. Free some space"),
        (errno.EROFS, "a name may not be read or written by you (read-only). Change its owner or its permissions"),
        (errno.EACCES, "a name may not be read or written by you (read-only). Change its owner or its permissions"),
    ],
)
def test_what_the_disk_refuses_is_a_sentence(
    number: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(number, "read-only", "a name")

    monkeypatch.setitem(cli.COMMANDS, "doctor", refuse)
    assert cli.main(["doctor"]) == 1
    told = capsys.readouterr().err
    assert told.startswith(said)
    assert told.count("\n") == 1


def test_another_error_of_the_system_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise ConnectionResetError(errno.ECONNRESET, "nobody is there")

    monkeypatch.setitem(cli.COMMANDS, "doctor", refuse)
    with pytest.raises(ConnectionResetError):
        cli.main(["doctor"])


def test_a_folder_of_the_lab_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, said = call({**os.environ, "LAB_HOME": str(tmp_path / "file" / "lab")}, "reset")
    assert code == 1
    assert said.count("\n") <= 2, said
    assert "set LAB_HOME to another folder" in said


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root and Windows may write everything")
def test_doctor_names_what_may_only_be_read(tmp_path: Path) -> None:
    (tmp_path / "notebooks").mkdir()
    shutil.copy(ROOT / "notebooks" / "00_start_here.ipynb", tmp_path / "notebooks")
    tmp_path.chmod(0o555)
    (tmp_path / "notebooks" / "00_start_here.ipynb").chmod(0o444)
    try:
        said = list(oddities.oddities(tmp_path, ready=False))
    finally:
        tmp_path.chmod(0o755)
    assert any(check.well is False and "cannot be written" in check.text and check.cure for check in said)
    assert any("are read-only: they run" in check.text for check in said)


def test_other_folders_of_pythonpath_stay_where_they_may_hold_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LAB_SET_ASIDE", "")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert not surroundings.settle_python(ROOT, others=True)
    assert os.environ["PYTHONPATH"] == os.pathsep.join([str(ROOT), str(tmp_path)])
    assert surroundings.settle_python(ROOT, others=False)
    assert os.environ["PYTHONPATH"] == str(ROOT)
