"""The workers of a storm: one process a place, replaced when it has ended, each behind a proxy of its own."""

from collections.abc import Sequence
from contextlib import suppress
from math import inf
from time import monotonic

import psutil

from helpers.db import database_url, engine
from helpers.errors import LabError
from helpers.lab.actors.workers import Worker
from helpers.lab.storms.forecast import Strike
from helpers.lab.storms.proxy import Proxy
from helpers.processes.exits import EXIT_DONE, EXIT_STALE
from helpers.worker.journal import ledger_row

LETTERS = "ABCDEFGH"
NEVER = inf


class Place:
    """One place for a worker. The first process in place A is called A1, the next one A2.

    What happens here is noted in the ledger, for the chart: `launched`, `cut`, `stalled`, `flowing`; and, by the lab's
    `Worker`, `frozen`, `woken`, `killed`, `exited`.
    """

    def __init__(self, letter: str, proxy: Proxy, options: Sequence[str]) -> None:
        self.failures: list[str] = []  # the last line of each process that ended with an error
        self._letter = letter
        self._proxy = proxy
        self._options = options
        self._generation = 0
        self._worker: Worker | None = None
        self._frozen_until = self._stalled_until = NEVER  # in seconds of `monotonic`; NEVER: it is not so now

    @property
    def empty(self) -> bool:
        return self._worker is None

    def tend(self, replace: bool = True) -> None:
        """End what is over: a stall, a freeze, a process. Start a new process where there is none, if `replace`."""
        if monotonic() >= self._stalled_until:
            self._flow()
        if monotonic() >= self._frozen_until:
            self._wake()
        if self._worker is not None and self._worker.ended():
            if self._worker.returncode not in (EXIT_DONE, EXIT_STALE):
                self.failures.append(self._worker.last_line.removeprefix(f"[{self._worker.name}] "))
            self._forget()
        if self._worker is None and replace:
            self._launch()

    def strike(self, strike: Strike) -> None:
        """Let it happen, unless it makes no difference: nobody is there, or it is so already."""
        match strike.kind:
            case "cut":
                self._note("cut")
                self._proxy.cut()
            case "stall" if self._stalled_until == NEVER:
                self._note("stalled")
                self._proxy.stall()
                self._stalled_until = monotonic() + strike.seconds
            case "freeze" if self._worker is not None and self._frozen_until == NEVER:
                with suppress(LabError, psutil.Error):  # it ended at this moment
                    self._worker.freeze()
                    self._frozen_until = monotonic() + strike.seconds
            case "kill":
                self.end()

    def calm(self) -> None:
        """End a stall and a freeze before their time."""
        if self._stalled_until != NEVER:
            self._flow()
        if self._frozen_until != NEVER:
            self._wake()

    def end(self) -> None:
        """Kill the process, if there is one."""
        if self._worker is not None:
            self._worker.kill()
            self._forget()

    def _launch(self) -> None:
        self._generation += 1
        self._note("launched")
        url = database_url().set(host="127.0.0.1", port=self._proxy.port)
        self._worker = Worker(self._name, "helpers.worker", [self._name, *self._options], url=url)

    def _flow(self) -> None:
        self._stalled_until = NEVER
        self._note("flowing")
        self._proxy.flow()

    def _wake(self) -> None:
        self._frozen_until = NEVER
        if self._worker is not None:
            with suppress(LabError, psutil.Error):
                self._worker.wake()

    def _forget(self) -> None:
        self._worker, self._frozen_until = None, NEVER

    @property
    def _name(self) -> str:
        return f"{self._letter}{self._generation}"

    def _note(self, event: str) -> None:
        with engine().begin() as connection:
            connection.execute(ledger_row(f"worker:{self._name}", event))
