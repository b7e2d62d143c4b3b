"""The rules that every notebook keeps, beside what nbval compares."""

import ast
import base64
import io
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode
from PIL import Image

from helpers.errors import LabError
from helpers.lab.frame.lesson import LESSONS_LEASE
from helpers.notebooks import KERNEL, build, lesson_paths, normalise
from helpers.notebooks.execution import client

PATHS = list(lesson_paths().values())
FIRST_LESSON_WITH_LEASES = 4
LEASES_LASTED = re.compile(r"(?<=Leases lasted ).*(?=\.$)")
MACHINE_PATH = re.compile(r"(?<![\w.])(/(?:home|root|tmp|var|usr|opt|work|Users|private)/[\w.-]+|[A-Za-z]:\\\\)")


@pytest.fixture(params=PATHS, ids=lambda path: path.stem)
def path(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


@pytest.fixture
def notebook(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def code_cells(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def lines_of_code(cell: NotebookNode) -> list[str]:
    return [line for line in cell.source.splitlines() if line.strip()]


def test_there_are_notebooks() -> None:
    assert {0, 4} <= lesson_paths().keys()


def test_every_code_cell_was_run_in_order(notebook: NotebookNode) -> None:
    counts = [cell.execution_count for cell in code_cells(notebook)]
    assert counts == list(range(1, len(counts) + 1))


def test_no_stored_output_is_an_error(notebook: NotebookNode) -> None:
    kinds = [output.output_type for cell in code_cells(notebook) for output in cell.outputs]
    assert "error" not in kinds


def test_no_stored_output_names_a_path_of_a_machine(notebook: NotebookNode) -> None:
    for cell in code_cells(notebook):
        for output in cell.outputs:
            data = {k: v for k, v in output.get("data", {}).items() if not k.startswith("image/")}
            assert not MACHINE_PATH.search(output.get("text", "") + str(data)), cell.source


def test_cells_are_short(notebook: NotebookNode) -> None:
    assert [cell.source for cell in code_cells(notebook) if len(cell.source.splitlines()) > 15] == []


def test_experiments_have_at_most_eight_lines(notebook: NotebookNode) -> None:
    experiments = [cell for cell in code_cells(notebook) if "experiment" in cell.metadata.get("tags", [])]
    assert [cell.source for cell in experiments if len(lines_of_code(cell)) > 8] == []


def test_prose_stands_beside_every_code_cell(notebook: NotebookNode) -> None:
    kinds = ["markdown", *(cell.cell_type for cell in notebook.cells), "markdown"]
    alone = [i for i in range(1, len(kinds) - 1) if "markdown" not in kinds[i - 1 : i + 2]]
    assert alone == [], "these cells have code before and after them"


def test_nothing_is_stored_that_differs_between_machines(notebook: NotebookNode) -> None:
    stored = nbformat.writes(notebook)
    normalise(notebook)
    assert nbformat.writes(notebook) == stored, "store the outputs with: python3 -m helpers build"


def test_the_metadata_name_the_kernel_and_nothing_else(notebook: NotebookNode) -> None:
    assert notebook.metadata == {**KERNEL, "language_info": {"name": "python"}}


def test_a_cell_without_the_set_up_cell_says_what_to_do() -> None:
    path = PATHS[0]  # any of them: it says where the kernel starts
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("lab.tasks()")])
    with pytest.raises(CellExecutionError) as caught:
        client(notebook, path).execute()
    assert "Run its first code cell" in str(caught.value)
    assert "Traceback" not in str(caught.value)


def lease_lengths_named(notebook: NotebookNode) -> set[float]:
    """How long a lease may last by the text: the lesson's lease, and what its cells make of it, such as LEASE / 2."""
    code = "\n".join(cell.source for cell in code_cells(notebook))
    products = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.BinOp)]
    made = [ast.unparse(node) for node in products if re.fullmatch(r"[\d. */]*LEASE[\d. */]*", ast.unparse(node))]
    return {LESSONS_LEASE, *(eval(expression, {"LEASE": LESSONS_LEASE}) for expression in made)}


def leases_of_pictures(notebook: NotebookNode) -> dict[str, str]:
    """What each picture of a ledger with leases says in its file: the code of its cell → "10 s, 30 s"."""
    found = {}
    for cell in code_cells(notebook):
        if re.search(r"lab\.(timeline|remaining_lease)\(", cell.source):
            for output in cell.outputs:
                if png := output.get("data", {}).get("image/png"):
                    words = Image.open(io.BytesIO(base64.b64decode(png))).info.get("Description", "")
                    found[cell.source] = (LEASES_LASTED.search(words) or [""])[0]
    return found


def test_every_picture_shows_leases_as_long_as_the_text_says(path: Path, notebook: NotebookNode) -> None:
    if "LEASE = lab.lease_seconds()" in str(notebook):
        prose = " ".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
        assert f"{LESSONS_LEASE} seconds" in prose
    if 0 < int(path.name[:2]) < FIRST_LESSON_WITH_LEASES:
        assert set(leases_of_pictures(notebook).values()) <= {""}
        return
    known = lease_lengths_named(notebook)
    for source, words in leases_of_pictures(notebook).items():
        lengths = {float(length) for length in re.findall(r"([\d.]+) s\b", words)}
        assert lengths, f"store the outputs with: python3 -m helpers build\n{source}"
        assert lengths <= known, source


def test_a_notebook_is_not_built_with_another_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_LEASE_SECONDS", "4")
    monkeypatch.setattr("helpers.notebooks.nbformat.write", lambda *_: pytest.fail("it was stored"))
    with pytest.raises(LabError, match=r"a lease lasts 10 s.*unset LAB_LEASE_SECONDS"):
        build([0])


@pytest.mark.thorough
@pytest.mark.timeout(900)
def test_every_cell_may_be_run_twice(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    doubled = [cell for cell in code_cells(notebook) for _ in range(2)]
    notebook.cells = [nbformat.v4.new_code_cell(cell.source) for cell in doubled]
    client(notebook, path).execute()  # raises what a cell raises
