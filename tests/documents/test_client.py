"""The client of the document service: what it asks for again, what it does not, and how it says so."""

import re
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from helpers.documents import client
from helpers.documents.client import (
    NoAnswerError,
    NoConnectionError,
    RefusedError,
    UnavailableError,
    create_document,
    post,
)
from helpers.lab.actors.documents import DocumentService

Eventually = Callable[[Callable[[], object]], None]

BODY = {"title": "Report of task #42"}
ANSWER = {"document_id": 1, "title": "Report of task #42"}


@pytest.fixture
def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port


@pytest.fixture
def deaf() -> Iterator[str]:
    """The URL of somebody who takes connections, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def broken() -> Iterator[str]:
    """The URL of a server that answers each request with an error: the status is the first part of the path."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_error(int(self.path.split("/")[1]))

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client waits less long than it does for people."""
    monkeypatch.setattr(client, "TIMEOUT_SECONDS", 0.3)
    monkeypatch.setattr(client, "PATIENCE_SECONDS", 1.0)


def test_it_returns_the_services_answer(documents: DocumentService) -> None:
    assert create_document(documents.url, BODY) == ANSWER
    assert create_document(documents.url, BODY, "k") == create_document(documents.url, BODY, "k")
    assert len(documents.rows()) == 2


@pytest.mark.parametrize("fault", ["drop", "slow"])
def test_with_a_key_a_lost_answer_is_asked_for_again(
    documents: DocumentService, impatient: None, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr(client, "PATIENCE_SECONDS", 30.0)
    reasons: list[str] = []
    documents.spoil(fault)
    assert create_document(documents.url, BODY, "k", reasons.append) == ANSWER
    assert documents.rows() == [ANSWER]
    assert reasons[0].startswith("No answer came from the document service")


@pytest.mark.parametrize("fault", ["drop", "slow"])
def test_without_a_key_it_is_not(
    documents: DocumentService, impatient: None, eventually: Eventually, fault: str
) -> None:
    reasons: list[str] = []
    documents.spoil(fault)
    with pytest.raises(NoAnswerError):
        create_document(documents.url, BODY, on_retry=reasons.append)
    assert reasons == []
    eventually(lambda: documents.rows() == [ANSWER])  # a second try would have created a second document


@pytest.mark.parametrize("key", [None, "k"])
def test_a_service_that_did_nothing_is_asked_again_also_without_a_key(
    documents: DocumentService, key: str | None
) -> None:
    reasons: list[str] = []
    documents.spoil("fail", "fail")
    assert create_document(documents.url, BODY, key, reasons.append) == ANSWER
    assert reasons == ["The document service cannot answer now (503)."] * 2


@pytest.mark.parametrize("key", [None, "k"])
def test_where_nobody_listens_it_is_asked_again_and_then_given_up(
    free_port: int, impatient: None, key: str | None
) -> None:
    reasons: list[str] = []
    with pytest.raises(NoConnectionError) as failure:
        create_document(f"http://127.0.0.1:{free_port}", BODY, key, reasons.append)
    assert reasons, "at least once"
    assert set(reasons) == {str(failure.value)}


def test_a_service_that_never_answers_is_given_up(deaf: str, impatient: None) -> None:
    reasons: list[str] = []
    with pytest.raises(NoAnswerError, match="ReadTimeout"):
        create_document(deaf, BODY, "k", reasons.append)
    assert reasons


def test_a_refusal_is_final(documents: DocumentService) -> None:
    reasons: list[str] = []
    create_document(documents.url, BODY, "k")
    with pytest.raises(RefusedError, match=r"\(422\): The key 'k' was used with another body"):
        create_document(documents.url, {"title": "another"}, "k", reasons.append)
    with pytest.raises(RefusedError, match=r"\(400\): The body must be"):
        create_document(documents.url, {"name": "x"}, "k", reasons.append)
    assert reasons == []


@pytest.mark.parametrize(
    ("status", "kind"), [(500, NoAnswerError), (502, NoAnswerError), (503, UnavailableError), (404, RefusedError)]
)
def test_only_503_says_that_nothing_was_done(broken: str, status: int, kind: type[Exception]) -> None:
    """Behind any other error of the server the document may have been created."""
    with pytest.raises(kind, match=f"{status}") as failure:
        post(f"{broken}/{status}", BODY, "k")
    assert type(failure.value) is kind


def test_no_error_tells_the_address(documents: DocumentService, free_port: int, deaf: str, impatient: None) -> None:
    documents.spoil("drop", "fail")
    errors = []
    for url in (documents.url, documents.url, f"http://127.0.0.1:{free_port}", deaf):
        with pytest.raises(client.DocumentError) as failure:
            post(url, BODY)
        errors.append(failure.value)
    assert [type(error) for error in errors] == [NoAnswerError, UnavailableError, NoConnectionError, NoAnswerError]
    for error in errors:
        assert "http" not in str(error).lower()
        assert not re.search(r"\d", str(error).replace("503", ""))


def test_a_proxy_of_the_environment_is_not_used(documents: DocumentService, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert create_document(documents.url, BODY) == ANSWER
