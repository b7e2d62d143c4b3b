"""DATABASE_URL: what is accepted, what is refused, and that no message ever repeats a password."""

import socket
from collections.abc import Callable

import pytest
from sqlalchemy import URL, create_engine, make_url
from sqlalchemy.exc import OperationalError

from helpers.servers import Server, ServerError, connection_failure, find_server, given, stop_server
from helpers.servers.failures import Cause, cause_of
from helpers.servers.server import check_name, connect

SECRET = "s3cr3t"


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | URL], str]:
    """The message for a DATABASE_URL, which must be short and hold no password."""

    def message(url: str | URL) -> str:
        text = url if isinstance(url, str) else url.render_as_string(hide_password=False)
        monkeypatch.setenv("DATABASE_URL", text)
        with pytest.raises(ServerError) as failure:
            find_server()
        said = str(failure.value)
        assert SECRET not in said
        assert "Traceback" not in said
        assert len(said.splitlines()) == 1
        assert failure.value.__cause__ is None
        assert failure.value.__suppress_context__ or failure.value.__context__ is None
        return said

    return message


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("driver", ["postgresql+psycopg", "postgresql", "postgres"])
def test_a_given_server_is_used_and_its_missing_database_created(
    shared: Server, monkeypatch: pytest.MonkeyPatch, driver: str
) -> None:
    url = shared.url.set(drivername=driver, database=f"backend_training_lab_{driver.replace('+', '_')}")
    monkeypatch.setenv("DATABASE_URL", url.render_as_string(hide_password=False))
    server = find_server()
    assert server == find_server("url")
    assert server.kind == "url"
    assert server.url == url.set(drivername="postgresql+psycopg")
    assert server.version == shared.version
    assert server.describe() == (
        f"PostgreSQL {shared.version}, from DATABASE_URL, 127.0.0.1:{url.port}, database {url.database}"
    )
    assert stop_server() is None or "DATABASE_URL" not in str(stop_server())
    with connect(server.url) as connection:
        assert connection.execute("SELECT current_database()").fetchone() == (url.database,)


