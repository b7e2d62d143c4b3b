"""The sequence chart and the bar chart: what is drawn, that nothing runs into each other, and the words."""

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import Rectangle

from helpers.views import Message, bars, sequence
from helpers.views.picture import Timeline

WAITS = [
    Message("A", "read", "pending", result="pending", opens=True),
    Message("B", "read", "pending", result="pending", opens=True),
    Message("A", "write", "pending", text="processing, if pending", result="1 row", writer="A"),
    Message("B", "wait", "pending", text="processing, if pending", other="A", writer="A"),
    Message("A", "commit", "processing", closes=True),
    Message("B", "continue", "processing", result="no row"),
    Message("B", "commit", "processing", closes=True),
]
SHORT = [Message("A", "write", "pending", text="processing", result="1 row", writer="A", opens=True)]


def picture(messages: list[Message]) -> Timeline:
    return sequence(messages, title="Order X", before="pending", row="row #42", verdict="Claims: 1.")


def words(chart: Timeline) -> list[str]:
    return [text.get_text() for text in chart.figure.axes[0].texts if text.get_text()]


def test_every_message_is_told_and_every_wait_is_drawn() -> None:
    chart = picture(WAITS)
    assert chart.description == (
        "Order X. A reads pending. B reads pending. A writes processing, if pending: 1 row. "
        "B wants to write processing, if pending, and waits for A. A commits. B goes on: no row. B commits. "
        "At the end the row says processing. Claims: 1."
    )
    assert words(chart).count("waits\nfor A") == 1
    assert words(chart).count("SELECT status") == 2
    hatched = [p for p in chart.figure.axes[0].patches if isinstance(p, Rectangle) and p.get_hatch()]
    assert len(hatched) == 2, "the row while A has not committed, and B while it waits"


def test_where_nobody_waits_nothing_is_orange() -> None:
    assert not any("waits" in word for word in words(picture(WAITS[:3])))


@pytest.mark.parametrize("messages", [WAITS, WAITS[:3], SHORT])
def test_no_word_runs_into_another_or_out_of_the_picture(messages: list[Message]) -> None:
    figure = picture(messages).figure
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    texts = [t for t in figure.axes[0].texts if t.get_text()]
    boxes = [(t.get_text(), t.get_window_extent(canvas.get_renderer())) for t in texts]  # type: ignore[no-untyped-call]
    width, height = canvas.get_width_height()
    for number, (word, box) in enumerate(boxes):
        assert box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height, word
        for other, beside in boxes[number + 1 :]:
            assert not box.overlaps(beside), (word, other)


def test_the_same_messages_give_the_same_bytes() -> None:
    assert picture(WAITS)._bytes("png") == picture(WAITS)._bytes("png")


def test_a_bar_above_what_is_wanted_differs_in_colour_and_in_grey() -> None:
    chart = bars({"naive": 180, "atomic": 100}, 100, "title", "100 tasks", "in words", {"naive": "for example #1"})
    above, exact = chart.figure.axes[0].patches
    assert above.get_hatch() and not exact.get_hatch()
    assert above.get_facecolor() != exact.get_facecolor()
    assert [w for w in words(chart) if w != " 100 tasks"] == [" 180", "for example #1", " 100"]
    assert chart.description == "in words"
