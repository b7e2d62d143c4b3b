"""From a URL to sessions. The engine is made at the first use and kept for the life of the process."""

from functools import cache
from typing import Any

from sqlalchemy import Engine, create_engine
from sqlalchemy.orm import Session, sessionmaker

from helpers.servers import find_server


@cache
def engine() -> Engine:
    """The engine for the lab's database, as `helpers.servers` finds it (DATABASE_URL, Docker, embedded).

    Raises ServerError where no server can be found or started.
    """
    return create_engine(
        find_server().url,
        pool_pre_ping=True,  # a server that was restarted costs one reconnect, not one error
        connect_args={"connect_timeout": 5, "options": "-c timezone=UTC"},
    )


def forget_engine() -> None:
    """Close all idle connections and look for the server again at the next use."""
    if engine.cache_info().currsize:
        engine().dispose()
        engine.cache_clear()


class LabSession(Session):
    """A session that asks for the engine when it first needs one, so that importing a module connects nowhere."""

    def get_bind(self, *_args: Any, **_kwargs: Any) -> Engine:
        return engine()


SessionFactory = sessionmaker(class_=LabSession)
