"""A run as text: who did what, with which result, who waited for whom, and the string that replays it.

Waiting is written as PostgreSQL's own isolation tester writes it: `<waiting ...>` where a call begins to wait, and
`<... continues>` where it comes back.
"""

from datetime import datetime

from helpers.schedules.rule import Violation
from helpers.schedules.run import Row, Run, Step
from helpers.schedules.statements import error_name, outcome, shortened

MOST_PADDING = 78
LEFT_OUT = {"event", "type"}

TEXTS = {
    "waits": "<waiting for {actors} ...>",
    "waits_on": "<waiting for {actors}; its {limit} does not end ...>",
    "waits_under": "<waiting for {actors}; its {limit} runs ...>",
    "patience": "⌛ {actor}'s patience ends: {limit}",
    "continues": "<... continues>  {call}",
    "crash": "💥 {actor} crashes: its connection drops, and nothing of it runs any more",
    "expire": "⏰ time passes, and every lease ends",
    "skipped": "({actor} cannot go on now)",
    "skipped_expire": "(nothing)",
    "ends": "-- ends with {error}",
    "lost": "💥 {sentence}",
    "rescue": "One more claim, after all leases have ended, gets {tasks}.",
    "nothing": "nothing",
    "broken": "✗ {name}",
    "sentence": "  {sentence}",
    "replay": 'replay: "{schedule}"',
}


def write(run: Run) -> str:
    """The whole run, a line for each step. The same schedule gives the same text, word for word."""
    lines: list[tuple[str, str] | str] = []
    for step in run.steps:
        line = None if step.rescue else _line(step, run)
        if line is not None:
            lines.append(line)
    if run.rescued is not None:
        got = [f"#{after['id']}" for before, after in zip(run.rows, run.rescued, strict=False) if before != after]
        lines.append(TEXTS["rescue"].format(tasks=", ".join(got) or TEXTS["nothing"]))
    return _aligned(lines)


def write_violation(violation: Violation) -> str:
    """The run, the rule that it broke with the rows that show it, and the string that replays it."""
    rows = [TEXTS["sentence"].format(sentence=_row(row)) for row in violation.rows]
    return "\n".join(
        [
            write(violation.run),
            TEXTS["broken"].format(name=violation.invariant),
            TEXTS["sentence"].format(sentence=violation.sentence),
            *rows,
            TEXTS["replay"].format(schedule=violation.schedule),
        ]
    )


def _line(step: Step, run: Run) -> tuple[str, str] | None:
    """What happened, and its result; None for a step that shows nothing."""
    call = step.call
    if step.what == "expire":
        return TEXTS["expire"], ""
    if step.what == "crash":
        return TEXTS["crash"].format(actor=step.actor), ""
    if step.what == "patience":
        return TEXTS["patience"].format(actor=step.actor, limit=step.limit), ""
    if step.what == "lost":
        return TEXTS["lost"].format(sentence=run.lost), ""
    if step.what == "skipped":
        return TEXTS["skipped"].format(actor=step.actor), ""
    if step.what == "ends":
        if not isinstance(step.outcome, BaseException):
            return None
        return f"{step.actor}: {TEXTS['ends'].format(error=error_name(step.outcome))}", ""
    if call is None:
        return None
    text = f"{step.actor}: {shortened(call)}"
    if step.what == "waits":
        key = "waits" if step.limit is None else "waits_under" if call.limit_counts else "waits_on"
        return text, TEXTS[key].format(actors=" and ".join(step.waits_for), limit=step.limit)
    if step.what == "continues":
        text = f"{step.actor}: {TEXTS['continues'].format(call=shortened(call).split(' ')[0])}"
    result = outcome(call)
    return text, f"→ {result}" if result else ""


def _aligned(lines: list[tuple[str, str] | str]) -> str:
    """The lines, with their results in one column."""
    lefts = [line[0] for line in lines if isinstance(line, tuple) and line[1]]
    width = min(max(map(len, lefts), default=0), MOST_PADDING)
    return "\n".join(
        line if isinstance(line, str) else f"{line[0]:<{width}}  {line[1]}" if line[1] else line[0] for line in lines
    )


def _row(row: Row) -> str:
    """The columns of one row that say something; times are left out, since they differ from run to run."""
    left_out = LEFT_OUT | ({"id"} if "task_id" in row else set())  # the ledger's own numbers go on from run to run
    shown = {n: v for n, v in row.items() if v is not None and n not in left_out and not isinstance(v, datetime)}
    return ", ".join(f"{name} {value}" for name, value in shown.items())
