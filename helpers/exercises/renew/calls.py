"""One renewal after another, with nobody else there."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial
from typing import TypeAlias

from helpers.checking import Calling, Finding, Functions, Outcome, article, database, texts_of, tried, written
from helpers.checking.calls import sentence_on
from helpers.checking.orders import sqlstate
from helpers.checking.tasks import CLEAR, LONG_LEASE, ROW, Rows, changed, rows_by_id
from helpers.repository.lease import MAX_LEASE_SECONDS, StaleClaimError

TEXTS = texts_of(__package__)
WHY: dict[str, str] = TEXTS["why"]

INSERT = (
    "INSERT INTO backend_training.tasks (id, type, status, attempts, lease_until, last_error) "
    "VALUES ({id}, 'generate_report', {values}, 'an error of an earlier attempt')"
)
HELD = "'processing', 2, clock_timestamp() + interval '5 minutes'"
HELD_FOR_AN_HOUR = "'processing', {attempts}, clock_timestamp() + interval '1 hour'"
TASKS = f"{CLEAR} {INSERT.format(id=42, values=HELD)}; {INSERT.format(id=43, values=HELD)}; {ROW.format(id=44)}"
# An endless lease is none: Python has no such time.
COLUMNS = """
    id, type, status, attempts, max_attempts, retry_at, last_error,
    nullif(lease_until, 'infinity') AS lease_until, clock_timestamp() AS now
"""


def renews(functions: Functions) -> Iterator[Calling | Finding]:
    """Two renewals by the worker that holds the task, each with five minutes left."""
    for seconds in (LONG_LEASE, 900.5):
        database.set_rows(TASKS)
        wrong = partial(wrong_renewal, rows_by_id(COLUMNS), seconds)
        called, expected = written("renew_lease", 42, 2, seconds), TEXTS["expected"]["renews"]
        if not (yield from tried(called, functions[0], 42, 2, seconds, wrong=wrong, expected=expected, came=came)):
            return


def wrong_renewal(before: Rows, seconds: float, outcome: Outcome) -> str:
    """The sentence on what is wrong with a renewal by the worker that holds #42, or nothing."""
    if isinstance(outcome.error, StaleClaimError):
        return WHY["raised_stale"].format(raised=outcome.why_raised)
    if sqlstate(outcome.error) == "42703":
        return WHY["column"]
    if outcome.error is not None:
        return outcome.why_raised
    return wrong_row(before, rows_by_id(COLUMNS), seconds) or wrong_value(outcome.value, before)


def wrong_row(before: Rows, after: Rows, seconds: float) -> str:
    """The sentence on what is wrong with the rows after a renewal of #42, or nothing."""
    was, row, length = before[42], after[42], timedelta(seconds=seconds)
    others = [f"#{task_id}" for task_id in changed(before, after) if task_id != 42]
    names = [name for name in row if row[name] != was[name] and name not in ("lease_until", "now")]
    if database.open_transactions():
        return WHY["open"]
    if others:
        return WHY["others"].format(others=", ".join(others))
    if names:
        key = "attempts" if names == ["attempts"] else "columns"
        return WHY[key].format(before=was["attempts"], after=row["attempts"], names=", ".join(names))
    if row["lease_until"] == was["lease_until"]:
        return WHY["unchanged"]
    if row["lease_until"] is None:
        return WHY["no_end"]
    if row["lease_until"] == was["lease_until"] + length:
        return WHY["added"]
    # The database's time was looked at before the call and after it: the renewal lies between.
    is_right = was["now"] + length <= row["lease_until"] <= row["now"] + length
    return "" if is_right else WHY["length"].format(seconds=seconds)


def wrong_value(value: object, before: Rows) -> str:
    """The sentence on what is wrong with the returned value, where the row is right; or nothing."""
    lease_until = rows_by_id(COLUMNS)[42]["lease_until"]
    if value is None:
        return WHY["returned_none"]
    if not isinstance(value, datetime):
        return WHY["returned_kind"].format(kind=article(type(value).__name__))
    if value == lease_until:
        return ""
    return WHY["returned_old" if value == before[42]["lease_until"] else "returned_other"]


