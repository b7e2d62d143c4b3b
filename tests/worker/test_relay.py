"""The sender of the outbox as a process: it delivers at least once, and the key makes that once."""

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from helpers import lab
from helpers.db import engine, forget_engine
from helpers.lab.actors.documents import DocumentService
from helpers.repository.lease import claim_task
from helpers.repository.outbox import complete_with_request
from helpers.worker import relay

NOBODY = "http://127.0.0.1:9"  # port 9 (discard) is free on every machine
DOCUMENT = {"document_id": 1, "title": "Report of task #42"}


@pytest.fixture(autouse=True)
def tables(lesson6: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lesson 6's tables, and a request in the outbox. A sender that runs in this process sets its name."""
    monkeypatch.setenv("PGAPPNAME", "test")
    task = claim_task(60)
    assert task is not None
    complete_with_request(task["id"], task["attempts"], "task-42/report", {"title": "Report of task #42"})
    yield
    forget_engine()


def delivered() -> list[bool]:
    with engine().connect() as connection:
        sql = text("SELECT delivered_at IS NOT NULL FROM backend_training.outbox ORDER BY id")
        return list(connection.scalars(sql))


def expire() -> None:
    with engine().begin() as connection:
        connection.execute(text("UPDATE backend_training.outbox SET lease_until = clock_timestamp()"))


def test_it_delivers_what_is_in_the_outbox_and_ends(
    documents: DocumentService, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert lab.start_relay("R", "--documents", documents.url).returncode == 0
    assert capsys.readouterr().out.splitlines() == [
        "[R] Claimed the request of #42 in the outbox.",
        "[R] Delivered the request of #42: document 1.",
        "[R] Nothing is left to deliver.",
        "[R] exit code 0",
    ]
    assert documents.rows() == [DOCUMENT]
    assert delivered() == [True]


def test_with_nothing_to_deliver_it_ends(documents: DocumentService) -> None:
    assert relay.main(["R", "--documents", documents.url]) == 0
    assert relay.main(["S", "--documents", documents.url]) == 0
    assert documents.rows() == [DOCUMENT]


@pytest.mark.parametrize(("point", "created"), [("before-delivery", 0), ("after-delivery", 1)])
def test_after_a_crash_the_next_sender_delivers_and_there_is_one_document(
    documents: DocumentService, point: str, created: int
) -> None:
    assert lab.start_relay("R", "--documents", documents.url, "--crash-at", point).returncode == 17
    assert len(documents.rows()) == created
    assert delivered() == [False]
    assert relay.main(["S", "--documents", documents.url]) == 0
    assert delivered() == [False], "it is the first sender's until its lease ends"
    expire()
    assert relay.main(["S", "--documents", documents.url]) == 0
    assert documents.rows() == [DOCUMENT]
    assert delivered() == [True]


def test_a_lost_answer_is_asked_for_again(documents: DocumentService) -> None:
    documents.spoil("drop", "fail")
    assert relay.main(["R", "--documents", documents.url]) == 0
    assert documents.rows() == [DOCUMENT]
    assert delivered() == [True]


def test_without_a_service_it_ends_with_69_and_the_request_stays(
    documents: DocumentService, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("helpers.documents.client.PATIENCE_SECONDS", 0.1)
    assert relay.main(["R", "--documents", NOBODY]) == 69
    assert capsys.readouterr().err == "[R] No answer came from the document service (ConnectError).\n"
    assert delivered() == [False]
    expire()
    assert relay.main(["R", "--documents", documents.url]) == 0
    assert documents.rows() == [DOCUMENT]


def test_a_request_that_is_refused_is_a_sentence_and_stays(
    documents: DocumentService, capsys: pytest.CaptureFixture[str]
) -> None:
    with engine().begin() as connection:
        connection.execute(text("UPDATE backend_training.outbox SET request = '{}'"))
    assert relay.main(["R", "--documents", documents.url]) == 69
    assert capsys.readouterr().err.startswith("[R] The document service refused the request (400)")
    assert delivered() == [False]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["R"],
        ["not a name", "--documents", NOBODY],
        ["R", "--documents", "https://127.0.0.1:9"],
        ["R", "--documents", NOBODY, "--lease-seconds", "0"],
        ["R", "--documents", NOBODY, "--crash-at", "after-claim"],
        ["R", "--documents", NOBODY, "--renew"],
    ],
)
def test_wrong_usage_ends_with_64(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        relay.main(arguments)
    assert end.value.code == 64
    assert "usage:" in capsys.readouterr().err
    assert delivered() == [False]


def test_before_the_migration_it_names_the_script(
    documents: DocumentService, capsys: pytest.CaptureFixture[str]
) -> None:
    lab.rebuild(6)
    assert relay.main(["R", "--documents", documents.url]) == 69
    assert "lab_sql/06_idempotent_effects/01_migrate.sql" in capsys.readouterr().err
