"""The embedded PostgreSQL: the binaries of a wheel, driven by hand. No Docker, no administrator, no network.

    <project>/.lab/postgres/        LAB_HOME replaces <project>/.lab
        lock                        one process at a time starts or stops the server
        tools.log, server.log       the last words of initdb and pg_ctl; the server's log since its last start
        cluster/password            made at random, readable by the owner alone
        cluster/data/               PostgreSQL's data directory; lab.conf in it holds the lab's settings and the port

A server is known by what it proves: it listens where postmaster.pid says, knows the password (scram-sha-256 proves that
to both sides) and uses our data directory. `pg_ctl status` would also say yes to a zombie or to another program.
"""

import re
import secrets
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path

import psutil
import psycopg
from filelock import FileLock, Timeout
from sqlalchemy import URL

from helpers.paths import lab_folder
from helpers.servers.failures import Cause, cause_of, connection_failure
from helpers.servers.server import Server, ServerError, connect, lab_database, open_server
from helpers.servers.tools import Tools, folder_for, own

START_SECONDS = 60
STOP_SECONDS = 20
LOCK_SECONDS = 180
LAUNCHES = 3

# A locale that knows more letters than ASCII, or else upper() and ILIKE fail for Cyrillic. Systems name it differently.
LOCALES = ("en-US", "C") if sys.platform == "win32" else ("C.UTF-8", "en_US.UTF-8", "C")

SETTINGS = """\
# Written anew at every start. Your own settings belong into postgresql.conf, below its last line.
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = ''
cluster_name = 'task42-embedded'
timezone = 'UTC'
log_timezone = 'UTC'
max_connections = 200
"""
if sys.platform in ("linux", "darwin"):
    SETTINGS += "client_connection_check_interval = '1s'  # ends a waiting backend whose client has vanished\n"

# What a user may read.
BUSY = "Another process has held {lock} for {seconds} s to start or stop the embedded PostgreSQL. Try again."
NO_FILES = "The embedded PostgreSQL cannot use {path}: {reason}. Mend that, or set LAB_HOME to another folder."
NO_CLUSTER = "The embedded PostgreSQL could not set up its data in {folder}. Is the disk full? Its last words:\n{words}"
NO_START = "The embedded PostgreSQL in {folder} did not start. Its last words:\n{words}"
NO_ANSWER = (
    "The embedded PostgreSQL (process {pid}) runs but does not answer. Run python3 -m helpers stop, then try again."
)
NO_LOGIN = (
    "The embedded PostgreSQL refuses the password that was made for it. Run python3 -m helpers stop, delete the folder "
    "{folder}, then try again: the lab builds its rows afresh."
)
NO_STOP = "The embedded PostgreSQL (process {pid}) could not be stopped."
STOPPED = "Stopped the embedded PostgreSQL on 127.0.0.1:{port}."


def find() -> Server:
    """The embedded server, started if it does not run. Raises ServerError."""
    return open_server("embedded", Embedded(_home()).start(), **OPTIONS)


def stop() -> str | None:
    """Stop the embedded server if it runs. Returns what was stopped, or None. Raises ServerError."""
    return Embedded(_home()).stop() if _home().is_dir() else None


def _home() -> Path:
    return lab_folder() / "postgres"


OPTIONS = {"require_auth": "scram-sha-256", "sslmode": "disable", "gssencmode": "disable"}


