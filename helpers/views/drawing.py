"""Draws a story. Where things lie is decided in `layout`, what they mean in `reading`."""

from functools import cache
from itertools import pairwise
from math import ceil
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle
from matplotlib.ticker import MaxNLocator

from helpers.views import layout as place
from helpers.views.layout import LaneLayout, arrange
from helpers.views.palette import BLUE, GREY, ICONS, INK, LEASE, PAPER, SKY, STATUS, VERMILLION
from helpers.views.sentences import short_name, title
from helpers.views.story import ABANDONED, COMPLETED, EXPIRED, FAILED, PENDING, STALE, WORKING, Lane, Mark, Span, Story
from helpers.views.words import LABELS

DPI = 96  # at which an inch of the picture is an inch of the page
FONT = "DejaVu Sans"  # it comes with matplotlib, so that it is the same everywhere
TEXT, TITLE = 10.5, 12.5  # points
BEHIND_TEXT = {"boxstyle": "square,pad=0.08", "facecolor": PAPER, "edgecolor": "none"}


class Drawing:
    """Draws on one pair of axes that measures inches from the picture's upper left corner."""

    def __init__(self, story: Story) -> None:
        self.story = story
        marks = [[(mark, label(mark, lane)) for mark in marks_of(lane, story)] for lane in story.lanes]
        ahead = [mark.at for lane in marks for mark, _ in lane if mark.at > story.now]
        self.seconds = max([*ahead, story.now]) * 1.03  # the last event does not stand on the very edge
        if not any(lane.actor for lane in story.lanes):
            self.seconds = max(self.seconds, 1.0)  # the milliseconds of a reset are not worth a chart
        self.open_until = story.now if ahead else self.seconds  # what still lasts is drawn up to here
        lines = wrapped(title(story), place.WIDTH - 2 * place.EDGE)
        many = len(story.lanes) > place.MANY_LANES
        top = 0.2 + 0.27 * len(lines) + (0.22 if many else 0) + (0.22 if ahead else 0)
        names = [lane_name(lane) for lane in story.lanes]
        self.layout = arrange(story, names, marks, width_of, self.seconds, top)
        height = ceil((self.layout.bottom + 0.65) * DPI) / DPI  # whole pixels
        self.figure = Figure(figsize=(place.WIDTH, height), dpi=DPI, facecolor=PAPER)
        FigureCanvasAgg(self.figure)
        self.axes: Axes = self.figure.add_axes((0, 0, 1, 1), xlim=(0, place.WIDTH), ylim=(height, 0), facecolor=PAPER)
        self.axes.set_axis_off()
        for number, line in enumerate(lines):
            self.text(place.EDGE, 0.25 + 0.27 * number, line, size=TITLE, weight="bold")
        self.time_axis(bool(ahead))
        for number, lane in enumerate(self.layout.lanes):
            self.lane(lane, self.layout.lanes[number - 1] if number else None)

    def time_axis(self, with_now: bool) -> None:
        layout, bottom = self.layout, self.layout.bottom
        self.line([layout.left, layout.right], [bottom, bottom], color=GREY, linewidth=1)
        for tick in MaxNLocator(8, steps=[1, 2, 5, 10]).tick_values(0, self.seconds):
            if 0 <= tick <= self.seconds:
                x = layout.x(tick)
                self.line([x, x], [layout.top, bottom], color="#EEEEEE", linewidth=1, zorder=0)
                self.line([x, x], [bottom, bottom + 0.05], color=GREY, linewidth=1)
                self.text(x, bottom + 0.17, f"{tick:g}", ha="center")
                if len(layout.lanes) > place.MANY_LANES:  # the lower scale is a page away
                    self.text(x, layout.top - 0.12, f"{tick:g}", ha="center", color=GREY)
        self.text((layout.left + layout.right) / 2, bottom + 0.43, LABELS["axis"], ha="center")
        if with_now:
            x = layout.x(self.story.now)
            y = layout.top - (0.34 if len(layout.lanes) > place.MANY_LANES else 0.12)
            self.line([x, x], [layout.top, bottom], color=INK, linewidth=1, linestyle=":", zorder=1)
            self.text(x, y, LABELS["now"], ha="center")

    def lane(self, lane: LaneLayout, above: LaneLayout | None) -> None:
        y = lane.middle
        self.text(place.EDGE, y, lane.name, weight="bold" if lane.lane.actor else "normal")
        for lease in lane.lane.leases:
            self.lease(lease, lane)
        for span in sorted(lane.lane.spans, key=lambda span: span.kind == WORKING):
            self.bar(span, lane)
        for at in lane.lane.renewals:
            x = self.layout.x(at)
            self.line([x, x], [y + place.BAR / 2, y + place.BAR / 2 + 0.09], color=BLUE, linewidth=1.5, zorder=4)
        for mark in lane.lane.marks:
            if mark.kind in ("crashed", "killed", "ended", "frozen", "refused", "refused_renewal"):
                self.icon(self.layout.x(mark.at), y, *ICONS[mark.kind], edge=PAPER)  # where the bar changes
        for flag in lane.flags:
            level = y - place.BAR / 2 - place.GAP / 2 - place.ROW * (flag.row + 0.5) + 0.04
            self.line([flag.x, flag.x], [level - 0.08, y - place.BAR / 2], color=GREY, linewidth=0.8, zorder=3)
            for mark, text, icon, word in zip(flag.marks, flag.texts, flag.icons, flag.words, strict=True):
                shape, color = ICONS[mark.kind]
                self.icon(icon + 0.08, level, shape, color)
                self.text(word, level, text, zorder=6, bbox=BEHIND_TEXT)
            for word in flag.icons[1:]:
                self.text(word - width_of(" → ") / 2, level, LABELS["then"], ha="center", color=GREY)
        if (
            above
            and above.lane.task == lane.lane.task
            and lane.flags
            and lane.flags[0].marks[0].kind.startswith("taken_over")
        ):
            x = lane.flags[0].x  # the task moves from the lane above to this one
            ends = (x, above.middle + place.BAR / 2), (x, y - place.BAR / 2)
            self.axes.add_patch(
                FancyArrowPatch(*ends, arrowstyle="-|>", mutation_scale=9, color=GREY, shrinkA=0, shrinkB=0, zorder=3)
            )

    def lease(self, lease: Span, lane: LaneLayout) -> None:
        """A band behind the bar, with an edge where the lease ends. What lies after now is only outlined."""
        end = lease.end if lease.end is not None else lane.lane.lease_end
        assert end is not None
        for start, stop, fill in (
            (lease.start, min(end, self.open_until), LEASE),
            (max(lease.start, self.open_until), end, PAPER),
        ):
            if stop > start:
                x, right = self.layout.x(start), self.layout.x(stop)
                box = Rectangle((x, lane.middle - place.BAR / 2 - 0.06), right - x, place.BAR + 0.12, zorder=2)
                box.set(facecolor=fill, edgecolor=SKY, linewidth=0.8, linestyle="-" if fill == LEASE else "--")
                self.axes.add_patch(box)
        if lease.kind == EXPIRED or (lease.end is None and end <= self.seconds):
            x = self.layout.x(end)
            self.line(
                [x, x],
                [lane.middle - place.BAR / 2 - 0.08, lane.middle + place.BAR / 2 + 0.08],
                color=INK,
                linewidth=2,
                zorder=5,
            )

    def bar(self, span: Span, lane: LaneLayout) -> None:
        x = self.layout.x(span.start)
        right = self.layout.x(self.open_until if span.end is None else span.end)
        y, half = lane.middle, place.BAR / 2
        name = short_name(lane.lane.actor or "")
        if span.kind in (COMPLETED, FAILED):  # the row is at rest: a line, not a bar
            color = STATUS[span.kind]
            self.line([x, right], [y, y], color=color, linewidth=4, zorder=3, solid_capstyle="butt")
            self.icon(x, y, *ICONS["completed" if span.kind == COMPLETED else "gave_up"])
            if not lane.flags:
                self.bar_text(LABELS[f"bar.{span.kind}"], x, right, lane, (INK, PAPER), lasts=True)
            return
        if span.kind == STALE:
            self.line([x, right], [y, y], color=VERMILLION, linewidth=1.6, linestyle=(0, (4, 2.5)), zorder=3)
        else:
            right = max(right, x + 0.04)  # a state of milliseconds still shows
            box = Rectangle((x, y - half), right - x, 2 * half, zorder=4 if span.kind == WORKING else 3)
            color = {PENDING: STATUS["pending"], WORKING: STATUS["processing"], ABANDONED: PAPER}[span.kind]
            box.set(facecolor=color, edgecolor=GREY if span.kind == PENDING else BLUE, linewidth=0.8)
            if span.kind == ABANDONED:
                box.set(hatch="///", edgecolor="#A9C9DD", linewidth=0.8)
                self.axes.add_patch(
                    Rectangle((x, y - half), right - x, 2 * half, fill=False, edgecolor=BLUE, linewidth=1, zorder=4)
                )
            self.axes.add_patch(box)
        key = "waiting" if span.kind == WORKING and lane.lane.waits else span.kind
        style = {PENDING: (INK, None), WORKING: (PAPER, None)}.get(span.kind, (INK, PAPER))
        self.bar_text(LABELS[f"bar.{key}"].format(name=name), x, right, lane, style, lasts=span.end is None)

    def bar_text(
        self, text: str, x: float, right: float, lane: LaneLayout, style: tuple[str, str | None], lasts: bool
    ) -> None:
        """Say what a bar means where there is room between the ends of leases, else beside a bar that still lasts."""
        color, ground = style
        ends = [self.layout.x(lease.end or lane.lane.lease_end or 0.0) for lease in lane.lane.leases]
        edges = [x, *sorted(end for end in ends if x < end < right), right]
        start, stop = max(pairwise(edges), key=lambda piece: piece[1] - piece[0])
        width = width_of(text)
        if width + 0.3 < stop - start:
            background = {**BEHIND_TEXT, "facecolor": ground} if ground else None
            self.text((start + stop) / 2, lane.middle, text, ha="center", color=color, zorder=6, bbox=background)
            return
        beyond = right + 0.08, right + 0.08 + width
        if lasts and beyond[1] < place.WIDTH - place.EDGE and not any(right <= end <= beyond[1] + 0.05 for end in ends):
            self.text(beyond[0], lane.middle, text, zorder=6)

    def text(self, x: float, y: float, text: str, **style: Any) -> None:
        self.axes.text(
            x,
            y,
            text,
            va="center_baseline",
            parse_math=False,
            **{"color": INK, "fontsize": style.pop("size", TEXT), **style},
        )

    def line(self, xs: list[float], ys: list[float], **style: Any) -> None:
        self.axes.plot(xs, ys, **{"solid_capstyle": "butt", **style})

    def icon(self, x: float, y: float, shape: str, color: str, edge: str | None = None) -> None:
        size = {"*": 10.5, "D": 6.5}.get(shape, 8.0)
        stroke = shape in "|x+12"
        if edge and not stroke:
            self.axes.plot([x], [y], marker=shape, markersize=size + 2.5, color=edge, markeredgewidth=0, zorder=6)
        elif edge:
            self.axes.plot([x], [y], marker=shape, markersize=size + 2, color=edge, markeredgewidth=4, zorder=6)
        self.axes.plot(
            [x], [y], marker=shape, markersize=size, color=color, markeredgewidth=2 if stroke else 0, zorder=6
        )


