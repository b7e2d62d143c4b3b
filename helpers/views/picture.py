"""The timeline: one lane a task and attempt, time from the reset on x."""

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.style
import pandas as pd
from matplotlib.figure import Figure

from helpers.views.drawing import DPI, FONT, TEXT, Drawing
from helpers.views.frames import lease_lengths
from helpers.views.layout import WIDTH
from helpers.views.palette import INK, PAPER
from helpers.views.reading import read_story
from helpers.views.sentences import story_text
from helpers.views.words import LEASES

SHARP = 2  # pixels of the file for one of the page

# Not the reader's own settings and fonts: the same ledger gives the same picture everywhere.
STYLE: list[Any] = [
    "default",
    {"font.family": FONT, "font.size": TEXT, "svg.hashsalt": "task42", "hatch.linewidth": 0.8},
]


class Timeline:
    """A picture of a ledger (`figure`) and the same in words (`description`).

    `leases`: how long leases lasted, in seconds. That stands in the picture's file alone: with the words beside it a
    notebook is compared, and where it is tested leases are shorter.
    """

    def __init__(self, figure: Figure, description: str, *, empty: bool = False, leases: Sequence[float] = ()) -> None:
        self.figure = figure
        self.description = description
        self._empty = empty
        self._leases = leases

    @property
    def file_words(self) -> str:
        """What stands in the file: the description, and how long leases lasted."""
        if not self._leases:
            return self.description
        lengths = ", ".join(f"{seconds:g} s" for seconds in self._leases)
        return f"{self.description} {LEASES.format(lengths=lengths)}"

    def __repr__(self) -> str:
        return self.description

    def save(self, path: str | Path) -> None:
        """Write a PNG or an SVG, by the path's suffix: the same bytes for the same ledger."""
        Path(path).write_bytes(self._bytes(Path(path).suffix.removeprefix(".").lower()))

    def _bytes(self, kind: str) -> bytes:
        # A date or a version inside the file would make two equal pictures differ. The words belong to it.
        metadata = {"Description": self.file_words, **({"Date": None} if kind == "svg" else {"Software": None})}
        buffer = io.BytesIO()
        with matplotlib.style.context(STYLE):
            self.figure.savefig(buffer, format=kind, dpi=DPI * SHARP, metadata=metadata)
        return buffer.getvalue()

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> tuple[dict[str, str], dict[str, Any]]:
        if self._empty:
            return {"text/plain": self.description}, {}
        width, height = (round(inches * DPI) for inches in self.figure.get_size_inches())
        data = {"text/plain": self.description, "image/png": base64.b64encode(self._bytes("png")).decode("ascii")}
        return data, {"image/png": {"alt": self.description, "width": width, "height": height}}


def timeline(ledger: pd.DataFrame, tasks: list[int] | None = None, until: float | None = None) -> Timeline:
    """What the ledger tells, as a picture: all tasks or `tasks`, up to `until` seconds (else up to the last row)."""
    story = read_story(ledger, tasks, until)
    description = story_text(story, tasks)
    with matplotlib.style.context(STYLE):
        if not story.lanes:
            figure = Figure(figsize=(WIDTH, 1.0), facecolor=PAPER)
            figure.text(0.5, 0.5, description, ha="center", va="center", color=INK)
            return Timeline(figure, description, empty=True)
        return Timeline(Drawing(story).figure, description, leases=lease_lengths(ledger, tasks))
