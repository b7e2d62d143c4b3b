"""The timeline and its text, on ledgers as the trigger and real workers write them."""

import base64
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import combinations, permutations
from pathlib import Path
from random import Random

import matplotlib
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from helpers.views import describe, timeline
from helpers.views.drawing import Drawing
from helpers.views.palette import ICONS, LEASE, PAPER, STATUS
from helpers.views.reading import read_story
from helpers.views.sentences import title
from helpers.views.words import LABELS

START = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)
COLUMNS = [
    "id",
    "at",
    "actor",
    "event",
    "task_id",
    "old_status",
    "new_status",
    "attempt",
    "lease_until",
    "detail",
    "seconds",
]


class Ledger:
    """Writes rows as the trigger and the workers do. `wait` moves the clock; each row takes a few milliseconds."""

    def __init__(self, *tasks: int, step: float = 0.005, leases: bool = True) -> None:
        self.rows: list[list[object]] = []
        self.now = 0.0
        self.step = step
        self.leases = leases
        self.lease_ends: dict[int, float] = {}
        for task in tasks or (42, 43, 44):
            self.row("lab", "insert", task, None, "pending", 0 if leases else None)
        self.wait(0.4)

    def row(
        self, actor: str, event: str, task: int | None = None, old: str | None = None, new: str | None = None,
        attempt: int | None = None, lease_end: float | None = None, detail: str | None = None,
    ) -> "Ledger":  # fmt: skip
        at = START + timedelta(seconds=self.now)
        lease = None if lease_end is None else START + timedelta(seconds=lease_end)
        self.rows.append([len(self.rows) + 1, at, actor, event, task, old, new, attempt, lease, detail, self.now])
        self.now = round(self.now + self.step, 6)
        return self

    def wait(self, seconds: float) -> "Ledger":
        self.now = round(self.now + seconds, 6)
        return self

    def starts(self, worker: str) -> "Ledger":
        return self.row(f"worker:{worker}", "started")

    def claims(
        self, worker: str, task: int, attempt: int | None, lease: float = 10.0, old: str = "pending"
    ) -> "Ledger":
        end = self.now + lease if self.leases else None
        self.lease_ends[task] = end or 0.0
        self.row(f"worker:{worker}", "update", task, old, "processing", attempt, end)
        return self.says(worker, "claimed", task, attempt)

    def takes_over(self, worker: str, task: int, attempt: int | None, lease: float = 10.0) -> "Ledger":
        return self.claims(worker, task, attempt, lease, old="processing")

    def renews(self, worker: str, task: int, attempt: int, lease: float = 10.0) -> "Ledger":
        self.row(f"worker:{worker}", "update", task, "processing", "processing", attempt, self.now + lease)
        return self.row(f"worker:{worker}", "renewed", task, attempt=attempt, lease_end=self.now - self.step + lease)

    def completes(self, worker: str, task: int, attempt: int | None, old: str = "processing") -> "Ledger":
        self.row(f"worker:{worker}", "update", task, old, "completed", attempt)
        return self.says(worker, "completed", task, attempt)

    def says(
        self, worker: str, event: str, task: int | None = None, attempt: int | None = None, detail: str | None = None
    ) -> "Ledger":
        return self.row(f"worker:{worker}", event, task, attempt=attempt, detail=detail)

    def exits(self, worker: str, code: int) -> "Ledger":
        return self.wait(0.1).says(worker, "exited", detail=str(code))

    @property
    def frame(self) -> pd.DataFrame:
        frame = pd.DataFrame(self.rows, columns=COLUMNS)
        for name in ("task_id", "attempt"):
            frame[name] = frame[name].astype("Int64")
        for name in ("at", "lease_until"):
            frame[name] = pd.to_datetime(frame[name], utc=True)
        return frame


# --- lesson 4's experiments ---


