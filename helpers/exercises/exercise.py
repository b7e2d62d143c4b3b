"""An exercise, as a notebook uses it: its task, its checks, its hints, and its solution."""

import inspect
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from helpers.checking import progress
from helpers.checking.attempted import attempted
from helpers.checking.courier import Answer, pack, run_check
from helpers.checking.kept import keep
from helpers.checking.parts import Finding, Rule
from helpers.checking.verdict import Verdict
from helpers.errors import LabError
from helpers.exercises.catalogue import NAMES, definition, exercise_texts
from helpers.views import Table

TEXTS = {
    "not_attempted": "{function}: not attempted yet. Write its body in place of the dots, then run this cell again.",
    "not_functions": (
        "ex.check takes the function itself: ex.check({call}), without brackets behind the name. It got {got}."
    ),
    "how_many": "ex.check takes {n} function{s} here: ex.check({call}).",
    "checking": "Checking: {rule} …",
    "passed_mini": "The mini check passed. Now try the full one: ex.check({call}, full=True)",
    "passed_full": "Solved: the full check passed.",
    "failed": "Not yet right.",
    "half": "So far so good. {function} is not attempted yet; what needs it was not checked.",
    "hint": "Hint {n} of {all}: {hint}",
    "last_hint": "That was the last hint. ex.solution() shows one way to write it.",
    "solution": "One way to write it. There are others.",
    "nothing_to_replay": "There is nothing to replay yet. Run ex.check({call}) first.",
    "no_schedules": "This exercise has no schedules to replay.",
    "yes": "yes",
    "no": "no",
}
COLUMNS = ["lesson", "exercise", "state", "hints shown", "solution looked at"]


