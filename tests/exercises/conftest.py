"""After each test: no process of a check and no session in its database is left, and the next test starts unsolved."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from sqlalchemy import text

from helpers.db import engine
from helpers.exercises.database import check_url

LEFT = "SELECT count(*) FROM pg_stat_activity WHERE datname = :name"


@pytest.fixture(autouse=True)
def own_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_HOME", str(tmp_path))


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    yield
    with engine().connect() as connection:
        assert connection.scalar(text(LEFT), {"name": check_url().database}) == 0
    commands = [process.cmdline() for process in psutil.Process().children(recursive=True)]
    assert [command for command in commands if "helpers.exercises.child" in command] == []