def crash(step: float = 0.005) -> Ledger:
    ledger = Ledger(step=step).starts("A").claims("A", 42, 1)
    return ledger.says("A", "crashed", 42, 1, "after-claim").exits("A", 17)


def takeover(step: float = 0.005) -> Ledger:
    ledger = crash(step).wait(9.9).starts("B").takes_over("B", 42, 2)
    return ledger.says("B", "effect", 42, 2).completes("B", 42, 2).exits("B", 0)


def stale_worker(step: float = 0.005) -> Ledger:
    ledger = Ledger(step=step).starts("A").claims("A", 42, 1).says("A", "holding", 42, 1, "after-claim")
    ledger.wait(10.2).starts("B").takes_over("B", 42, 2).says("B", "effect", 42, 2).completes("B", 42, 2).exits("B", 0)
    return (
        ledger.wait(0.3).says("A", "effect", 42, 1).says("A", "refused", 42, 1, "Task #42, attempt 1: …").exits("A", 2)
    )


def attempt_number_alone(step: float = 0.005) -> Ledger:
    ledger = Ledger(step=step).starts("A").claims("A", 42, 1).says("A", "holding", 42, 1, "after-claim")
    ledger.wait(10.2).starts("B").takes_over("B", 42, 2, lease=30).says("B", "holding", 42, 2, "after-claim")
    ledger.wait(0.6).says("A", "effect", 42, 1).says("A", "refused", 42, 1, "Task #42, attempt 1: …").exits("A", 2)
    return ledger.wait(0.4).says("B", "effect", 42, 2).completes("B", 42, 2).exits("B", 0)


def storm(tasks: int = 30) -> Ledger:
    """Many tasks, four workers; every third attempt crashes and is taken over by another worker."""
    ledger = Ledger(*range(1, tasks + 1))
    for task in range(1, tasks + 1):
        worker = "ABCD"[task % 4]
        ledger.wait(0.35).claims(worker, task, 1, lease=3)
        if task % 3 == 0:
            ledger.says(worker, "killed", detail="-9").starts(worker)
        elif task != tasks - 1:
            ledger.wait(0.2).says(worker, "effect", task, 1).completes(worker, task, 1)
    ledger.wait(3.1)
    for task in range(3, tasks - 2, 3):
        worker = "ABCD"[(task + 1) % 4]
        ledger.wait(0.3).takes_over(worker, task, 2).says(worker, "effect", task, 2).completes(worker, task, 2)
    return ledger


def renewal(step: float = 0.005) -> Ledger:
    """A renews, is frozen past its lease, and wakes when B has the task."""
    ledger = Ledger(step=step).starts("A").claims("A", 42, 1, lease=6)
    for _ in range(5):
        ledger.wait(2).renews("A", 42, 1, lease=6)
    ledger.says("A", "frozen").wait(8).starts("B").takes_over("B", 42, 2, lease=6).wait(1).says("A", "woken")
    ledger.says("A", "refused", 42, 1, "renewal: Task #42 …").exits("A", 2)
    return ledger.wait(1).says("B", "effect", 42, 2).completes("B", 42, 2)


# --- lesson 5's experiments ---


def long_work() -> Ledger:
    """Five leases of work, renewed at each third, and once more before the effect."""
    ledger = Ledger().starts("A").claims("A", 42, 1, lease=10)
    for _ in range(14):
        ledger.wait(3.35).renews("A", 42, 1, lease=10)
    ledger.wait(3.1).renews("A", 42, 1, lease=10).says("A", "effect", 42, 1).renews("A", 42, 1, lease=10)
    return ledger.completes("A", 42, 1).exits("A", 0)


def broken() -> Ledger:
    """The work raises an exception, at each of three attempts."""
    ledger = Ledger(42).starts("A")
    for attempt, new, said, pause in (
        (1, "pending", "retry", 0.9),
        (2, "pending", "retry", 3),
        (3, "failed", "given_up", 0),
    ):
        ledger.claims("A", 42, attempt).says("A", "failed", 42, attempt, "ValueError: no title")
        ledger.row("worker:A", "update", 42, "processing", new, attempt).says("A", said, 42, attempt).wait(pause)
    return ledger.says("A", "idle").exits("A", 0)


