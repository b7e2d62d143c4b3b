"""libpq's environment variables: none of them changes to which server the lab connects, or how a session behaves."""

import os
from pathlib import Path

import pytest

from helpers.servers import Server, ServerError, find_server
from helpers.servers.server import connect
from helpers.surroundings import was_set_aside

NOWHERE = "127.0.0.2"
SERVICE = f"[elsewhere]\nhost={NOWHERE}\nport=1\nuser=stranger\ndbname=strange\nsslmode=require\n"
ODD = [
    {"PGHOST": NOWHERE, "PGPORT": "1", "PGUSER": "stranger", "PGDATABASE": "strange", "PGPASSWORD": "wrong"},
    {"PGHOSTADDR": NOWHERE},
    {"PGSERVICE": "unknown"},
    {"PGSERVICE": "elsewhere", "PGSERVICEFILE": "services"},
    {"PGPASSFILE": "missing"},
    {"PGSSLMODE": "require"},
    {"PGSSLMODE": "verify-full", "PGSSLROOTCERT": "missing"},
    {"PGREQUIREAUTH": "none"},
    {"PGCHANNELBINDING": "require"},
    {"PGGSSENCMODE": "require"},
    {"PGTARGETSESSIONATTRS": "standby"},
    {"PGOPTIONS": "-c search_path=elsewhere -c lock_timeout=1"},
    {"PGOPTIONS": "-c nonsense=1"},
    {"PGCLIENTENCODING": "SQL_ASCII", "PGDATESTYLE": "German", "PGTZ": "Asia/Kolkata"},
]
SETTINGS = """
    SELECT current_setting('search_path'), current_setting('lock_timeout'), current_setting('client_encoding'),
           current_setting('DateStyle'), current_setting('TimeZone')
"""


@pytest.fixture(autouse=True)
def no_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_SET_ASIDE", "")


def set_all(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], folder: Path) -> None:
    (folder / "services").write_text(SERVICE)
    for name, value in variables.items():
        monkeypatch.setenv(name, str(folder / value) if name.endswith(("FILE", "CERT")) else value)


def settings(server: Server) -> object:
    with connect(server.url) as connection:
        return connection.execute(SETTINGS).fetchone()


def test_the_embedded_server_is_found_and_behaves_as_ever(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = find_server("embedded")
    usual = settings(found)
    for variables in ODD:
        set_all(monkeypatch, variables, tmp_path)
        assert find_server("embedded") == found, variables
        assert settings(found) == usual, variables
        assert not variables.keys() & os.environ.keys(), "a process that is started now inherits none"
        assert variables.keys() <= set(was_set_aside())


def test_of_a_given_server_the_url_alone_says_where_it_is(
    shared: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DATABASE_URL", shared.url.render_as_string(hide_password=False))
    usual = settings(shared)
    set_all(monkeypatch, ODD[0] | ODD[1] | ODD[3] | ODD[11] | ODD[13], tmp_path)
    assert find_server().url == shared.url
    assert settings(shared) == usual


def test_what_a_person_asks_of_a_given_server_for_safety_is_heard(
    shared: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", shared.url.render_as_string(hide_password=False))
    monkeypatch.setenv("PGSSLMODE", "require")
    with pytest.raises(ServerError, match="offers no encryption, which PGSSLMODE") as told:
        find_server()
    assert str(shared.url.password) not in str(told.value)


def test_a_password_may_stand_in_the_environment(shared: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    without = shared.url._replace(password=None)
    monkeypatch.setenv("DATABASE_URL", without.render_as_string())
    monkeypatch.setenv("PGPASSWORD", str(shared.url.password))
    assert find_server().url == without


def test_a_process_keeps_the_name_that_it_gave_itself(shared: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", shared.url.render_as_string(hide_password=False))
    monkeypatch.setenv("PGAPPNAME", "worker:A")
    find_server()
    assert os.environ["PGAPPNAME"] == "worker:A"
