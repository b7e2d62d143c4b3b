"""From a failed connection to one sentence for a person."""

from enum import Enum

from sqlalchemy import URL

DOCTOR = "python3 -m helpers doctor"


class Cause(Enum):
    """Why a connection failed; the value is what a user reads."""

    PASSWORD = (
        'The server at {place} refuses the password of the user "{user}": correct the user or the password '
        "in DATABASE_URL (special characters URL-encoded)."
    )
    NO_ROLE = 'The server at {place} does not know the user "{user}": correct the user in DATABASE_URL.'
    NOT_ALLOWED = (
        'The server at {place} does not admit the user "{user}" to the database "{database}" from here: '
        "have its administrator allow it (GRANT CONNECT, pg_hba.conf)."
    )
    DISK_FULL = "The disk of the server at {place} is full ({text}): free some space there, then try again."
    NO_SSL = (
        "The server at {place} offers no encryption, which PGSSLMODE or sslmode in DATABASE_URL asks for: "
        "unset it, or have its administrator switch on SSL."
    )
    NOT_THE_LABS = "A server answers at {place}, but it does not ask for the lab's kind of log-in: run {doctor}."
    NO_DATABASE = (
        'The database "{database}" does not exist at {place} and could not be created: have an administrator create it.'
    )
    TOO_MANY = (
        "The server at {place} has no connection left: end other programs and forgotten notebooks that use it, "
        "or raise its max_connections."
    )
    NOT_YET = "The server at {place} is starting up or shutting down: wait a few seconds, then run {doctor}."
    GONE = "The server at {place} ended the connection, it was stopped or restarted: run {doctor}."
    NO_HOST = "The host of {place} is unknown: correct the host in DATABASE_URL, or run {doctor}."
    NO_ANSWER = "Nothing answers at {place} in time: check the host, the port and any firewall, or run {doctor}."
    REFUSED = "Nothing listens at {place}: start PostgreSQL there or correct DATABASE_URL, or run {doctor}."
    OTHER = "The connection to {place} failed ({text}): run {doctor}."


# A host name may stand for several addresses, and one message then tells of several failures.
# The order is that of their worth: what a server said comes before "refused".
SIGNS: list[tuple[Cause, set[str], tuple[str, ...]]] = [
    (Cause.PASSWORD, {"28P01"}, ("password authentication failed", "no password supplied")),
    (Cause.NO_DATABASE, {"3D000"}, ('database "{database}" does not exist',)),
    (Cause.NO_ROLE, set(), ('role "{user}" does not exist',)),
    (Cause.NOT_ALLOWED, {"28000", "42501"}, ("no pg_hba.conf entry", "permission denied for database")),
    (Cause.DISK_FULL, {"53100"}, ()),
    (Cause.NO_SSL, set(), ("server does not support ssl",)),
    (Cause.NOT_THE_LABS, set(), ("authentication method requirement", "server closed the connection without proving")),
    (Cause.TOO_MANY, {"53300"}, ("too many clients", "too many connections", "remaining connection slots")),
    (Cause.NOT_YET, {"57P03"}, ("starting up", "shutting down", "not yet accepting", "not accepting connections")),
    (
        Cause.GONE,
        {"57P01", "57P02", "57P05", "08003", "08006"},
        (
            "server closed the connection",
            "terminating connection",
            "connection is lost",
            "connection is closed",
            "connection has been closed",
            "could not receive data",
            "could not send data",
            "connection reset",
            "broken pipe",
            "consuming input failed",
        ),
    ),
    (Cause.NO_HOST, set(), ("failed to resolve host", "could not translate host name", "name or service not known")),
    (Cause.NO_ANSWER, set(), ("timeout expired", "timed out", "no route to host", "network is unreachable")),
    (Cause.REFUSED, set(), ("connection refused", "no such file or directory")),
]


def place(url: URL) -> str:
    """Where the server of `url` listens, as "host:port"."""
    return f"{url.host or url.query.get('host') or 'local socket'}:{url.port or 5432}"


def cause_of(error: BaseException) -> Cause:
    """Why a connection failed, by SQLSTATE or, where libpq gives none, by its text."""
    inner = getattr(error, "orig", None) or error  # SQLAlchemy wraps the driver's error
    state, text = getattr(inner, "sqlstate", None), str(inner).lower()
    for cause, states, fragments in SIGNS:
        if state in states or any(_occurs(fragment, text) for fragment in fragments):
            return cause
    return Cause.OTHER


def connection_failure(error: Exception, url: URL) -> str:
    """One sentence for a failed or lost connection to `url`: what is wrong, and the cure. No password.

    `error` comes from psycopg or from SQLAlchemy.
    """
    inner = getattr(error, "orig", None) or error
    text = next((line for line in str(inner).splitlines() if line.strip()), type(inner).__name__).strip()
    for secret in (url.password, url.render_as_string(hide_password=False)):
        if secret:
            text = text.replace(str(secret), "***")
    return cause_of(error).value.format(
        place=place(url),
        user=url.username,
        database=url.database,
        text=text.rstrip("."),
        doctor=DOCTOR,
    )


def _occurs(fragment: str, text: str) -> bool:
    """Whether `fragment` stands in `text`; a {name} in it stands for any quoted name."""
    start, _, rest = fragment.partition("{")
    end = rest.partition("}")[2]
    at = text.find(start)
    return at >= 0 and end in text[at + len(start) :]
