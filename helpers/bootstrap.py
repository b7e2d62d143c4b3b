"""The environment that the lab runs in: found, or made in `.venv`. Standard library only.

`ensure` is the way in. The running interpreter serves if it holds every pinned requirement (a container, the
learner's own environment). Else `.venv` in the project's folder serves; a stamp in it says that it was completed,
from which requirements, by which Python and in which folder. Without a fitting stamp it is made or mended.
"""

import contextlib
import hashlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from helpers.errors import LabError

ROOT = Path(__file__).resolve().parent.parent
PYTHON = "python" if os.name == "nt" else "python3"
COMMAND = f"{PYTHON} -m helpers"
HANDED_OVER = "LAB_HANDED_OVER"  # set for the interpreter that takes over, so that no call is handed on for ever

# What a person reads.
MAKING = "Setting up the environment in {folder} (once; it takes some minutes and about 1 GB)."
MAKING_AGAIN = "Making the environment in {folder} again: {why}."
INSTALLING = "Bringing the environment in {folder} up to date."
DONE = "The environment is ready."
WAITING = "Another call is setting up the environment; waiting for it."
NO_VENV = (
    "This Python cannot make environments: its module {module} is missing. "
    "On Debian or Ubuntu: sudo apt install python3-venv. Then run the same command again."
)
WHY_UNFINISHED = "its installation was interrupted"
WHY_MOVED = "the project's folder was moved from {old}"
WHY_PYTHON = "it was made by another Python ({old})"
WHY_BROKEN = "its Python does not run"
VENV_FAILED = "The environment in {folder} could not be made:\n{cause}\nMend that and run the same command again."
IN_USE = (
    "The environment in {folder} could not be removed: {error}.\n"
    "End the programs that use it (JupyterLab, a terminal where it is active), delete the folder and try again."
)
PIP_FAILED = "The requirements could not be installed:\n{cause}\n{cure}"
PIP_ENDED = "pip ended with code {code}"
STILL_MISSING = (
    "The environment in {folder} is not complete: {what}.\nDelete the folder and run the same command again."
)
NOT_INSTALLED = "{name} is not installed"
WRONG_VERSION = "{name} is {found}, not {wanted}"
CURES = (  # the first whose pattern is found in pip's output
    (r"No space left|Errno 28", "Free some disk space (1 GB) and run the same command again."),
    (r"Permission denied|Errno 13", "Make the project's folder writable for you and run the same command again."),
    (
        r"Connection|connection|[Tt]imed? ?out|[Rr]etry|resolve|resolution|SSL|[Pp]roxy|urlopen|unreachable",
        "Check the network (and the proxy, if there is one) and run the same command again: "
        "what was downloaded is kept.",
    ),
    (
        r"No matching distribution|Could not find a version|Requires-Python",
        "Check the network, and that the Python in use is a version the lab supports (3.11 to 3.13); "
        "then run the same command again.",
    ),
)
CURE = "Mend that and run the same command again; what was downloaded is kept."


class SetupError(LabError):
    """The environment could not be made. The message says why, and what to do."""


def ensure(argv: list[str], root: Path = ROOT) -> None:
    """Return if this interpreter can run the lab; else run `python -m helpers argv` in one that can, and end with it.

    Raises SetupError where such an environment cannot be made.
    """
    handed_over = os.environ.pop(HANDED_OVER, "")
    export_path(root)
    wanted, inside = _wanted(root), _is_inside(root)
    stamp = _read_stamp(root)
    trusted = not inside or stamp in ({}, wanted)  # an unfinished .venv may hold every name and yet lack files
    missing = next(find_missing(root), "")
    if trusted and not missing:
        return
    if handed_over or (inside and trusted):  # the stamp promises more than is there: somebody removed a package
        if inside:
            with _lock(root) as lock:
                _install(root, lock)
            importlib.invalidate_caches()
            missing = next(find_missing(root), "")
        if missing:
            raise SetupError(STILL_MISSING.format(folder=_folder(root), what=missing))
        return
    if inside:  # a Python cannot replace the environment it runs from: the one that made it does
        hand_over([sys._base_executable, "-m", "helpers", *argv])  # type: ignore[attr-defined]
    if stamp != wanted or not _python(root).exists():
        prepare(root)
    os.environ[HANDED_OVER] = "1"
    hand_over([str(_python(root)), "-m", "helpers", *argv])


def enter_if_ready(argv: list[str], root: Path = ROOT) -> None:
    """Run `python -m helpers argv` in the complete environment if there is one; else return. Installs nothing."""
    handed_over = os.environ.pop(HANDED_OVER, "")
    export_path(root)
    ready = find_ready(root)
    if ready and not handed_over and not _is_inside(root) and ready != Path(sys.executable):
        os.environ[HANDED_OVER] = "1"
        hand_over([str(ready), "-m", "helpers", *argv])


