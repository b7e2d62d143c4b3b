"""Lesson 5: work that outlasts its lease. Renew the lease while the work goes on."""

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from time import monotonic

from sqlalchemy import ColumnElement, and_, update
from sqlalchemy.exc import DBAPIError

from helpers.db import SessionFactory
from helpers.models import Task
from helpers.repository.lease import (
    StaleClaimError,
    checked_lease_seconds,
    database_clock,
)

RETRY_SECONDS = 0.5  # between two tries to reach a server that does not answer


def renew_lease(task_id: int, attempts: int, lease_seconds: float) -> datetime:
    """Let the lease of attempt number `attempts` end `lease_seconds` seconds from now.

    Returns the new end of the lease (UTC).
    Raises StaleClaimError, and changes nothing, where the claim is out of date: a lease
    that has ended cannot be renewed, even if nobody has taken the task over yet.
    Raises ValueError where `attempts` is below 1, or `lease_seconds` is not above 0, or
    above a day.
    """
    lease = timedelta(seconds=checked_lease_seconds(lease_seconds))
    renewal = (
        update(Task)
        .where(current_claim(task_id, attempts))
        .values(lease_until=database_clock() + lease)
        .returning(Task.lease_until)
    )

    with SessionFactory.begin() as session:
        lease_until = session.scalar(renewal)
        if lease_until is None:
            raise StaleClaimError(task_id, attempts, refused="renewal")
        return lease_until


def current_claim(task_id: int, attempts: int) -> ColumnElement[bool]:
    """The fence, as a condition: attempt number `attempts` is the task's current claim.

    These are the four conditions of `lease.mark_as_completed`. Whoever renews, fails,
    returns or completes a task puts them into the UPDATE itself.
    Raises ValueError where `attempts` is below 1: no claim has that number.
    """
    if attempts < 1:
        raise ValueError(f"attempts is {attempts}, but the first claim is attempt 1.")
    return and_(
        Task.id == task_id,
        Task.status == "processing",
        Task.attempts == attempts,
        Task.lease_until > database_clock(),
    )


class LeaseKeeper:
    """Renews the lease of one claim while its work goes on.

        asked = monotonic()
        task = claim_task(10)
        with LeaseKeeper(task["id"], task["attempts"], 10, asked) as keeper:
            ...             # a part of the work
            keeper.check()  # raises StaleClaimError once the claim is lost
            ...             # the next part

    A thread renews each time a third of the lease has passed, on a connection of its
    own. A renewal that the server does not answer is repeated soon, until the lease
    must have ended. How much of it is left is measured with `monotonic()`, which counts
    seconds and knows no time of day: the worker's clock may be wrong. Counting begins
    at `asked`, before the claim, and so the lease ends no earlier than we believe.

    The thread runs only as long as the process gets the CPU. A process that is frozen
    renews nothing, and neither does one whose work holds Python's interpreter lock in
    a C function.
    """

    def __init__(
        self,
        task_id: int,
        attempts: int,
        lease_seconds: float,
        asked: float,
        renew: Callable[[int, int, float], object] = renew_lease,
    ) -> None:
        self._claim = task_id, attempts
        self._renew_lease = renew
        self._lease_seconds = lease_seconds
        self._ends = asked + lease_seconds  # of the lease, by our own counting
        self._finished = threading.Event()
        self._refusal: StaleClaimError | None = None
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)

    def __enter__(self) -> "LeaseKeeper":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._finished.set()
        self._thread.join()

    def check(self) -> None:
        """Raise StaleClaimError where the claim is known to be lost. It asks nobody."""
        if self._refusal is not None:
            raise self._refusal
        if monotonic() >= self._ends:
            raise StaleClaimError(*self._claim, refused="renewal")

    def confirm(self) -> None:
        """Renew now. Call it right before an effect that cannot be taken back.

        Raises StaleClaimError where the claim is lost, and the database's own error
        where the server does not answer.
        """
        self.check()
        self._renew()

    def _keep(self) -> None:
        pause = self._lease_seconds / 3
        while not self._finished.wait(pause):
            try:
                self._renew()
                pause = self._lease_seconds / 3
            except StaleClaimError as refusal:
                self._refusal = refusal
                return
            except DBAPIError:  # the server is away: try again, while there is time
                if monotonic() >= self._ends:
                    return
                pause = min(RETRY_SECONDS, self._lease_seconds / 10)

    def _renew(self) -> None:
        asked = monotonic()  # the new lease begins later than this: we err to our cost
        self._renew_lease(*self._claim, self._lease_seconds)
        self._ends = asked + self._lease_seconds
