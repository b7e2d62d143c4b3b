"""A small extension of IPython: a name that an earlier cell makes is asked for by a sentence, not a traceback.

The configuration beside this file (`ipython_config.py`) is installed with the project, so that every kernel
of this environment loads it, in JupyterLab, in an editor, and in a test.
"""

from types import TracebackType
from typing import Any

TEXTS = {
    "set-up": "This notebook is not set up yet. Run its first code cell, then this one.",
    "earlier": (
        '"{name}" is not defined. If an earlier cell makes it, run the cells above first: '
        "Run > Run All Above Selected Cell."
    ),
}


def explain_name_error(
    shell: Any, kind: type[NameError], error: NameError, traceback: TracebackType, tb_offset: int | None = None
) -> None:
    """Show where the name was missing, and then what to do about it."""
    if error.name == "lab":
        shell._showtraceback(kind, error, [TEXTS["set-up"]])
    else:
        lines = shell.InteractiveTB.structured_traceback(kind, error, traceback, tb_offset=tb_offset)
        shell._showtraceback(kind, error, [*lines, TEXTS["earlier"].format(name=error.name)])


def load_ipython_extension(shell: Any) -> None:
    shell.set_custom_exc((NameError,), explain_name_error)
