"""A small extension of IPython: errors that a learner can mend are told by a sentence, not by a traceback.

The configuration beside this file (`ipython_config.py`) is installed with the project, so that every kernel
of this environment loads it, in JupyterLab, in an editor, and in a test.
"""

import traceback as tracebacks
from collections.abc import Callable
from types import TracebackType
from typing import Any

TEXTS = {
    "set-up": "This notebook is not set up yet. Run its first code cell, then this one.",
    "earlier": (
        '"{name}" is not defined. If an earlier cell makes it, run the cells above first: '
        "Run > Run All Above Selected Cell."
    ),
}


LESSONS_CODE = "helpers.repository"  # what a lesson is about: what the server says to it is part of the lesson


def load_ipython_extension(shell: Any) -> None:
    """Called by IPython when a kernel starts. Imports nothing big: every kernel pays for it."""
    shell.set_custom_exc((NameError,), show_error)


def watch_cells(on_interrupt: Callable[[], None]) -> None:
    """From now on, tell an error of the database too, and call `on_interrupt` after a cell that was interrupted.

    Outside of IPython this does nothing.
    """
    from IPython import get_ipython

    from helpers.diagnosis import DATABASE_ERRORS

    shell = get_ipython()
    if shell is None:
        return
    shell.set_custom_exc((NameError, *DATABASE_ERRORS), show_error)

    def after_cell(result: Any) -> None:
        if isinstance(result.error_in_exec, KeyboardInterrupt):
            on_interrupt()

    shell.events.register("post_run_cell", after_cell)


def show_error(
    shell: Any, kind: type[Exception], error: Any, traceback: TracebackType, tb_offset: int | None = None
) -> None:
    """Show what IPython would show, with a sentence that says what to do; or that sentence alone, where it says all."""
    lines = shell.InteractiveTB.structured_traceback(kind, error, traceback, tb_offset=tb_offset)
    if isinstance(error, NameError):
        lines = [TEXTS["set-up"]] if error.name == "lab" else [*lines, TEXTS["earlier"].format(name=error.name)]
    else:
        from helpers.diagnosis import explain, is_connection_failure

        if is_connection_failure(error) or comes_from_the_lab(traceback):
            lines = [explain(error)]
    shell._showtraceback(kind, error, lines)


def comes_from_the_lab(traceback: TracebackType) -> bool:
    """Whether the cell called the project's machinery, and not SQL or a function of its own, or the lesson's code."""
    modules = (frame.f_globals.get("__name__", "") for frame, _ in tracebacks.walk_tb(traceback))
    first = next((name for name in modules if name.startswith("helpers.")), LESSONS_CODE)
    return not first.startswith(LESSONS_CODE)
