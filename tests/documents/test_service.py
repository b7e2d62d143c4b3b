"""The document service as its clients see it: its answers, its faults, and that it never tells too much."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import psutil
import pytest
from sqlalchemy import Engine, create_engine, text

from helpers.db import database_url
from helpers.documents.service import LONGEST_KEY, THREADS
from helpers.lab.actors.documents import DocumentService

Eventually = Callable[[Callable[[], object]], None]

BODY = {"title": "Report of task #42"}
SECRETS = ["Traceback", "File ", "sqlalchemy", "psycopg"]


class Service:
    """The service, asked without the client's patience. No answer of it may tell a secret."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, method: str, path: str, timeout: float = 60, **more: Any) -> httpx.Response:
        answer = httpx.request(method, self.url + path, timeout=timeout, trust_env=False, **more)
        password = str(database_url().password)
        for secret in (*SECRETS, password):
            assert secret not in answer.text + answer.reason_phrase
        return answer

    def post(self, body: object, key: str | None = None, timeout: float = 60) -> httpx.Response:
        headers = {} if key is None else {"Idempotency-Key": key}
        return self.ask("POST", "/documents", json=body, headers=headers, timeout=timeout)

    def titles(self) -> list[str]:
        return [document["title"] for document in self.ask("GET", "/documents").json()["documents"]]

    def spoil(self, *faults: str) -> None:
        assert self.ask("PUT", "/faults", json={"next": faults}).status_code == 204


@pytest.fixture
def service(documents: DocumentService) -> Service:
    return Service(documents.url)


@pytest.fixture
def store() -> Iterator[Engine]:
    """The service's own database."""
    engine = create_engine(database_url().set(database=f"{database_url().database}_documents"))
    yield engine
    engine.dispose()


@contextmanager
def held_up(store: Engine) -> Iterator[None]:
    """Within this block nobody can insert a document. (Keys can be inserted.)"""
    with store.connect() as connection:
        connection.execute(text("LOCK TABLE document_service.documents IN SHARE MODE"))
        yield


def waiting(store: Engine) -> list[int]:
    """The server processes that wait for a lock."""
    sql = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with store.connect() as connection:  # a new transaction: within one, pg_stat_activity stands still
        return list(connection.scalars(text(sql)))


# -- answers -----------------------------------------------------------------------------------------------------------


def test_a_document_is_created_and_shown(service: Service) -> None:
    answer = service.post(BODY)
    assert (answer.status_code, answer.json()) == (201, {"document_id": 1, "title": "Report of task #42"})
    assert service.ask("GET", "/documents").json() == {"documents": [answer.json()]}


def test_without_a_key_a_repetition_is_a_second_document(service: Service) -> None:
    assert [service.post(BODY).json()["document_id"] for _ in range(2)] == [1, 2]


def test_with_a_key_a_repetition_gets_the_same_answer(service: Service) -> None:
    first, second = service.post(BODY, "k"), service.post(BODY, "k")
    assert first.status_code == second.status_code == 201
    assert first.json() == second.json()
    assert len(service.titles()) == 1


def test_a_key_with_another_body_is_refused(service: Service) -> None:
    service.post(BODY, "k")
    answer = service.post({"title": "another"}, "k")
    assert (answer.status_code, answer.text) == (422, "The key 'k' was used with another body.")
    assert service.titles() == ["Report of task #42"]


def test_text_of_any_language_is_kept(service: Service) -> None:
    title = "Отчёт № 42\u00a0—\nдва “строки” 🙂"
    assert service.post({"title": title}).json()["title"] == title
    assert service.titles() == [title]


BAD_BODIES: dict[str, bytes] = {
    "empty": b"",
    "no JSON": b"title=Report",
    "no UTF-8": b'{"title": "\xff\xfe"}',
    "a list": b'["title"]',
    "a string": b'"title"',
    "a number": b"5",
    "null": b"null",
    "no title": b"{}",
    "one thing too much": b'{"title": "x", "pages": 2}',
    "a title that is a number": b'{"title": 42}',
    "a title that is null": b'{"title": null}',
    "a title that is a list": b'{"title": ["x"]}',
    "a zero byte, which PostgreSQL cannot store": b'{"title": "a\\u0000b"}',
    "half of a character": b'{"title": "\\ud83d"}',
    "nested without end": b"[" * 100_000,
}