def came(outcome: Outcome) -> str:
    """For the table, without the time itself: it differs from run to run."""
    return str(TEXTS["came"]) if isinstance(outcome.value, datetime) else outcome.came


Cases: TypeAlias = dict[str, tuple[str, int]]  # the row before, and the attempt number of the renewal
ENDED: Cases = {
    "completed": ("'completed', 1, NULL", 1),
    "pending": ("'pending', 1, NULL", 1),
    "failed": ("'failed', 3, NULL", 3),
    "expired": ("'processing', 1, clock_timestamp() - interval '1 s'", 1),
    "null": ("'processing', 1, NULL", 1),
    "by_hand": ("'failed', 1, clock_timestamp() + interval '1 hour'", 1),
    "missing": ("", 1),
}
OF_OTHERS: Cases = {
    "newer": (HELD_FOR_AN_HOUR.format(attempts=2), 1),
    "ahead": (HELD_FOR_AN_HOUR.format(attempts=1), 2),
}


def refusals(cases: Cases, functions: Functions) -> Iterator[Calling | Finding]:
    """Renewals of a claim that is not the current one any more, or never was."""
    for name, (values, attempts) in cases.items():
        database.set_rows(CLEAR + (INSERT.format(id=42, values=values) if values else ""))
        called, arguments = written("renew_lease", 42, attempts, LONG_LEASE), (42, attempts, LONG_LEASE)
        wrong = partial(wrong_refusal, name, attempts, rows_by_id(COLUMNS))
        refused = tried(called, functions[0], *arguments, wrong=wrong, came=came, refused_with="StaleClaimError")
        if not (yield from refused):
            return


def wrong_refusal(name: str, attempts: int, before: Rows, outcome: Outcome) -> str:
    """The sentence on what is wrong with a renewal that should have been refused, or nothing."""
    error, case, after = outcome.error, TEXTS["cases"][name], rows_by_id(COLUMNS)
    is_changed = before.keys() != after.keys() or bool(changed(before, after))
    if error is None:
        return WHY["refusal_accepted" if is_changed else "refusal_none"].format(case=case)
    if not isinstance(error, StaleClaimError):
        return WHY["refusal_kind"].format(case=case, raised=sentence_on(error))
    if is_changed:
        return WHY["refusal_changed"]
    if database.open_transactions():
        return WHY["refusal_open"]
    if (error.task_id, error.attempts) != (42, attempts):
        return WHY["refusal_names"].format(task=error.task_id, attempts=error.attempts)
    return ""


# name → the attempt number and the seconds, which no renewal can have
NO_SUCH_CALL: dict[str, tuple[int, float]] = {
    "attempts": (0, LONG_LEASE),
    "negative": (-1, LONG_LEASE),
    "no_time": (2, 0),
    "before": (2, -5),
    "too_long": (2, MAX_LEASE_SECONDS + 1),
}


def values(functions: Functions) -> Iterator[Calling | Finding]:
    """Arguments that no renewal can have; and the longest lease, which one may have."""
    for name, (attempts, seconds) in NO_SUCH_CALL.items():
        database.set_rows(TASKS)
        called, arguments = written("renew_lease", 42, attempts, seconds), (42, attempts, seconds)
        wrong = partial(wrong_error, "attempts" if name == "negative" else name, rows_by_id(COLUMNS))
        refused = tried(called, functions[0], *arguments, wrong=wrong, came=came, refused_with="ValueError")
        if not (yield from refused):
            return
    database.set_rows(TASKS)
    called, expected = written("renew_lease", 42, 2, MAX_LEASE_SECONDS), TEXTS["expected"]["renews"]
    longest = tried(called, functions[0], 42, 2, MAX_LEASE_SECONDS, wrong=why_refused, expected=expected, came=raised)
    yield from longest


def wrong_error(name: str, before: Rows, outcome: Outcome) -> str:
    if not isinstance(outcome.error, ValueError):
        return WHY[f"value_{name}"].format(came=raised(outcome))
    return WHY["value_changed"] if 42 in changed(before, rows_by_id(COLUMNS)) else ""


def raised(outcome: Outcome) -> str:
    return outcome.refusal if outcome.error else came(outcome)


def why_refused(outcome: Outcome) -> str:
    return WHY["value_longest"].format(raised=outcome.why_raised) if outcome.error else ""
