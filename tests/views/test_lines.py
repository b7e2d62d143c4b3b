"""The chart of measured lines: what is drawn, and that no two names at the lines' ends touch each other."""

from itertools import pairwise

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Annotation

from helpers.views.lines import LOOKS, lines
from helpers.views.picture import Timeline


def chart(**values: list[float]) -> Timeline:
    return lines(
        values,
        [1, 10, 1000],
        title="Claims",
        x_label="rows",
        y_label="ms",
        name="{name}: {value:g} ms",
        description="D",
    )


def names(shown: Timeline) -> list[Annotation]:
    """What stands at the ends of the lines, from the lowest to the highest."""
    canvas = shown.figure.canvas
    assert isinstance(canvas, FigureCanvasAgg)
    canvas.draw()  # type: ignore[no-untyped-call]
    found = [text for text in shown.figure.axes[0].texts if isinstance(text, Annotation)]
    return sorted(found, key=lambda text: text.get_window_extent().y0)


def test_each_line_is_drawn_as_measured_on_axes_that_count_in_powers() -> None:
    [axes] = chart(fast=[1, 2, 3], slow=[1, 20, 300]).figure.axes
    assert [line.get_label() for line in axes.lines] == ["fast", "slow"]
    assert [list(line.get_ydata()) for line in axes.lines] == [[1, 2, 3], [1, 20, 300]]  # type: ignore[arg-type]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "10", "1,000"]


def test_the_name_at_the_end_has_the_last_value_in_two_digits() -> None:
    assert [text.get_text() for text in names(chart(fast=[1, 2, 3.456], slow=[1, 2, 481.2]))] == [
        "fast: 3.5 ms",
        "slow: 480 ms",
    ]


@pytest.mark.parametrize("ends", [(5.0, 5.0, 5.1, 900.0), (1.0, 1.0, 1.0, 1.0), (7.0, 800.0, 810.0, 820.0)])
def test_names_do_not_touch_and_stand_inside_the_picture(ends: tuple[float, ...]) -> None:
    shown = chart(**{f"a line with quite a long name, number {i}": [1, 2, end] for i, end in enumerate(ends)})
    boxes = [text.get_window_extent() for text in names(shown)]
    assert all(low.y1 <= high.y0 for low, high in pairwise(boxes))
    picture = shown.figure.bbox
    assert all(box.x1 <= picture.width and box.y1 <= picture.height for box in boxes)


def test_neighbouring_lines_differ_in_mark_and_in_stroke() -> None:
    assert len({mark for _, mark, _ in LOOKS}) == len({stroke for _, _, stroke in LOOKS}) == len(LOOKS)


def test_the_picture_is_told_in_words() -> None:
    data, metadata = chart(fast=[1, 2, 3])._repr_mimebundle_()
    assert data["text/plain"] == metadata["image/png"]["alt"] == "D"
