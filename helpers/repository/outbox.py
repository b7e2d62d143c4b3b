"""Lesson 6: a request to another service, written in the task's own transaction.

It is sent afterwards, at least once.
"""

from datetime import timedelta
from typing import Any

from sqlalchemy import RowMapping, insert, or_, select, update

from helpers.db import SessionFactory
from helpers.models import OutboxRequest, Task
from helpers.repository.lease import (
    StaleClaimError,
    checked_lease_seconds,
    database_clock,
)
from helpers.repository.renewal import current_claim


def complete_with_request(
    task_id: int, attempts: int, key: str, request: dict[str, Any]
) -> None:
    """Complete a task, and note the request that must follow: both or neither.

    `key` is the idempotency key with which the request will be sent.
    Raises StaleClaimError, and changes nothing, where the claim is out of date.
    """
    completion = (
        update(Task)
        .where(current_claim(task_id, attempts))
        .values(status="completed", lease_until=None)
        .returning(Task.id)
    )
    note = insert(OutboxRequest).values(
        task_id=task_id, idempotency_key=key, request=request
    )

    with SessionFactory.begin() as session:
        if session.scalar(completion) is None:
            raise StaleClaimError(task_id, attempts)
        session.execute(note)
    # Leaving the block commits both.


def claim_request(lease_seconds: float) -> RowMapping | None:
    """Claim the oldest request that is still to be sent, as a task is claimed.

    Returns a mapping with `id`, `task_id`, `idempotency_key` and `request`, or None.
    """
    lease = timedelta(seconds=checked_lease_seconds(lease_seconds))
    free = or_(
        OutboxRequest.lease_until.is_(None),
        OutboxRequest.lease_until <= database_clock(),
    )
    candidate = (
        select(OutboxRequest.id)
        .where(OutboxRequest.delivered_at.is_(None), free)
        .order_by(OutboxRequest.id)
        .limit(1)
        .with_for_update(skip_locked=True)
    )

    with SessionFactory.begin() as session:
        request_id = session.scalar(candidate)
        if request_id is None:
            return None
        claim = (
            update(OutboxRequest)
            .where(OutboxRequest.id == request_id)
            .values(
                attempts=OutboxRequest.attempts + 1,
                lease_until=database_clock() + lease,
            )
            .returning(
                OutboxRequest.id,
                OutboxRequest.task_id,
                OutboxRequest.idempotency_key,
                OutboxRequest.request,
            )
        )
        return session.execute(claim).mappings().one()


def mark_as_delivered(request_id: int) -> None:
    """Note that the request was answered.

    There is no fence: whoever got an answer knows that the effect exists, also a sender
    whose lease has expired meanwhile.
    """
    delivery = (
        update(OutboxRequest)
        .where(OutboxRequest.id == request_id)
        .values(delivered_at=database_clock(), lease_until=None)
    )
    with SessionFactory.begin() as session:
        session.execute(delivery)
