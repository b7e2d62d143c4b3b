"""The chart of a storm: above, the completed tasks over time; below, one lane a place, with all that happened in it."""

import matplotlib.style
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from helpers.views.drawing import DPI, TEXT, TITLE, width_of
from helpers.views.frames import rows_of
from helpers.views.layout import EDGE, WIDTH
from helpers.views.palette import BLUE, GREEN, GREY, ICONS, INK, LEASE, LIGHT_GREY, ORANGE, PAPER, VERMILLION
from helpers.views.picture import STYLE, Timeline
from helpers.views.storm_lanes import Band, Lane, read_lanes

TITLE_HEIGHT, UPPER, GAP, LANE, AXIS, LEGEND = 0.65, 1.5, 0.25, 0.55, 0.6, 0.75  # inches, from top to bottom
LEFT = 0.62  # inches, where the time begins
BAR, STRIP = 0.2, 0.1  # inches: the height of a process, and of the strip that stands above it while its network stalls

TEXTS = {
    "title": "{done} of {tasks} tasks completed, the last after {seconds:.0f} s",
    "title_none": "0 of {tasks} tasks completed",
    "upper": "completed tasks",
    "axis": "seconds",
    "begins": "the storm begins",
    "over": "it is over",
    "description": (
        "Above: the completed tasks over time, {in_the_end} of the {tasks}. Below: one lane a place, with its "
        "processes one after the other, and what happened to them."
    ),
    "all": "in the end all",
    "not_all": "in the end not all",
    "process": "process",
    "completed": "task completed",
    "frozen": "frozen",
    "stalled": "network stalled",
    "cut": "connections cut",
    "killed": "killed",
    "error": "ended with an error",
    "taken_over": "task taken over",
    "refused": "stale claim refused",
}
# What is a moment: a shape and a colour.
MARKS = {
    "cut": ("P", ORANGE),
    "killed": ("X", VERMILLION),
    "error": ("v", VERMILLION),
    "taken_over": ICONS["taken_over"],
    "refused": ICONS["refused"],
}
# What lasts: a face, an edge and a hatch.
BANDS = {
    "process": (LEASE, BLUE, ""),
    "frozen": (PAPER, BLUE, "/////"),
    "stalled": (ORANGE, INK, ""),
}


def storm_chart(ledger: pd.DataFrame, tasks: int) -> Timeline:
    """The ledger of a storm of `tasks` tasks as a picture, and in words what is the same in each run."""
    rows = rows_of(ledger)
    lanes, completed = read_lanes(rows)
    lines = {row["event"]: row["seconds"] for row in rows if row["event"] in ("begins", "over")}
    in_the_end = TEXTS["all" if len(completed) == tasks else "not_all"]
    figure = draw(lanes, sorted(completed.values()), lines, tasks, rows[-1]["seconds"])
    return Timeline(figure, TEXTS["description"].format(in_the_end=in_the_end, tasks=tasks))


def draw(lanes: dict[str, Lane], completed: list[float], lines: dict[str, float], tasks: int, seconds: float) -> Figure:
    """`completed`: when each task was completed. `lines`: when the storm began, and when it was over."""
    lower = LANE * len(lanes)
    height = TITLE_HEIGHT + UPPER + GAP + lower + AXIS + LEGEND
    width = WIDTH - LEFT - EDGE
    with matplotlib.style.context(STYLE):
        figure = Figure(figsize=(WIDTH, height), dpi=DPI, facecolor=PAPER)
        FigureCanvasAgg(figure)
        last = completed[-1] if completed else 0.0
        title = TEXTS["title" if completed else "title_none"].format(done=len(completed), tasks=tasks, seconds=last)
        figure.text(EDGE / WIDTH, 1 - 0.25 / height, title, va="center", fontsize=TITLE, weight="bold", color=INK)

        def part(bottom: float, high: float) -> Axes:
            axes = figure.add_axes((LEFT / WIDTH, bottom / height, width / WIDTH, high / height))
            axes.set_xlim(0, seconds * 1.01)
            axes.tick_params(colors=INK, length=3)
            axes.grid(axis="x", color="#EEEEEE")
            axes.set_axisbelow(True)
            for side in ("top", "right"):
                axes.spines[side].set_visible(False)
            for side in ("bottom", "left"):
                axes.spines[side].set_color(GREY)
            for at in lines.values():
                axes.axvline(at, color=INK, linewidth=1.2, linestyle=":")
            return axes

        draw_completed(part(AXIS + LEGEND + lower + GAP, UPPER), completed, lines, tasks, seconds)
        axes = part(AXIS + LEGEND, lower)
        axes.set_xlabel(TEXTS["axis"], color=INK)
        axes.set_ylim(lower, 0)
        axes.set_yticks([LANE * (n + 0.55) for n in range(len(lanes))], list(lanes), weight="bold")
        axes.tick_params(axis="y", length=0)
        for number, lane in enumerate(lanes.values()):
            draw_lane(axes, lane, LANE * (number + 0.55), seconds)
        draw_legend(figure.add_axes((0, 0, 1, LEGEND / height), xlim=(0, WIDTH), ylim=(LEGEND, 0)))
        return figure


