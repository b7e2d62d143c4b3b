"""Orders of two sessions, replayed on the real database: the lesson's table, who waits, the picture and its words."""

import re
from collections.abc import Iterator

import pytest

from helpers import lab
from helpers.errors import LabError
from helpers.lab.experiments.orders import ORDERS, OrderChoice, as_html, chart_of, messages_of
from helpers.repository import atomic, naive


@pytest.fixture(autouse=True)
def lesson1() -> Iterator[None]:
    lab.open(1)
    yield
    lab.end_workers()


def read_then_claim(task_id: int) -> int | None:
    return atomic.try_claim_task(task_id) if naive.read_status(task_id) == "pending" else None


def test_the_table_of_the_lesson_comes_from_the_rows() -> None:
    table = lab.order_table({"naive claims": naive.try_claim_task, "atomic claims": read_then_claim})
    assert table.to_dict() == {
        "naive claims": {"AABB": 1, "ABAB": 2, "ABBA": 2, "BBAA": 1},
        "atomic claims": {"AABB": 1, "ABAB": 1, "ABBA": 1, "BBAA": 1},
    }


def test_there_are_six_orders() -> None:
    assert ORDERS == ("AABB", "ABAB", "ABBA", "BAAB", "BABA", "BBAA")


@pytest.mark.parametrize("claim", [naive.try_claim_task, read_then_claim])
@pytest.mark.parametrize("order", ORDERS)
def test_each_letter_is_one_step_of_its_session(claim: object, order: str) -> None:
    replayed = lab.replay_order(claim, order)  # type: ignore[arg-type]
    kinds = {"read": "READ", "write": "CLAIM"}
    steps = [(m.session, kinds[m.kind]) for m in messages_of(replayed.run) if m.kind in kinds]
    expected = [(s, "CLAIM" if s in order[:i] else "READ") for i, s in enumerate(order)]
    wrote = {session for session, kind in steps if kind == "CLAIM"}
    assert steps == [(s, kind) for s, kind in expected if kind == "READ" or s in wrote]


def test_the_results_are_what_the_workers_got() -> None:
    replayed = lab.replay_order(naive.try_claim_task, "AABB")
    assert replayed.results == {"A": 42, "B": None}
    assert repr(replayed).endswith("A got 42, B got None. Claims of #42 in the ledger: 1.")


@pytest.mark.parametrize(
    ("claim", "calls", "outcome", "claims"),
    [
        (naive.try_claim_task, "ABABAB", "waits, 1 row", 2),
        (read_then_claim, "ABABABAB", "waits, 0 rows", 1),
        (naive.try_claim_task, "ABAABB", "1 row", 2),
    ],
)
def test_the_second_update_waits_while_the_first_is_not_committed(
    claim: object, calls: str, outcome: str, claims: int
) -> None:
    replayed = lab.replay_calls(claim, calls)  # type: ignore[arg-type]
    assert replayed.outcome_of("B") == outcome
    assert replayed.claims == claims
    assert ("<waiting for A ...>" in repr(replayed)) == outcome.startswith("waits")


def test_the_picture_says_in_words_what_it_shows() -> None:
    replayed = lab.replay_calls(read_then_claim, "ABABABAB")
    assert chart_of(replayed).description == (
        "Order ABABABAB, call by call. A reads pending. B reads pending. A commits. B commits. "
        "A writes processing, if pending: 1 row. B wants to write processing, if pending, and waits for A. A commits. "
        "B goes on: no row. B commits. At the end the row says processing. Claims of #42 in the ledger: 1."
    )


def test_the_row_is_what_everybody_reads_after_each_message() -> None:
    replayed = lab.replay_calls(naive.try_claim_task, "ABABAB")
    seen = [(m.session, m.kind, m.status, m.writer) for m in messages_of(replayed.run)]
    assert seen == [
        ("A", "read", "pending", None),
        ("B", "read", "pending", None),
        ("A", "write", "pending", "A"),
        ("B", "wait", "pending", "A"),
        ("A", "commit", "processing", None),
        ("B", "continue", "processing", "B"),
        ("B", "commit", "processing", None),
    ]


def test_a_replay_begins_with_the_reset_and_leaves_no_transaction(capsys: pytest.CaptureFixture[str]) -> None:
    lab.execute("UPDATE backend_training.tasks SET status = 'completed'")
    assert lab.replay_order(naive.try_claim_task, "AABB").claims == 1
    lab.reset()  # would give up behind an open transaction
    assert "#42, #43, #44 are pending" in capsys.readouterr().out


@pytest.mark.parametrize("order", ["ABA", "ABABAB", "ABCA", "", "aabb"])
def test_an_order_that_is_none_is_a_sentence_that_lists_the_orders(order: str) -> None:
    with pytest.raises(LabError, match="AABB, ABAB, ABBA"):
        lab.replay_order(naive.try_claim_task, order)


def test_a_call_too_many_is_told_and_the_rest_goes_on() -> None:
    replayed = lab.replay_calls(naive.try_claim_task, "AAAABB")
    assert "(A cannot go on now)" in repr(replayed)
    assert replayed.results == {"A": 42, "B": None}


def test_a_call_to_nobody_is_a_sentence() -> None:
    with pytest.raises(LabError, match="actors are A, B"):
        lab.replay_calls(naive.try_claim_task, "ABC")


def test_the_chart_is_shown_as_a_picture_and_told_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    lab.sequence_chart(lab.replay_order(naive.try_claim_task, "ABAB"))
    assert capsys.readouterr().out.endswith("Claims of #42 in the ledger: 2.\n")


def test_each_click_replays_that_order() -> None:
    choice = lab.choose_order({"naive": naive.try_claim_task, "atomic": read_then_claim})
    assert told(choice).startswith("Order ABAB. ")
    assert told(choice).endswith("ledger: 2.")
    choice.order.value = "AABB"
    assert told(choice).startswith("Order AABB. ")
    choice.claim.value = "atomic"
    choice.order.value = "ABBA"
    assert told(choice).startswith("Order ABBA. ")
    assert told(choice).endswith("ledger: 1.")


def test_a_click_that_fails_shows_the_sentence_in_the_place_of_the_picture() -> None:
    choice = lab.choose_order({"naive": naive.try_claim_task})
    lab.run_script("00_base/00_drop.sql")
    choice.order.value = "BBAA"
    assert "first code cell" in choice.picture.value
    assert "first code cell" in choice.picture.value
    assert "<img" not in choice.picture.value


def test_without_a_kernel_the_choice_is_a_line_of_text() -> None:
    choice = lab.choose_order({"naive": naive.try_claim_task})
    assert "AABB, ABAB" in choice._repr_mimebundle_()["text/plain"]


def test_the_picture_has_an_alternative_text() -> None:
    html = as_html(chart_of(lab.replay_order(naive.try_claim_task, "AABB")))
    assert 'alt="Order AABB. A reads pending.' in html


def told(choice: OrderChoice) -> str:
    """The words below the widget's picture."""
    found = re.search(r"<p>(.*)</p>", choice.picture.value)
    assert found is not None, choice.picture.value
    return found[1]
