"""How long each task waited for its claim, in the order of the claims: one panel a run, one shape a priority."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from helpers.views.drawing import DPI, TEXT, TITLE
from helpers.views.layout import WIDTH
from helpers.views.palette import BLUE, GREEN, GREY, INK, PAPER, VERMILLION
from helpers.views.picture import STYLE, Timeline

HEIGHT = 3.6
LEFT, RIGHT, BETWEEN = 0.075, 0.985, 0.03  # of the picture's width

TEXTS = {
    "title": "How long each task waited for its claim",
    "wait": "seconds waited",
    "place": "place in the order of the claims",
    "task": "#{id}: {seconds:.1f} s",
}

# Circles, squares, triangles: the priorities differ in shape first, and the rarer ones are drawn larger.
MARKS = {"HIGH": ("o", BLUE, 4.5), "MEDIUM": ("s", GREEN, 7.0), "LOW": ("^", VERMILLION, 9.0)}


@dataclass(frozen=True)
class Wait:
    """One claim. `seconds` is how long the task had waited since it was created."""

    id: int
    priority: str
    seconds: float


def waits(runs: Mapping[str, Sequence[Wait]], description: str, named: int) -> Timeline:
    """Draw the claims of each run, in their order, on one scale. The task `named` has its number and its wait written.

    `runs` has the title of a panel and its claims; `description` is the picture in words.
    """
    longest = max((wait.seconds for run in runs.values() for wait in run), default=0.0)
    width = (RIGHT - LEFT - BETWEEN * (len(runs) - 1)) / len(runs)
    with matplotlib.style.context(STYLE):
        figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI, facecolor=PAPER)
        FigureCanvasAgg(figure)
        figure.text(0.016, 1 - 0.25 / HEIGHT, TEXTS["title"], va="center", fontsize=TITLE, weight="bold", color=INK)
        for number, (title, run) in enumerate(runs.items()):
            box = (LEFT + number * (width + BETWEEN), 0.62 / HEIGHT, width, 1 - 1.45 / HEIGHT)
            axes = figure.add_axes(box)
            prepare(axes, title, len(run), longest, first=number == 0)
            panel(axes, run, named)
            if number == 0:
                key(axes, {wait.priority for run in runs.values() for wait in run})
        return Timeline(figure, description)


def prepare(axes: Axes, title: str, claims: int, longest: float, first: bool) -> None:
    axes.set_title(title, loc="left", fontsize=TEXT, color=INK)
    axes.set_xlim(0, claims + 1)
    axes.set_ylim(0, max(ceil(longest * 1.15), 1))
    axes.set_xlabel(TEXTS["place"], color=INK)
    axes.tick_params(colors=INK, length=3, labelleft=first)
    if first:
        axes.set_ylabel(TEXTS["wait"], color=INK)
    axes.grid(axis="y", color="#EEEEEE")
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("bottom", "left"):
        axes.spines[side].set_color(GREY)


def panel(axes: Axes, run: Sequence[Wait], named: int) -> None:
    """The points of one run, one shape a priority, and a word at the task `named`."""
    for priority, mark in MARKS.items():
        points = [(place, wait.seconds) for place, wait in enumerate(run, 1) if wait.priority == priority]
        plot(axes, points, mark)
    for place, wait in enumerate(run, 1):
        if wait.id == named:
            text = TEXTS["task"].format(id=wait.id, seconds=wait.seconds)
            left = place > len(run) / 2  # the side on which it has room
            style: dict[str, Any] = {"xytext": (-9, 0), "ha": "right"} if left else {"xytext": (0, 9), "ha": "center"}
            axes.annotate(
                text, (place, wait.seconds), textcoords="offset points", color=INK, weight="bold", zorder=2, **style
            )


def key(axes: Axes, priorities: Collection[str]) -> None:
    """Say which shape is which, in the corner that stays empty: who is claimed early has not waited long."""
    shown = [priority for priority in MARKS if priority in priorities]
    for number, priority in enumerate(shown):
        y = 0.93 - 0.1 * number
        plot(axes, [(0.03, y)], MARKS[priority], transform=axes.transAxes)
        axes.text(0.055, y, priority, transform=axes.transAxes, va="center", color=INK, fontsize=TEXT)


def plot(axes: Axes, points: Sequence[tuple[float, float]], mark: tuple[str, str, float], **more: Any) -> None:
    shape, color, size = mark
    xs, ys = [x for x, _ in points], [y for _, y in points]
    style: dict[str, Any] = {
        "marker": shape,
        "color": color,
        "markersize": size,
        "markeredgecolor": PAPER,
        "linestyle": "none",
    }
    axes.plot(xs, ys, zorder=3, **style, **more)
