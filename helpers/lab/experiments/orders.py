"""Two sessions that claim one task, in an order that you choose: replayed on the real database, and drawn."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from html import escape
from itertools import permutations
from textwrap import fill
from typing import Any

import ipywidgets as widgets
import pandas as pd
from IPython.display import display

from helpers.diagnosis import readable_errors
from helpers.errors import LabError
from helpers.lab.frame.lesson import current_lesson
from helpers.schedules import Program, Run, Step, replay, write
from helpers.schedules.call import Call
from helpers.schedules.statements import outcome, shortened
from helpers.scripts import lesson_folder, run_script
from helpers.views.picture import Timeline
from helpers.views.sequence import Message, sequence

TASK = 42
SESSIONS = ("A", "B")
LINE = 100  # characters
ORDERS = tuple(sorted({"".join(letters) for letters in permutations("AABB")}))

TEXTS = {
    "bad_order": '"{order}" is no order of two steps each. The orders are: {orders}.',
    "title": "Order {order}",
    "title_by_call": "Order {order}, call by call",
    "row": "row #{task}",
    "returned": "{name} got {value}",
    "claims": "Claims of #{task} in the ledger: {count}.",
    "column": "order",
    "one_row": "1 row",
    "if": "{value}, if {condition}",
    "choose_claim": "claim:",
    "choose_order": "order:",
    "plain": "With a running kernel you choose here between the orders {orders}, and between the claims {claims}.",
}

Claim = Callable[[int], object]


@dataclass(frozen=True)
class Replay:
    """One order, as it went on the database: `claims` is counted in the ledger, `results` is what the workers got."""

    order: str
    run: Run
    by_call: bool = False  # each letter of `order` is one call, and not one step

    @property
    def claims(self) -> int:
        """How many times #42 was set to processing."""
        return sum(row["event"] == "update" and row["new_status"] == "processing" for row in self.run.ledger)

    @property
    def results(self) -> dict[str, object]:
        """What each worker's function returned: the id, or None."""
        return self.run.results

    def outcome_of(self, session: str) -> str:
        """Whether the session's UPDATE had to wait, and what came of it: "waits, 1 row", "no row"."""
        steps = [step for step in self.run.steps if step.actor == session and _is_update(step)]
        waited = any(step.what == "waits" for step in steps)
        rows = 0 if not steps or steps[-1].call is None else steps[-1].call.rowcount
        return f"{'waits, ' if waited else ''}{rows} row{'' if rows == 1 else 's'}"

    @property
    def verdict(self) -> str:
        return TEXTS["claims"].format(task=TASK, count=self.claims)

    def __repr__(self) -> str:
        got = [TEXTS["returned"].format(name=name, value=value) for name, value in sorted(self.results.items())]
        return f"{write(self.run)}\n\n{', '.join(got)}. {self.verdict}"


def replay_order(claim: Claim, order: str) -> Replay:
    """Let two sessions call `claim(42)`, from the lesson's reset, in this order of their steps.

    Each session has two steps, and its letter stands for the next one: READ is all that comes before its UPDATE,
    CLAIM is the rest, with the COMMIT. Raises LabError where `order` is not one of `ORDERS`.
    """
    if order not in ORDERS:
        raise LabError(TEXTS["bad_order"].format(order=order, orders=", ".join(ORDERS)))
    alone = _replay(claim, "A")
    calls = [step for step in alone.steps if step.actor == "A" and step.what == "did"]
    reads = next((number for number, step in enumerate(calls) if _is_update(step)), len(calls))
    lengths = {"A": [reads, len(calls) - reads], "B": [reads, len(calls) - reads]}
    moves = [letter for step in order for letter in step * lengths[step].pop(0)]
    return Replay(order, _replay(claim, " ".join(moves)))


def replay_calls(claim: Claim, calls: str) -> Replay:
    """As `replay_order`, but each letter is one call to the database: a statement, or a COMMIT.

    So a session can be stopped between its UPDATE and its COMMIT.
    """
    return Replay(calls, _replay(claim, calls), by_call=True)


def order_table(
    claims: Mapping[str, Claim], orders: tuple[str, ...] = ("AABB", "ABAB", "ABBA", "BBAA")
) -> pd.DataFrame:
    """For each order and each of the functions the number of claims in the ledger. `claims`: column → function."""
    counts = {name: [replay_order(claim, order).claims for order in orders] for name, claim in claims.items()}
    return pd.DataFrame(counts, index=pd.Index(orders, name=TEXTS["column"]))


