"""Situations: what several sessions do at the same time with a learner's functions, and what must be true of that.

A check lists them:

    orders = Orders(TEXTS, {one_current_attempt: "twice"})
    orders.every("two", Situation(THREE_TASKS, RULES, A=worker, B=worker, crash=True))
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from helpers.checking import database
from helpers.checking.calls import CALL_SECONDS
from helpers.checking.orders import SEARCH_SECONDS, error_of, explored, replayed_finding, sqlstate
from helpers.checking.parts import Calling, Finding, Functions, Rule
from helpers.checking.rules import CLAIMS_DO_NOT_WAIT, reason_of_a_dead_lease
from helpers.checking.tasks import LOCKER, OTHER_PLANS, locking
from helpers.schedules import (
    Invariant,
    Program,
    Run,
    Violation,
    attempts_are_counted,
    attempts_never_repeat,
    claim_committed_before_work,
    lease_in_force,
    no_error_but,
    no_task_lost,
    one_task_a_claim,
)
from helpers.schedules.invariants import comes_back
from helpers.schedules.program import EXPIRE

TEXTS = {
    "limit": (
        "A limit of time that it has set itself ended its wait. That says that the other one is slow; "
        "it does not say that the other one has died: its transaction goes on, and commits."
    ),
}

RULE_SECONDS = SEARCH_SECONDS + 100.0
FEW = 2  # disturbances, where all orders are too many: a crash and an expiry, say, or a crash and a switch

Actor: TypeAlias = Callable[..., object]  # what one session does, given the learner's functions
Reason: TypeAlias = str | Callable[[Violation], str]  # a key of `[why]`

# Where an exercise says nothing else.
REASONS: Mapping[Invariant, Reason] = {
    one_task_a_claim: "many",
    CLAIMS_DO_NOT_WAIT: "waits",
    attempts_never_repeat: "repeat",
    attempts_are_counted: "counted",
    claim_committed_before_work: "committed",
    no_task_lost: "lost",
    comes_back: "comes_back",
    lease_in_force: reason_of_a_dead_lease,
}
# The error's number in PostgreSQL, or its class → a key of `[why]`.
ERRORS = {"55P03": "locked", "42703": "column", "TooManyStatements": "endless", "TimeoutError": "pool"}


@dataclass(frozen=True)
class Situation:
    """Sessions at the same time, the rows that they begin with, and the rules that hold whatever the order.

    `A`, `B`: what each does, given the learner's functions. `locked`: the id of a task that a session of its own locks
    for a while. `lease_ends`: time passes at any moment, until every lease has ended. `crash`: one of them may crash at
    any step. `rescue`: the claim with which somebody takes what is left, until it returns None.
    `reads`: the SQL that reads what is left, where that is neither the tasks nor their ledger.
    """

    reset: str
    rules: Sequence[Invariant]
    A: Actor
    B: Actor | None = None
    locked: int | None = field(default=None, kw_only=True)
    lease_ends: bool = field(default=False, kw_only=True)
    crash: bool = field(default=False, kw_only=True)
    rescue: Actor | None = field(default=None, kw_only=True)
    reads: str | None = field(default=None, kw_only=True)

    def program(self, functions: Functions) -> Program:
        workers = {name: actor for name, actor in (("A", self.A), ("B", self.B)) if actor is not None}
        code = {actor: partial(actor, *functions) for actor in workers.values()}  # the same actor is the same code
        outsider = {} if self.locked is None else {LOCKER: locking(self.locked)}
        read: dict[str, Any] = {} if self.reads is None else {"rows": self.reads, "ledger": None}
        return Program(
            actors={**outsider, **{name: code[actor] for name, actor in workers.items()}},
            reset=self.reset,
            invariants=self.rules,
            expiries=int(self.lease_ends),
            crashes=int(self.crash),
            rescue=partial(self.rescue, *functions) if self.rescue else None,
            **read,
        )


def limit_struck(run: Run) -> bool:
    """Whether a limit of time, which an actor had set itself, ended a call or a session."""
    return any(step.what == "patience" for step in run.steps)


class Orders:
    """Makes rules of situations, in the words of one exercise: its `[expected]` and `[why]`.

    A broken rule is explained by the sentence of `[why]` that REASONS names; a rule of the exercise's own, which is
    `x_name` in its `[offences]`, by `x`. `reasons`: for a rule, or for such an `x`, what explains it instead;
    `errors`: what explains an unexpected error.
    """

    def __init__(
        self, texts: Mapping[str, Any], reasons: Mapping[Invariant | str, Reason], errors: Mapping[str, str] = ERRORS
    ) -> None:
        self._expected: Mapping[str, str] = texts["expected"]
        self._why: Mapping[str, str] = texts["why"]
        offences = texts.get("offences", {})
        own = {key.removesuffix("_name"): name for key, name in offences.items() if key.endswith("_name")}
        named: dict[str, Reason] = {name: key for key, name in own.items()}
        named |= {own[rule] if isinstance(rule, str) else rule.name: why for rule, why in reasons.items()}
        without = [reason for reason in named.values() if isinstance(reason, str) and reason not in self._why]
        assert not without, f"[why] has no sentence for {without}"
        self._reasons = {rule.name: reason for rule, reason in REASONS.items()} | named
        self._errors = errors

    def every(self, name: str, situation: Situation, *needs: int, most: int | None = None) -> Rule:
        """Every order; or, where these are too many, those with `most` crashes, expiries and switches.

        `needs`: the positions of the functions that it calls; none: all of them.
        """

        def run(functions: Functions) -> Iterator[Calling | Finding]:
            yield from self._explored(name, situation, functions, most)

        return Rule(name, run, seconds=RULE_SECONDS, needs=frozenset(needs) or None, program=situation.program)

    def slow_clock(self, name: str, situation: Situation, *needs: int) -> Rule:
        """One order: the database's clock is moved on by a day at once, and Python's is not."""

        def run(functions: Functions) -> Iterator[Calling | Finding]:
            yield Calling("", CALL_SECONDS * 3)
            program = situation.program(functions)
            yield replayed_finding(program, EXPIRE, expected=self._expected[name], why=self.why)

        return Rule(name, run, needs=frozenset(needs) or None, program=situation.program)

    def other_plans(self, name: str, situation: Situation, *needs: int) -> Rule:
        """Every order, while PostgreSQL may not use its better plans: the result must not depend on that."""

        def run(functions: Functions) -> Iterator[Calling | Finding]:
            with database.without_plans(*OTHER_PLANS):
                yield from self._explored(name, situation, functions)

        return Rule(name, run, seconds=RULE_SECONDS, needs=frozenset(needs) or None, program=situation.program)

    def why(self, violation: Violation) -> str:
        """The sentence on why a rule was broken; empty where there is none."""
        error = error_of(violation.run)
        if limit_struck(violation.run) and sqlstate(error) not in self._errors:
            return TEXTS["limit"]
        reason = self._reasons.get(violation.invariant, "")
        if callable(reason):
            reason = reason(violation)
        elif not reason and violation.invariant == no_error_but().name and error is not None:
            reason = self._errors.get(sqlstate(error) or type(error).__name__, "")
        return self._why.get(reason, "")

    def _explored(
        self, name: str, situation: Situation, functions: Functions, most: int | None = None
    ) -> Iterator[Calling | Finding]:
        program = situation.program(functions)
        yield from explored(program, expected=self._expected[name], why=self.why, max_switches=most)
