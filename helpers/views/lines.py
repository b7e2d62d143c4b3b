"""A chart of measured lines: both axes count in powers of ten, and each line is named at its right end."""

from collections.abc import Mapping, Sequence
from itertools import cycle

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from helpers.views.drawing import DPI, TEXT, TITLE
from helpers.views.layout import WIDTH
from helpers.views.palette import BLUE, GREEN, GREY, INK, PAPER, PURPLE, VERMILLION
from helpers.views.picture import STYLE, Timeline

HEIGHT = 4.2
LEFT, TOP, BOTTOM = 0.8, 0.5, 0.66  # inches beside the axes
LETTER, LINE = 0.078, 0.21  # inches, of a name at a line's end

# The lines differ in mark and in stroke first, and in colour only besides.
LOOKS = ((BLUE, "o", "-"), (VERMILLION, "s", "--"), (GREEN, "^", "-."), (PURPLE, "D", ":"))


def lines(
    values: Mapping[str, Sequence[float]],
    places: Sequence[int],
    *,
    title: str,
    x_label: str,
    y_label: str,
    name: str = "{name}: {value:g}",
    description: str,
) -> Timeline:
    """One line for each of `values`: what was measured at each of `places`, all above 0.

    `name` is what stands at a line's end, where `value` is its last one, rounded to two digits. `description` is the
    picture in words.
    """
    with matplotlib.style.context(STYLE):
        figure = Figure(figsize=(WIDTH, HEIGHT), dpi=DPI, facecolor=PAPER)
        FigureCanvasAgg(figure)
        names = {line: name.format(name=line, value=float(f"{measured[-1]:.2g}")) for line, measured in values.items()}
        width = WIDTH - LEFT - 0.3 - LETTER * max(map(len, names.values()))
        axes: Axes = figure.add_axes((LEFT / WIDTH, BOTTOM / HEIGHT, width / WIDTH, 1 - (TOP + BOTTOM) / HEIGHT))
        figure.text(0.016, 1 - 0.25 / HEIGHT, title, va="center", fontsize=TITLE, weight="bold", color=INK)
        axes.set_xscale("log")
        axes.set_yscale("log")
        for (line, measured), (colour, mark, stroke) in zip(values.items(), cycle(LOOKS), strict=False):
            axes.plot(places, measured, color=colour, marker=mark, linestyle=stroke, linewidth=1.8, label=line)
        axes.set_xticks(places, [f"{place:,}" for place in places])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.grid(axis="y", color="#EEEEEE")
        axes.set_axisbelow(True)
        axes.set_xlabel(x_label, color=INK)
        axes.set_ylabel(y_label, color=INK)
        axes.tick_params(colors=INK, length=3)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        for side in ("bottom", "left"):
            axes.spines[side].set_color(GREY)
        name_the_ends(axes, {names[line]: measured[-1] for line, measured in values.items()}, places[-1])
        return Timeline(figure, description)


def name_the_ends(axes: Axes, ends: Mapping[str, float], place: int) -> None:
    """Write each name beside the end of its line; where two would touch, the upper one moves up."""
    height = (HEIGHT - TOP - BOTTOM) * 72  # in points
    to_part = axes.transScale + axes.transLimits
    free = 0.0
    for name, value in sorted(ends.items(), key=lambda item: item[1]):
        end = float(to_part.transform((place, value))[1]) * height
        at = max(end, free)
        free = at + LINE * 72
        offset = {"xytext": (10, at - end), "textcoords": "offset points", "annotation_clip": False}
        axes.annotate(name, (place, value), va="center", fontsize=TEXT, color=INK, **offset)  # type: ignore[arg-type]