def test_lab_database_replaces_the_name_in_the_url(shared: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", shared.url.set(database="production").render_as_string(hide_password=False))
    monkeypatch.setenv("LAB_DATABASE", "backend_training_lab_tests")
    assert find_server().url.database == "backend_training_lab_tests"


def test_special_characters_of_a_password_are_url_encoded(shared: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = "p@ss/w:rd?#%ü"
    with connect(shared.url) as connection:
        connection.execute(f"CREATE ROLE odd LOGIN PASSWORD '{odd}'")
    url = shared.url.set(username="odd", password=odd).render_as_string(hide_password=False)
    monkeypatch.setenv("DATABASE_URL", url)
    assert find_server().url.password == odd


@pytest.mark.parametrize(
    "name", ["postgres", "production", "backend_training_lab2", "backend_training_lab_", "Backend"]
)
def test_another_database_is_refused_before_any_connection(refused: Callable[[str], str], name: str) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.settimeout(0)
        said = refused(f"postgresql://lab:{SECRET}@127.0.0.1:{listener.getsockname()[1]}/{name}")
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert f'"{name}"' in said
    assert "Nothing was touched" in said
    assert "backend_training_lab_SUFFIX" in said


@pytest.mark.parametrize("kind", [None, "docker", "embedded", "url"])
def test_a_wrong_lab_database_is_refused_for_every_kind(
    new_home: object, monkeypatch: pytest.MonkeyPatch, kind: str | None
) -> None:
    monkeypatch.setenv("LAB_DATABASE", "postgres")
    monkeypatch.setenv("DATABASE_URL", f"postgresql://lab:{SECRET}@127.0.0.1:1/backend_training_lab")
    with pytest.raises(ServerError, match='LAB_DATABASE names "postgres"'):
        find_server(kind)


def test_a_name_that_postgresql_would_cut_is_refused() -> None:
    longest = "backend_training_lab_" + "x" * 42
    assert check_name(longest, "LAB_DATABASE") == longest
    for name in (longest + "x", "backend_training_lab\n"):
        with pytest.raises(ServerError):
            check_name(name, "LAB_DATABASE")


@pytest.mark.parametrize(
    "url",
    [
        f"nonsense-{SECRET}",
        f"postgresql+psycopg:/lab:{SECRET}@localhost/backend_training_lab",
        f"postgresql://lab:{SECRET}@localhost:54x32/backend_training_lab",
        f"postgresql://lab:{SECRET}@localhost:99999/backend_training_lab",
        f"postgresql://lab:p@{SECRET}@localhost:5432/backend_training_lab",
        f"postgresql://lab:p@x/{SECRET}@localhost:5432/backend_training_lab",
        f"postgresql://lab:p@x/y?{SECRET}@localhost:5432/backend_training_lab",
        f"postgresql://lab:{SECRET}@localhost:5432",
    ],
)
def test_a_malformed_url_is_one_sentence_with_the_form(refused: Callable[[str], str], url: str) -> None:
    said = refused(url)
    assert "cannot be read" in said
    assert given.FORM in said


@pytest.mark.parametrize("driver", ["postgresql+psycopg2", "postgresql+asyncpg", "mysql", "sqlite"])
def test_another_driver_is_named(refused: Callable[[str], str], driver: str) -> None:
    assert f'"{driver}"' in refused(f"{driver}://lab:{SECRET}@localhost/backend_training_lab")


@pytest.mark.parametrize("option", ["dbname=production", f"password={SECRET}", "user=x", "service=x"])
def test_an_option_that_would_win_over_the_checked_parts_is_refused(refused: Callable[[str], str], option: str) -> None:
    said = refused(f"postgresql://lab:{SECRET}@localhost/backend_training_lab?{option}")
    assert option.split("=")[0] in said


def test_a_wrong_password(shared: Server, refused: Callable[[URL], str]) -> None:
    said = refused(shared.url.set(password=SECRET))
    assert f"127.0.0.1:{shared.url.port} refuses the password" in said
    assert "DATABASE_URL" in said


def test_an_unknown_user_is_told_like_a_wrong_password(shared: Server, refused: Callable[[URL], str]) -> None:
    assert 'the user "stranger"' in refused(shared.url.set(username="stranger", password=SECRET))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_nothing_listens(refused: Callable[[str], str], host: str) -> None:
    port = free_port()
    said = refused(f"postgresql://lab:{SECRET}@{host}:{port}/backend_training_lab")
    assert f"Nothing listens at {host}:{port}" in said
    assert "python3 -m helpers doctor" in said


def test_an_unknown_host(refused: Callable[[str], str]) -> None:
    assert "nowhere.invalid:5432 is unknown" in refused(
        f"postgresql://lab:{SECRET}@nowhere.invalid/backend_training_lab"
    )


def test_a_database_that_the_user_may_not_create(shared: Server, refused: Callable[[URL], str]) -> None:
    with connect(shared.url) as connection:
        connection.execute(f"CREATE ROLE modest LOGIN PASSWORD '{SECRET}'")
    said = refused(shared.url.set(username="modest", password=SECRET, database="backend_training_lab_missing"))
    assert "could not create it" in said
    assert "CREATE DATABASE backend_training_lab_missing" in said


def test_too_many_connections(shared: Server, refused: Callable[[URL], str]) -> None:
    with connect(shared.url) as connection:
        connection.execute(f"CREATE ROLE lonely LOGIN PASSWORD '{SECRET}' CONNECTION LIMIT 0")
    assert "no connection left" in refused(shared.url.set(username="lonely", password=SECRET))


def test_an_empty_url_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", " ")
    with pytest.raises(ServerError, match="DATABASE_URL is not set"):
        find_server("url")


def test_a_connection_that_is_lost_names_the_doctor(shared: Server) -> None:
    engine = create_engine(shared.url)
    with engine.connect() as victim, connect(shared.url) as other:
        pid = victim.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        with pytest.raises(OperationalError) as lost:
            victim.exec_driver_sql("SELECT 1")
    engine.dispose()
    said = connection_failure(lost.value, shared.url)
    assert f"127.0.0.1:{shared.url.port} ended the connection" in said
    assert "python3 -m helpers doctor" in said


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("FATAL:  the database system is starting up", Cause.NOT_YET),
        ("FATAL:  the database system is shutting down", Cause.NOT_YET),
        ("server closed the connection unexpectedly", Cause.GONE),
        ("FATAL:  sorry, too many clients already", Cause.TOO_MANY),
        ("connection timeout expired", Cause.NO_ANSWER),
        ('FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "lab"', Cause.NOT_ALLOWED),
        # two addresses of one name: what the server said counts
        ('port 5432 failed: Connection refused\nFATAL:  password authentication failed for user "lab"', Cause.PASSWORD),
        ("FATAL:  пользователь не прошёл проверку подлинности", Cause.OTHER),
    ],
)
def test_what_libpq_says_is_understood(text: str, cause: Cause) -> None:
    error = Exception(text)
    assert cause_of(error) is cause
    url = make_url(f"postgresql+psycopg://lab:{SECRET}@db:5432/backend_training_lab")
    assert len(connection_failure(Exception(f"{text} {SECRET}"), url).splitlines()) == 1
    assert SECRET not in connection_failure(Exception(f"{text} {SECRET}"), url)