def marks_of(lane: Lane, story: Story) -> list[Mark]:
    """The marks that get a flag: also the end of a lease that still runs, if it is not too far away."""
    marks = list(lane.marks)
    if len(story.lanes) > place.MANY_LANES:  # leave out what the bars show as well
        kinds = {mark.kind for mark in marks}
        shown = {"claimed"} | ({"effect"} if "completed" in kinds else set())
        if kinds <= {"claimed", "effect", "completed"}:
            shown.add("completed")
        marks = [mark for mark in marks if mark.kind not in shown]
    if lane.lease_end is not None and lane.leases[-1].end is None and lane.lease_end <= story.now + place.LEASE_AHEAD:
        marks.append(Mark("lease_ends", lane.lease_end))
    return marks


def label(mark: Mark, lane: Lane) -> str:
    kind = "renewed.many" if mark.kind == "renewed" and len(lane.renewals) > 1 else mark.kind
    return LABELS[kind].format(name=short_name(mark.actor), count=len(lane.renewals))


def lane_name(lane: Lane) -> str:
    key = "lane.unclaimed" if lane.actor is None else "lane.no_attempt" if lane.attempt is None else "lane"
    return LABELS[key].format(task=lane.task, attempt=lane.attempt, name=short_name(lane.actor or ""))


@cache
def width_of(text: str, size: float = TEXT, weight: str = "normal") -> float:
    """The width of a text in inches."""
    figure = Figure(dpi=DPI)
    FigureCanvasAgg(figure)
    artist = figure.text(0, 0, text, parse_math=False, family=FONT, fontsize=size, weight=weight)
    return float(artist.get_window_extent().width) / DPI


def wrapped(text: str, width: float) -> list[str]:
    """The title in as many lines as it needs."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and width_of(longer, TITLE, "bold") > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines
