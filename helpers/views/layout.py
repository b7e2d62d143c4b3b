"""Where things lie on the timeline, in inches: nothing here draws.

Labels are flags: a pole stands at the moment itself, and the words begin just to the right of it. Events
often lie within milliseconds of each other, then nothing happens for seconds. So marks that would stand on
top of each other share one flag ("claimed → crashed"), and a flag that would run into a later one is hoisted
to a higher row. An earlier flag always hangs higher than the later one that it would touch, so that no pole
crosses a word.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from helpers.views.story import Lane, Mark, Story

WIDTH = 9.5  # of the picture
ROW = 0.23  # a row of flags
BAR = 0.24
GAP = 0.2  # between two lanes
EDGE = 0.15
ICON = 0.19  # an icon and the space behind it
POLE = 0.06  # between a pole and its first icon
NEAR = 0.14  # marks closer than this share a flag
SPACE = 0.1  # between two flags of one row
LONGEST = 3.2  # a flag does not grow beyond this
MANY_LANES = 12  # more lanes than this are drawn closer together
LEASE_AHEAD = 45.0  # seconds: a lease that ends later than this after now would squeeze everything else

Measure = Callable[[str], float]  # the width of a text in inches


@dataclass
class Flag:
    """Marks that share a label. `icons` and `words` give the left end of each, `width` is of the whole."""

    marks: list[Mark]
    x: float
    texts: list[str] = field(default_factory=list)
    icons: list[float] = field(default_factory=list)
    words: list[float] = field(default_factory=list)
    end: float = 0.0
    row: int = 0


@dataclass
class LaneLayout:
    """A lane with its name, its flags and its place."""

    lane: Lane
    name: str
    flags: list[Flag]
    middle: float = 0.0  # of the bar, from the top of the picture

    @property
    def rows(self) -> int:
        return 1 + max((flag.row for flag in self.flags), default=-1)


@dataclass
class Layout:
    """All lanes of a picture, and the axis of time below them."""

    left: float
    right: float  # where the time ends; flags may go on to the edge of the picture
    seconds: float  # at `right`
    lanes: list[LaneLayout]
    top: float = 0.0
    bottom: float = 0.0

    def x(self, at: float) -> float:
        return self.left + (self.right - self.left) * min(max(at / self.seconds, 0.0), 1.0)


def arrange(
    story: Story, names: list[str], marks: list[list[tuple[Mark, str]]], measure: Measure, seconds: float, top: float
) -> Layout:
    """Place the lanes of `story` with their `names` and their `marks` (each with its text) below `top`."""
    left = 1.15 * max((measure(name) for name in names), default=0.0) + 2 * EDGE  # names are bold: wider
    layout = Layout(left, WIDTH - EDGE, seconds, [], top)
    for _ in range(20):  # a narrower time axis moves the flags to the left, until the last word fits
        layout.lanes = [
            LaneLayout(lane, name, flags_of(lane_marks, layout, measure))
            for lane, name, lane_marks in zip(story.lanes, names, marks, strict=True)
        ]
        ends = [flag.end for lane in layout.lanes for flag in lane.flags]
        too_far = max(ends, default=0.0) - (WIDTH - EDGE)
        if too_far <= 0 or layout.right - too_far < left + 1.0:
            break
        layout.right -= too_far
    y, gap = top, GAP if len(layout.lanes) <= MANY_LANES else GAP / 2
    for lane in layout.lanes:
        y += lane.rows * ROW + gap / 2 + BAR / 2
        lane.middle = y
        y += BAR / 2 + gap / 2
    layout.bottom = y
    return layout


def flags_of(marks: list[tuple[Mark, str]], layout: Layout, measure: Measure) -> list[Flag]:
    flags: list[Flag] = []
    last_x = 0.0
    arrow = measure(" → ")
    for mark, text in marks:
        x = layout.x(mark.at)
        width = ICON + measure(text)
        if not flags or x - last_x > NEAR or flags[-1].end - flags[-1].x + arrow + width > LONGEST:
            flags.append(Flag([], x, end=x + POLE))
        else:
            flags[-1].end += arrow
        flag = flags[-1]
        flag.marks.append(mark)
        flag.texts.append(text)
        flag.icons.append(flag.end)
        flag.words.append(flag.end + ICON)
        flag.end += width
        last_x = x
    for number in range(len(flags) - 1, -1, -1):
        flags[number].row = lowest_row(flags[number], flags[number + 1 :])
    return flags


def lowest_row(flag: Flag, later: list[Flag]) -> int:
    """The first row in which `flag` touches no later flag, and covers no pole of one that hangs higher."""
    row = 0
    while any(other.row >= row and flag.end + SPACE > other.x for other in later):
        row += 1
    return row
