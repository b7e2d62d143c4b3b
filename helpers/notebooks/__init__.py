"""Runs notebooks without a browser: `run` shows what the experiments gave, `build` stores the outputs.

Cells with the tag `experiment` are those whose output `run` prints and compares with the stored one.
"""

import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbformat import NotebookNode

from helpers.errors import LabError
from helpers.lab.frame.lesson import LESSONS_LEASE, lease_seconds
from helpers.notebooks.execution import client, execute
from helpers.paths import NOTEBOOKS

EXPERIMENT = "experiment"
KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}}

TEXTS = {
    "unknown": "There is no lesson {lesson}. The lessons are: {known}.",
    "same": "All {count} experiment cells gave what the stored notebook shows.",
    "differs": "This cell gave something else than the stored notebook shows. Stored:",
    "failed": "Lesson {lesson} stopped at an error in this cell:",
    "lease": (
        "LAB_LEASE_SECONDS is {value}, and the lessons say that a lease lasts {lease} s. What is stored must be what "
        "they say: unset LAB_LEASE_SECONDS, then build again."
    ),
    "built": "{name}: {count} code cells run and stored.",
}


def lesson_paths() -> dict[int, Path]:
    """The notebooks by the number of their lesson, in order."""
    return {int(path.name[:2]): path for path in sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))}


def find_lesson(lesson: int) -> Path:
    """The notebook of `lesson`. Raises LabError, which lists the lessons, where there is none."""
    paths = lesson_paths()
    if lesson not in paths:
        raise LabError(TEXTS["unknown"].format(lesson=lesson, known=", ".join(map(str, paths))))
    return paths[lesson]


def run_lesson(lesson: int) -> int:
    """Run a lesson from a fresh kernel and print its headings and what each experiment showed.

    Returns 0, or 1 where a cell fails or an experiment gives something else than the stored notebook shows.
    """
    path = find_lesson(lesson)
    stored = nbformat.read(path, as_version=4)
    notebook = nbformat.read(path, as_version=4)
    checked = differing = 0

    def announce(cell: NotebookNode, **_: Any) -> None:
        if cell.cell_type == "markdown":
            print_headings(cell.source)

    def show(cell: NotebookNode, cell_index: int, **_: Any) -> None:
        nonlocal checked, differing
        if EXPERIMENT in cell.metadata.get("tags", []):
            text, expected = output_text(cell), output_text(stored.cells[cell_index])
            checked += 1
            print(f"{text}\n", flush=True)
            if text != expected:
                differing += 1
                print(f"{TEXTS['differs']}\n{expected}\n", flush=True)

    try:
        execute(client(notebook, path, on_cell_start=announce, on_cell_executed=show))
    except (CellExecutionError, DeadKernelError) as error:
        print(f"{TEXTS['failed'].format(lesson=lesson)}\n{plain(str(error))}", file=sys.stderr)
        return 1
    if differing == 0:
        print(TEXTS["same"].format(count=checked))
    return 1 if differing else 0


def build(lessons: list[int]) -> int:
    """Run the notebooks (all, where `lessons` is empty) and store their outputs. Returns 0; raises what a cell raises.

    Two builds of one notebook differ in nothing: no times, no widget state, cell ids by position.
    Raises LabError where the lease would be another than the one that the lessons speak of.
    """
    if (lease := lease_seconds()) != LESSONS_LEASE:
        raise LabError(TEXTS["lease"].format(value=f"{lease:g}", lease=LESSONS_LEASE))
    for lesson in lessons or list(lesson_paths()):
        path = find_lesson(lesson)
        notebook = nbformat.read(path, as_version=4)
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        execute(client(notebook, path))
        normalise(notebook)
        nbformat.write(notebook, path)
        count = sum(cell.cell_type == "code" for cell in notebook.cells)
        print(TEXTS["built"].format(name=path.name, count=count), flush=True)
    return 0


def normalise(notebook: NotebookNode) -> None:
    """Leave in the notebook only what is the same on every machine."""
    version = notebook.metadata.get("language_info", {}).get("name", "python")
    notebook.metadata = nbformat.from_dict({**KERNEL, "language_info": {"name": version}})
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:02}"
        cell.metadata = nbformat.from_dict({key: cell.metadata[key] for key in ("tags",) if key in cell.metadata})
        if cell.cell_type == "code":
            cell.outputs = merge_streams(cell.outputs)
        for output in cell.get("outputs", []):
            # A stored widget is a blank box in a viewer without a kernel; its text is stored beside it.
            output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)


def merge_streams(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Join neighbouring pieces of one stream: where a kernel cuts its output is a matter of chance."""
    merged: list[NotebookNode] = []
    for output in outputs:
        if merged and output.output_type == "stream" and output.get("name") == merged[-1].get("name"):
            merged[-1].text += output.text
        else:
            merged.append(output)
    return merged


def output_text(cell: NotebookNode) -> str:
    """What the cell printed and showed, as plain text."""
    parts = []
    for output in merge_streams(cell.outputs):
        if output.output_type == "stream":
            parts.append(output.text)
        elif "data" in output:
            parts.append(output.data.get("text/plain", ""))
    return "\n".join(part.strip("\n") for part in parts)


def print_headings(markdown: str) -> None:
    for line in re.findall(r"^#+ +(.+)$", markdown, flags=re.MULTILINE):
        print(f"== {line} ==\n", flush=True)


def plain(text: str) -> str:
    """Without the colour codes that a kernel puts into a traceback."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text)
