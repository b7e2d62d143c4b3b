"""Where a PostgreSQL comes from: DATABASE_URL, Docker Compose, or the embedded one.

`find_server()` is all that other rooms need. Importing this package connects nowhere and starts nothing.
"""

import logging
import os

from helpers.servers import docker, embedded, given
from helpers.servers.failures import connection_failure
from helpers.servers.server import Server, ServerError, lab_database
from helpers.servers.variables import set_libpq_aside

__all__ = ["Server", "ServerError", "connection_failure", "find_server", "stop_server"]

log = logging.getLogger(__name__)

# What a user may read.
UNKNOWN_KIND = '"{kind}" is no kind of server: use url, docker or embedded (LAB_SERVER or --server).'
NOTHING_FOUND = """\
No PostgreSQL could be found or started.
- DATABASE_URL: it is not set
- Docker Compose: {docker}
- embedded PostgreSQL: {embedded}
Mend one of these, then run python3 -m helpers doctor."""
DOCKER_SKIPPED = "Docker Compose is not used: %s The embedded PostgreSQL serves instead."


def find_server(kind: str | None = None) -> Server:
    """A running PostgreSQL that holds the lab's database; started, and the database created, where needed.

    `kind` is "url", "docker" or "embedded"; None means the environment variable LAB_SERVER, and without it the first
    that serves: DATABASE_URL if set, Docker Compose where an engine answers, else the embedded PostgreSQL.
    Raises ServerError, whose message names what is wrong and the cure.
    """
    kind = kind or os.environ.get("LAB_SERVER") or None
    if kind == "url" or (kind is None and given.is_set()):
        set_libpq_aside(keep_safety=True)
        return given.find()
    set_libpq_aside()
    lab_database()  # a name that is not allowed is refused before anything is started
    if kind == "embedded":
        return embedded.find()
    if kind == "docker":
        if reason := docker.why_not():
            raise ServerError(f"Docker Compose cannot be used: {reason}.")
        docker.start()
        return docker.find()
    if kind is not None:
        raise ServerError(UNKNOWN_KIND.format(kind=kind))
    return _docker_or_embedded()


def stop_server() -> str | None:
    """Stop the embedded server and the one of Docker Compose, if they run. Rows stay; DATABASE_URL's is never touched.

    Returns a line that says what was stopped, or None. Raises ServerError where one of them cannot be stopped.
    """
    return " ".join(line for line in (embedded.stop(), docker.stop()) if line) or None


def _docker_or_embedded() -> Server:
    reason = docker.why_not()
    if reason is None:
        try:
            docker.start()
        except ServerError as error:  # no network for the image, a port in use: the lesson need not wait for that
            reason = str(error)
            log.warning(DOCKER_SKIPPED, reason)
        else:
            return docker.find()  # it runs: a failed log-in is now something to say, not to step over
    try:
        return embedded.find()
    except ServerError as error:
        raise ServerError(NOTHING_FOUND.format(docker=reason, embedded=error)) from None
