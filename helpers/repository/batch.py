"""Lesson 8: many tasks at once, each with an attempt number of its own."""

from collections.abc import Iterable, Mapping
from datetime import timedelta

from sqlalchemy import RowMapping, TextClause, text

from helpers.db import SessionFactory
from helpers.models import PRIORITIES
from helpers.repository.lease import checked_lease_seconds
from helpers.repository.retry import NEVER_CAME_BACK

Claim = tuple[int, int]  # a task's id, and the number of the attempt

# The statuses stand in the text, and not in parameters, for the reason in `priority`.
AVAILABLE = """
    attempts < max_attempts AND (
        status = 'pending' AND (retry_at IS NULL OR retry_at <= clock_timestamp())
        OR status = 'processing' AND lease_until <= clock_timestamp()
    )
"""

# Each part is MATERIALIZED: it runs once, whatever the planner thinks of its size, and
# so locks no more rows than its LIMIT says.
CLAIM_BATCH = text(f"""
    WITH
    -- Tasks that nobody holds and that have no attempt left. They take no place.
    spent AS MATERIALIZED (
        SELECT id FROM backend_training.tasks
        WHERE attempts >= max_attempts AND (
            status = 'pending'
            OR status = 'processing' AND lease_until <= clock_timestamp()
        )
        ORDER BY id
        FOR UPDATE SKIP LOCKED
    ),
    given_up AS (
        UPDATE backend_training.tasks
        SET status = 'failed', lease_until = NULL, last_error = :never_came_back
        WHERE id = ANY (ARRAY(SELECT id FROM spent))
    ),

    -- The quota pass: the oldest tasks of each priority, and never more than fit.
    high AS MATERIALIZED (
        SELECT id FROM backend_training.tasks
        WHERE priority = 'HIGH' AND {AVAILABLE}
        ORDER BY created_at, id
        LIMIT least(:high, :size)
        FOR UPDATE SKIP LOCKED
    ),
    medium AS MATERIALIZED (
        SELECT id FROM backend_training.tasks
        WHERE priority = 'MEDIUM' AND {AVAILABLE}
        ORDER BY created_at, id
        LIMIT least(:medium, :size - (SELECT count(*) FROM high))
        FOR UPDATE SKIP LOCKED
    ),
    low AS MATERIALIZED (
        SELECT id FROM backend_training.tasks
        WHERE priority = 'LOW' AND {AVAILABLE}
        ORDER BY created_at, id
        LIMIT least(:low, :size - (SELECT count(*) FROM high)
                                - (SELECT count(*) FROM medium))
        FOR UPDATE SKIP LOCKED
    ),
    within_quota AS MATERIALIZED (
        SELECT id FROM high UNION ALL SELECT id FROM medium UNION ALL SELECT id FROM low
    ),

    -- The fallback pass: places that are left. SKIP LOCKED skips what others have
    -- locked, and not what this statement has: that is left out by its id.
    fallback AS MATERIALIZED (
        SELECT id FROM backend_training.tasks
        WHERE id NOT IN (SELECT id FROM within_quota) AND {AVAILABLE}
        ORDER BY priority, created_at, id
        LIMIT :size - (SELECT count(*) FROM within_quota)
        FOR UPDATE SKIP LOCKED
    ),
    chosen AS (
        SELECT id, 1 AS pass FROM within_quota UNION ALL SELECT id, 2 FROM fallback
    ),

    -- The ids as an array: they are looked up in the primary key, however many the
    -- planner expects.
    claimed AS (
        UPDATE backend_training.tasks
        SET status = 'processing', attempts = attempts + 1, retry_at = NULL,
            lease_until = clock_timestamp() + :lease
        WHERE id = ANY (ARRAY(SELECT id FROM chosen))
        RETURNING id, type, priority, attempts, lease_until, created_at
    )

    -- RETURNING has no order, so it is made here.
    SELECT id, type, priority, attempts, lease_until
    FROM claimed JOIN chosen USING (id)
    ORDER BY pass, priority, created_at, id
""")  # noqa: S608 - AVAILABLE stands above

# A claim that is out of date is left out, and does not hinder the others. The rows are
# locked in the order of their ids: a renewal and a completion of the same batch may
# meet, and without one order for both each could wait for a row that the other holds.
# The status is looked at in the locked rows, and not before: with it, a plan from a
# quiet hour would find the rows by reading all of the claim's index, instead of by id.
LOCKED = """
    locked AS MATERIALIZED (
        SELECT id, status
        FROM backend_training.tasks AS task
        JOIN unnest(CAST(:ids AS bigint[]), CAST(:attempts AS integer[]))
             AS claim (id, attempts) USING (id, attempts)
        WHERE lease_until > clock_timestamp()
        ORDER BY id
        FOR UPDATE OF task
    )
"""