def poison() -> Ledger:
    """A, B and C die of #42, D's claim gives it up; it is mended, requeued, and E completes it."""
    ledger = Ledger().starts("A").claims("A", 42, 1, lease=2).exits("A", 17)
    for attempt, worker in ((2, "B"), (3, "C")):
        ledger.wait(3).starts(worker).takes_over(worker, 42, attempt, lease=2).exits(worker, 17)
    ledger.wait(3).starts("D").row("worker:D", "update", 42, "processing", "failed", 3)
    ledger.claims("D", 43, 1).says("D", "effect", 43, 1).completes("D", 43, 1).exits("D", 0)
    ledger.wait(1).row("lab", "update", 42, "failed", "failed", 3).row("lab", "update", 42, "failed", "pending", 3)
    return ledger.wait(1).starts("E").claims("E", 42, 4).says("E", "effect", 42, 4).completes("E", 42, 4).exits("E", 0)


def stopped() -> Ledger:
    """A is asked to stop and gives its task back; B takes it at once."""
    ledger = Ledger(42).starts("A").claims("A", 42, 1, lease=30).says("A", "asked_to_stop").wait(1)
    ledger.row("worker:A", "update", 42, "processing", "pending", 1).says("A", "returned", 42, 1).says("A", "stopped")
    ledger.exits("A", 0).wait(1).starts("B").claims("B", 42, 2).says("B", "effect", 42, 2)
    return ledger.completes("B", 42, 2).exits("B", 0)


def given_up_while_frozen() -> Ledger:
    """A is frozen in the last attempt; B's claim gives the task up; A wakes and is refused."""
    ledger = Ledger(42).starts("A").claims("A", 42, 3, lease=2).says("A", "frozen").wait(3)
    ledger.starts("B").row("worker:B", "update", 42, "processing", "failed", 3).says("B", "idle").wait(1)
    return ledger.says("A", "woken").says("A", "refused", 42, 3, "Task #42, attempt 3: the renewal …").exits("A", 2)


# --- other stories ---


def blind_reset() -> Ledger:
    """Somebody resets #42 by hand while A still works on it."""
    ledger = Ledger().starts("A").claims("A", 42, 1).says("A", "holding", 42, 1)
    ledger.wait(3).row("lab", "update", 42, "processing", "pending", 1)
    ledger.wait(0.5).starts("B").claims("B", 42, 2).says("B", "effect", 42, 2).completes("B", 42, 2)
    return ledger.wait(1).says("A", "effect", 42, 1).says("A", "refused", 42, 1, "…").exits("A", 2)


def naive_race() -> Ledger:
    """Before lesson 4: no attempt numbers, and two workers that both read `pending`."""
    ledger = Ledger(leases=False).starts("A").starts("B").claims("A", 42, None).takes_over("B", 42, None)
    ledger.says("A", "effect", 42).completes("A", 42, None).says("B", "effect", 42)
    return ledger.completes("B", 42, None, old="completed").exits("A", 0).exits("B", 0)


def long_names() -> Ledger:
    """Names as database tools give them, and as long as a worker may have one."""
    ledger = Ledger().starts("W" * 20).claims("W" * 20, 42, 1)
    ledger.wait(5).row("DBeaver 24.1.0 - SQLEditor <Script-1.sql>", "update", 42, "processing", "pending", 1)
    return ledger.wait(1).claims("W" * 20, 42, 100).wait(8).completes("W" * 20, 42, 100)


