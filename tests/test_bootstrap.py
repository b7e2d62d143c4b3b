"""The first call, on a small copy of the project: real environments, a real pip, no network."""

import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from glob import glob
from importlib import metadata
from pathlib import Path

import psutil
import pytest

from helpers import bootstrap

ROOT = Path(__file__).resolve().parent.parent
WAIT_SECONDS = 60
OLD = ["2.7", "3.6", "3.7", "3.8", "3.9", "3.10"]

# Builds the editable installation of the small project without downloading a build tool.
BACKEND = """
import pathlib, time, zipfile

def get_requires_for_build_editable(config_settings=None):
    return []

def build_editable(folder, config_settings=None, metadata_directory=None):
    pathlib.Path("building").touch()
    while pathlib.Path("hold").exists():
        time.sleep(0.05)
    name, info = "tiny-1.0-py3-none-any.whl", "tiny-1.0.dist-info/"
    with zipfile.ZipFile(pathlib.Path(folder, name), "w") as wheel:
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n")
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(info + "RECORD", "")
    return name
"""
PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "tiny"
version = "1.0"
dependencies = ["packaging"]
"""
# Stand in for the real modules: a server that needs nothing, and a lesson that says where the command runs.
SERVERS = """
class find_server:
    kind = "embedded"

    def describe(self):
        return "A server"
"""
LESSONS = """
import sys

def run_lesson(number):
    import big.last
    print("lesson", number, "runs in", sys.prefix)
    return number
"""
NO_ENSUREPIP = """
import sys
sys.modules["ensurepip"] = None
"""


class Project:
    """A small copy of the project, whose requirements lie in a folder."""

    first: tuple[int, str, str]  # what the very first call gave

    def __init__(self, root: Path, wheels: Path) -> None:
        self.root = root
        for room in ("bootstrap", "cli"):
            shutil.copytree(ROOT / "helpers" / room, root / "helpers" / room)
        for name in ("__init__.py", "__main__.py", "errors.py", "inherited.py", "paths.py", "surroundings.py"):
            shutil.copy(ROOT / "helpers" / name, root / "helpers")
        (root / "helpers" / "servers.py").write_text(SERVERS)
        (root / "helpers" / "notebooks.py").write_text(LESSONS)
        (root / "backend.py").write_text(BACKEND)
        (root / "pyproject.toml").write_text(PYPROJECT)
        self.require("big==1.0")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
        self.environment = {
            **environment,
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": wheels.as_uri(),
            "PYTHONIOENCODING": "utf-8",  # as `start` reads it
        }

    def require(self, line: str) -> None:
        pinned = f"packaging=={metadata.version('packaging')}"
        marked = "never==1.0 ; python_version < '3'"
        (self.root / "requirements.txt").write_text(f"{pinned}\n{marked}\n{line}\n-e .\n")

    def start(self, *arguments: str, python: str = sys.executable) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [python, "-m", "helpers", *(arguments or ("run", "0"))],
            cwd=self.root,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    def call(self, *arguments: str, python: str = sys.executable) -> "tuple[int, str, str]":
        """Run `python -m helpers arguments` (by default `run 0`); return exit code, stdout, stderr."""
        with self.start(*arguments, python=python) as process:
            out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    @property
    def python(self) -> str:
        return str(self.root / ".venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))

    @property
    def runs_in(self) -> str:
        return f"A server\nlesson 0 runs in {self.root / '.venv'}\n"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the packages: packaging, as it is installed here, and one with many files in two versions."""
    folder = tmp_path_factory.mktemp("wheels")
    packaging = metadata.distribution("packaging")
    with zipfile.ZipFile(folder / f"packaging-{packaging.version}-py3-none-any.whl", "w") as wheel:
        for path in packaging.files or ():
            if path.suffix != ".pyc" and path.name not in ("INSTALLER", "REQUESTED"):
                wheel.write(str(path.locate()), str(path))
    for version in ("1.0", "2.0"):
        info = f"big-{version}.dist-info/"
        with zipfile.ZipFile(folder / f"big-{version}-py3-none-any.whl", "w") as wheel:
            # The name and version come first: a pip that dies after them leaves what looks installed.
            wheel.writestr(info + "METADATA", f"Metadata-Version: 2.1\nName: big\nVersion: {version}\n")
            wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            for number in range(1000):
                wheel.writestr(f"big/data{number}.txt", "")
            wheel.writestr("big/last.py", "")
            wheel.writestr(info + "RECORD", "")
    return folder


