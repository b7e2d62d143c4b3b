"""After each test: no process of a check and no session in its database is left, and the next test starts unsolved."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from helpers.checking.database import check_url
from helpers.lab import wait_until

# A session that was ended may still be seen for a moment; autovacuum comes and goes as it likes.
NONE_LEFT = "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = :name AND backend_type = 'client backend'"


@pytest.fixture(autouse=True)
def own_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_HOME", str(tmp_path))


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    yield
    wait_until(NONE_LEFT, timeout=10, name=check_url().database)
    commands = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has ended meanwhile
            commands.append(process.cmdline())
    assert [command for command in commands if "helpers.checking.child" in command] == []
