"""What was left of a lease, from ledgers as the trigger writes them."""

from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest
from matplotlib.text import Text

from helpers.views import remaining
from helpers.views.remaining import read_pieces

START = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)
Change = tuple[float, str, str, int, float | None]  # when, from, to, the attempt, and when its lease ends


def ledger(*changes: Change) -> pd.DataFrame:
    """One row for each change of task 42."""
    rows = []
    for at, old, new, attempt, lease_end in changes:
        lease = None if lease_end is None else START + timedelta(seconds=lease_end)
        rows.append(["update", 42, old, new, attempt, START + timedelta(seconds=at), lease, at])
    columns = ["event", "task_id", "old_status", "new_status", "attempt", "at", "lease_until", "seconds"]
    frame = pd.DataFrame(rows, columns=columns)
    for name in ("at", "lease_until"):
        frame[name] = pd.to_datetime(frame[name], utc=True)
    return frame


def renewed_at(*moments: float) -> pd.DataFrame:
    """A claim at 1 s with a lease of 9 s, renewals at `moments`, the completion at 20 s."""
    renewals = [(at, "processing", "processing", 1, at + 9) for at in moments]
    return ledger((1, "pending", "processing", 1, 10), *renewals, (20, "processing", "completed", 1, None))


@pytest.mark.parametrize(
    ("moments", "in_time"),
    [((4, 7, 10, 13, 16, 19), "true"), ((4, 10.5, 13, 19), "false"), ((4, 10, 16), "false"), ((4, 9.9, 15.8), "true")],
    ids=["each third", "one late", "just a third is not more", "just more"],
)
def test_a_renewal_is_in_time_while_more_than_a_third_is_left(moments: tuple[float, ...], in_time: str) -> None:
    shown = remaining(renewed_at(*moments), 42, lease_seconds=9)
    assert repr(shown) == f"The lease of #42, attempt 1. At each renewal more than a third of it was left: {in_time}"


def test_what_is_left_is_the_old_lease_s_end_less_the_time_of_the_renewal() -> None:
    attempt, pieces = read_pieces(renewed_at(4, 8), 42)
    assert attempt == 1
    assert [(piece.left, piece.renewed) for piece in pieces] == [(6, True), (5, True), (0, False)]  # over at 17 s


def test_the_end_of_the_attempt_is_no_renewal() -> None:
    shown = remaining(renewed_at(4, 7, 10, 13), 42, lease_seconds=9)  # 2 s are left at the completion
    assert repr(shown).endswith("true")


def test_the_newest_attempt_is_shown() -> None:
    frame = ledger(
        (0, "pending", "processing", 1, 9),
        (8, "processing", "processing", 1, 17),
        (20, "processing", "processing", 2, 29),
        (23, "processing", "processing", 2, 32),
    )
    assert repr(remaining(frame, 42, lease_seconds=9)) == (
        "The lease of #42, attempt 2. At each renewal more than a third of it was left: true"
    )


def test_the_smallest_is_written_into_the_picture() -> None:
    figure = remaining(renewed_at(4, 8.5, 12), 42, lease_seconds=9).figure
    texts = [text.get_text() for text in figure.findobj(Text)]
    assert "the least at a renewal: 4.5 s" in texts
    assert "#42, attempt 1: what was left of the lease, renewed 3 times" in texts


@pytest.mark.parametrize("frame", [ledger((0, "pending", "processing", 1, 9)), ledger()], ids=["none", "empty"])
def test_without_a_renewal_there_is_a_sentence_and_no_chart(frame: pd.DataFrame) -> None:
    text = "The ledger has no renewal of the newest attempt of #42."
    assert remaining(frame, 42, lease_seconds=9)._repr_mimebundle_() == ({"text/plain": text}, {})
