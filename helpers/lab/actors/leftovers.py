"""What a notebook may leave behind in the database, and how each kind of it is ended.

A migration or a reset needs the tables for itself, so it first ends the sessions and workers that this notebook opened.
"""

from collections.abc import Callable

Ender = Callable[[], None]

_enders: list[Ender] = []


def ends_leftovers(end: Ender) -> Ender:
    """A decorator: `end_leftovers` calls `end` from now on. It must do no harm where there is nothing to end."""
    _enders.append(end)
    return end


def end_leftovers() -> None:
    """End everything that this notebook opened and that may hold a lock: sessions, workers."""
    for end in _enders:
        end()
