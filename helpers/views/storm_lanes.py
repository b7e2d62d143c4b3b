"""What happened in each place of a storm, read from the ledger for its chart."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

ERROR_FREE = ("0", "2")  # exit codes: done, refused

Row = dict[Hashable, Any]


@dataclass
class Band:
    """Something that lasted, in seconds of the ledger. `end` is None while it lasts."""

    kind: str
    start: float
    end: float | None = None
    name: str = ""


@dataclass
class Lane:
    """What happened in one place."""

    bands: list[Band] = field(default_factory=list)
    marks: list[tuple[str, float]] = field(default_factory=list)
    completed: list[float] = field(default_factory=list)

    def end(self, kind: str, at: float) -> None:
        for band in self.bands:
            if band.kind == kind and band.end is None:
                band.end = at


def read_lanes(rows: list[Row]) -> tuple[dict[str, Lane], dict[int, float]]:
    """The lanes by the letter of their place; and when each task that was completed was so for the last time."""
    lanes: dict[str, Lane] = {}
    completed: dict[int, float] = {}
    attempts: dict[int, int] = {}
    for row in rows:
        actor, event, at = str(row["actor"]), row["event"], row["seconds"]
        if not actor.startswith("worker:"):
            continue
        name = actor.removeprefix("worker:")
        lane = lanes.setdefault(name[0], Lane())
        if event == "launched":
            lane.bands.append(Band("process", at, name=name))
        elif event in ("stalled", "frozen"):
            lane.bands.append(Band(event, at))
        elif event == "flowing":
            lane.end("stalled", at)
        elif event == "woken":
            lane.end("frozen", at)
        elif event in ("killed", "exited"):
            lane.end("process", at)
            lane.end("frozen", at)
            if event == "killed" or row["detail"] not in ERROR_FREE:
                lane.marks.append(("killed" if event == "killed" else "error", at))
        elif event in ("cut", "refused"):
            lane.marks.append((event, at))
        elif event == "update" and row["new_status"] == "completed":
            lane.completed.append(at)
            completed[row["task_id"]] = at
        elif event == "update" and row["new_status"] == "processing":
            if row["old_status"] == "processing" and row["attempt"] != attempts.get(row["task_id"]):
                lane.marks.append(("taken_over", at))
            attempts[row["task_id"]] = row["attempt"]
    return dict(sorted(lanes.items())), completed
