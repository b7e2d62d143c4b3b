"""A sequence chart: two sessions, the row between them, and what went from one to the other, from top to bottom."""

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from helpers.views.drawing import BEHIND_TEXT, DPI, TEXT
from helpers.views.layout import WIDTH
from helpers.views.palette import BLUE, GREY, INK, LIGHT_GREY, ORANGE, PAPER, STATUS
from helpers.views.picture import STYLE, Timeline

STEP = 0.56  # inches from one message to the next
TOP, BOTTOM = 1.0, 0.85  # above the first message, and below the last
BAR = 0.13  # half the width of a transaction's bar
ROW = 0.55  # half the width of the row's bar
SHORTEST_LABEL = 0.3  # a piece of the row's bar that is shorter than this stays without its word

TEXTS = {
    "session": "session {name}",
    "waits": "waits\nfor {other}",
    "uncommitted": "{name}'s, not\ncommitted",
    # one sentence for each kind of message
    "read": "{name} reads {result}.",
    "write": "{name} writes {text}: {result}.",
    "wait": "{name} wants to write {text}, and waits for {other}.",
    "continue": "{name} goes on: {result}.",
    "commit": "{name} commits.",
    "rollback": "{name} rolls back.",
    # what stands on an arrow
    "arrow.read": "SELECT status",
    "arrow.write": "UPDATE: {text}",
    "arrow.wait": "UPDATE: {text}",
    "arrow.continue": "UPDATE goes on",
    "arrow.commit": "COMMIT",
    "arrow.rollback": "ROLLBACK",
    "result": "→ {result}",
    "end": "At the end the row says {status}.",
}


@dataclass(frozen=True)
class Message:
    """One line of a sequence chart.

    `kind`: *read*, *write*, *wait* (a write that has to wait), *continue* (its end), *commit*, *rollback*.
    `text`: what is written, and under which condition; `result`: what came back.
    `status`: what the row says to everybody after this message; `writer`: who has changed it without a COMMIT yet.
    """

    session: str
    kind: str
    status: str
    text: str = ""
    result: str = ""
    other: str = ""  # for whom it waits
    writer: str | None = None
    opens: bool = False  # a transaction begins
    closes: bool = False  # and ends


def sequence(messages: Sequence[Message], title: str, before: str, row: str, verdict: str) -> Timeline:
    """The picture of `messages` between two sessions, with the same in words as its `description`.

    `before` is the row's status before the first message, `row` its name; `verdict` closes the description.
    """
    description = " ".join(
        [f"{title}.", *map(sentence, messages), TEXTS["end"].format(status=messages[-1].status), verdict]
    )
    with matplotlib.style.context(STYLE):
        return Timeline(_Chart(messages, title, before, row, verdict).figure, description)


def sentence(message: Message) -> str:
    """The message in words."""
    return TEXTS[message.kind].format(
        name=message.session, text=message.text, result=message.result, other=message.other
    )