def chaos(seed: int) -> Ledger:
    """Any events in any order, at any distance: nothing a real run would write, but nothing may break either."""
    random = Random(seed)
    ledger = Ledger(step=0.001)
    attempts = {42: 0, 43: 0, 44: 0}
    for _ in range(25):
        ledger.wait(random.choice([0, 0, 0.004, 0.02, 0.3, 1, 7]))
        task, worker, event = random.choice([42, 43, 44]), random.choice("AB"), random.randrange(9)
        if event < 3:
            attempts[task] += 1
            ledger.claims(worker, task, attempts[task], 5, random.choice(["pending", "processing"]))
        elif event == 3:
            ledger.completes(worker, task, attempts[task])
        elif event == 4:
            ledger.row("psql", "update", task, "processing", "pending", attempts[task])
        else:
            names = ["effect", "refused", "crashed", "killed", "frozen", "woken", "exited", "failed", "started", "idle"]
            ledger.says(worker, random.choice([*names, "asked_to_stop"]), task, attempts[task] or None)
    return ledger


LEDGERS: dict[str, Callable[[], Ledger]] = {
    "crash": crash,
    "takeover": takeover,
    "stale worker": stale_worker,
    "attempt number alone": attempt_number_alone,
    "renewal": renewal,
    "long work": long_work,
    "broken": broken,
    "poison": poison,
    "stopped": stopped,
    "given up while frozen": given_up_while_frozen,
    "blind reset": blind_reset,
    "naive race": naive_race,
    "storm": storm,
    "5 ms apart": lambda: Ledger(step=0.005).claims("A", 42, 1).says("A", "effect", 42, 1).completes("A", 42, 1),
    "20 ms apart": lambda: stale_worker(step=0.02),
    "300 ms apart": lambda: attempt_number_alone(step=0.3),
    "only the reset": Ledger,
    "long names": long_names,
}
BUILDERS = [*LEDGERS.values(), *[partial(chaos, seed) for seed in range(12)]]
NAMES = [*LEDGERS, *[f"chaos {seed}" for seed in range(12)]]


# --- the text ---

