"""Commands and tests do their work whatever their parent ignored, blocked or closed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PYTEST = ["pytest", "-p", "no:xdist", "-p", "no:cacheprovider", "-q", "--override-ini", "addopts="]
INTERRUPTED = [
    "tests/lab/actors/test_sessions.py::test_an_interrupted_cell_leaves_no_session",
    "tests/lab/actors/test_workers.py::test_an_interrupted_cell_leaves_no_worker",
]
# Ignores what can be ignored, blocks the signals that are named, then becomes another program.
UNKIND = """
import os, signal, sys
for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGPIPE", "SIGCHLD"):
    signal.signal(getattr(signal, name), signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM, signal.SIGALRM])
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
DISPOSITIONS = """
import signal
from helpers.inherited import restore
restore({arguments})
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
print([signal.getsignal(number).name for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP)])
print(signal.pthread_sigmask(signal.SIG_BLOCK, []))
"""
# The first file that is opened gets the lowest free number.
NUMBERS = """
import os, sys
from helpers.inherited import restore
restore()
with open({path!r}, "w") as file:
    print("to nobody", flush=True)
    sys.stderr.write("to nobody")
    os.system("echo to nobody; echo to nobody >&2")  # children inherit the numbers
    file.write(f"{{file.fileno() > 2}} {{sys.stdin.read()!r}}")
"""

pytestmark = pytest.mark.skipif(os.name == "nt", reason="only POSIX hands signals and closed descriptors on")


def python(*arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """Run Python through a shell. `before` is shell code; what it closes is closed for Python."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {before}', "sh", sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize(
    ("arguments", "hang_up"), [("", "SIG_IGN"), ("own_session=True", "SIG_DFL")], ids=["a command", "own session"]
)
def test_signals_that_were_ignored_or_blocked_are_heard(arguments: str, hang_up: str) -> None:
    """All but the hang-up, which `nohup` ignores for somebody who wants a run that survives the terminal."""
    done = python("-c", UNKIND, "-c", DISPOSITIONS.format(arguments=arguments))
    assert done.stdout.splitlines() == ["True", str(["SIG_DFL", "SIG_DFL", hang_up]), "set()"], done.stderr


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(["-m", *PYTEST], id="pytest"),
        pytest.param(["-m", "helpers", "test", *PYTEST[1:]], id="test", marks=pytest.mark.thorough),
    ],
)
def test_tests_that_interrupt_themselves_pass_under_an_unkind_parent(start: list[str]) -> None:
    done = python("-c", UNKIND, *start, *INTERRUPTED, before="<&-")
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize("closed", ["<&- >&- 2>&-", "<&- >&-", ">&- 2>&-"])
def test_no_file_gets_the_number_of_a_closed_stream(closed: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    done = python("-c", NUMBERS.format(path=str(path)), before=f"{closed} {'' if '<' in closed else '</dev/null'}")
    assert done.returncode == 0, done.stderr
    assert path.read_text() == "True ''"


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_a_command_works_with_closed_streams(closed: str) -> None:
    done = python("-m", "helpers", "reset", "4", before=closed)
    assert (done.returncode, done.stderr) == (0, "")
    assert (done.stdout == "") == (" >&-" in f" {closed}")


@pytest.mark.parametrize("closed", ["<&- >&-", "<&- >&- 2>&-"])
def test_an_error_is_a_sentence_where_somebody_can_read_it(closed: str) -> None:
    done = python("-m", "helpers", "run", "99", before=closed)
    assert done.returncode == 1
    assert done.stderr.startswith("There is no lesson 99.") != ("2>&-" in closed)
    assert done.stderr.count("\n") == (0 if "2>&-" in closed else 1)


@pytest.mark.thorough
def test_a_lesson_runs_with_closed_streams_and_ignored_signals() -> None:
    done = python("-c", UNKIND, "-m", "helpers", "run", "0", before="<&- >&- 2>&-")
    assert done.returncode == 0


def test_a_reader_that_has_seen_enough_gets_no_traceback() -> None:
    """As with `| head -1`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "helpers", "reset"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 141
    process.stderr.close()
