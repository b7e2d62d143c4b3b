"""Limits of time in explored code: they strike when the exploration says so, and never because a machine is slow."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import psycopg
import pytest
from sqlalchemy import text, update
from sqlalchemy.exc import OperationalError

from helpers.db import SessionFactory, engine
from helpers.models import Task
from helpers.schedules import Invariant, Offence, Program, Run, explore, invariant, no_error_but, replay, write
from helpers.schedules.limits import LIFTED, Limit, Limits
from helpers.schedules.program import parse
from tests.schedules.programs import ONE_TASK, sessions, two

# What a client reads of a session that has ended: the server's last message, or that the connection is gone.
CONNECTION_LOST = "OperationalError"
LENGTHS = ("1ms", "10ms", "10min")
TOUCH = "UPDATE queue SET data = data || 'x' WHERE id = 1"


def limited(set_it: str, *then: str) -> list[str]:
    return ["BEGIN", set_it, TOUCH, *then, "COMMIT"]


def since(version: int) -> None:
    with engine().connect() as connection:
        if connection.connection.driver_connection.info.server_version < version:  # type: ignore[union-attr]
            pytest.skip(f"this server is older than PostgreSQL {version // 10_000}")


def errors(run: Run, actor: str = "A") -> list[str]:
    results = run.results[actor]
    assert isinstance(results, list)
    return [type(result).__name__ for result in results if isinstance(result, Exception)]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(
    ("set_it", "error"),
    [
        ("SET LOCAL lock_timeout = '{}'", "LockNotAvailable"),
        ("SET lock_timeout TO '{}'", "LockNotAvailable"),
        ("SELECT set_config('lock_timeout', '{}', true)", "LockNotAvailable"),
        ("DO $$ BEGIN SET LOCAL lock_timeout = '{}'; END $$", "LockNotAvailable"),
        ("SET LOCAL statement_timeout = '{}'", "QueryCanceled"),
    ],
)
def test_a_call_that_waits_goes_on_waiting_or_its_patience_ends(set_it: str, error: str, length: str) -> None:
    program = sessions(A=limited(set_it.format(length)), B=["BEGIN", TOUCH, "SELECT 1", "COMMIT"])
    waits = replay(program, "B A A B B A")
    assert errors(waits) == []
    assert "does not end ...>" in write(waits)
    ends = replay(program, "B A A A~ B B A")
    assert errors(ends) == [error]
    assert "⌛ A's patience ends: " in write(ends)
    late = replay(program, "B A A B A~ B A")
    assert errors(late) == [error]
    assert [step.what for step in late.steps if step.actor == "A"] == [
        "did",
        "waits",
        "patience",
        "continues",
        "did",
        "ends",
    ]


@pytest.mark.parametrize("length", LENGTHS)
def test_a_transaction_that_stands_idle_may_lose_its_session(length: str) -> None:
    idle = f"SET LOCAL idle_in_transaction_session_timeout = '{length}'"
    program = sessions(A=limited(idle, "SELECT 1"), B=[TOUCH])
    assert errors(replay(program, "A A B A")) == []
    run = replay(program, "A A B A~ A")
    assert [step.what for step in run.steps if step.actor == "B"] == ["waits", "continues", "ends"]
    assert errors(run)[0] in ("IdleInTransactionSessionTimeout", CONNECTION_LOST)


def test_a_session_that_stands_idle_between_transactions_may_be_lost() -> None:
    run = replay(sessions(A=["SET idle_session_timeout = '10ms'", TOUCH], B=[TOUCH]), "A A~ A")
    assert errors(run)[0] in ("IdleSessionTimeout", CONNECTION_LOST)


@pytest.mark.parametrize("schedule", ["B A A A~", "A A B A~ A"])
def test_a_transaction_that_lasts_too_long_loses_its_session_whether_it_waits_or_not(schedule: str) -> None:
    since(170_000)
    program = sessions(A=limited("SET LOCAL transaction_timeout = '10ms'", "SELECT 1"), B=["BEGIN", TOUCH, "COMMIT"])
    assert errors(replay(program, schedule.replace(" A~", ""))) == []
    assert errors(replay(program, schedule))[0] in ("TransactionTimeout", CONNECTION_LOST)


def test_the_shorter_of_two_limits_strikes() -> None:
    both = ["BEGIN", "SET LOCAL lock_timeout = '2s'", "SET LOCAL statement_timeout = '1s'", TOUCH, "COMMIT"]
    program = sessions(A=both, B=["BEGIN", TOUCH, "COMMIT"])
    assert errors(replay(program, "B A A A A~")) == ["QueryCanceled"]
    both[1] = "SET LOCAL lock_timeout = '500ms'"
    assert errors(replay(sessions(A=both, B=["BEGIN", TOUCH, "COMMIT"]), "B A A A A~")) == ["LockNotAvailable"]


@pytest.mark.parametrize(
    ("ends", "strikes"),
    [
        (["ROLLBACK TO one"], False),
        (["SET LOCAL lock_timeout = 0"], False),
        (["RESET lock_timeout"], False),
        (["SELECT 1"], True),
        (["RELEASE one"], True),
    ],
)
def test_the_end_of_a_setting_is_the_end_of_its_limit(ends: list[str], strikes: bool) -> None:
    before = ["BEGIN", "SELECT 1", "SAVEPOINT one", "SET LOCAL lock_timeout = '10ms'"]
    program = sessions(A=[*before, *ends, TOUCH, "COMMIT"], B=["BEGIN", TOUCH, "COMMIT"])
    run = replay(program, "B A A A A A A~ B")
    assert errors(run) == (["LockNotAvailable"] if strikes else [])
    assert any(step.what == "skipped" for step in run.steps) is not strikes


def test_a_limit_of_one_transaction_is_gone_in_the_next() -> None:
    program = sessions(A=[*limited("SET LOCAL lock_timeout = '10ms'"), TOUCH], B=["BEGIN", TOUCH, "COMMIT"])
    run = replay(program, "A A A B A A~ B")
    assert errors(run) == []
    assert [step.actor for step in run.steps if step.what == "skipped"] == ["A"]


@pytest.fixture
def role_with_a_limit() -> Iterator[None]:
    role = engine().url.username
    with engine().begin() as connection:
        connection.execute(text(f"ALTER ROLE \"{role}\" IN DATABASE {engine().url.database} SET lock_timeout = '10ms'"))
    yield
    with engine().begin() as connection:
        connection.execute(text(f'ALTER ROLE "{role}" IN DATABASE {engine().url.database} RESET lock_timeout'))


def test_a_limit_that_the_session_begins_with_counts(role_with_a_limit: None) -> None:
    program = sessions(A=["BEGIN", TOUCH, "COMMIT"], B=["BEGIN", TOUCH, "COMMIT"])
    assert errors(replay(program, "B A B")) == []
    assert errors(replay(program, "B A A~ B")) == ["LockNotAvailable"]


def test_a_limit_in_the_options_of_the_connection_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    url = engine().url.update_query_dict({"options": "-c lock_timeout=10ms"})
    monkeypatch.setattr("helpers.db.database_url", lambda: url)
    program = sessions(A=["BEGIN", TOUCH, "COMMIT"], B=["BEGIN", TOUCH, "COMMIT"])
    assert errors(replay(program, "B A A~ B")) == ["LockNotAvailable"]


@pytest.fixture
def function_with_a_limit() -> Iterator[None]:
    body = f"BEGIN {TOUCH}; RETURN 1; END"
    with engine().begin() as connection:
        connection.execute(
            text(
                "CREATE FUNCTION public.touch() RETURNS int LANGUAGE plpgsql "
                f"SET lock_timeout = '1ms' SET search_path = public AS $$ {body} $$"
            )
        )
    yield
    with engine().begin() as connection:
        connection.execute(text("DROP FUNCTION public.touch"))


def test_a_limit_within_the_call_that_waits_is_out_of_reach_and_named(function_with_a_limit: None) -> None:
    run = replay(sessions(A=["SELECT public.touch()"], B=["BEGIN", TOUCH, "SELECT pg_sleep(0.2)", "COMMIT"]), "B A B")
    assert run.lost is not None
    assert "A's call was ended by a limit of time that was set within it" in run.lost
    assert "SELECT public.touch()" in run.lost


def test_a_limit_that_strikes_before_its_turn_has_the_run_made_again_with_a_longer_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: list[int] = []
    keep = Limits.keep

    def noted(self: Limits, limit: Limit, milliseconds: int = 1) -> None:
        kept.append(milliseconds)
        keep(self, limit, milliseconds)

    monkeypatch.setattr(Limits, "keep", noted)
    slow = ["BEGIN", TOUCH, "SELECT pg_sleep(0.1)", "COMMIT"]
    run = replay(sessions(A=limited("SET LOCAL lock_timeout = '10ms'"), B=slow), "B A A B A~ B")
    assert errors(run) == ["LockNotAvailable"]
    assert [step.what for step in run.steps if step.actor == "A"][:3] == ["did", "waits", "patience"]
    assert kept == [20, 80, 320]


def test_a_limit_that_is_lifted_never_strikes_and_can_be_read_back() -> None:
    shown = replay(sessions(A=["SET lock_timeout = '1ms'", "SHOW lock_timeout"]), "").results["A"]
    assert isinstance(shown, list)
    assert shown[1] == [(f"{LIFTED + 1}ms",)]


def test_the_words_of_a_schedule_and_of_a_limit() -> None:
    assert parse("AB A~ B!", ["A", "B"]) == ["A", "B", "A~", "B!"]
    assert [str(Limit("lock_timeout", length)) for length in (10, 5_000, 120_000)] == [
        "lock_timeout of 10 ms",
        "lock_timeout of 5 s",
        "lock_timeout of 2 min",
    ]


# Exploring


def gives_up(limit: str, give_up: Callable[[], object]) -> Callable[[], object]:
    """Claims #42, where it can, under a limit of time."""

    def claim() -> object:
        try:
            with SessionFactory.begin() as session:
                session.execute(text(limit))
                claimed = update(Task).where(Task.id == 42, Task.status == "pending").values(status="processing")
                return session.scalar(claimed.returning(Task.id))
        except OperationalError:
            return give_up()

    return claim


