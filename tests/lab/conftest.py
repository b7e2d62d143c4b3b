"""A real kernel, and a server that a test may stop."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.db import forget_engine
from helpers.servers import stop_server
from tests.lab.kernels import Kernel


@pytest.fixture
def name_of_the_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The sessions of this process are not called `lab`, as those of a kernel are."""
    monkeypatch.setenv("PGAPPNAME", "test")
    forget_engine()
    yield
    forget_engine()


@pytest.fixture
def kernel(name_of_the_test: None) -> Iterator[Kernel]:
    kernel = Kernel()
    yield kernel
    kernel.client.stop_channels()
    kernel.manager.shutdown_kernel(now=True)


@pytest.fixture
def server_of_its_own(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An embedded server that a test may stop. PostgreSQL's user must reach its folder, so pytest's own will not do."""
    home = Path(tempfile.mkdtemp(prefix="task42-test-", dir="/var/tmp" if os.name == "posix" else None))
    home.chmod(0o755)
    monkeypatch.delenv("DATABASE_URL")
    monkeypatch.setenv("LAB_SERVER", "embedded")
    monkeypatch.setenv("LAB_HOME", str(home))
    yield
    stop_server()
    shutil.rmtree(home, ignore_errors=True)
