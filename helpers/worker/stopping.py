"""SIGTERM and Ctrl-C: whoever sends them wants the worker to end soon, and nothing to be lost."""

import signal
from time import monotonic


class StopRequested(Exception):
    """The grace time is over: give the task back and end."""


class Stopping:
    """Whether this worker was asked to stop, and how long its task may still take.

    The first signal asks. A second one ends the process at once, like a crash: the lease brings the task back.
    On Windows, where one process cannot send SIGTERM to another, Ctrl-Break takes its place.
    """

    def __init__(self, grace_seconds: float) -> None:
        self._grace_seconds = grace_seconds
        self._deadline: float | None = None

    def listen(self) -> None:
        """Take over the signals. Only a process's main thread may do that."""
        for name in ("SIGTERM", "SIGINT", "SIGBREAK"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), self._ask)

    @property
    def asked(self) -> bool:
        return self._deadline is not None

    @property
    def overdue(self) -> bool:
        """Whether the grace time is over."""
        return self._deadline is not None and monotonic() >= self._deadline

    def check(self) -> None:
        """Raise StopRequested once the grace time is over."""
        if self.overdue:
            raise StopRequested

    def _ask(self, *_: object) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self._deadline = monotonic() + self._grace_seconds
