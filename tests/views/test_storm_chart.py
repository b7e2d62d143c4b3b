"""The chart of a storm: what its title says, and that no mark covers the name of a process."""

import pytest

from helpers.views.storm import draw, free_for_name
from helpers.views.storm_lanes import Band, Lane


@pytest.mark.parametrize(
    ("completed", "title"),
    [
        ([2.0, 14.2], "2 of 3 tasks completed, the last after 14 s"),
        ([], "0 of 3 tasks completed"),
    ],
)
def test_the_title_names_the_last_completion_and_not_the_end_of_the_storm(completed: list[float], title: str) -> None:
    figure = draw({"A": Lane([Band("process", 0.0, name="A1")])}, completed, {"begins": 1.0, "over": 11.0}, 3, 20.0)
    assert figure.texts[0].get_text() == title


def test_a_name_stands_behind_the_marks_that_would_cover_it() -> None:
    band = Band("process", 4.5, name="A2")
    lane = Lane([band], marks=[("cut", 5.3), ("killed", 4.5), ("cut", 4.9), ("cut", 9.0)])
    assert free_for_name(lane, band, needed=0.6) == 5.3
    assert free_for_name(lane, band, needed=0.3) == 4.5


def test_a_name_that_finds_no_room_is_left_out() -> None:
    lane = Lane([Band("process", 4.5, 5.0, "A1"), Band("process", 5.0, name="A2")], marks=[("killed", 5.0)])
    [_, lower, _] = draw({"A": lane}, [], {}, 3, 20.0).axes
    assert [text.get_text() for text in lower.texts] == ["A2"]
