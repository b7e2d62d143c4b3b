"""libpq's environment variables (PGHOST, PGSERVICE, PGSSLMODE ...), which it reads in every connection of a process.

The lab says itself to which server it connects, and how a session behaves. So a process sets them aside where it looks
for its server, and what it starts inherits none.
"""

from psycopg.pq import Conninfo

from helpers.surroundings import set_aside

# Not among the parameters of a connection, and read all the same.
MORE = {"PGSERVICEFILE", "PGSYSCONFDIR", "PGLOCALEDIR", "PGDATESTYLE", "PGTZ", "PGGEQO"}

# Each process of the lab names itself by it, for the ledger and for pg_stat_activity.
OURS = "PGAPPNAME"

# How somebody proves who he is, and what the connection must be like. Of a server that somebody else keeps, the lab
# cannot know that, and to forget a PGSSLMODE=verify-full would be to give the password to anybody.
SAFETY = ("PGPASS", "PGSSL", "PGGSS", "PGKRB", "PGREQUIRE", "PGCHANNELBINDING")


def set_libpq_aside(keep_safety: bool = False) -> None:
    """Remove libpq's variables from this process's environment; with `keep_safety`, all but those of `SAFETY`."""
    names = MORE | {option.envvar.decode() for option in Conninfo.get_defaults() if option.envvar}
    names.discard(OURS)
    set_aside(name for name in names if not (keep_safety and name.startswith(SAFETY)))
