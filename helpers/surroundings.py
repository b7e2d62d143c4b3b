"""What a person's environment says and the lab must not hear: for this process from now on, and for all it starts.

Standard library only. What is set aside is noted, so that `doctor` can name it.
"""

import os
import sys
from collections.abc import Iterable
from pathlib import Path

NOTED = "LAB_SET_ASIDE"

# Each would change what the lab's programs do: another standard library; no `assert` in a learner's code, and packages
# that need their docstrings; a package's warning as an error; a kernel of another environment.
PYTHON = ("PYTHONHOME", "PYTHONOPTIMIZE", "PYTHONWARNINGS", "JUPYTER_PATH")


def set_aside(names: Iterable[str]) -> list[str]:
    """Remove these environment variables, and return which of them were set."""
    found = [name for name in names if os.environ.pop(name, "")]
    if found:
        os.environ[NOTED] = ",".join(sorted({*was_set_aside(), *found}))
    return found


def was_set_aside() -> list[str]:
    """The environment variables that this process and those above it have set aside."""
    return [name for name in os.environ.get(NOTED, "").split(",") if name]


def settle_python(root: Path, others: bool = True) -> bool:
    """Let Python's environment variables be those that this project needs; return whether any was set aside.

    Where that is so, this interpreter still runs as they said; one that it starts does not. With `others` the folders
    that PYTHONPATH names stay, behind the project's own.
    """
    names = list(PYTHON)
    paths = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part and part != str(root)]
    if paths and not others:
        names.append("PYTHONPATH")
    found = set_aside(names)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(root), *(paths if others else [])])
    os.environ["PYTHONUTF8"] = "1"  # files and pipes between our processes do not depend on a locale
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"  # this environment's kernel, not one of the person's own
    return bool(found)


def settle_folders(home: Path) -> None:
    """Let kernels keep their files below `home`, and read no personal configuration.

    So they run alike for everybody, also where the person's own folder cannot be written.
    """
    jupyter = home / "jupyter"
    jupyter.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.environ["IPYTHONDIR"] = str(jupyter / "ipython")
    for kind in ("config", "data", "runtime"):
        os.environ[f"JUPYTER_{kind.upper()}_DIR"] = str(jupyter / kind)
    if not os.environ.get("MPLCONFIGDIR") and not is_home_usable():
        os.environ["MPLCONFIGDIR"] = str(home / "matplotlib")  # else each process makes its own, and says so in a cell


def is_home_usable() -> bool:
    """Whether matplotlib can keep, in the person's own folder, what it must not make again in each process."""
    return all(map(_can_be_made, _matplotlib_folders()))


def _matplotlib_folders() -> list[Path]:
    try:
        home = Path.home()
    except RuntimeError:  # no HOME, and no entry in the list of users
        return [Path(os.devnull)]
    if not sys.platform.startswith(("linux", "freebsd")):
        return [home / ".matplotlib"]
    names = {"XDG_CONFIG_HOME": ".config", "XDG_CACHE_HOME": ".cache"}
    return [Path(os.environ.get(name) or home / folder) / "matplotlib" for name, folder in names.items()]


def _can_be_made(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)