def find_ready(root: Path = ROOT) -> Path | None:
    """Return an interpreter whose environment is complete, or None. Makes and installs nothing."""
    trusted = not _is_inside(root) or _read_stamp(root) in ({}, _wanted(root))
    if trusted and not any(find_missing(root)):
        return Path(sys.executable)
    if not _is_inside(root) and _read_stamp(root) == _wanted(root) and _python(root).exists():
        return _python(root)
    return None


def find_missing(root: Path = ROOT) -> Iterator[str]:
    """Yield a phrase for each pinned line of requirements.txt that this interpreter's environment does not meet."""
    try:
        from packaging.requirements import Requirement
    except ImportError:
        yield NOT_INSTALLED.format(name="packaging")
        return
    from importlib.metadata import PackageNotFoundError, version

    for line in (root / "requirements.txt").read_text(encoding="utf-8").splitlines():
        text = line.partition(" #")[0].strip()
        if text == "-e .":  # imported by PYTHONPATH, but installed for the configuration that kernels read
            text = _project(root)["project"]["name"]
        if not text or text.startswith(("#", "-")):
            continue
        requirement = Requirement(text)
        if requirement.marker and not requirement.marker.evaluate():
            continue
        try:
            found = version(requirement.name)
        except PackageNotFoundError:
            yield NOT_INSTALLED.format(name=requirement.name)
            continue
        if not found or not requirement.specifier.contains(found, prereleases=True):
            yield WRONG_VERSION.format(name=requirement.name, found=found, wanted=requirement.specifier)


def export_path(root: Path = ROOT) -> None:
    """Let this process's children import this checkout's `helpers`, wherever they are started."""
    others = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part and part != str(root)]
    os.environ["PYTHONPATH"] = os.pathsep.join([str(root), *others])


def hand_over(command: list[str]) -> NoReturn:
    """Let `command` take this process's place; where the system cannot do that, wait for it and exit as it did."""
    sys.stdout.flush()
    sys.stderr.flush()
    if os.name == "nt":
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both; the command decides what to do
        sys.exit(subprocess.run(command, check=False).returncode)
    os.execv(command[0], command)


def prepare(root: Path = ROOT) -> None:
    """Make `.venv` or bring it up to date, and stamp it. One call at a time: a second one waits for the first.

    Raises SetupError where that fails; the next call then starts again.
    """
    with _lock(root) as lock:
        stamp, wanted = _read_stamp(root), _wanted(root)
        if stamp == wanted and _python(root).exists():
            return  # made by the call that was waited for
        why = _why_again(root, stamp, wanted)
        if not _folder(root).exists():
            _say(MAKING.format(folder=_folder(root)))
            _make(root, lock)
        elif why:
            _say(MAKING_AGAIN.format(folder=_folder(root), why=why))
            _make(root, lock)
        else:
            _say(INSTALLING.format(folder=_folder(root)))
        _install(root, lock)
        _say(DONE)


def _why_again(root: Path, stamp: dict[str, str], wanted: dict[str, str]) -> str:
    """Return why the environment must be made from nothing, or '' where pip can bring it up to date."""
    if stamp.get("unfinished"):
        return WHY_UNFINISHED  # pip takes a half-copied package for an installed one
    if stamp and stamp["root"] != wanted["root"]:
        return WHY_MOVED.format(old=stamp["root"])
    if stamp and stamp["python"] != wanted["python"]:
        return WHY_PYTHON.format(old=stamp["python"])
    return "" if _runs_pip(root) else WHY_BROKEN


def _make(root: Path, lock: int) -> None:
    """Make an empty environment with pip in it."""
    for module in ("venv", "ensurepip"):
        if importlib.util.find_spec(module) is None:
            raise SetupError(NO_VENV.format(module=module))
    try:
        if _folder(root).exists():
            shutil.rmtree(_folder(root))
        _folder(root).mkdir()
    except OSError as error:
        raise SetupError(IN_USE.format(folder=_folder(root), error=error)) from error
    _write_stamp(root, {"unfinished": "yes"})  # first, so that an interruption leaves nothing that looks complete
    command = [sys.executable, "-I", "-m", "venv", str(_folder(root))]
    done = subprocess.run(command, check=False, capture_output=True, text=True, errors="replace", **_keep(lock))
    if done.returncode != 0:
        cause = (done.stdout + done.stderr).strip()
        raise SetupError(VENV_FAILED.format(folder=_folder(root), cause=cause))


