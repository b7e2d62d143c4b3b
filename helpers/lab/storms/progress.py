"""How far a storm has come, shown while its cell runs."""

from typing import Any

import ipywidgets as widgets
from IPython import get_ipython
from IPython.display import display

TEXTS = {"plain": "(While the storm lasts, a line here says how far it has come.)"}


class Progress:
    """One line that changes. Where widgets are not shown (GitHub, an export, a terminal), it stays as it is."""

    def __init__(self) -> None:
        self._label = widgets.Label()
        self._last = ""
        if get_ipython() is not None:
            display(self)

    def show(self, line: str) -> None:
        """Replace the line."""
        if line != self._last:
            self._last = self._label.value = line

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = self._label._repr_mimebundle_()
        return {**bundle, "text/plain": TEXTS["plain"]}
