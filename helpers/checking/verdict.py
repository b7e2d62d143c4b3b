"""What a check shows: a small table, and for what failed a sentence, the rows, and the order that leads there."""

from collections.abc import Sequence
from html import escape

from helpers.checking.parts import Finding
from helpers.views import Table

MOST_PRINTED = 5  # lines

TEXTS = {
    "ok": "ok",
    "failed": "failed",
    "called": "checked",
    "came": "came",
    "expected": "expected",
    "result": "",
    "why": "Why: {why}",
    "rows": "The rows that show it:",
    "transcript": "The shortest order that was found:",
    "replay": 'To run it again: ex.replay("{schedule}")',
    "printed": "Your function printed:",
    "printed_more": "…",
}


class Verdict:
    """The result of a check. `passed` and `attempted` are for programs; a cell shows the rest."""

    def __init__(
        self,
        headline: str,
        findings: Sequence[Finding] = (),
        *,
        attempted: bool = True,
        passed: bool,
        printed: str = "",
    ) -> None:
        self.headline = headline
        self.findings = list(findings)
        self.attempted = attempted
        self.passed = passed
        self.printed = _first_lines(printed)

    @property
    def failed(self) -> list[Finding]:
        """What is not right, each reason once."""
        return list({finding.why: finding for finding in reversed(self.findings) if not finding.ok}.values())[::-1]

    def __repr__(self) -> str:
        parts = [self.headline]
        if self.findings:
            parts.append(repr(self._table()))
        for finding in self.failed:
            parts.append(TEXTS["why"].format(why=finding.why))
            if finding.rows:
                parts += [TEXTS["rows"], repr(_rows_table(finding))]
            if finding.transcript:
                parts += [TEXTS["transcript"], finding.transcript]
            if finding.schedule is not None:
                parts.append(TEXTS["replay"].format(schedule=finding.schedule))
        if self.printed:
            parts += [TEXTS["printed"], self.printed]
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        parts = [f"<p><b>{escape(self.headline)}</b></p>"]
        if self.findings:
            parts.append(self._table()._repr_html_())
        for finding in self.failed:
            parts.append(f"<p>{escape(TEXTS['why'].format(why=finding.why))}</p>")
            if finding.rows:
                parts += [f"<p>{escape(TEXTS['rows'])}</p>", _rows_table(finding)._repr_html_()]
            if finding.transcript:
                parts += [f"<p>{escape(TEXTS['transcript'])}</p>", _block(finding.transcript)]
            if finding.schedule is not None:
                parts.append(_block(TEXTS["replay"].format(schedule=finding.schedule)))
        if self.printed:
            parts += [f"<p>{escape(TEXTS['printed'])}</p>", _block(self.printed)]
        return "\n".join(parts)

    def _table(self) -> Table:
        columns = [TEXTS["result"], TEXTS["called"], TEXTS["came"], TEXTS["expected"]]
        return Table(
            columns,
            [
                [TEXTS["ok" if finding.ok else "failed"], finding.called, finding.came, finding.expected]
                for finding in self.findings
            ],
        )


def _rows_table(finding: Finding) -> Table:
    columns = list(dict.fromkeys(name for row in finding.rows for name in row))
    return Table(columns, [[row.get(name, "") for name in columns] for row in finding.rows])


def _block(text: str) -> str:
    return f'<pre style="overflow-x:auto">{escape(text)}</pre>'


def _first_lines(text: str) -> str:
    lines = text.rstrip().splitlines()
    return "\n".join([*lines[:MOST_PRINTED], *([TEXTS["printed_more"]] if len(lines) > MOST_PRINTED else [])])