STAYED = "#43 and #44 stayed pending."
CRASHED = "Worker A claimed #42 as attempt 1 and crashed after the claim."
TEXTS = {
    "crash, at once": (crash(), None, f"{CRASHED} #42 is still processing, and nobody works on it. {STAYED}"),
    "crash, later": (
        crash(),
        11.0,
        f"{CRASHED} Its lease ended. #42 is still processing, and nobody works on it. {STAYED}",
    ),
    "takeover": (
        takeover(),
        None,
        f"{CRASHED} Its lease ended. Worker B took #42 over as attempt 2, finished the work and completed it. {STAYED}",
    ),
    "stale worker": (
        stale_worker(),
        None,
        "Worker A claimed #42 as attempt 1 and waited. Its lease ended. "
        "Worker B took #42 over as attempt 2, finished the work and completed it. "
        "Worker A, still on attempt 1, finished the work; its completion was refused because attempt 2 had already "
        f"completed #42. {STAYED}",
    ),
    "attempt number alone": (
        attempt_number_alone(),
        None,
        "Worker A claimed #42 as attempt 1 and waited. Its lease ended. "
        "Worker B took #42 over as attempt 2 and waited. "
        "Worker A, still on attempt 1, finished the work; its completion was refused because attempt 2 had started. "
        f"Worker B finished the work on #42 and completed it. {STAYED}",
    ),
    "refused by the lease alone": (
        Ledger().claims("A", 42, 1).wait(11).says("A", "effect", 42, 1).says("A", "refused", 42, 1).exits("A", 2),
        None,
        "Worker A claimed #42 as attempt 1. Its lease ended. Worker A, still on attempt 1, finished the work; "
        "its completion was refused because its lease had expired. #42 is still processing, and nobody works on it. "
        f"{STAYED}",
    ),
    "renewal": (
        renewal(),
        None,
        "Worker A claimed #42 as attempt 1, renewed its lease and was frozen. Its lease ended. "
        "Worker B took #42 over as attempt 2. Worker A was woken. "
        "Worker A, still on attempt 1, could not renew its lease of #42 because attempt 2 had started. "
        f"Worker B finished the work on #42 and completed it. {STAYED}",
    ),
    "blind reset": (
        blind_reset(),
        None,
        "Worker A claimed #42 as attempt 1 and waited. Somebody (lab) set #42 back to pending. "
        "Worker B claimed #42 as attempt 2, finished the work and completed it. Worker A, still on attempt 1, finished "
        f"the work; its completion was refused because attempt 2 had already completed #42. {STAYED}",
    ),
    "naive race": (
        naive_race(),
        None,
        "Worker A claimed #42. Worker B claimed #42 too. Worker A finished the work on #42 and completed it. "
        f"Worker B finished the work on #42 and completed it again. {STAYED}",
    ),
    "several by hand": (
        Ledger()
        .claims("A", 42, 1)
        .claims("B", 43, 1)
        .row("psql", "update", 42, "processing", "pending", 1)
        .row("psql", "update", 43, "processing", "pending", 1)
        .row("psql", "delete", 44, "pending", None, 0),
        None,
        "Worker A claimed #42 as attempt 1. Worker B claimed #43 as attempt 1. Somebody (psql) set #42 and #43 back to "
        "pending and deleted #44. #42 and #43 are pending again.",
    ),
    "killed and started again": (
        Ledger(42)
        .starts("A")
        .claims("A", 42, 1)
        .says("A", "killed", detail="-9")
        .wait(11)
        .starts("A")
        .takes_over("A", 42, 2),
        None,
        "Worker A claimed #42 as attempt 1 and was killed. Worker A was started again. "
        "The lease of #42, attempt 1, ended. "
        "Worker A took #42 over as attempt 2. #42 is still processing.",
    ),
    "taken over too early": (
        Ledger(42).claims("A", 42, 1).takes_over("B", 42, 2),
        None,
        "Worker A claimed #42 as attempt 1. Worker B took #42 over as attempt 2 before the lease had ended. "
        "#42 is still processing.",
    ),
    "completed without a fence": (
        Ledger(42).claims("A", 42, 1).wait(11).takes_over("B", 42, 2).completes("A", 42, 2),
        None,
        "Worker A claimed #42 as attempt 1. Its lease ended. Worker B took #42 over as attempt 2. "
        "Worker A, still on attempt 1, completed #42, which was no longer its own.",
    ),
    "long work": (
        long_work(),
        None,
        f"Worker A claimed #42 as attempt 1, renewed its lease, finished the work and completed it. {STAYED}",
    ),
    "failed, to be tried again": (
        Ledger(42)
        .claims("A", 42, 1)
        .says("A", "failed", 42, 1)
        .row("worker:A", "update", 42, "processing", "pending", 1),
        None,
        "Worker A claimed #42 as attempt 1, failed at the work and put it back, to be tried again. "
        "#42 is pending again.",
    ),
    "broken": (
        broken(),
        None,
        "Worker A claimed #42 as attempt 1, failed at the work and put it back, to be tried again. "
        "Worker A claimed #42 as attempt 2, failed at the work and put it back, to be tried again. "
        "Worker A claimed #42 as attempt 3, failed at the work, gave it up as failed and found nothing to do.",
    ),
    "poison": (
        poison(),
        None,
        "Worker A claimed #42 as attempt 1 and ended without completing it. Its lease ended. "
        "Worker B took #42 over as attempt 2 and ended without completing it. Its lease ended. "
        "Worker C took #42 over as attempt 3 and ended without completing it. Its lease ended. "
        "Worker D gave #42 up as failed after its last attempt. "
        "Worker D claimed #43 as attempt 1, finished the work and completed it. "
        "Somebody (lab) requeued #42. Worker E claimed #42 as attempt 4, finished the work and completed it. "
        "#44 stayed pending.",
    ),
    "stopped": (
        stopped(),
        None,
        "Worker A claimed #42 as attempt 1, was asked to stop and gave it back. "
        "Worker B claimed #42 as attempt 2, finished the work and completed it.",
    ),
    "given up while frozen": (
        given_up_while_frozen(),
        None,
        "Worker A claimed #42 as attempt 3 and was frozen. Its lease ended. "
        "Worker B gave #42 up as failed after its last attempt and found nothing to do. Worker A was woken. "
        "Worker A, still on attempt 3, could not renew its lease of #42 because #42 was no longer processing.",
    ),
    "ended early": (
        Ledger(42).claims("A", 42, 1).exits("A", 69),
        None,
        "Worker A claimed #42 as attempt 1 and ended without completing it. "
        "#42 is still processing, and nobody works on it.",
    ),
    "a session without a name": (
        Ledger(42).claims("A", 42, 1).row("", "update", 42, "processing", "pending", 1),
        None,
        "Worker A claimed #42 as attempt 1. Somebody set #42 back to pending. #42 is pending again.",
    ),
    "idle": (Ledger(42).starts("A").says("A", "idle"), None, "Worker A found nothing to do. #42 stayed pending."),
    "crash before the claim": (
        Ledger(42).starts("A").says("A", "crashed", detail="before-claim"),
        None,
        "Worker A crashed before its claim. #42 stayed pending.",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_text_tells_what_the_rows_show(name: str) -> None:
    ledger, until, text = TEXTS[name]
    assert describe(ledger.frame, until=until) == text
    assert timeline(ledger.frame, until=until).description == text


def test_two_runs_of_one_experiment_read_the_same() -> None:
    assert describe(stale_worker(step=0.002).frame) == describe(stale_worker(step=0.013).frame)


def test_renewing_more_often_reads_the_same() -> None:
    texts = set()
    for times in (1, 4):
        ledger = Ledger(42).claims("A", 42, 1, lease=6)
        for _ in range(times):
            ledger.wait(2).renews("A", 42, 1, lease=6)
        texts.add(describe(ledger.completes("A", 42, 1).frame))
    assert texts == {"Worker A claimed #42 as attempt 1, renewed its lease and completed it."}


def test_only_the_tasks_that_were_asked_for() -> None:
    ledger = takeover().starts("C").claims("C", 43, 1).frame
    assert describe(ledger, tasks=[43]) == "Worker C claimed #43 as attempt 1. #43 is still processing."
    assert describe(ledger, tasks=[44]) == "#44 stayed pending."


def test_unknown_events_are_passed_over() -> None:
    ledger = takeover()
    ledger.says("A", "sneezed", 42, 1).says("A", "sneezed").row("lab", "sneezed", 99)
    assert describe(ledger.frame) == describe(takeover().frame)


def test_an_empty_ledger_is_a_sentence_and_no_chart() -> None:
    shown = timeline(Ledger().frame.iloc[:0])
    assert (
        shown.description == describe(Ledger().frame.iloc[:0]) == "The ledger is empty: no task has been created yet."
    )
    assert shown._repr_mimebundle_() == ({"text/plain": shown.description}, {})
    assert timeline(crash().frame, tasks=[7]).description == "The ledger has no rows about #7."


def test_many_tasks_are_counted() -> None:
    assert describe(storm(30).frame).startswith("Tasks: 30 (completed 28, processing 2). Attempts: 39, by worker A, ")


# --- what the picture is drawn from ---


def lanes(ledger: Ledger) -> list[tuple[int, int | None, list[str]]]:
    story = read_story(ledger.frame)
    return [(lane.task, lane.attempt, [span.kind for span in lane.spans]) for lane in story.lanes]


def test_a_lane_for_each_attempt_and_a_bar_for_each_state() -> None:
    assert lanes(takeover())[:2] == [(42, 1, ["pending", "working", "abandoned"]), (42, 2, ["working", "completed"])]
    assert lanes(stale_worker()) == [
        (42, 1, ["pending", "working", "stale"]),
        (42, 2, ["working", "completed"]),
        (43, None, ["pending"]),
        (44, None, ["pending"]),
    ]
    assert lanes(blind_reset())[:2] == [
        (42, 1, ["pending", "working", "stale"]),
        (42, 2, ["pending", "working", "completed"]),
    ]


def test_the_lease_lasts_until_its_end_or_its_task_s_end() -> None:
    first, second = read_story(takeover().frame).lanes[:2]
    assert [(lease.kind, round((lease.end or 0) - lease.start, 6)) for lease in first.leases] == [("expired", 10.0)]
    assert second.leases[0].kind == "lease"
    assert second.leases[0].end == second.spans[0].end  # completed: the lease is cleared


def test_renewals_extend_one_lease() -> None:
    lane = read_story(renewal().frame).lanes[0]
    assert len(lane.renewals) == 5
    assert [(lease.kind, lease.end) for lease in lane.leases] == [("expired", round(lane.renewals[-1] + 6, 6))]


def test_many_renewals_have_one_flag_with_their_number() -> None:
    drawing = Drawing(read_story(long_work().frame))
    flags = drawing.layout.lanes[0].flags
    assert [text for flag in flags for text in flag.texts if "renewed" in text] == ["lease renewed 16 times"]
    lane = Drawing(read_story(Ledger(42).claims("A", 42, 1).wait(3).renews("A", 42, 1).frame)).layout.lanes[0]
    assert [text for flag in lane.flags for text in flag.texts] == ["claimed", "lease renewed", "lease will end"]


def test_what_was_given_up_stays_so_when_its_worker_comes_back() -> None:
    [lane] = read_story(given_up_while_frozen().frame).lanes
    assert [(span.kind, span.end is None) for span in lane.spans if span.end != span.start][-1] == ("failed", True)


# --- the picture ---


def words(figure: Figure) -> list[tuple[str, Bbox]]:
    shown = [text for text in figure.findobj(Text) if text.get_text()]
    return [
        (text.get_text(), text.get_window_extent())
        for text in shown
        if text.axes is None or text.axes.texts.count(text)
    ]


def overlap(one: Bbox, other: Bbox) -> bool:
    beside = max(one.x0, other.x0) >= min(one.x1, other.x1)
    return not beside and bool(max(one.y0, other.y0) < min(one.y1, other.y1))


@pytest.mark.parametrize("build", BUILDERS, ids=NAMES)
def test_no_label_touches_another_or_is_cut_off(build: Callable[[], Ledger]) -> None:
    figure = timeline(build().frame).figure
    found = words(figure)
    assert len(found) > 5
    for (one, box), (other, other_box) in combinations(found, 2):
        assert not overlap(box, other_box), f"{one!r} touches {other!r}"
    page = figure.bbox
    for text, box in found:
        inside = page.x0 <= box.x0 <= box.x1 <= page.x1 and page.y0 <= box.y0 <= box.y1 <= page.y1
        assert inside, f"{text!r} is cut off"


@pytest.mark.parametrize("build", BUILDERS, ids=NAMES)
def test_no_pole_crosses_a_label(build: Callable[[], Ledger]) -> None:
    for lane in Drawing(read_story(build().frame)).layout.lanes:
        for pole, flag in permutations(lane.flags, 2):
            assert not (flag.row < pole.row and flag.x < pole.x < flag.end)


def test_the_same_ledger_gives_the_same_bytes(tmp_path: Path) -> None:
    for suffix in ("png", "svg"):
        one, other = tmp_path / f"one.{suffix}", tmp_path / f"other.{suffix}"
        timeline(stale_worker().frame).save(one)
        with matplotlib.rc_context(
            {"font.size": 30, "figure.dpi": 50, "axes.facecolor": "black", "lines.linewidth": 9}
        ):
            timeline(stale_worker().frame).save(other)  # the reader's own settings do not matter
        assert one.read_bytes() == other.read_bytes()


def test_a_notebook_gets_a_sharp_picture_with_its_text() -> None:
    shown = timeline(takeover().frame)
    data, metadata = shown._repr_mimebundle_()
    assert data["text/plain"] == repr(shown) == metadata["image/png"]["alt"] == shown.description
    png = base64.b64decode(data["image/png"])
    width, height = (int.from_bytes(png[start : start + 4], "big") for start in (16, 20))
    assert (width, height) == (2 * metadata["image/png"]["width"], 2 * metadata["image/png"]["height"])
    assert metadata["image/png"]["width"] <= 950


def test_words_are_large_enough_for_a_projector() -> None:
    figure = timeline(stale_worker().frame).figure
    assert min(float(text.get_fontsize()) for text in figure.findobj(Text) if text.get_text()) >= 10


def test_the_background_is_light_whatever_the_theme() -> None:
    assert timeline(takeover().frame).figure.patch.get_facecolor() == (1, 1, 1, 1)


def test_pyplot_stays_out_of_it() -> None:
    code = "import sys, helpers.views; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def luminance(color: str) -> float:
    """As WCAG defines it."""
    channels = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    return sum(weight * channel for weight, channel in zip((0.2126, 0.7152, 0.0722), channels, strict=True))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (STATUS["pending"], STATUS["processing"]),
        (STATUS["processing"], STATUS["completed"]),
        (STATUS["processing"], PAPER),  # hollow: nobody works on it
        (STATUS["processing"], LEASE),
        (STATUS["completed"], PAPER),
    ],
)
def test_neighbouring_states_differ_in_grey(one: str, other: str) -> None:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    assert (lighter + 0.05) / (darker + 0.05) > 1.4