@pytest.mark.parametrize("key", [None, "k"])
def test_a_body_that_is_not_as_expected_is_refused_and_changes_nothing(service: Service, key: str | None) -> None:
    for name, body in BAD_BODIES.items():
        headers = {} if key is None else {"Idempotency-Key": key}
        answer = service.ask("POST", "/documents", content=body, headers=headers)
        assert answer.status_code == 400, name
        assert answer.text.startswith("The body must be a JSON object like"), name
    assert service.titles() == []
    assert service.post(BODY, "k").status_code == 201, "the key was not used up"


@pytest.mark.parametrize("key", ["", "k" * (LONGEST_KEY + 1)], ids=["empty", "too long"])
def test_a_key_that_makes_no_sense_is_refused(service: Service, key: str) -> None:
    answer = service.post(BODY, key)
    assert (answer.status_code, answer.text) == (400, "An idempotency key has 1 to 255 characters.")
    assert service.titles() == []
    assert service.post(BODY, "k" * LONGEST_KEY).status_code == 201


def test_other_addresses_and_methods_are_refused(service: Service) -> None:
    assert service.ask("GET", "/nowhere").status_code == 404
    assert service.ask("PATCH", "/documents").status_code == 405
    assert service.ask("GET", "/faults").status_code == 405


def test_emptying_it_begins_at_1_again_and_forgets_keys_and_faults(service: Service) -> None:
    service.post(BODY, "k")
    service.spoil("fail")
    assert service.ask("DELETE", "/documents").status_code == 204
    assert service.titles() == []
    assert service.post({"title": "another"}, "k").json() == {"document_id": 1, "title": "another"}


# -- faults ------------------------------------------------------------------------------------------------------------


def test_told_to_fail_it_does_nothing(service: Service) -> None:
    service.spoil("fail")
    answer = service.post(BODY, "k")
    assert (answer.status_code, answer.text) == (503, "The service was told to fail.")
    assert service.titles() == []
    assert service.post({"title": "another"}, "k").status_code == 201, "the key was not used up"


def test_told_to_drop_it_creates_the_document_and_does_not_answer(service: Service) -> None:
    service.spoil("drop")
    with pytest.raises(httpx.RemoteProtocolError):
        service.post(BODY, "k")
    assert service.titles() == ["Report of task #42"]
    assert service.post(BODY, "k").json()["document_id"] == 1


def test_told_to_be_slow_it_creates_the_document_and_others_are_answered_meanwhile(
    service: Service, eventually: Eventually
) -> None:
    service.spoil("slow")
    with ThreadPoolExecutor(1) as thread:
        slow = thread.submit(service.post, BODY, "k")
        eventually(service.titles)
        repeated = service.post(BODY, "k")
        assert not slow.done()
        assert slow.result().json() == repeated.json() == {"document_id": 1, "title": "Report of task #42"}


def test_faults_come_in_order_and_one_for_each_answer(service: Service) -> None:
    service.spoil("fail", "drop")
    service.spoil("fail")
    assert service.ask("POST", "/documents", content=b"no JSON").status_code == 400, "a bad body uses up no fault"
    assert service.post(BODY).status_code == 503
    with pytest.raises(httpx.RemoteProtocolError):
        service.post(BODY)
    assert service.post(BODY).status_code == 503
    assert service.post(BODY).status_code == 201


def test_a_fault_that_nobody_knows_is_refused(service: Service) -> None:
    bodies = [{"next": 5}, {"next": "drop"}, {"next": ""}, {"next": {"drop": 1}}, {"next": None}, {"next": ["explode"]}]
    for body in [*bodies, {"next": [["drop"]]}, {"next": ["drop", 5]}, {}, [], "drop", None, 5]:
        answer = service.ask("PUT", "/faults", json=body)
        assert answer.status_code == 400, body
        assert answer.text.endswith("The faults are: slow, drop, fail."), body
    assert service.ask("PUT", "/faults", content=b"no JSON").status_code == 400
    assert service.post(BODY).status_code == 201, "nothing was noted"