def takes_it_by_force() -> object:
    with SessionFactory.begin() as session:
        return session.scalar(update(Task).where(Task.id == 42).values(status="processing").returning(Task.id))


@invariant("#42 is claimed once")
def claimed_once(run: Run) -> Offence | None:
    return Offence("it was claimed twice") if list(run.results.values()) == [42, 42] else None


def program_with(claim: Callable[[], object], *rules: Invariant) -> Program:
    return two(claim, rules, reset=ONE_TASK)


@pytest.mark.parametrize("limit", ["lock_timeout", "statement_timeout"])
def test_what_comes_behind_the_end_of_a_patience_is_found_whatever_its_length(limit: str) -> None:
    found = [
        explore(program_with(gives_up(f"SET LOCAL {limit} = '{length}'", takes_it_by_force), claimed_once))
        for length in LENGTHS
    ]
    assert {report.violation.invariant for report in found if report.violation} == {claimed_once.name}
    assert len({(report.runs, report.violation.schedule) for report in found if report.violation}) == 1


def test_all_orders_are_run_as_often_whatever_the_length() -> None:
    found = [
        explore(program_with(gives_up(f"SET LOCAL lock_timeout = '{length}'", lambda: None), claimed_once))
        for length in LENGTHS
    ]
    assert all(report.exhausted for report in found)
    assert len({(report.runs, tuple(report.by_disturbances.items())) for report in found}) == 1
    without = explore(program_with(gives_up("SELECT 1", lambda: None), claimed_once))
    assert without.runs < found[0].runs


