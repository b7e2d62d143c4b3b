"""How long tasks waited, as a picture."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.text import Text

from helpers.views.waits import MARKS, Wait, waits

STRICT = [Wait(101, "HIGH", 0.5), Wait(102, "HIGH", 0.7), Wait(43, "MEDIUM", 2.0), Wait(42, "LOW", 3.14)]
AGED = [Wait(101, "HIGH", 0.5), Wait(42, "LOW", 1.5), Wait(102, "HIGH", 0.9)]


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text)]


def test_each_run_has_a_panel_and_each_claim_a_point_of_its_priority() -> None:
    shown = waits({"strict": STRICT, "aged": AGED}, "in words", named=42)
    assert repr(shown) == "in words"
    first, second = shown.figure.axes
    points = {str(line.get_marker()): np.asarray(line.get_xydata()).tolist() for line in second.get_lines()}
    assert points[MARKS["HIGH"][0]] == [[1, 0.5], [3, 0.9]]
    assert points[MARKS["LOW"][0]] == [[2, 1.5]]
    assert [axes.get_title(loc="left") for axes in (first, second)] == ["strict", "aged"]


def test_both_panels_have_one_scale_so_that_they_can_be_compared() -> None:
    first, second = waits({"strict": STRICT, "aged": AGED}, "", named=42).figure.axes
    assert first.get_ylim() == second.get_ylim()
    assert first.get_ylim()[1] > 3.14


def test_the_wait_of_the_named_task_is_written_into_each_panel() -> None:
    written = texts(waits({"strict": STRICT, "aged": AGED}, "", named=42).figure)
    assert "#42: 3.1 s" in written
    assert "#42: 1.5 s" in written


def test_the_key_names_the_priorities_that_occur_and_no_other() -> None:
    assert set(MARKS) <= set(texts(waits({"strict": STRICT}, "", named=42).figure))
    assert "MEDIUM" not in texts(waits({"aged": AGED}, "", named=42).figure)


def test_the_priorities_differ_in_shape() -> None:
    shapes = {shape for shape, _, _ in MARKS.values()}
    assert len(shapes) == len(MARKS)
