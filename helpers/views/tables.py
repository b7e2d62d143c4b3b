"""The tasks as a table for a cell."""

from datetime import datetime
from html import escape

import pandas as pd
from pandas.api.types import is_integer

from helpers.views.palette import GREY, STATUS
from helpers.views.words import TABLE

PAGE = 100  # characters that a page of plain text is wide
NARROWEST = 8  # characters to which a column may be cut


class Table:
    """Rows and columns of text, shown alike in a notebook and in a terminal."""

    def __init__(self, columns: list[str], rows: list[list[str]], empty: str = TABLE["empty"]) -> None:
        self.columns = columns
        self.rows = rows
        self.empty = empty  # what is shown where there are no rows

    def __repr__(self) -> str:
        if not self.rows:
            return self.empty
        lines = [self.columns, *self.rows]
        widths = page_widths([max(len(line[i]) for line in lines) for i in range(len(self.columns))])
        lines.insert(1, ["-" * width for width in widths])
        return "\n".join(
            "  ".join(cut(text, width).ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )

    def _repr_html_(self) -> str:
        if not self.rows:
            return f"<p>{escape(self.empty)}</p>"
        head = "".join(f'<th scope="col" style="text-align:left">{escape(name)}</th>' for name in self.columns)
        body = "".join(
            "<tr>" + "".join(html_cell(*cell) for cell in zip(self.columns, row, strict=True)) + "</tr>\n"
            for row in self.rows
        )
        return (
            f'<table style="max-width:100%;overflow-wrap:anywhere;font-variant-numeric:tabular-nums">\n'
            f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table>"
        )


def task_table(tasks: pd.DataFrame) -> Table:
    """The frame's columns as they are, the rows in order of `id`. NULL is shown as NULL, booleans as true and false."""
    if "id" in tasks.columns:
        tasks = tasks.sort_values("id", kind="stable")
    columns = [[as_text(value) for value in tasks.iloc[:, i]] for i in range(tasks.shape[1])]
    return Table([str(name) for name in tasks.columns], [list(row) for row in zip(*columns, strict=True)])


def as_text(value: object) -> str:
    if isinstance(value, (list, dict)):
        return str(value)
    if pd.isna(value):  # type: ignore[call-overload]  # any single value is allowed here
        return TABLE["null"]
    if str(value) in ("True", "False") and not isinstance(value, str):
        return TABLE["true"] if value else TABLE["false"]
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="milliseconds")
    if isinstance(value, float) and value.is_integer() and not is_integer(value):
        return str(int(value))  # pandas makes floats of whole numbers where a column holds a NULL
    return " ".join(str(value).split())  # a line break inside a cell would break the table


def html_cell(column: str, text: str) -> str:
    chip = ""
    if column == "status" and text in STATUS:
        chip = (
            f'<span aria-hidden="true" style="display:inline-block;width:.75em;height:.75em;margin-right:.4em;'
            f'border:1px solid {GREY};border-radius:2px;background:{STATUS[text]}"></span>'
        )
    return f'<td style="text-align:left">{chip}{escape(text)}</td>'


def page_widths(widths: list[int]) -> list[int]:
    """Narrow the widest column, and again, until the line fits the page."""
    widths = list(widths)
    while sum(widths) + 2 * (len(widths) - 1) > PAGE and max(widths) > NARROWEST:
        widths[widths.index(max(widths))] -= 1
    return widths


def cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + TABLE["cut"]
