"""Hands this process over to another interpreter."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

from helpers import surroundings
from helpers.bootstrap.environment import python

HANDED_OVER = "LAB_HANDED_OVER"  # set for the interpreter that takes over, so that no call is handed on for ever


def hand_over_to(interpreter: Path, argv: list[str], root: Path) -> NoReturn:
    """Run `python -m helpers argv` in this process's place; that call hands on no further."""
    surroundings.settle_python(root, others=interpreter != python(root))
    os.environ[HANDED_OVER] = "1"
    hand_over([str(interpreter), "-m", "helpers", *argv])


def hand_over(command: list[str]) -> NoReturn:
    """Let `command` take this process's place; where the system cannot do that, wait for it and exit as it did."""
    sys.stdout.flush()
    sys.stderr.flush()
    if os.name == "nt":
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both; the command decides what to do
        sys.exit(subprocess.run(command, check=False).returncode)
    os.execv(command[0], command)
