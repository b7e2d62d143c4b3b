"""The state in which lesson 4 leaves the database; and after each test a look at what was left behind."""

from collections.abc import Iterator
from threading import enumerate as all_threads
from time import monotonic, sleep

import pytest
from sqlalchemy import text

from helpers.db import engine
from helpers.scripts import run_script

LEFT = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND (application_name = 'schedules' OR application_name LIKE 'worker:%')
"""


@pytest.fixture(scope="module", autouse=True)
def lesson_four() -> None:
    run_script("00_base/00_drop.sql")
    run_script("00_base/01_migrate.sql")
    run_script("04_lease_and_attempts/01_migrate.sql")
    with engine().begin() as connection:
        connection.execute(text("CREATE TABLE IF NOT EXISTS public.queue (id int PRIMARY KEY, data text NOT NULL)"))


def sessions_left() -> int:
    with engine().connect() as connection:
        return connection.scalar(text(LEFT)) or 0


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    before = set(all_threads())
    yield
    assert set(all_threads()) <= before
    deadline = monotonic() + 10
    while sessions_left() and monotonic() < deadline:
        sleep(0.01)  # a session's end is seen a moment after its socket was closed
    assert sessions_left() == 0