class Embedded:
    """The one server whose state lives under `home`. Knows whether it runs, starts it, stops it."""

    def __init__(self, home: Path) -> None:
        self.home = home

    @cached_property
    def folder(self) -> Path:
        """Where data and logs live: `home`, or elsewhere if PostgreSQL's user cannot go there."""
        return folder_for(self.home)

    @property
    def cluster(self) -> Path:
        return self.folder / "cluster"

    @property
    def data(self) -> Path:
        return self.cluster / "data"

    def start(self) -> URL:
        """Start the server unless it runs; return the URL of the lab's database. Raises ServerError.

        Any number of processes may call this at once: one starts the server, all get the same URL.
        """
        with self._files_in_order():
            if self.home.is_dir() and (url := self._login()):
                return url
            with self._lock():
                tools = Tools(self.folder)
                if not self.cluster.exists():
                    self._make_cluster(tools)
                return self._start(tools)

    def stop(self) -> str | None:
        """Stop the server if it runs: fast, and by force if it does not obey. Returns what was stopped, or None."""
        with self._files_in_order(), self._lock():
            pid, port = self._pid_file()
            if not self._is_postmaster(pid):
                return None
            stopped = Tools(self.folder).run(
                "pg_ctl", "stop", "-D", "cluster/data", "-m", "fast", "-t", str(STOP_SECONDS)
            )
            if stopped != 0 and self._is_postmaster(pid):
                self._end_leftovers()
                if self._is_postmaster(pid):
                    raise ServerError(NO_STOP.format(pid=pid))
            return STOPPED.format(port=port)

    def _start(self, tools: Tools) -> URL:
        deadline = time.monotonic() + START_SECONDS
        launches = 0
        while True:
            if url := self._login():
                return url
            pid, _ = self._pid_file()
            if self._is_postmaster(pid):  # starting up, or recovering from a crash
                if time.monotonic() > deadline:
                    raise ServerError(NO_ANSWER.format(pid=pid))
                time.sleep(0.1)
            elif launches == LAUNCHES:
                raise ServerError(NO_START.format(folder=self.folder, words=self._words("server.log", "tools.log")))
            else:
                launches += 1
                self._launch(tools)

    def _launch(self, tools: Tools) -> None:
        """Clear away what a crash has left, choose a port and start. Called under the lock, with no postmaster."""
        self._end_leftovers()
        (self.data / "postmaster.pid").unlink(missing_ok=True)  # else a reused pid in it would forbid the start
        own(self.data / "lab.conf", SETTINGS.format(port=self._choose_port()))
        with suppress(OSError):  # on Windows a process that is still ending may hold the log
            (self.folder / "server.log").replace(self.folder / "server.log.old")
        # Relative paths: pg_ctl passes them through a shell, and the folder's own name may hold anything.
        tools.run("pg_ctl", "start", "-D", "cluster/data", "-l", "server.log", "-w", "-t", str(START_SECONDS))

    def _login(self) -> URL | None:
        """The URL if our server runs and answers. Raises ServerError if it is ours but refuses our password."""
        pid, port = self._pid_file()
        try:
            password = (self.cluster / "password").read_text()
        except FileNotFoundError:
            return None
        if port is None:
            return None
        url = URL.create("postgresql+psycopg", "lab", password, "127.0.0.1", port, lab_database())
        try:
            with connect(url.set(database="postgres"), **OPTIONS) as connection:
                row = connection.execute("SELECT current_setting('data_directory')").fetchone()
        except psycopg.Error as error:
            cause = cause_of(error)
            if cause in (Cause.PASSWORD, Cause.TOO_MANY) and self._is_postmaster(
                pid
            ):  # ours, and waiting will not help
                refused = cause is Cause.PASSWORD
                message = NO_LOGIN.format(folder=self.folder) if refused else connection_failure(error, url)
                raise ServerError(message) from None
            return None
        return url if row and _same_folder(row[0], self.data) else None

    def _pid_file(self) -> tuple[int | None, int | None]:
        """Process and port as postmaster.pid has them. The file may be stale."""
        try:
            lines = (self.data / "postmaster.pid").read_text(encoding="utf-8", errors="replace").splitlines()
            return int(lines[0]), int(lines[3])
        except (FileNotFoundError, ValueError, IndexError):
            return None, None

    def _is_postmaster(self, pid: int | None) -> bool:
        """Whether `pid` is a living PostgreSQL at work in our data directory: no zombie, no reused pid."""
        try:
            return pid is not None and self._is_ours(psutil.Process(pid))
        except psutil.NoSuchProcess:
            return False
        except psutil.AccessDenied:
            return True  # it cannot be told: better to wait in vain than to start a second one

    def _is_ours(self, process: psutil.Process) -> bool:
        return (
            process.status() != psutil.STATUS_ZOMBIE
            and process.name().lower().startswith("postgres")
            and _same_folder(process.cwd(), self.data)
        )

    def _end_leftovers(self) -> None:
        """Kill what still works in our data directory: backends whose postmaster is dead, or a server that hangs.

        Nothing is lost: the next start recovers what was committed, as after any crash.
        """
        leftovers = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if self._is_ours(process):
                    process.kill()
                    leftovers.append(process)
        psutil.wait_procs(leftovers, timeout=10)

    def _choose_port(self) -> int:
        """The port of the last start if it is free, so that a URL stays valid; else any free one."""
        with suppress(OSError):
            last = re.search(r"^port = (\d+)$", (self.data / "lab.conf").read_text(), re.MULTILINE)
            if last and _is_free(int(last[1])):
                return int(last[1])
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return int(probe.getsockname()[1])

    def _make_cluster(self, tools: Tools) -> None:
        """Make the cluster in a folder of its own and rename it, so that a half-made one is never used."""
        for remains in self.folder.glob("new-*"):
            shutil.rmtree(remains, ignore_errors=True)
        new = Path(tempfile.mkdtemp(prefix="new-", dir=self.folder))
        own(new)
        own(new / "password", secrets.token_urlsafe(24))
        for locale in LOCALES:
            failed = tools.run(
                "initdb", "--no-instructions", f"--locale={locale}", "--encoding=UTF8", "--username=lab",
                "--auth=scram-sha-256", f"--pwfile={new.name}/password", f"--pgdata={new.name}/data",
            )  # fmt: skip
            if not failed or "invalid locale name" not in self._words("tools.log"):
                break
        if failed:
            shutil.rmtree(new, ignore_errors=True)
            raise ServerError(NO_CLUSTER.format(folder=self.folder, words=self._words("tools.log")))
        with (new / "data" / "postgresql.conf").open("a", encoding="utf-8") as configuration:
            configuration.write("\ninclude 'lab.conf'\n")
        new.rename(self.cluster)

    def _words(self, *logs: str) -> str:
        """The last lines of the logs. PostgreSQL never writes a password into them."""
        lines: list[str] = []
        for log in logs:
            with suppress(OSError):
                lines += (self.folder / log).read_text(encoding="utf-8", errors="replace").splitlines()[-5:]
        return "\n".join(lines)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        # In `home` and not in `folder`: to find the folder may already mean to make it.
        self.home.mkdir(parents=True, exist_ok=True)
        lock = self.home / "lock"
        try:
            with FileLock(lock, timeout=LOCK_SECONDS):
                yield
        except Timeout:
            raise ServerError(BUSY.format(seconds=LOCK_SECONDS, lock=lock)) from None

    @contextmanager
    def _files_in_order(self) -> Iterator[None]:
        """Turn what the file system refuses into a sentence."""
        try:
            yield
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise ServerError(NO_FILES.format(path=error.filename or self.home, reason=reason)) from None


def _same_folder(one: str, other: Path) -> bool:
    try:
        return other.samefile(one)
    except OSError:
        return False


def _is_free(port: int) -> bool:
    """Whether a server may bind `port` on 127.0.0.1, also while old connections to it are still in TIME_WAIT."""
    with socket.socket() as probe:
        if sys.platform == "win32":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return False
            probe.close()
    with socket.socket() as probe:
        if sys.platform != "win32":
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