class Exercise:
    """One exercise. Showing it shows its task.

    Raises LabError, which lists the exercises, where there is none called `name`.
    """

    def __init__(self, name: str) -> None:
        self._definition = definition(name)
        self._texts = exercise_texts(name)
        self._hints_shown = 0
        self._last: tuple[str, Rule] | None = None  # what was checked last, packed, and the rule to replay it by

    def __repr__(self) -> str:
        return f"{self._texts['title']}\n\n{self._texts['task'].strip()}"

    def _repr_markdown_(self) -> str:
        return f"**{self._texts['title']}**\n\n{self._texts['task'].strip()}"

    def task(self) -> "Exercise":
        """The text of the task."""
        return self

    def check(self, *functions: Callable[..., Any], full: bool = False) -> Verdict:
        """Check the function (or the functions, in the order of the task) by the mini rules, or by all of them.

        It runs in a process of its own and in a database of its own. Nothing that the function does ends the notebook.
        """
        if said := self._not_functions(functions):
            return Verdict(said, passed=False, attempted=False)
        names = self._definition.functions
        open_ones = {position for position, function in enumerate(functions) if not attempted(function)}
        rules = [*self._definition.mini, *(self._definition.full if full else ())]
        everything = frozenset(range(len(names)))
        possible = [rule for rule in rules if not (everything if rule.needs is None else rule.needs) & open_ones]
        if open_ones and (not possible or 0 in open_ones):
            name = getattr(functions[min(open_ones)], "__name__", names[min(open_ones)])
            return Verdict(TEXTS["not_attempted"].format(function=name), passed=False, attempted=False)
        try:
            packed = pack(functions)
            answer = run_check(
                self._definition,
                packed,
                [rule.name for rule in possible],
                expected=self._expected,
                database=self._definition.database or full,
                announce=self._announce if full else lambda _: None,
            )
        except LabError as error:
            return Verdict(str(error), passed=False)
        self._remember(packed, answer)
        verdict = self._verdict(answer, full, open_ones)
        if verdict.passed and full:
            keep(self._definition.name, packed)  # for lesson 9
        return verdict

    def replay(self, schedule: str) -> None:
        """Run the functions that were checked last under one schedule, and print what happened.

        `helpers.schedules.program` says what may stand in it.

        Raises LabError where nothing was checked yet, or the schedule names an actor that there is not.
        """
        if self._last is None:
            rules = (*self._definition.mini, *self._definition.full)
            known = any(rule.program for rule in rules)
            raise LabError(TEXTS["nothing_to_replay" if known else "no_schedules"].format(call=self._call))
        packed, rule = self._last
        answer = run_check(
            self._definition, packed, [rule.name], expected=self._expected, database=True, schedule=schedule
        )
        if answer.error:
            raise LabError(answer.error)
        for _, finding in answer.findings:
            say(finding.transcript or finding.why)

    def hint(self) -> None:
        """Print the next hint; behind the last one, the last again."""
        hints = self._texts["hints"]
        self._hints_shown = min(self._hints_shown + 1, len(hints))
        hint = hints[self._hints_shown - 1].strip()
        say(TEXTS["hint"].format(n=self._hints_shown, all=len(hints), hint=hint))
        if self._hints_shown == len(hints):
            say(TEXTS["last_hint"])
        progress.note(self._definition.name, hints=self._hints_shown)

    def solution(self) -> "Code":
        """One way to write it. That it was looked at is noted in the progress."""
        progress.note(self._definition.name, solution=True)
        say(TEXTS["solution"])
        functions = import_module(f"{self._definition.package}.answers").SOLUTION
        return Code("\n\n\n".join(inspect.getsource(function).strip() for function in functions))

    # Behind the check

    @property
    def _call(self) -> str:
        return ", ".join(self._definition.functions)

    def _not_functions(self, functions: Sequence[object]) -> str | None:
        expected = len(self._definition.functions)
        for given in functions:
            if not callable(given):
                return TEXTS["not_functions"].format(call=self._call, got=type(given).__name__)
        if len(functions) != expected:
            return TEXTS["how_many"].format(n=expected, s="" if expected == 1 else "s", call=self._call)
        return None

    def _expected(self, rule: str) -> str:
        return str(self._texts["expected"].get(rule, ""))

    def _announce(self, rule: str) -> None:
        say(TEXTS["checking"].format(rule=self._texts["rules"][rule]))

    def _remember(self, packed: str, answer: Answer) -> None:
        """What `replay` runs: the rule that failed, or else the first that has schedules."""
        with_schedules = [r for r in (*self._definition.mini, *self._definition.full) if r.program]
        failed = [name for name, finding in answer.findings if not finding.ok]
        chosen = [rule for rule in with_schedules if rule.name in failed] or with_schedules
        if chosen:
            self._last = (packed, chosen[0])

    def _verdict(self, answer: Answer, full: bool, open_ones: set[int]) -> Verdict:
        name = self._definition.name
        findings = [self._titled(rule, finding) for rule, finding in answer.findings]
        if answer.error:
            progress.note(name, state="attempted")
            return Verdict(answer.error, findings, passed=False, printed=answer.printed)
        passed = answer.ended and all(finding.ok for finding in findings)
        if passed and open_ones:
            half = TEXTS["half"].format(function=self._definition.functions[min(open_ones)])
            progress.note(name, state="attempted")
            return Verdict(half, findings, passed=False, printed=answer.printed)
        if not passed:
            progress.note(name, state="attempted")
            return Verdict(TEXTS["failed"], findings, passed=False, printed=answer.printed)
        progress.note(name, state="solved" if full else "mini passed")
        headline = TEXTS["passed_full" if full else "passed_mini"].format(call=self._call)
        return Verdict(headline, findings, passed=True, printed=answer.printed)

    def _titled(self, rule: str, finding: Finding) -> Finding:
        """With the rule's title, where the rule itself named nothing."""
        if finding.called or not rule:
            return finding
        return Finding(**{**finding.as_data(), "called": self._texts["rules"][rule]})


class Code:
    """Code for a reader: coloured where Markdown is shown, else plain."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __repr__(self) -> str:
        return self.code

    def _repr_markdown_(self) -> str:
        return f"```python\n{self.code}\n```"


def progress_table() -> Table:
    """All exercises, and how far each has come."""
    rows = []
    for name in NAMES:
        entry = progress.entry(name)
        rows.append(
            [
                str(definition(name).lesson),
                exercise_texts(name)["title"],
                entry.state,
                str(entry.hints),
                TEXTS["yes" if entry.solution else "no"],
            ]
        )
    return Table(COLUMNS, rows)


def say(line: str) -> None:
    """Print, also where the notebook has given the name `print` to something else."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
