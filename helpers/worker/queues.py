"""Which functions of `repository/` a worker calls: those of one lesson."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from helpers.repository import lease, locked, retry

Claim = Mapping[Any, Any]


@dataclass(frozen=True)
class Queue:
    """`fail`, `give_back` and `seconds_until_due` are None where the lesson has no such function yet."""

    claim: Callable[[float], Claim | None]
    complete: Callable[[int, int], None]
    fail: Callable[[int, int, str], str] | None = None
    give_back: Callable[[int, int], None] | None = None
    seconds_until_due: Callable[[], float | None] | None = None


def claim_without_lease(_lease_seconds: float) -> Claim | None:
    return locked.claim_task()


def complete_without_fence(task_id: int, _attempts: int) -> None:
    locked.mark_as_completed(task_id)


WITHOUT_LEASE = Queue(claim_without_lease, complete_without_fence)
WITH_LEASE = Queue(lease.claim_task, lease.mark_as_completed)
WITH_RETRY = Queue(
    retry.claim_task, lease.mark_as_completed, retry.fail_task, retry.return_task, retry.seconds_until_due
)
