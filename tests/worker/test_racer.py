"""Lesson 1's worker as a process."""

import os
import subprocess
import sys

import pytest

from helpers import lab
from helpers.paths import ROOT


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "helpers.worker.racer", *arguments],
        cwd=ROOT, env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("claim", ["naive", "atomic"])
def test_alone_it_does_each_task_once(claim: str) -> None:
    lab.rebuild(1)
    done = run("A", "--claim", claim)
    assert done.returncode == 0, done.stderr
    effects = lab.query("SELECT task_id FROM backend_training.task_events WHERE event = 'effect' ORDER BY id")
    assert effects["task_id"].tolist() == [42, 43, 44]
    assert {lab.task(number)["status"] for number in (42, 43, 44)} == {"completed"}


@pytest.mark.parametrize("arguments", [[], ["A"], ["A", "--claim", "lucky"], ["not a name", "--claim", "naive"]])
def test_wrong_usage_ends_with_64(arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.returncode == 64
    assert "usage:" in done.stderr


def test_without_a_server_it_says_so_in_a_sentence() -> None:
    url = "postgresql+psycopg://lab:secret-word@127.0.0.1:9/backend_training_lab"
    done = run("A", "--claim", "atomic", DATABASE_URL=url)
    assert done.returncode == 69
    assert done.stderr.startswith("[A] ")
    assert "Traceback" not in done.stderr
    assert "secret-word" not in done.stderr + done.stdout
