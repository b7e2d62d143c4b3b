"""Lesson 8: the leases of a batch begin together, and its last task waits longest."""

import threading
from collections.abc import Callable, Iterable
from math import inf
from time import monotonic

from sqlalchemy.exc import DBAPIError

from helpers.repository.batch import Claim, renew_leases
from helpers.repository.lease import StaleClaimError
from helpers.repository.renewal import RETRY_SECONDS


class BatchKeeper:
    """Renews the leases of a batch while its tasks are worked on, one after the other.

        asked = monotonic()
        claims = [(task["id"], task["attempts"]) for task in claim_batch(5, {}, 10)]
        with BatchKeeper(claims, 10, asked) as keeper:
            for claim in claims:
                with keeper.turn(claim) as turn:
                    ...           # a part of the work
                    turn.check()  # raises StaleClaimError once this claim is lost
                    ...           # the next part
                mark_as_completed(*claim)

    A thread renews all claims whose turn is not over, in one statement, each time a
    third of the lease has passed. A claim that was refused is lost, and the others are
    kept. What `renewal.LeaseKeeper` says of its counting and of a frozen process holds
    here too.
    """

    def __init__(
        self,
        claims: Iterable[Claim],
        lease_seconds: float,
        asked: float,
        renew: Callable[[list[Claim], float], list[int]] = renew_leases,
    ) -> None:
        self._lease_seconds = lease_seconds
        # When each lease ends, by our own counting; -inf: the claim was refused.
        self._ends = dict.fromkeys(claims, asked + lease_seconds)
        self._renew_leases = renew
        self._one_at_a_time = threading.Lock()
        self._finished = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="leases", daemon=True)

    def __enter__(self) -> "BatchKeeper":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._finished.set()
        self._thread.join()

    def turn(self, claim: Claim) -> "Turn":
        """The time in which this claim's task is worked on, as a context manager."""
        return Turn(self, claim)

    def check(self, claim: Claim) -> None:
        """Raise StaleClaimError where the claim is known to be lost. It asks nobody."""
        if monotonic() >= self._ends[claim]:
            raise StaleClaimError(*claim, refused="renewal")

    def renew(self) -> None:
        """Renew now. Raises the database's own error where it does not answer."""
        with self._one_at_a_time:
            asked = monotonic()  # the new leases begin later than this
            held = [claim for claim, ends in self._ends.items() if asked < ends]
            renewed = set(self._renew_leases(held, self._lease_seconds))
            for claim in held:
                task_id, _ = claim
                kept = task_id in renewed
                self._ends[claim] = asked + self._lease_seconds if kept else -inf

    def release(self, claim: Claim) -> None:
        """Renew this claim no more. Returns once no renewal of it is under way."""
        with self._one_at_a_time:
            del self._ends[claim]

    def _keep(self) -> None:
        pause = self._lease_seconds / 3
        while not self._finished.wait(pause):
            try:
                self.renew()
                pause = self._lease_seconds / 3
            except DBAPIError:  # the server is away: try again, while there is time
                pause = min(RETRY_SECONDS, self._lease_seconds / 10)


class Turn:
    """One claim of a batch, and its keeper. It offers what a `LeaseKeeper` offers."""

    def __init__(self, keeper: BatchKeeper, claim: Claim) -> None:
        self._keeper = keeper
        self._claim = claim

    def __enter__(self) -> "Turn":
        return self

    def __exit__(self, *_: object) -> None:
        self._keeper.release(self._claim)

    def check(self) -> None:
        """Raise StaleClaimError where the claim is known to be lost. It asks nobody."""
        self._keeper.check(self._claim)

    def confirm(self) -> None:
        """Renew now, as `LeaseKeeper.confirm` does: right before an effect."""
        self.check()
        self._keeper.renew()
        self.check()
