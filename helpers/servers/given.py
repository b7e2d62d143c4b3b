"""A PostgreSQL that somebody else keeps: the one that DATABASE_URL names. It is never started or stopped here."""

import os

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from helpers.servers.server import Server, ServerError, check_name, lab_database, open_server

DRIVERS = {"postgresql+psycopg", "postgresql", "postgres"}
# libpq would let these win over the parts of the URL that were checked, or show a password in a repr.
FORBIDDEN = {"dbname", "user", "password", "sslpassword", "service", "passfile"}

# What a user may read. None of these repeats the URL: its text may hold a password in any place.
FORM = "postgresql+psycopg://USER:PASSWORD@localhost:5432/backend_training_lab"
NOT_SET = f"DATABASE_URL is not set. Its form is {FORM}."
MALFORMED = (
    f"DATABASE_URL cannot be read. Its form is {FORM}, with special characters of the password URL-encoded "
    "(@ as %40, / as %2F, % as %25)."
)
WRONG_DRIVER = f'DATABASE_URL names the driver "{{driver}}", and the lab uses postgresql+psycopg. The form is {FORM}.'
WRONG_OPTION = f'DATABASE_URL must not have the option "{{option}}" after the question mark. Its form is {FORM}.'


def is_set() -> bool:
    """Whether DATABASE_URL holds anything."""
    return bool(os.environ.get("DATABASE_URL", "").strip())


def parse(text: str) -> URL:
    """The URL in `text`, with the driver psycopg. Raises ServerError, whose message repeats nothing secret."""
    # A second @ means a password that was not encoded: its rest would be taken for the host or the database.
    if text.count("@") > 1:
        raise ServerError(MALFORMED)
    try:
        url = make_url(text.strip())
    except (ArgumentError, ValueError):
        raise ServerError(MALFORMED) from None
    if url.drivername not in DRIVERS:
        raise ServerError(WRONG_DRIVER.format(driver=url.drivername))
    if url.port is not None and not 0 < url.port < 65536:
        raise ServerError(MALFORMED)
    for option in FORBIDDEN & url.query.keys():
        raise ServerError(WRONG_OPTION.format(option=option))
    return url.set(drivername="postgresql+psycopg")


def find() -> Server:
    """The server of DATABASE_URL, with the lab's database (LAB_DATABASE replaces the name in the URL).

    Raises ServerError: not set, malformed, another driver, a database that is not the lab's, or no log-in.
    """
    if not is_set():
        raise ServerError(NOT_SET)
    url = parse(os.environ["DATABASE_URL"])
    if os.environ.get("LAB_DATABASE"):
        url = url.set(database=lab_database())
    if not url.database:
        raise ServerError(MALFORMED)
    check_name(url.database, "DATABASE_URL")
    return open_server("url", url)