def sequence_chart(replayed: Replay) -> None:
    """Draw a replay: the two sessions, and the row between them. Below the picture the same in words."""
    chart = chart_of(replayed)
    data, metadata = chart._repr_mimebundle_()
    display({"image/png": data["image/png"]}, metadata=metadata, raw=True)
    print(fill(chart.description, LINE))


def choose_order(claims: Mapping[str, Claim]) -> "OrderChoice":
    """Buttons for the orders and for the functions; each click replays that order and draws it."""
    return OrderChoice(claims)


class OrderChoice:
    """The buttons and the picture. Where widgets are not shown (GitHub, an export), it is a line of text."""

    def __init__(self, claims: Mapping[str, Claim]) -> None:
        self._claims = claims
        style = {"button_width": "auto", "description_width": "4em"}
        self.claim = widgets.ToggleButtons(options=list(claims), description=TEXTS["choose_claim"], style=style)
        self.order = widgets.ToggleButtons(options=ORDERS, value="ABAB", description=TEXTS["choose_order"], style=style)
        self.picture = widgets.HTML()
        self._box = widgets.VBox([self.claim, self.order, self.picture])
        for buttons in (self.claim, self.order):
            buttons.observe(self._show, names="value")
        self._show()

    def _show(self, _change: object = None) -> None:
        try:
            self.picture.value = as_html(chart_of(replay_order(self._claims[self.claim.value], self.order.value)))
        except LabError as error:
            self.picture.value = f"<p>{escape(str(error))}</p>"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = self._box._repr_mimebundle_()
        plain = TEXTS["plain"].format(orders=", ".join(ORDERS), claims=", ".join(self._claims))
        return {**bundle, "text/plain": plain}


def as_html(chart: Timeline) -> str:
    """The picture with its alternative text, and the same words below it."""
    data, metadata = chart._repr_mimebundle_()
    words = escape(chart.description)
    width = metadata["image/png"]["width"]
    return f'<img alt="{words}" width="{width}" src="data:image/png;base64,{data["image/png"]}"><p>{words}</p>'


def chart_of(replayed: Replay) -> Timeline:
    """The sequence chart of a replay."""
    return sequence(
        messages_of(replayed.run),
        title=TEXTS["title_by_call" if replayed.by_call else "title"].format(order=replayed.order),
        before="pending",
        row=TEXTS["row"].format(task=TASK),
        verdict=replayed.verdict,
    )


def messages_of(run: Run) -> list[Message]:
    """The run's calls as messages, each with what the row says after it."""
    messages: list[Message] = []
    status, writer, written = "pending", None, ""
    open_now: set[str] = set()
    for step in run.steps:
        call, name = step.call, step.actor
        if call is None or name is None or call.kind == "mark":
            continue
        kind = _kind(step, call)
        text = _update(call) if _is_update(step) else ""
        if kind in ("write", "continue") and call.rowcount:
            writer, written = name, text.split(",")[0]
        if kind in ("commit", "rollback") and writer == name:
            status, writer = written if kind == "commit" else status, None
        ends = kind in ("commit", "rollback")
        result = "" if kind == "wait" else outcome(call).replace(f"#{TASK}", TEXTS["one_row"])  # of RETURNING id
        messages.append(
            Message(
                session=name,
                kind=kind,
                status=status,
                text=text,
                result=result,
                other=" and ".join(step.waits_for),
                writer=writer,
                opens=name not in open_now,
                closes=ends,
            )
        )
        open_now = open_now - {name} if ends else open_now | {name}
    return messages


def _kind(step: Step, call: Call) -> str:
    if step.what in ("waits", "continues"):
        return step.what.removesuffix("s")
    if call.kind in ("commit", "rollback"):
        return call.kind
    return "write" if _is_update(step) else "read"


def _is_update(step: Step) -> bool:
    return step.call is not None and step.call.text.lstrip().upper().startswith("UPDATE")


def _update(call: Call) -> str:
    """What an UPDATE sets, and under which condition on the status: "processing, if pending"."""
    set_part, _, condition = shortened(call).partition("WHERE")
    value = re.search(r"status='(\w+)'", set_part)
    only = re.search(r"status='(\w+)'", condition)
    text = value[1] if value else ""
    return TEXTS["if"].format(value=text, condition=only[1]) if only else text


def _replay(claim: Claim, schedule: str) -> Run:
    """One run from the lesson's reset."""
    script = f"{lesson_folder(current_lesson())}/02_reset.sql"
    program = Program(dict.fromkeys(SESSIONS, lambda: claim(TASK)), reset=lambda: run_script(script))
    with readable_errors():
        return replay(program, schedule)
