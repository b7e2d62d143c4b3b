"""What a server is, which databases the lab may use, and how to log in to one of them."""

import os
import re
from dataclasses import dataclass

import psycopg
from psycopg import sql
from sqlalchemy import URL

from helpers.errors import LabError
from helpers.servers.failures import Cause, cause_of, connection_failure, place

LAB_DATABASE = "backend_training_lab"
ALLOWED_NAMES = re.compile(r"backend_training_lab(_[a-z0-9_]+)?")  # the guard in lab_sql says the same
LONGEST_NAME = 63  # PostgreSQL cuts longer names, and two of them could then become one

# What a user may read.
LABELS = {"url": "from DATABASE_URL", "docker": "Docker Compose", "embedded": "embedded"}
WRONG_NAME = (
    'The lab changes only databases of its own, and {source} names "{name}". Nothing was touched. '
    "Use backend_training_lab, or backend_training_lab_SUFFIX with a suffix of a-z, 0-9 and _ (63 characters in all)."
)
CANNOT_CREATE = (
    'The database "{name}" does not exist at {place}, and the user "{user}" could not create it. '
    'Have an administrator run: CREATE DATABASE {name} OWNER "{user}";'
)


class ServerError(LabError):
    """No usable PostgreSQL. The message says what is wrong and the cure; it never holds a password."""


@dataclass(frozen=True)
class Server:
    """A PostgreSQL that answers and holds the lab's database."""

    kind: str  # "url", "docker" or "embedded"
    url: URL  # postgresql+psycopg, names the lab's database; its repr hides the password
    version: str  # such as "16.14"

    def describe(self) -> str:
        """One line for people: version, kind, host and port, database; never the password."""
        return f"PostgreSQL {self.version}, {LABELS[self.kind]}, {place(self.url)}, database {self.url.database}"


def check_name(name: str, source: str) -> str:
    """Return `name` if the lab may use that database. Raises ServerError otherwise; connects nowhere."""
    if ALLOWED_NAMES.fullmatch(name) and len(name) <= LONGEST_NAME:
        return name
    raise ServerError(WRONG_NAME.format(name=name, source=source))


def lab_database() -> str:
    """The name of the lab's database: LAB_DATABASE or the default. Raises ServerError for a name not allowed."""
    return check_name(os.environ.get("LAB_DATABASE") or LAB_DATABASE, "LAB_DATABASE")


def connect(url: URL, **options: str | int) -> psycopg.Connection:
    """Log in to `url` in autocommit mode. `options` are those of libpq. Raises psycopg.OperationalError."""
    _, given = url.get_dialect()().create_connect_args(url)
    given = {"connect_timeout": 5, **given, **options}
    return psycopg.connect(autocommit=True, **given)


def ensure_database(url: URL, **options: str | int) -> str:
    """Create the database of `url` if it is missing, and return the server's version, such as "16.14".

    Raises psycopg.OperationalError where the log-in fails, ServerError where the database cannot be created.
    """
    try:
        return _version(url, **options)
    except psycopg.OperationalError as error:
        # A server that speaks another language words "database does not exist" in its own way.
        cause = cause_of(error)
        if cause not in (Cause.NO_DATABASE, Cause.OTHER):
            raise
        # Where it was missing a moment ago and is there now, another process was faster.
        if not _create(url, **options) and cause is not Cause.NO_DATABASE:
            raise
    return _version(url, **options)


def open_server(kind: str, url: URL, **options: str | int) -> Server:
    """Log in to `url`, create the lab's database if needed, return the server. Raises ServerError."""
    try:
        return Server(kind, url, ensure_database(url, **options))
    except psycopg.Error as error:
        raise ServerError(connection_failure(error, url)) from None


def _version(url: URL, **options: str | int) -> str:
    with connect(url, **options) as connection:
        return str(connection.info.parameter_status("server_version")).split()[0]


def _create(url: URL, **options: str | int) -> bool:
    """Create the database of `url`. False: it exists, so that something else is wrong."""
    name = str(url.database)
    try:
        with connect(url.set(database="postgres"), **options) as connection:
            if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone():
                return False
            # template0, because nobody can be connected to it: a connection to the template stops CREATE DATABASE.
            connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
    except (psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):
        pass  # another process was faster
    except psycopg.OperationalError as error:
        if cause_of(error) is Cause.OTHER:
            return False
        raise
    except psycopg.Error:
        raise ServerError(CANNOT_CREATE.format(name=name, place=place(url), user=url.username)) from None
    return True
