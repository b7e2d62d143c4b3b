"""The document service as a notebook has it: started, emptied, spoiled, killed, and never left behind."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import psutil
import pytest

from helpers import lab
from helpers.db import database_url
from helpers.documents.client import create_document
from helpers.errors import LabError
from helpers.lab.actors.documents import DocumentService
from helpers.lab.actors.workers import environment_for
from helpers.lab.frame import lesson
from helpers.paths import ROOT

BODY = {"title": "Report of task #42"}


@pytest.fixture(autouse=True)
def tables(lesson6: None) -> None:
    """Lesson 6's tables, in every test of this module."""


@pytest.fixture
def service() -> Iterator[DocumentService]:
    """A service that a test may end."""
    service = lab.start_documents()
    yield service
    service.kill()


def pid_of(service: DocumentService) -> int:
    return service._process._process.pid


def test_started_again_it_goes_on_without_documents(
    service: DocumentService, capsys: pytest.CaptureFixture[str]
) -> None:
    create_document(service.url, BODY, "k")
    service.spoil("fail")
    capsys.readouterr()
    again = lab.start_documents()
    assert capsys.readouterr().out.splitlines() == [repr(again)]
    assert again.url == service.url, "cells that know the address may be run again"
    assert create_document(again.url, {"title": "another"}, "k") == {"document_id": 1, "title": "another"}


def test_a_killed_service_is_a_sentence(service: DocumentService) -> None:
    psutil.Process(pid_of(service)).kill()  # not by the notebook
    psutil.wait_procs([psutil.Process(pid_of(service))], timeout=20)
    for ask in (service.documents, service.rows, service.empty, lambda: service.spoil("drop")):
        with pytest.raises(LabError, match=r"does not answer.*lab\.start_documents\(\)") as failure:
            ask()
        assert failure.value.__suppress_context__, "no traceback of the HTTP client"
    again = lab.start_documents()
    assert pid_of(again) != pid_of(service)
    assert again.rows() == []
    again.kill()


def test_a_reset_does_not_end_it(service: DocumentService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lesson, "_current", 6)
    held = lab.start_worker("A", "--hold-at", "before-claim")
    create_document(service.url, BODY)
    lab.reset()
    assert held.returncode is not None, "a worker is ended"
    assert len(service.rows()) == 1


def test_the_table_of_documents(documents: DocumentService) -> None:
    assert repr(documents.documents()) == "no documents"
    create_document(documents.url, BODY)
    create_document(documents.url, {"title": "another"})
    assert documents.documents().rows == [["1", "Report of task #42"], ["2", "another"]]


def test_empty_drops_documents_and_faults(documents: DocumentService, capsys: pytest.CaptureFixture[str]) -> None:
    create_document(documents.url, BODY, "k")
    documents.spoil("fail")
    capsys.readouterr()
    documents.empty()
    assert capsys.readouterr().out == "The document service has no documents.\n"
    assert create_document(documents.url, {"title": "another"}, "k") == {"document_id": 1, "title": "another"}


def test_a_fault_that_nobody_knows_is_a_sentence(documents: DocumentService) -> None:
    with pytest.raises(LabError, match=r'no fault "explode".*slow, drop, fail'):
        documents.spoil("drop", "explode")
    create_document(documents.url, BODY)  # without a key, so that a dropped answer would be an error


def test_its_password_is_not_in_the_process_list(documents: DocumentService) -> None:
    assert str(database_url().password) not in " ".join(psutil.Process(pid_of(documents)).cmdline())


def test_no_address_and_no_password_is_shown(documents: DocumentService) -> None:
    for shown in (repr(documents), repr(documents.documents())):
        assert documents.url not in shown
        assert str(database_url().password) not in shown


CRASHES = "from helpers import lab; service = lab.start_documents(); print(service._process._process.pid, flush=True); "


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a service notices nothing of its notebook's crash")
def test_a_notebook_that_crashes_leaves_no_service(
    eventually: Callable[[Callable[[], object]], None], is_gone: Callable[[int], bool]
) -> None:
    notebook = subprocess.run(
        [sys.executable, "-c", CRASHES + "import os; os._exit(9)"],
        cwd=ROOT,
        env=environment_for(database_url()),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert notebook.returncode == 9, notebook.stderr
    [pid] = [int(line) for line in notebook.stdout.splitlines() if line.isdigit()]
    eventually(lambda: is_gone(pid))


def test_a_service_that_cannot_start_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("helpers.lab.actors.documents.SUFFIX", "_" + "x" * 60)
    with pytest.raises(LabError, match="the database of the document service"):
        lab.start_documents()
    assert os.environ["LAB_DATABASE"] == database_url().database