class _Chart:
    """Draws on axes that measure inches from the picture's upper left corner, as the timeline does."""

    def __init__(self, messages: Sequence[Message], title: str, before: str, row: str, verdict: str) -> None:
        self.messages = messages
        self.sessions = sorted({message.session for message in messages})
        self.x = {self.sessions[0]: 1.15, self.sessions[-1]: WIDTH - 1.15}
        self.center = WIDTH / 2
        self.end = TOP + STEP * len(messages)
        height = round((self.end + BOTTOM) * DPI) / DPI
        self.figure = Figure(figsize=(WIDTH, height), dpi=DPI, facecolor=PAPER)
        FigureCanvasAgg(self.figure)
        self.axes: Axes = self.figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH), ylim=(height, 0), facecolor=PAPER)
        self.axes.set_axis_off()
        self._text(0.15, 0.25, title, ha="left", fontsize=TEXT + 2, weight="bold")
        self._text(self.center, self.end + 0.55, verdict, weight="bold")
        for name in self.sessions:
            self._text(self.x[name], TOP - 0.32, TEXTS["session"].format(name=name), weight="bold")
            self._line([self.x[name]] * 2, [TOP - 0.15, self.end + 0.2], color=GREY, linewidth=1, linestyle=":")
            self._transactions(name)
        self._text(self.center, TOP - 0.32, row, weight="bold")
        self._row(before)
        for number, message in enumerate(messages):
            self._arrow(message, self._y(number))

    def _y(self, number: int) -> float:
        """Where message `number` stands."""
        return TOP + STEP * (number + 0.5)

    def _transactions(self, name: str) -> None:
        """A bar from a transaction's first statement to its end, hatched where the session waits."""
        began = waits = self.end
        other = ""
        for number, message in enumerate(self.messages):
            if message.session != name:
                continue
            y = self._y(number)
            if message.opens:
                began = y
            if message.kind == "wait":
                waits, other = y, message.other
            if message.kind == "continue":
                self._box(self.x[name], waits, y, PAPER, ORANGE, hatch="////", zorder=4)
                side = -1 if self.x[name] < self.center else 1
                label = TEXTS["waits"].format(other=other)
                self._text(self.x[name] + side * 0.6, (waits + y) / 2, label, weight="bold")
            if message.closes:
                self._box(self.x[name], began, y, LIGHT_GREY, GREY, zorder=3)

    def _row(self, before: str) -> None:
        """The row's bar: what everybody reads, and hatched while somebody has changed it without a COMMIT."""
        pieces: list[tuple[float, str, str | None]] = [(TOP - 0.15, before, None)]
        for number, message in enumerate(self.messages):
            if (message.status, message.writer) != pieces[-1][1:]:
                pieces.append((self._y(number), message.status, message.writer))
        ends = [piece[0] for piece in pieces[1:]] + [self.end + 0.2]
        for (top, status, writer), bottom in zip(pieces, ends, strict=True):
            color = STATUS.get(status, PAPER)
            hatch = "////" if writer else None
            self._box(self.center, top, bottom, PAPER if writer else color, GREY, half=ROW, hatch=hatch, zorder=2)
            if bottom - top < SHORTEST_LABEL:
                continue
            words = TEXTS["uncommitted"].format(name=writer) if writer else status
            ground = {**BEHIND_TEXT, "facecolor": PAPER} if writer else None
            ink = PAPER if not writer and color == BLUE else INK
            self._text(self.center, (top + bottom) / 2, words, color=ink, bbox=ground, zorder=6)

    def _arrow(self, message: Message, y: float) -> None:
        side = 1 if self.x[message.session] < self.center else -1
        lane, row = self.x[message.session] + side * BAR, self.center - side * ROW
        reads = message.kind == "read"
        start, end = (row, lane) if reads else (lane, row)
        style = {"wait": "--", "commit": ":", "rollback": ":"}.get(message.kind, "-")
        self._line([start, end], [y, y], color=INK, linewidth=1.3, linestyle=style, zorder=5)
        head = end - 0.05 if end > start else end + 0.05  # a head of its own, so that it is never dotted
        arrow = {"arrowstyle": "-|>", "color": INK, "linewidth": 1.3, "shrinkA": 0, "shrinkB": 0}
        self.axes.annotate("", (end, y), (head, y), arrowprops=arrow, zorder=5)
        middle = (lane + row) / 2
        self._text(middle, y - 0.13, TEXTS[f"arrow.{message.kind}"].format(text=message.text))
        if message.result:
            self._text(middle, y + 0.14, TEXTS["result"].format(result=message.result), weight="bold")

    def _box(
        self, x: float, top: float, bottom: float, color: str, edge: str, *, half: float = BAR, zorder: int,
        hatch: str | None = None,
    ) -> None:  # fmt: skip
        box = Rectangle((x - half, top), 2 * half, bottom - top, facecolor=color, edgecolor=edge, linewidth=1)
        box.set(hatch=hatch, zorder=zorder)
        self.axes.add_patch(box)

    def _text(self, x: float, y: float, text: str, **style: object) -> None:
        options: dict[str, object] = {"ha": "center", "va": "center", "color": INK, "fontsize": TEXT, **style}
        self.axes.text(x, y, text, parse_math=False, **options)  # type: ignore[arg-type]

    def _line(self, xs: list[float], ys: list[float], **style: object) -> None:
        self.axes.plot(xs, ys, **style)  # type: ignore[arg-type]
