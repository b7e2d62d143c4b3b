"""The table of tasks."""

from datetime import UTC, datetime

import pandas as pd

from helpers.views import task_table
from helpers.views.palette import STATUS

TASKS = pd.DataFrame(
    {
        "id": [44, 42, 43],
        "type": "generate_report",
        "status": ["pending", "completed", "processing"],
        "attempts": [0, 2, 1],
        "lease_expired": [None, None, True],
    },
    dtype=object,
)


def test_plain_text_is_sorted_and_says_null_and_true() -> None:
    assert repr(task_table(TASKS)).splitlines() == [
        "id  type             status      attempts  lease_expired",
        "--  ---------------  ----------  --------  -------------",
        "42  generate_report  completed   2         NULL",
        "43  generate_report  processing  1         true",
        "44  generate_report  pending     0         NULL",
    ]


def test_html_has_the_same_cells_and_a_chip_of_the_timeline_s_colour() -> None:
    html = task_table(TASKS)._repr_html_()
    assert html == task_table(TASKS.copy())._repr_html_()
    assert html.count("<tr>") == 4
    assert html.count("NULL") == 2
    for status in ("pending", "processing", "completed"):
        assert f'background:{STATUS[status]}"></span>{status}</td>' in html


def test_whole_numbers_stay_whole_beside_a_null() -> None:
    assert "1.0" not in repr(task_table(pd.DataFrame({"id": [1, 2], "attempts": [1, None]})))


def test_every_kind_of_value() -> None:
    when = datetime(2030, 1, 1, 12, 0, 0, 123456, tzinfo=UTC)
    row = {"id": 1, "flag": False, "lease_until": when, "missing": pd.NaT, "payload": {"a": [1]}, "ratio": 0.5}
    values = repr(task_table(pd.DataFrame([row]))).splitlines()[2]
    assert values == "1   false  2030-01-01 12:00:00.123+00:00  NULL     {'a': [1]}  0.5"


def test_what_people_wrote_is_text_and_not_html() -> None:
    html = task_table(pd.DataFrame({"id": [1], "last_error": ["<script>x</script>\n& more"]}))._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;x&lt;/script&gt; &amp; more" in html


def test_a_wide_column_does_not_run_beyond_the_page() -> None:
    table = task_table(pd.DataFrame({"id": [1], "a": ["x" * 300], "b": ["y" * 90]}))
    assert max(map(len, repr(table).splitlines())) <= 100
    assert "…" in repr(table)
    assert "overflow-wrap:anywhere" in table._repr_html_()
    assert "x" * 300 in table._repr_html_()


def test_no_tasks_is_said() -> None:
    assert repr(task_table(TASKS.iloc[:0])) == "no tasks"
    assert "no tasks" in task_table(TASKS.iloc[:0])._repr_html_()
