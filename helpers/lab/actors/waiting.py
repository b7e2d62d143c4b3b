"""Who waits for whom, from `pg_locks` and `pg_blocking_pids`, with names in place of process numbers."""

import re
import time
from collections.abc import Sequence

from sqlalchemy import text

from helpers.db import engine
from helpers.diagnosis import readable_errors
from helpers.views import Table

POLL_SECONDS = 0.02
DEADLOCK_CHECK_SECONDS = 120.0

TEXTS = {
    "none": "No session of this lesson holds a lock on tasks, and none waits for one.",
    "worker": "worker {name}",
    "unnamed": "somebody",
    "and": " and ",
    "held": "held",
    "waits": "waits for {names}",
    "relation": "relation tasks",
    "tuple": "tuple #{task}",
    "tuple_unseen": "tuple",
    "transactionid": "transactionid of {owner}",
}
COLUMNS = ["session", "lock on", "mode", "state"]

BLOCKERS = text("""
    SELECT DISTINCT coalesce(a.application_name, '')
    FROM unnest(pg_blocking_pids(:pid)) AS blocker(pid) LEFT JOIN pg_stat_activity AS a USING (pid)
    ORDER BY 1
""")

# A row lock is not here: it stands in the row itself. What `pg_locks` has is the wait for it, which is a wait for the
# end of the transaction that holds it; and, for the first in the line, a lock on the row (`tuple`): its place there.
LOCKS = text("""
    SELECT who.application_name, l.locktype, l.mode, l.granted, task.id AS task,
           coalesce(owner.application_name, '') AS owner,
           ARRAY(
               SELECT DISTINCT a.application_name
               FROM unnest(pg_blocking_pids(l.pid)) AS blocker(pid) JOIN pg_stat_activity AS a USING (pid) ORDER BY 1
           ) AS blockers
    FROM pg_locks AS l
    JOIN pg_stat_activity AS who ON who.pid = l.pid
    LEFT JOIN pg_locks AS own
        ON own.locktype = 'transactionid' AND own.transactionid = l.transactionid AND own.mode = 'ExclusiveLock'
    LEFT JOIN pg_stat_activity AS owner ON owner.pid = own.pid
    LEFT JOIN backend_training.tasks AS task
        ON l.locktype = 'tuple' AND task.ctid = format('(%s,%s)', l.page, l.tuple)::tid
    WHERE who.datname = current_database() AND who.application_name ~ '^(session|worker):'
      AND (l.locktype = 'transactionid'
           OR l.locktype IN ('relation', 'tuple') AND l.relation = 'backend_training.tasks'::regclass)
    ORDER BY who.application_name, l.granted DESC, l.locktype, owner.application_name, l.mode
""")

# The server checks a waiting session once for a deadlock, when it has waited for `deadlock_timeout`.
CHECK_IS_OVER = text("""
    SELECT clock_timestamp() > waitstart + 2 * current_setting('deadlock_timeout')::interval
    FROM pg_locks WHERE pid = :pid AND NOT granted
""")


def locks() -> Table | None:
    """The locks on `tasks` and on transactions that sessions and workers hold or wait for, in a fixed order."""
    with readable_errors(), engine().connect() as connection:
        rows = connection.execute(LOCKS).all()
    if not rows:
        print(TEXTS["none"])
        return None
    table = []
    for row in rows:
        state = TEXTS["held"] if row.granted else TEXTS["waits"].format(names=names(row.blockers))
        table.append([short_name(row.application_name), _what(row.locktype, row.task, row.owner), row.mode, state])
    return Table(COLUMNS, table)


def blockers_of(pid: int) -> list[str]:
    """The application names of those for whom the server process `pid` waits; none where it does not wait."""
    with readable_errors(), engine().connect() as connection:
        return list(connection.scalars(BLOCKERS, {"pid": pid}))


def wait_past_deadlock_check(pid: int) -> bool:
    """Return True when the server process `pid` has waited so long that its check for a deadlock is over.

    False where it does not wait for a lock.
    """
    deadline = time.monotonic() + DEADLOCK_CHECK_SECONDS
    while time.monotonic() < deadline:
        with readable_errors(), engine().connect() as connection:
            over = connection.scalars(CHECK_IS_OVER, {"pid": pid}).all()
        if over == [True]:
            return True
        if not over:
            break
        time.sleep(POLL_SECONDS)
    return False


def blockers_in(deadlock_detail: str, pid: int) -> list[int]:
    """Whom `pid` waited for, from the detail of the server's error 40P01: a line for each process of the circle.

    Only the numbers are read, since the words are in the server's language: the first is who waits, the last for whom.
    """
    lines = [[int(number) for number in re.findall(r"\d+", line)] for line in deadlock_detail.splitlines()]
    return [line[-1] for line in lines if line and line[0] == pid]


def short_name(application_name: str) -> str:
    """`A` for the session `session:A`, `worker A` for the worker `worker:A`, else the name as it is."""
    kind, _, name = application_name.partition(":")
    if kind == "session" and name:
        return name
    if kind == "worker" and name:
        return TEXTS["worker"].format(name=name)
    return application_name or TEXTS["unnamed"]


def names(application_names: Sequence[str]) -> str:
    """The names for people: `A and worker B`."""
    return TEXTS["and"].join(short_name(name) for name in application_names)


def _what(locktype: str, task: int | None, owner: str) -> str:
    if locktype == "tuple" and task is None:
        return TEXTS["tuple_unseen"]
    return TEXTS[locktype].format(task=task, owner=short_name(owner))