# -- at once -----------------------------------------------------------------------------------------------------------


def test_requests_at_once_with_one_key_are_one_document_and_get_equal_answers(
    service: Service, store: Engine, eventually: Eventually
) -> None:
    with ThreadPoolExecutor(THREADS) as threads:
        with held_up(store):
            answers = [threads.submit(service.post, BODY, "k") for _ in range(THREADS)]
            eventually(lambda: len(waiting(store)) == THREADS)
        results = [answer.result() for answer in answers]
    assert {answer.status_code for answer in results} == {201}
    assert all(answer.json() == {"document_id": 1, "title": "Report of task #42"} for answer in results)
    assert service.titles() == ["Report of task #42"]


def test_requests_at_once_with_one_key_and_different_bodies_are_one_document(
    service: Service, store: Engine, eventually: Eventually
) -> None:
    with ThreadPoolExecutor(4) as threads:
        with held_up(store):
            answers = [threads.submit(service.post, {"title": f"Report {n}"}, "k") for n in range(4)]
            eventually(lambda: len(waiting(store)) == 4)
        codes = sorted(answer.result().status_code for answer in answers)
    assert codes == [201, 422, 422, 422]
    assert len(service.titles()) == 1


# -- its store goes away -----------------------------------------------------------------------------------------------


def test_a_store_that_goes_away_is_503_and_nothing_was_done(
    service: Service, store: Engine, eventually: Eventually
) -> None:
    with ThreadPoolExecutor(1) as thread, held_up(store), store.connect() as connection:
        answer = thread.submit(service.post, BODY, "k")
        eventually(lambda: waiting(store))
        for pid in waiting(store):
            connection.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
        assert answer.result().status_code == 503
        assert answer.result().text == "The store of the documents does not answer."
    assert service.titles() == []
    assert service.post(BODY, "k").status_code == 201, "and it has recovered"


def test_idle_sessions_that_broke_are_replaced_without_an_error(service: Service, store: Engine) -> None:
    breaks = text("""
        SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE application_name = 'documents' AND datname = current_database()
    """)
    with store.connect() as connection:
        assert connection.scalar(breaks)
    assert service.post(BODY).status_code == 201


@pytest.fixture
def store_that_breaks_at_commit(service: Service, store: Engine) -> Iterator[None]:
    """The service sends its COMMIT and gets no answer. (Here the transaction is lost; the service cannot know that.)"""
    with store.begin() as connection:
        connection.execute(
            text("""
                CREATE FUNCTION document_service.break_session() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
                CREATE CONSTRAINT TRIGGER breaks AFTER INSERT ON document_service.documents
                DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION document_service.break_session();
            """)
        )
    yield
    with store.begin() as connection:
        connection.execute(text("DROP FUNCTION document_service.break_session CASCADE"))


@pytest.mark.parametrize("key", [None, "k"])
def test_a_lost_commit_is_not_called_nothing_done(
    service: Service, store_that_breaks_at_commit: None, key: str | None
) -> None:
    answer = service.post(BODY, key)
    assert (answer.status_code, answer.text.split(". ")[1]) == (500, "Perhaps the document exists.")


# -- where it is -------------------------------------------------------------------------------------------------------


def test_it_is_reached_from_this_machine_only(documents: DocumentService) -> None:
    process = psutil.Process(documents._process._process.pid)
    addresses = {
        connection.laddr.ip for connection in process.net_connections("inet") if connection.status == psutil.CONN_LISTEN
    }
    assert addresses == {"127.0.0.1"}


def test_it_has_a_database_of_its_own(service: Service, store: Engine) -> None:
    service.post(BODY)
    assert os.environ["LAB_DATABASE"] == database_url().database != store.url.database
    with store.connect() as connection:
        assert connection.scalars(text("SELECT title FROM document_service.documents")).all() == [BODY["title"]]
        there = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'documents' AND datname = :name"
        assert connection.scalar(text(there), {"name": store.url.database})
        assert not connection.scalar(text(there), {"name": database_url().database})