@pytest.fixture
def project(tmp_path: Path, wheels: Path) -> Project:
    return Project(tmp_path / "a project", wheels)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Iterator[Project]:
    """A project whose environment stands, in a folder whose letters its locale does not know. A test leaves it so."""
    project = Project(tmp_path_factory.mktemp("made") / "тест 'n % project", wheels)
    project.environment["LC_ALL"] = "C"
    project.first = project.call("run", "7")
    yield project
    assert project.call() == (0, project.runs_in, "")


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def kill_all(process: "subprocess.Popen[str]") -> None:
    """Kill the call and the pip under it, as the end of a machine does."""
    family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    for member in family:
        member.suspend()
    for member in family:
        member.kill()
    process.communicate()


def test_the_first_call_makes_the_environment_and_shows_pips_output(made: Project) -> None:
    code, out, _ = made.first
    assert code == 7, "the exit code is the command's"
    assert "Successfully installed big-1.0" in out
    assert out.endswith(f"lesson 7 runs in {made.root / '.venv'}\n")


def test_the_second_call_repeats_nothing(made: Project) -> None:
    assert made.call() == (0, made.runs_in, "")


def test_a_python_that_meets_the_requirements_is_used_as_it_is(made: Project, tmp_path: Path) -> None:
    bare = tmp_path / "copy"
    shutil.copytree(made.root, bare, ignore=shutil.ignore_patterns(".venv", ".lab"))
    environment = {**made.environment, "PIP_NO_INDEX": "1"}
    result = subprocess.run(
        [made.python, "-m", "helpers", "run", "0"],
        cwd=bare,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert result.stdout == made.runs_in
    assert not (bare / ".venv").exists()


def test_a_new_version_is_installed_into_the_environment(made: Project) -> None:
    made.require("big==2.0")
    try:
        code, out, err = made.call()
        assert code == 0, err
        assert "Successfully installed big-2.0" in out
        assert "Successfully installed pip" not in out
    finally:
        made.require("big==1.0")
        made.call()


def test_a_package_that_somebody_removed_is_installed_again(made: Project) -> None:
    subprocess.run([made.python, "-m", "pip", "uninstall", "-y", "big"], check=True, capture_output=True)
    code, out, err = made.call()
    assert code == 0, err
    assert "Successfully installed big-1.0" in out


@pytest.mark.thorough
def test_a_moved_folder_is_noticed(made: Project) -> None:
    home = made.root
    made.root = home.with_name("moved")
    home.rename(made.root)
    code, out, err = made.call()
    assert code == 0, err
    assert f"was moved from {home}" in out
    assert out.endswith(made.runs_in)


@pytest.mark.thorough
def test_an_environment_whose_python_is_gone_is_made_again(made: Project) -> None:
    Path(made.python).unlink()
    code, out, err = made.call()
    assert code == 0, err
    assert "its Python does not run" in out


@pytest.mark.thorough
@pytest.mark.skipif(os.name == "nt", reason="needs SIGSTOP and SIGKILL")
def test_an_installation_that_was_killed_is_made_good(project: Project) -> None:
    process = project.start()  # once before there is a pip
    wait_for((project.root / ".venv" / "pyvenv.cfg").exists)
    kill_all(process)

    process = project.start()  # and once while pip copies
    copied = str(project.root / ".venv" / "lib" / "*" / "site-packages" / "big" / "data*")
    wait_for(lambda: glob(copied))  # noqa: PTH207 - Path.glob raises where a folder is deleted under it
    kill_all(process)
    packages = next((project.root / ".venv").glob("lib/*/site-packages"))
    assert (packages / "big-1.0.dist-info" / "METADATA").exists(), "the kill came before the package looked installed"
    assert not (packages / "big" / "last.py").exists(), "the kill came too late"

    code, out, err = project.call()
    assert code == 0, err
    assert "was interrupted" in out
    assert out.endswith(project.runs_in)


@pytest.mark.thorough
@pytest.mark.skipif(os.name == "nt", reason="needs SIGINT")
def test_ctrl_c_is_quiet_and_a_pip_that_still_runs_is_waited_for(project: Project) -> None:
    (project.root / "hold").touch()
    interrupted = project.start()
    wait_for((project.root / "building").exists)
    interrupted.send_signal(signal.SIGINT)
    _, err = interrupted.communicate(timeout=WAIT_SECONDS)
    assert interrupted.returncode == 130
    assert "Interrupted." in err
    assert "Traceback" not in err

    (project.root / "building").unlink()
    killed = project.start()
    wait_for((project.root / "building").exists)
    killed.kill()  # its pip goes on
    killed.wait()
    waiting = [project.start(), project.start()]
    for process in waiting:
        assert process.stdout is not None
        assert "waiting for it" in process.stdout.readline()
    (project.root / "hold").unlink()
    told = [process.communicate(timeout=2 * WAIT_SECONDS) for process in waiting]
    assert [process.returncode for process in waiting] == [0, 0], told
    assert all(out.endswith(project.runs_in) for out, _ in told)
    assert sum("Successfully installed" in out for out, _ in told) == 1, "the second one finds it done"


def test_a_failure_of_pip_is_told_with_its_cause_and_cure(project: Project) -> None:
    project.require("absent==1.0")
    code, _, err = project.call()
    assert code == 1
    assert "Traceback" not in err
    told = err[err.index("The requirements could not be installed") :]
    assert "No matching distribution found for absent==1.0" in told
    assert told.rstrip().endswith("then run the same command again.")


def test_a_folder_that_cannot_be_written_is_a_sentence(project: Project) -> None:
    (project.root / ".lab").write_text("in the way")  # a folder is closed to nobody where root runs the tests
    code, out, err = project.call()
    assert (code, out) == (1, "")
    assert err.count("\n") == 2
    assert "cannot be written" in err
    assert "Copy the folder to where you may write" in err
    assert not (project.root / ".venv").exists()


@pytest.mark.thorough
@pytest.mark.skipif(not Path("/proc/mounts").exists() or os.geteuid() != 0, reason="needs a small disk of its own")
def test_a_full_disk_is_named_and_the_next_call_makes_it_good(tmp_path: Path, wheels: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "small", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("no disk may be mounted here")
    try:
        project = Project(disk / "project", wheels)
        (disk / "ballast").write_bytes(bytes(15 << 20))
        code, _, err = project.call()
        assert code == 1
        assert "Traceback" not in err
        assert "Free some disk space (1 GB) and run the same command again." in err
        (disk / "ballast").unlink()
        subprocess.run(["mount", "-o", "remount,size=200m", str(disk)], check=True)
        code, out, err = project.call()
        assert code == 0, err
        assert out.endswith(project.runs_in)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize(
    ("line", "cure"),
    [
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "disk space"),
        ("WARNING: Retrying after connection broken by 'NewConnectionError'", "network"),
        ("ERROR: [Errno 13] Permission denied: '/x'", "writable"),
    ],
)
def test_each_kind_of_failure_has_a_cure_of_its_own(line: str, cure: str) -> None:
    assert cure in bootstrap.find_cure([line])


def test_a_python_without_ensurepip_names_the_package(project: Project, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(NO_ENSUREPIP)
    project.environment["PYTHONPATH"] = str(tmp_path)
    code, _, err = project.call()
    assert code == 1
    assert err.count("\n") == 1
    assert "sudo apt install python3-venv" in err
    assert not (project.root / ".venv").exists()


def test_an_environment_that_looks_complete_and_is_not_ends_in_a_sentence(made: Project) -> None:
    """No call may be handed on for ever: here `.venv`'s Python is no longer an environment's."""
    configuration = Path(made.python).parent.parent / "pyvenv.cfg"
    text = configuration.read_text()
    configuration.unlink()
    try:
        code, _, err = made.call()
        assert code == 1
        assert "Delete the folder" in err
    finally:
        configuration.write_text(text)


def test_doctor_and_help_and_stop_install_nothing(project: Project) -> None:
    for arguments in (("--help",), ("test", "--help"), ("doctor",), ("stop",)):
        project.call(*arguments)
        assert not (project.root / ".venv").exists(), arguments
    code, out, _ = project.call("doctor")
    assert code == 1
    assert "The environment is missing. To mend it: " in out
    assert " -m helpers lab" in out


@pytest.mark.parametrize("version", OLD)
def test_an_old_python_says_in_one_line_which_one_is_needed(version: str, project: Project) -> None:
    python = find_python(version)
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    for arguments in (("lab",), ("--help",)):
        code, out, err = project.call(*arguments, python=python)
        assert (code, out) == (1, "")
        assert err.count("\n") == 1
        assert f"needs Python 3.11 or newer; this is Python {version}" in err


def find_python(version: str) -> str | None:
    """Return a Python of that version: from the path, or from pyenv's folder."""
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [shutil.which(f"python{version}"), *sorted(map(str, home.glob(f"versions/{version}.*/bin/python")))]
    for python in candidates:
        if python and subprocess.run([python, "--version"], capture_output=True, check=False).returncode == 0:
            return python
    return None
