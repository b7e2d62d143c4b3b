"""Which functions a worker calls: those of one lesson of `repository/`, or somebody's own."""

import base64
import pickle
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from helpers.repository import lease, locked, priority, retry
from helpers.repository.batch import claim_batch, renew_leases
from helpers.repository.idempotency import idempotency_key
from helpers.repository.renewal import renew_lease

Claim = Mapping[Any, Any]


def key_of_task(task: Claim) -> str:
    return idempotency_key(task["id"])


@dataclass(frozen=True)
class Queue:
    """`fail_task`, `return_task` and `seconds_until_due` are None where the lesson has no such function yet."""

    claim_task: Callable[[float], Claim | None]
    mark_as_completed: Callable[[int, int], None]
    fail_task: Callable[[int, int, str], str] | None = None
    return_task: Callable[[int, int], None] | None = None
    seconds_until_due: Callable[[], float | None] | None = None
    renew_lease: Callable[[int, int, float], object] = renew_lease
    request_key: Callable[[Claim], str] = key_of_task
    claim_batch: Callable[[int, Mapping[str, int], float], Sequence[Claim]] = claim_batch
    renew_leases: Callable[[list[tuple[int, int]], float], list[int]] = renew_leases


def claim_without_lease(_lease_seconds: float) -> Claim | None:
    return locked.claim_task()


def complete_without_fence(task_id: int, _attempts: int) -> None:
    locked.mark_as_completed(task_id)


WITHOUT_LEASE = Queue(claim_without_lease, complete_without_fence)
WITH_LEASE = Queue(lease.claim_task, lease.mark_as_completed)
WITH_RETRY = Queue(
    retry.claim_task, lease.mark_as_completed, retry.fail_task, retry.return_task, retry.seconds_until_due
)


def queue_of(options: Namespace) -> Queue:
    """The queue that a worker's options ask for."""
    if options.without_lease:
        queue = WITHOUT_LEASE
    elif options.by_priority or options.aging_seconds:
        queue = replace(WITH_RETRY, claim_task=partial(priority.claim_task, aging_seconds=options.aging_seconds))
    elif options.retry or options.batch:
        queue = WITH_RETRY
    else:
        queue = WITH_LEASE
    return with_functions(queue, options.functions) if options.functions else queue


def with_functions(queue: Queue, path: Path) -> Queue:
    """The queue, with those functions in place of its own that the file holds: name → function, pickled, in base64.

    The file is made by the lab that starts this worker, for the same user: it is trusted as the lab itself is.
    """
    [own] = pickle.loads(base64.b64decode(path.read_text(encoding="ascii")))  # noqa: S301 - see above
    return replace(queue, **own)
