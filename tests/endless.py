"""Not found by its name: `test_interrupted.py` runs it, and interrupts it."""

import threading

import pytest

from helpers import lab


@pytest.mark.usefixtures("lesson4")
def test_that_never_ends() -> None:
    lab.start_worker("A", "--hold-after-claim")
    print("holding", flush=True)
    threading.Event().wait()
