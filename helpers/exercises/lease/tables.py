"""Both functions in tables in which much goes on: others at work, abandoned tasks, and rows of another age."""

from collections.abc import Iterator
from typing import Any

from helpers.checking import Calling, Finding, Functions, Outcome, call, database, written
from helpers.checking.calls import CALL_SECONDS
from helpers.checking.population import Member, Table, insert, population, rows_of, shrunk
from helpers.checking.tasks import LONG_LEASE, Rows, changed, not_a_task, rows_by_id
from helpers.exercises.lease.calls import KEYS, TEXTS, WHY
from helpers.repository.lease import StaleClaimError

TABLES = 24  # each has a dozen tasks
TABLES_OF_COMPLETIONS = 4  # in each of them, every task is completed with three numbers
COLUMNS = "id, status, attempts, lease_until"


def claims_in_tables(functions: Functions) -> Iterator[Calling | Finding]:
    """One claim in each table: the task with the lowest id among those that are free, and no other row changes."""
    claim, called = functions[0], written("claim_task", LONG_LEASE)
    for seed in range(TABLES):
        table = population(seed)
        yield Calling(called, CALL_SECONDS)
        if not wrong_claim(claim, table):
            continue
        yield Calling(called, CALL_SECONDS * len(table))
        table = shrunk(table, lambda smaller: bool(wrong_claim(claim, smaller)))
        came, why = wrong_claim(claim, table) or ("", "")
        yield Finding(False, called, came, TEXTS["expected"]["tables"], why, rows_of(table))
        return
    yield Finding(True, "", TEXTS["came"]["tables"].format(n=TABLES), TEXTS["expected"]["tables"])


def is_free(member: Member) -> bool:
    return member.status == "pending" or (member.status == "processing" and member.expired)


def wrong_claim(claim: Any, table: Table) -> tuple[str, str] | None:
    """What came, and the sentence on what is wrong with one claim in this table; or None."""
    before = put(table)
    outcome = call(claim, LONG_LEASE)
    free = next((member for member in table if is_free(member)), None)
    by_id = {member.id: member for member in table}
    if outcome.error is not None:
        return outcome.came, outcome.why_raised
    if outcome.value is not None and (why := not_a_task(outcome.value, KEYS, WHY)):
        return outcome.came, why
    got = outcome.value["id"] if outcome.value is not None else None
    if got in by_id and not is_free(by_id[got]):
        return outcome.came, WHY["tables_taken"].format(member=by_id[got])
    if free is not None and got != free.id:
        others = [str(member) for member in table if member is not free]
        key = "tables_missed_beside" if others else "tables_missed"
        return outcome.came, WHY[key].format(member=free, others="; ".join(others))
    if more := [f"#{task_id}" for task_id in changed(before, rows_by_id(COLUMNS)) if task_id != got]:
        return outcome.came, WHY["others"].format(others=", ".join(more))
    if got is not None and outcome.value["attempts"] != by_id[got].attempts + 1:
        return outcome.came, WHY["tables_attempts"].format(member=by_id[got], attempts=outcome.value["attempts"])
    return None


def completions_in_tables(functions: Functions) -> Iterator[Calling | Finding]:
    """Each task of each table, with the number before its own, the one behind it, and its own, last of all."""
    complete = functions[1]
    for seed in range(TABLES_OF_COMPLETIONS):
        table = population(seed)
        before = put(table)
        for member in table:
            for attempts in (member.attempts - 1, member.attempts + 1, member.attempts):
                if attempts < 1:
                    continue  # a ValueError, see `calls.refusals`
                called = written("mark_as_completed", member.id, attempts)
                yield Calling(called, CALL_SECONDS)
                outcome = call(complete, member.id, attempts)
                after = rows_by_id(COLUMNS)
                current = member.status == "processing" and member.attempts == attempts and member.in_force
                if why := wrong_completion(member, attempts, current, outcome, changed(before, after)):
                    wanted = "completed" if current else StaleClaimError.__name__
                    yield Finding(False, called, outcome.came, wanted, why, rows_of([member]))
                    return
                before = after
    calls = TABLES_OF_COMPLETIONS * len(table)
    yield Finding(True, "", TEXTS["came"]["all_numbers"].format(n=calls), TEXTS["expected"]["all_numbers"])


def wrong_completion(
    member: Member, attempts: int, current: bool, outcome: Outcome, rows_changed: list[int]
) -> str | None:
    """The sentence on what is wrong with one completion, or None. `current`: it should have been accepted."""
    if others := [f"#{task_id}" for task_id in rows_changed if task_id != member.id]:
        return WHY["numbers_others"].format(id=member.id, others=", ".join(others))
    if current:
        return None if outcome.error is None else WHY["completes_raised"].format(raised=outcome.why_raised)
    if rows_changed:
        return WHY["numbers_accepted"].format(member=member, attempts=attempts)
    if outcome.error is None:
        return WHY["refusal_none"]
    if not isinstance(outcome.error, StaleClaimError):
        return WHY["refusal_kind"].format(expected=StaleClaimError.__name__, kind=outcome.refusal)
    return None


def put(table: Table) -> Rows:
    """Put the rows in place, and return them as they are now."""
    database.set_rows(insert(table))
    return rows_by_id(COLUMNS)