def test_every_mark_has_a_word_and_a_shape_of_its_own() -> None:
    assert set(ICONS) <= set(LABELS)
    kinds = [
        "claimed",
        "taken_over",
        "effect",
        "completed",
        "refused",
        "crashed",
        "killed",
        "frozen",
        "woken",
        "lease_ended",
        "renewed",
        "failed",
        "gave_up",
        "returned",
        "asked_to_stop",
    ]
    assert len({ICONS[kind][0] for kind in kinds}) == len(kinds)


def test_the_title_is_built_from_the_rows() -> None:
    titles = {name: title(read_story(build().frame)) for name, build in LEDGERS.items()}
    assert titles["takeover"] == "#42: worker A crashed, worker B took over and completed it"
    assert titles["stale worker"] == "#42: worker B took over and completed it, worker A was refused"
    assert titles["blind reset"].startswith("#42: somebody (lab) set it back to pending")
    assert titles["only the reset"] == "Tasks: 3 (pending 3), attempts: 0"
    assert titles["broken"] == "#42: worker A gave it up as failed"
    assert titles["stopped"] == "#42: worker A gave it back, worker B completed it"
    assert title(read_story(poison().frame, tasks=[42])) == "#42: completed, attempts: 4"


def test_the_file_says_how_long_leases_lasted_and_the_text_beside_it_does_not(tmp_path: Path) -> None:
    """Where a notebook is tested, leases are shorter, and its text must be the same."""
    ledger = Ledger(42).claims("A", 42, 1).wait(11).takes_over("B", 42, 2, lease=30.0)
    picture = timeline(ledger.frame)
    picture.save(tmp_path / "picture.svg")
    assert "Leases lasted 10 s, 30 s." in (tmp_path / "picture.svg").read_text(encoding="utf-8")
    assert "Leases lasted" not in picture.description
    without = Ledger(42, leases=False).claims("A", 42, None)
    timeline(without.frame).save(tmp_path / "without.svg")
    assert "Leases lasted" not in (tmp_path / "without.svg").read_text(encoding="utf-8")