def test_no_limit_strikes_where_the_program_allows_none() -> None:
    claim = gives_up("SET LOCAL lock_timeout = '1ms'", takes_it_by_force)
    assert explore(replace(program_with(claim, claimed_once), strikes=0)).exhausted


def test_an_order_by_chance_may_end_a_patience_too() -> None:
    claim = gives_up("SET LOCAL lock_timeout = '10ms'", takes_it_by_force)
    report = explore(program_with(claim, claimed_once), max_runs=0, sample=200)
    assert report.violation is not None
    assert "~" in report.violation.schedule


def test_a_violation_that_ends_a_patience_is_replayed_to_the_letter() -> None:
    claim = gives_up("SET LOCAL lock_timeout = '10ms'", takes_it_by_force)
    report = explore(program_with(claim, claimed_once))
    assert report.violation is not None
    transcripts = {write(replay(program_with(claim), report.violation.schedule)) for _ in range(10)}
    assert transcripts == {write(report.violation.run)}


def test_the_error_of_a_limit_is_the_servers_own() -> None:
    def claim() -> object:
        with SessionFactory.begin() as session:
            session.execute(text("SET LOCAL lock_timeout = '10ms'"))
            return session.execute(update(Task).where(Task.id == 42).values(status="processing"))

    report = explore(program_with(claim, no_error_but()))
    assert report.violation is not None
    [error] = [r for r in report.violation.run.results.values() if isinstance(r, OperationalError)]
    assert isinstance(error.orig, psycopg.errors.LockNotAvailable)
    assert "canceling statement due to lock timeout" in str(error)
