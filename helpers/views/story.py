"""What a story consists of: facts (what happened, for sentences) and lanes (one an attempt, for bars and marks)."""

from dataclasses import dataclass, field

PENDING, WORKING, ABANDONED, STALE = "pending", "working", "abandoned", "stale"  # what a bar can show,
COMPLETED, FAILED = "completed", "failed"  # and how a task can end
LEASE, EXPIRED = "lease", "expired"


@dataclass(frozen=True)
class Fact:
    """One thing that happened. `stale` says that the actor's claim was no longer current."""

    kind: str
    actor: str = ""
    task: int | None = None
    attempt: int | None = None
    stale: bool = False
    detail: str = ""


@dataclass(frozen=True)
class Mark:
    """A point in time on a lane. `actor` is who did it."""

    kind: str
    at: float
    actor: str = ""


@dataclass
class Span:
    """A bar or a lease, in seconds. `end` is None while it lasts."""

    kind: str
    start: float
    end: float | None = None


@dataclass
class Lane:
    """One attempt of one task; before somebody claims it, a task that waits."""

    task: int
    attempt: int | None = None
    actor: str | None = None
    run: int = 0  # which run of the worker: a worker that is started again is another process
    open: bool = False  # the process may still act for this attempt
    failed: bool = False  # the worker said that its work had failed
    waits: bool = False
    lease_end: float | None = None
    lease_over: bool = False
    spans: list[Span] = field(default_factory=list)
    leases: list[Span] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    renewals: list[float] = field(default_factory=list)

    @property
    def state(self) -> str | None:
        return self.spans[-1].kind if self.spans and self.spans[-1].end is None else None

    def enter(self, state: str | None, at: float) -> None:
        """End the running bar and begin one for `state`."""
        if self.state is not None:
            self.spans[-1].end = at
        if state is not None:
            self.spans.append(Span(state, at))

    def set_lease(self, end: float | None, at: float) -> None:
        """A lease from `at` until `end`; None ends the lease that runs."""
        if self.leases and self.leases[-1].end is None:
            self.leases[-1].end = at if self.lease_end is None else min(at, self.lease_end)
        self.lease_end, self.lease_over = end, False
        if end is not None:
            self.leases.append(Span(LEASE, at))


@dataclass
class Story:
    """What the rows tell until `now` (seconds)."""

    facts: list[Fact] = field(default_factory=list)
    lanes: list[Lane] = field(default_factory=list)
    statuses: dict[int, str] = field(default_factory=dict)
    now: float = 0.0


def is_worker(actor: str) -> bool:
    """Workers name themselves `worker:A`; every other session is somebody at a keyboard."""
    return actor.startswith("worker:")
