"""The registry of what a reset has to end."""

import pytest

from helpers.lab.actors import leftovers
from helpers.lab.actors.sessions import end_sessions
from helpers.lab.actors.workers import end_workers


def test_everything_registered_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    monkeypatch.setattr(leftovers, "_enders", [])
    leftovers.ends_leftovers(lambda: ended.append("one"))
    leftovers.ends_leftovers(lambda: ended.append("two"))
    leftovers.end_leftovers()
    assert ended == ["one", "two"]


def test_workers_and_sessions_are_registered() -> None:
    assert {end_workers, end_sessions} <= set(leftovers._enders)
