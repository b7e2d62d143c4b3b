"""A command that does not end in time is killed, and so is all that it has started."""

import sys
from collections.abc import Callable
from pathlib import Path

from helpers.servers.command import run

# The child holds the pipes of its parent, as the process does to which docker hands on.
STARTS_A_CHILD = """
import pathlib, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
pathlib.Path("child").write_text(str(child.pid))
child.wait()
"""


def test_what_a_command_says_and_its_exit_code_come_back(tmp_path: Path) -> None:
    code = "import os, sys; print(os.getcwd()); print('näh', file=sys.stderr); sys.exit(3)"
    result = run([sys.executable, "-X", "utf8", "-c", code], tmp_path, 60)
    assert result
    assert (result.returncode, result.stderr.strip()) == (3, "näh")
    assert Path(result.stdout.strip()).samefile(tmp_path)


def test_a_command_that_does_not_exist_is_none(tmp_path: Path) -> None:
    assert run([str(tmp_path / "nothing")], tmp_path, 60) is None


def test_after_the_time_limit_nothing_of_it_is_left(
    tmp_path: Path, eventually: Callable[[Callable[[], object]], None], is_gone: Callable[[int], bool]
) -> None:
    child = tmp_path / "child"
    seconds = 1
    while not (child.exists() and child.read_text()):  # a busy machine needs longer for the start
        assert run([sys.executable, "-c", STARTS_A_CHILD], tmp_path, seconds) is None
        seconds *= 2
    pid = int(child.read_text())
    eventually(lambda: is_gone(pid))
