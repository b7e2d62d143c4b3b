"""A worker killed at each of its named points. What the notebook of lesson 6 shows is what this test sees."""

from collections.abc import Iterator

import nbformat
import pytest

from helpers import lab
from helpers.lab.actors.documents import DocumentService
from helpers.notebooks import find_lesson, output_text
from helpers.worker.faults import POINTS

LEASE = 3.0


@pytest.fixture
def documents() -> Iterator[DocumentService]:
    lab.open(6)
    lab.run_script("06_idempotent_effects/01_migrate.sql")
    service = lab.start_documents()
    yield service
    lab.end_workers()
    service.kill()


def test_no_task_is_lost_and_each_has_one_document_as_the_notebook_says(documents: DocumentService) -> None:
    table = lab.kill_at_each_point(documents, LEASE)
    assert [row[0] for row in table.rows] == list(POINTS)
    assert {row[3] for row in table.rows} == {"1"}, "documents of the task"
    assert {row[4] for row in table.rows} == {"3"}, "completed tasks"
    notebook = nbformat.read(find_lesson(6), as_version=4)
    stored = [output_text(cell) for cell in notebook.cells if "kill_at_each_point(documents, LEASE)" in cell.source]
    assert any(repr(table) in text for text in stored)


def test_without_a_key_the_crash_after_the_effect_costs_a_second_document(documents: DocumentService) -> None:
    table = lab.kill_at_each_point(documents, LEASE, key="none", points=["in-work", "after-effect"])
    assert [row[3] for row in table.rows] == ["1", "2"]
