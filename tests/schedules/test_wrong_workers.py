"""Each wrong worker is found, by the rule that it breaks, with a sentence of its own and a schedule that replays."""

from collections.abc import Callable

import pytest

from helpers import schedules as s
from helpers.schedules import Invariant, Program, explore, replay, write, write_violation
from tests.schedules import wrong_workers as wrong
from tests.schedules.programs import THREE_TASKS, claim_for_ten_seconds, two


def found(program: Program) -> s.Violation:
    report = explore(program, time_limit=120)
    assert report.violation is not None, str(report)
    return report.violation


CASES: list[tuple[Callable[[], object], Invariant, str]] = [
    (wrong.claims_without_a_lock, s.one_current_attempt, "A claimed #42 as attempt 2, while B's lease on it"),
    (wrong.claims_without_skipping, s.claims_do_not_wait, "B's claim waited for A"),
    (wrong.works_inside_the_claim, s.claim_committed_before_work, 'A was at mark("work") inside an open transaction'),
    (wrong.resets_blindly, s.one_current_attempt, "B set #42 to pending, while A's lease on it was in force"),
    (wrong.completes_by_id, s.only_current_attempt, "A completed #42, which was completed already"),
    (wrong.completes_without_the_lease, s.within_the_lease, "A completed #42 as attempt 1, after the lease"),
    (wrong.completes_after_a_look, s.only_current_attempt, "It had looked before, in a SELECT"),
    (wrong.keeps_the_attempt_on_takeover, s.attempts_never_repeat, "attempt 1 of #42 was given twice: to A, then to B"),
    (wrong.gives_its_number_back, s.attempts_never_repeat, "the attempt number of #42 went down from 1 to 0"),
    (wrong.leases_by_its_own_clock, s.lease_in_force, "A claimed #42 as attempt 1 with a lease that had already ended"),
    (wrong.leases_from_the_transactions_start, s.lease_in_force, "with a lease that had already ended"),
    (wrong.leases_from_the_keyword, s.lease_in_force, "with a lease that had already ended"),
    (wrong.leases_for_ever, s.no_task_lost, "#42 is processing, and its lease never ends"),
    (wrong.leases_never, s.no_task_lost, "#42 is processing, and has no lease that could end"),
    (wrong.renews_by_id, s.only_current_attempt, "A renewed #42, but its current attempt 2 belongs to B"),
]


@pytest.mark.parametrize(("worker", "rule", "sentence"), CASES, ids=lambda case: getattr(case, "__name__", ""))
def test_the_fault_is_found_and_replays(worker: Callable[[], object], rule: Invariant, sentence: str) -> None:
    program = two(worker, [rule], expiries=1)
    violation = found(program)
    assert violation.invariant == rule.name
    assert sentence in violation.sentence
    assert violation.sentence in write_violation(violation)
    assert write_violation(violation).endswith(f'replay: "{violation.schedule}"')
    again = replay(program, violation.schedule)
    assert rule.check(again) is not None
    assert write(again) == write(violation.run)


def test_a_claim_that_never_sees_an_abandoned_task_loses_it() -> None:
    claim = wrong.finds_only_pending
    violation = found(two(claim, [s.no_task_lost], rescue=claim))
    assert violation.sentence == "#42 is processing; all leases have ended, and one more claim still does not get it"
    assert "One more claim, after all leases have ended, gets nothing." in write_violation(violation)


def test_limit_under_in_claims_every_row() -> None:
    violation = found(two(wrong.claims_under_in, [s.one_task_a_claim], reset=THREE_TASKS))
    assert violation.sentence == "one statement of A claimed 3 tasks"


def test_a_lease_from_now_is_found_only_when_time_passes_inside_the_transaction() -> None:
    violation = found(two(wrong.leases_from_the_transactions_start, [s.lease_in_force], expiries=1))
    assert violation.schedule == "A expire"  # after the SELECT that starts the transaction, before the UPDATE


def test_a_lease_from_the_applications_clock_is_found_also_when_it_passes_before() -> None:
    run = replay(two(wrong.leases_by_its_own_clock, expiries=1), "expire")
    assert s.lease_in_force.check(run) is not None
    run = replay(two(wrong.leases_from_the_transactions_start, expiries=1), "expire")
    assert s.lease_in_force.check(run) is None  # now() is right at the transaction's start


def test_the_crash_of_a_worker_that_claims_and_works_in_one_transaction_repeats_the_work() -> None:
    run = replay(two(wrong.works_inside_the_claim, crashes=1), "A A A A!")
    marks = [step.actor for step in run.steps if step.call and step.call.kind == "mark" and step.what == "did"]
    assert marks == ["A", "B"]
    assert run.rows[0]["attempts"] == 1  # and nothing tells that A ever worked


def test_the_courses_own_functions_pass_every_order_with_one_crash_and_one_expiry() -> None:
    report = explore(two(wrong.right, expiries=1, crashes=1), time_limit=300)
    assert report.violation is None, str(report)
    assert report.exhausted
    assert report.diverged == 0
    assert report.runs > 100
    assert "these were all orders" in str(report)


def test_the_courses_own_claim_gets_every_task_that_a_crash_leaves_behind() -> None:
    report = explore(two(wrong.right, crashes=1, rescue=claim_for_ten_seconds), time_limit=300)
    assert report.violation is None, str(report)
    assert report.exhausted
