"""How much of a lease was left, moment by moment: a line that falls, and rises with each renewal."""

from dataclasses import dataclass

import matplotlib.style
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from helpers.views.drawing import BEHIND_TEXT, DPI, TEXT, TITLE
from helpers.views.frames import rows_of
from helpers.views.layout import WIDTH
from helpers.views.palette import BLUE, GREY, INK, LEASE, PAPER, VERMILLION
from helpers.views.picture import STYLE, Timeline
from helpers.views.words import REMAINING, TABLE

HEIGHT = 3.3


@dataclass(frozen=True)
class Piece:
    """The time from a claim or a renewal to the next one (`renewed`), or to the end of the attempt.

    `start` and `end` in seconds of the ledger; `left` is how much of the lease was left at its end.
    """

    start: float
    end: float
    lease_end: float
    renewed: bool

    @property
    def left(self) -> float:
        return max(self.lease_end - self.end, 0.0)


def remaining(ledger: pd.DataFrame, task: int, lease_seconds: float) -> Timeline:
    """The newest attempt of `task` as a picture, and in words whether each renewal came in good time.

    In good time is a renewal that comes while more than a third of the lease, which lasts `lease_seconds`, is left.
    """
    attempt, pieces = read_pieces(ledger, task)
    renewals = [piece for piece in pieces if piece.renewed]
    if not renewals:
        return Timeline(Figure(), REMAINING["none"].format(task=task), empty=True)
    smallest = min(renewals, key=lambda piece: piece.left)
    in_time = TABLE["true" if smallest.left > lease_seconds / 3 else "false"]
    description = REMAINING["text"].format(task=task, attempt=attempt, in_time=in_time)
    title = REMAINING["title"].format(task=task, attempt=attempt, count=len(renewals))
    return Timeline(draw(pieces, smallest, lease_seconds, title), description, leases=[lease_seconds])


def read_pieces(ledger: pd.DataFrame, task: int) -> tuple[int | None, list[Piece]]:
    """The number of the task's newest attempt, and its pieces. A renewal changes nothing but the lease."""
    attempt: int | None = None
    pieces: list[Piece] = []
    start = lease_end = None
    rows = [row for row in rows_of(ledger) if row["task_id"] == task and row["event"] in ("update", "delete")]
    for row in rows:
        at, renewed = row["seconds"], row["new_status"] == "processing" and row["attempt"] == attempt
        if start is not None and lease_end is not None:
            pieces.append(Piece(start, at, lease_end, renewed))
        if row["new_status"] == "processing" and not renewed:
            attempt, pieces = row["attempt"], []
        working = row["new_status"] == "processing"
        start, lease_end = (at, row["lease_end"]) if working else (None, None)
    return attempt, pieces


def draw(pieces: list[Piece], smallest: Piece, lease_seconds: float, title: str) -> Figure:
    zero = pieces[0].start
    with matplotlib.style.context(STYLE):
        figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI, facecolor=PAPER)
        FigureCanvasAgg(figure)
        axes: Axes = figure.add_axes((0.075, 0.62 / HEIGHT, 0.905, 1 - 1.15 / HEIGHT))
        figure.text(0.016, 1 - 0.25 / HEIGHT, title, va="center", fontsize=TITLE, weight="bold", color=INK)
        times = [time - zero for piece in pieces for time in (piece.start, piece.end)]
        left = [seconds for piece in pieces for seconds in (piece.lease_end - piece.start, piece.left)]
        axes.fill_between(times, left, color=LEASE, linewidth=0)
        axes.plot(times, left, color=BLUE, linewidth=1.6)
        axes.axhline(lease_seconds / 3, color=INK, linewidth=1.2, linestyle="--")
        note(axes, times[-1] / 2, lease_seconds / 3, REMAINING["third"], ha="center")
        x = smallest.end - zero
        axes.plot([x], [smallest.left], marker="v", markersize=9, color=VERMILLION, linestyle="none", zorder=5)
        side = "left" if x < times[-1] * 0.6 else "right"
        place = x + times[-1] * (0.012 if side == "left" else -0.012)
        note(axes, place, smallest.left, REMAINING["smallest"].format(seconds=smallest.left), ha=side, weight="bold")
        axes.set_xlim(0, times[-1] * 1.01)
        axes.set_ylim(0, lease_seconds * 1.08)
        axes.set_xlabel(REMAINING["axis"], color=INK)
        axes.set_ylabel(REMAINING["left"], color=INK)
        axes.tick_params(colors=INK, length=3)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        for side in ("bottom", "left"):
            axes.spines[side].set_color(GREY)
        return figure


def note(axes: Axes, x: float, y: float, text: str, **style: object) -> None:
    """A word on the chart, just below the height it speaks of."""
    options = {"color": INK, "fontsize": TEXT, "bbox": BEHIND_TEXT, "va": "top", "zorder": 6, **style}
    axes.annotate(text, (x, y), xytext=(0, -7), textcoords="offset points", **options)  # type: ignore[arg-type]