def draw_completed(axes: Axes, completed: list[float], lines: dict[str, float], tasks: int, seconds: float) -> None:
    times, counts = [0.0, *completed, seconds], [*range(len(completed) + 1), len(completed)]
    axes.fill_between(times, counts, step="post", color=LIGHT_GREY, linewidth=0)
    axes.step(times, counts, where="post", color=GREEN, linewidth=2)
    axes.axhline(tasks, color=GREY, linewidth=1, linestyle="--")
    axes.set_ylim(0, tasks * 1.08)
    axes.set_ylabel(TEXTS["upper"], color=INK)
    axes.tick_params(axis="x", labelbottom=False)
    for event, at in lines.items():
        side = "left" if event == "begins" else "right"
        axes.text(at, tasks * 1.13, TEXTS[event], ha=side, color=INK, fontsize=TEXT)


def draw_lane(axes: Axes, lane: Lane, y: float, seconds: float) -> None:
    """`y` is the middle of the processes, in inches from the top."""
    for band in lane.bands:
        end = seconds if band.end is None else band.end
        draw_band(axes, band.kind, band.start, end, y)
        needed = (width_of(band.name) + 0.25) * seconds / (WIDTH - LEFT)  # for the name, in seconds
        at = free_for_name(lane, band, needed)
        if band.kind == "process" and end - at > needed:
            name = axes.annotate(band.name, (at, y), xytext=(7, 0), textcoords="offset points", zorder=5)
            name.set(va="center_baseline", color=INK, fontsize=TEXT - 1.5)
    for at in lane.completed:
        draw_stroke(axes, at, y)
    for kind, at in lane.marks:
        draw_mark(axes, kind, at, y)


def free_for_name(lane: Lane, band: Band, needed: float) -> float:
    """Where a process's name can begin: at its start, or behind the marks that would cover it there."""
    at = band.start
    for mark in sorted(moment for _, moment in lane.marks):
        if at < mark < at + needed:
            at = mark
    return at


def draw_band(axes: Axes, kind: str, start: float, end: float, y: float) -> None:
    face, edge, hatch = BANDS[kind]
    top, high = (y - BAR / 2 - STRIP - 0.03, STRIP) if kind == "stalled" else (y - BAR / 2, BAR)
    box = Rectangle((start, top), end - start, high, facecolor=face, edgecolor=edge, linewidth=0.8, zorder=3)
    box.set_hatch(hatch)
    axes.add_patch(box)


def draw_stroke(axes: Axes, at: float, y: float) -> None:
    below = y + BAR / 2 + 0.03
    axes.plot([at, at], [below, below + STRIP], color=GREEN, linewidth=1.6, solid_capstyle="butt", zorder=3)


def draw_mark(axes: Axes, kind: str, at: float, y: float) -> None:
    shape, color = MARKS[kind]
    axes.plot(
        [at],
        [y],
        marker=shape,
        markersize=8,
        color=color,
        markeredgecolor=PAPER,
        markeredgewidth=0.8,
        zorder=6,
        clip_on=False,
    )


def draw_legend(axes: Axes) -> None:
    """Each sign with its word, in two rows."""
    axes.set_axis_off()
    aside = BAR / 2 + 0.03 + STRIP / 2  # how far a strip lies above a process, and a stroke below it
    rows = (("process", "completed", "frozen", "stalled", "cut"), ("killed", "error", "taken_over", "refused"))
    for row, kinds in enumerate(rows):
        x, y = LEFT, 0.2 + 0.32 * row
        for kind in kinds:
            if kind in BANDS:
                draw_band(axes, kind, x - 0.12, x + 0.22, y + aside if kind == "stalled" else y)
            elif kind in MARKS:
                draw_mark(axes, kind, x + 0.05, y)
            else:
                draw_stroke(axes, x + 0.05, y - aside)
            axes.text(x + 0.32, y, TEXTS[kind], va="center_baseline", color=INK, fontsize=TEXT)
            x += 0.32 + width_of(TEXTS[kind]) + 0.4
