"""A bar chart of counts: one bar a name, with the number at its end, and a line for what the number should be."""

from collections.abc import Mapping

import matplotlib.style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from helpers.views.drawing import BEHIND_TEXT, DPI, TEXT, TITLE
from helpers.views.layout import WIDTH
from helpers.views.palette import BLUE, GREY, INK, ORANGE, PAPER
from helpers.views.picture import STYLE, Timeline


def bars(
    counts: Mapping[str, int], wanted: int, title: str, wanted_label: str, description: str, notes: Mapping[str, str]
) -> Timeline:
    """One bar for each of `counts`; orange and hatched where it is above `wanted`, which a line marks.

    `notes` stand below a bar's name; `description` is the picture in words.
    """
    height = 1.35 + 0.75 * len(counts)
    with matplotlib.style.context(STYLE):
        figure = Figure(figsize=(WIDTH, height), dpi=DPI, facecolor=PAPER)
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0.11, 0.62 / height, 0.8, 1 - 1.15 / height))
        figure.text(0.016, 1 - 0.25 / height, title, va="center", fontsize=TITLE, weight="bold", color=INK)
        for place, (name, count) in enumerate(counts.items()):
            above = count > wanted
            axes.barh(
                place, count, height=0.4, color=ORANGE if above else BLUE, edgecolor=INK, hatch="//" if above else None
            )
            axes.text(count, place, f" {count}", va="center", weight="bold", color=INK)
            if name in notes:
                axes.text(0, place + 0.37, notes[name], va="center", fontsize=TEXT - 1, color=INK, bbox=BEHIND_TEXT)
        axes.axvline(wanted, color=INK, linewidth=1.5, linestyle="--", zorder=2)
        axes.text(wanted, -0.42, f" {wanted_label}", va="center", fontsize=TEXT - 1, color=INK)
        axes.set_yticks(range(len(counts)), list(counts))
        axes.set_ylim(len(counts) - 0.4, -0.6)
        axes.set_xlim(0, max(*counts.values(), wanted) * 1.12)
        axes.tick_params(colors=INK, length=0)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.spines["bottom"].set_color(GREY)
        return Timeline(figure, description)
