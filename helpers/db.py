"""From a URL to sessions. The engine is made at the first use and kept for the life of the process."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

from sqlalchemy import URL, Engine, create_engine
from sqlalchemy.orm import Session, sessionmaker

from helpers.servers import find_server


@cache
def database_url() -> URL:
    """The URL of the lab's database, as `helpers.servers` finds it (DATABASE_URL, Docker, embedded).

    Raises ServerError where no server can be found or started.
    """
    return find_server().url


@cache
def engine() -> Engine:
    """The engine for the lab's database. Raises ServerError as `database_url` does."""
    return create_engine(
        database_url(),
        pool_pre_ping=True,  # a server that was restarted costs one reconnect, not one error
        connect_args={"connect_timeout": 5, "options": "-c timezone=UTC"},
    )


def forget_engine() -> None:
    """Close all idle connections and look for the server again at the next use."""
    if engine.cache_info().currsize:
        engine().dispose()
        engine.cache_clear()
    database_url.cache_clear()


_own_engine: ContextVar[Engine | None] = ContextVar("own_engine", default=None)


@contextmanager
def use_engine(own: Engine) -> Iterator[None]:
    """Within this block, and in this thread alone, sessions use `own` instead of the process's engine."""
    token = _own_engine.set(own)
    try:
        yield
    finally:
        _own_engine.reset(token)


class LabSession(Session):
    """A session that asks for the engine when it first needs one, so that importing a module connects nowhere."""

    def get_bind(self, *_args: Any, **_kwargs: Any) -> Engine:
        return _own_engine.get() or engine()


SessionFactory = sessionmaker(class_=LabSession)