def _install(root: Path, lock: int) -> None:
    """Let pip install requirements.txt, its output shown as it comes, and stamp the environment when it is complete."""
    _write_stamp(root, {"unfinished": "yes"})
    pip = [str(_python(root)), "-I", "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    lines: list[str] = []
    with subprocess.Popen(
        [*pip, "-r", "requirements.txt"],
        cwd=root,  # `-e .` counts from the working folder
        env={**os.environ, "PIP_USER": "0", "PYTHONUNBUFFERED": "1"},
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        **_keep(lock),
    ) as process:
        try:
            for line in process.stderr or ():
                lines.append(line.rstrip())
                sys.stderr.write(line)
                sys.stderr.flush()
        except BaseException:
            process.terminate()
            raise
    if process.returncode != 0:
        errors = [line for line in lines if re.match(r"\s*(ERROR|error):", line)] or lines[-5:]
        errors = errors or [PIP_ENDED.format(code=process.returncode)]
        cause = "\n".join(f"  {line.strip()}" for line in errors[-5:])
        raise SetupError(PIP_FAILED.format(cause=cause, cure=find_cure(lines)))
    program = "import sys; from helpers import bootstrap; sys.exit(next(bootstrap.find_missing(), None))"
    check = [str(_python(root)), "-c", program]
    checked = subprocess.run(check, check=False, capture_output=True, text=True, errors="replace", cwd=root)
    if checked.returncode != 0:
        raise SetupError(STILL_MISSING.format(folder=_folder(root), what=checked.stderr.strip()))
    _write_stamp(root, _wanted(root))


def find_cure(lines: list[str]) -> str:
    """Return what to do about a failure of pip that wrote these lines."""
    return next((cure for pattern, cure in CURES if re.search(pattern, "\n".join(lines))), CURE)


@contextlib.contextmanager
def _lock(root: Path) -> Iterator[int]:
    """Hold the right to change the environment; yield the lock's file descriptor. The system frees it at any death."""
    (root / ".lab").mkdir(exist_ok=True)
    with (root / ".lab" / "setup.lock").open("a", encoding="utf-8") as file:
        told = False
        while not _try_lock(file.fileno()):
            if not told:
                _say(WAITING)
                told = True
            time.sleep(0.2)
        yield file.fileno()


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _keep(_lock: int) -> dict[str, Any]:
        return {}  # a lock belongs to one process here

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _keep(lock: int) -> dict[str, Any]:
        """Let a child hold the lock too: a pip whose parent was killed must end before another one starts."""
        return {"pass_fds": (lock,)}


def _wanted(root: Path) -> dict[str, str]:
    """Return the stamp of an environment that is complete, current, made by this Python and for this folder."""
    project = _project(root)
    parts = [project.get("build-system"), project["project"].get("requires-python"), project["project"]["dependencies"]]
    requirements = (root / "requirements.txt").read_bytes() + json.dumps(parts, sort_keys=True).encode()
    return {
        "requirements": hashlib.sha256(requirements.replace(b"\r\n", b"\n")).hexdigest(),
        "python": f"{sys.implementation.name} {sys.version_info[0]}.{sys.version_info[1]} {sysconfig.get_platform()}",
        "root": str(root),  # the editable installation and the scripts hold this path
    }


def _project(root: Path) -> dict[str, Any]:
    import tomllib

    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))


def _read_stamp(root: Path) -> dict[str, str]:
    """Return the environment's stamp, or {} where there is none (no environment, or one that a person made)."""
    try:
        text = (_folder(root) / "lab-stamp.json").read_text(encoding="utf-8")
    except OSError:
        return {}
    try:
        stamp = json.loads(text)
    except ValueError:
        return {"unfinished": "yes"}
    return stamp if isinstance(stamp, dict) and _wanted(root).keys() <= stamp.keys() else {"unfinished": "yes"}


def _write_stamp(root: Path, stamp: dict[str, str]) -> None:
    draft = _folder(root) / "lab-stamp.json.new"
    draft.write_text(json.dumps(stamp, indent=1), encoding="utf-8")
    draft.replace(_folder(root) / "lab-stamp.json")


def _folder(root: Path) -> Path:
    return root / ".venv"


def _python(root: Path) -> Path:
    return _folder(root) / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _is_inside(root: Path) -> bool:
    return Path(sys.prefix).resolve() == _folder(root).resolve()


def _runs_pip(root: Path) -> bool:
    """Is there a Python that runs in its own environment and has pip? (A half-made one has not.)"""
    program = "import sys, pip; sys.exit(sys.prefix == sys.base_prefix or sys.version_info < (3, 11))"
    command = [str(_python(root)), "-I", "-c", program]
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0
    except OSError:
        return False


def _say(text: str) -> None:
    print(text, flush=True)
