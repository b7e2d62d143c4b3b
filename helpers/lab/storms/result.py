"""A storm that is over: its verdict as tables, and what happened as pictures."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from html import escape

import pandas as pd

from helpers import views
from helpers.lab.storms.forecast import Strike, counted
from helpers.lab.storms.verdict import Ruling
from helpers.schedules.run import Row
from helpers.views import Table, Timeline
from helpers.views.storm import storm_chart

MOST_ROWS = 6  # that are shown of one offence
# What is shown of the rows of an offence, which are rows of the ledger or of the tasks: those with something in them.
COLUMNS = (
    *("at", "actor", "event", "task_id", "old_status", "new_status", "attempt"),
    *("id", "status", "attempts", "lease_until", "last_error"),
)

TEXTS = {
    "storm": "Storm {seed}: {tasks} tasks, {workers} workers, {seconds:g} s. The forecast: {strikes}.",
    "strike": "{count} × {kind}",
    "rule": "rule",
    "verdict": "verdict",
    "holds": "holds",
    "broken": "broken",
    "offence": "Broken: {rule}. {sentence}.",
    "failures": "Processes that ended with an error: {count}. Most often it was this one: {line}",
    "passed": "No rule was broken.",
    "not_passed": "Rules that were broken: {count}.",
    "timeline": "The task with which a rule was broken: its attempts, the ends of its leases, and what was done to it.",
    "no_timeline": "No rule was broken.",
    "seconds": "{seconds:.2f} s",
    "never": "never",
}


@dataclass(repr=False)
class Storm:
    """What a storm was, and what it has left behind. Showing it shows the verdict.

    `ledger`: the rows of the ledger. `failures`: the last line of each process that ended with an error.
    """

    seed: int
    tasks: int
    workers: int
    seconds: float
    strikes: Sequence[Strike]
    rulings: Sequence[Ruling]
    ledger: pd.DataFrame
    failures: Sequence[str]

    @property
    def passed(self) -> bool:
        """Whether no rule was broken."""
        return not self.broken

    @property
    def broken(self) -> list[str]:
        """The names of the rules that were broken."""
        return [ruling.rule for ruling in self.rulings if ruling.offence]

    def verdict(self) -> Table:
        """The rules, and whether each holds."""
        rows = [[ruling.rule, TEXTS["broken" if ruling.offence else "holds"]] for ruling in self.rulings]
        return Table([TEXTS["rule"], TEXTS["verdict"]], rows)

    def chart(self) -> Timeline:
        """The whole storm: the completed tasks over time, and below them what happened in each place."""
        return storm_chart(self.ledger, self.tasks)

    def timeline(self) -> Timeline | str:
        """The task with which a rule was broken, the first one that the verdict names; or a sentence."""
        for ruling in self.rulings:
            if ruling.offence:
                row = ruling.offence.rows[-1]
                task = int(row["task_id"] if "task_id" in row else row["id"])
                ends = self.ledger.loc[self.ledger["task_id"] == task, "seconds"].max()
                picture = views.timeline(self.ledger, [task], until=ends + 0.5)
                return Timeline(picture.figure, TEXTS["timeline"])
        return TEXTS["no_timeline"]

    def __repr__(self) -> str:
        return "\n\n".join(map(str, self._parts()))

    def _repr_html_(self) -> str:
        return "\n".join(
            part._repr_html_() if isinstance(part, Table) else f"<p>{escape(part)}</p>" for part in self._parts()
        )

    def _parts(self) -> list[str | Table]:
        """Sentences and tables, in the order in which they are shown."""
        counts = [TEXTS["strike"].format(count=count, kind=kind) for kind, count in counted(self.strikes).items()]
        facts = {"seed": self.seed, "tasks": self.tasks, "workers": self.workers, "seconds": self.seconds}
        parts: list[str | Table] = [TEXTS["storm"].format(strikes=", ".join(counts), **facts), self.verdict()]
        for ruling in self.rulings:
            if ruling.offence:
                parts.append(TEXTS["offence"].format(rule=ruling.rule, sentence=ruling.offence.sentence))
                parts.append(self._rows(ruling.offence.rows))
        if self.failures and not self.passed:
            [(line, _)] = Counter(self.failures).most_common(1)
            parts.append(TEXTS["failures"].format(count=len(self.failures), line=line))
        parts.append(TEXTS["passed"] if self.passed else TEXTS["not_passed"].format(count=len(self.broken)))
        return parts

    def _rows(self, rows: Sequence[Row]) -> Table:
        """The rows of an offence, with times in seconds since the storm began."""
        found = [{**row, "id": None} if "task_id" in row else row for row in rows]  # the ledger numbers its rows
        columns = [name for name in COLUMNS if any(row.get(name) is not None for row in found)]
        return Table(columns, [[self._shown(row.get(name)) for name in columns] for row in found[:MOST_ROWS]])

    def _shown(self, value: object) -> str:
        if isinstance(value, datetime):
            if value.year == datetime.max.year:  # as `infinity` is read
                return TEXTS["never"]
            start = self.ledger["at"].iloc[0]
            return TEXTS["seconds"].format(seconds=(value - start).total_seconds())
        return "" if value is None else str(value)