COMPLETE = text(f"""
    WITH {LOCKED}
    UPDATE backend_training.tasks SET status = 'completed', lease_until = NULL
    WHERE id = ANY (ARRAY(SELECT id FROM locked WHERE status = 'processing'))
    RETURNING id
""")  # noqa: S608 - LOCKED stands above

RENEW = text(f"""
    WITH {LOCKED}
    UPDATE backend_training.tasks SET lease_until = clock_timestamp() + :lease
    WHERE id = ANY (ARRAY(SELECT id FROM locked WHERE status = 'processing'))
    RETURNING id
""")  # noqa: S608


def claim_batch(
    batch_size: int, quotas: Mapping[str, int], lease_seconds: float
) -> list[RowMapping]:
    """Claim up to `batch_size` available tasks for `lease_seconds` seconds, at once.

    `quotas` says for HIGH, MEDIUM and LOW how many tasks are taken first, at most, and
    in this order as long as there are places; one that is missing is 0. Places that are
    left then go to the remaining tasks, by priority. Within a priority the oldest task
    comes first, and of two that are equally old the one with the lower id. Tasks that
    others have locked are skipped. Tasks without an attempt left are set to `failed`,
    as `retry.claim_task` does.

    A quota holds for one batch: two workers together may exceed it. See `slots`.

    Returns mappings with `id`, `type`, `priority`, `attempts` (this claim's number,
    from 1) and `lease_until` (UTC), in the order in which they were chosen. Each task
    has an attempt number of its own, and is completed or lost on its own. All leases
    begin now: those of tasks that wait for their turn are kept by `renew_leases`.

    Raises ValueError where `batch_size` or a quota is below 0, a priority is unknown,
    or `lease_seconds` is not above 0, or above a day.
    """
    if batch_size < 0:
        raise ValueError(f"batch_size is {batch_size}, but must not be below 0.")
    quota = checked_quotas(quotas)
    parameters = {
        "size": batch_size,
        "high": quota["HIGH"],
        "medium": quota["MEDIUM"],
        "low": quota["LOW"],
        "lease": timedelta(seconds=checked_lease_seconds(lease_seconds)),
        "never_came_back": NEVER_CAME_BACK,
    }
    with SessionFactory.begin() as session:
        return list(session.execute(CLAIM_BATCH, parameters).mappings())
    # Leaving the block commits all claims of the batch, or none.


def mark_as_completed(claims: Iterable[Claim]) -> list[int]:
    """Complete each task whose claim, its id and an attempt number, is current.

    Returns the ids of the completed tasks, in ascending order. A task that is missing
    from it was refused, for one of the reasons of `lease.StaleClaimError`: nothing was
    changed for it. No error is raised, since the others are completed.
    Raises ValueError, and changes nothing, where an attempt number is below 1.
    """
    return _change_current(COMPLETE, claims)


def renew_leases(claims: Iterable[Claim], lease_seconds: float) -> list[int]:
    """Let the lease of each current claim end `lease_seconds` seconds from now.

    Returns the ids of the tasks that are still the caller's, in ascending order. Work
    on a task that is missing from it must stop: see `renewal.renew_lease`.
    Raises ValueError where an attempt number is below 1, or `lease_seconds` is not
    above 0, or above a day.
    """
    lease = timedelta(seconds=checked_lease_seconds(lease_seconds))
    return _change_current(RENEW, claims, lease=lease)


def checked_quotas(quotas: Mapping[str, int]) -> dict[str, int]:
    """A quota for each priority, 0 where `quotas` has none. ValueError: see above."""
    for priority, quota in quotas.items():
        if priority not in PRIORITIES:
            raise ValueError(f"The priority {priority!r} is not one of {PRIORITIES}.")
        if quota < 0:
            raise ValueError(f"The quota of {priority} is {quota}: it is below 0.")
    return {priority: quotas.get(priority, 0) for priority in PRIORITIES}


def _change_current(
    change: TextClause, claims: Iterable[Claim], **parameters: object
) -> list[int]:
    pairs = list(claims)
    for _, attempts in pairs:
        if attempts < 1:
            raise ValueError(
                f"attempts is {attempts}, but the first claim is attempt 1."
            )
    parameters["ids"] = [task_id for task_id, _ in pairs]
    parameters["attempts"] = [attempts for _, attempts in pairs]
    with SessionFactory.begin() as session:
        return sorted(session.scalars(change, parameters))
