"""What the commands print and how they exit. The rooms behind them are stood in for; `doctor` asks a real server."""

import os
import re
import subprocess
import sys
import types
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import time_machine

from helpers import bootstrap, cli
from helpers.cli import doctor
from helpers.cli.check import Check
from helpers.errors import LabError

ROOT = Path(__file__).resolve().parent.parent
LINE = "PostgreSQL 16, somewhere"
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """A function that runs a command in this process and returns exit code, stdout, stderr."""
    monkeypatch.setattr(bootstrap, "ensure", lambda argv: None)
    for name in ("LAB_SERVER", "LAB_DATABASE"):
        monkeypatch.setenv(name, os.environ.get(name, ""))  # so that a change of it is taken back
    monkeypatch.setattr("helpers.servers.find_server", Found)

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            code = cli.main(list(arguments))
        except SystemExit as end:
            code = int(end.code or 0)
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A function that replaces a module by one with the given names."""

    def replace(module: str, **names: object) -> None:
        replacement = types.ModuleType(module)
        vars(replacement).update(names)
        monkeypatch.setitem(sys.modules, module, replacement)

    return replace


class Found:
    """What is found where somebody looks for a server: one of the kind that was asked for."""

    def __init__(self) -> None:
        self.kind = os.environ["LAB_SERVER"]

    def describe(self) -> str:
        return LINE


class Recorder:
    """A function that keeps what it was called with, and returns always the same."""

    def __init__(self, answer: int) -> None:
        self.answer = answer
        self.calls: list[object] = []

    def __call__(self, argument: object) -> int:
        self.calls.append(argument)
        return self.answer


def refuse(*_: object) -> None:
    raise LabError("No server. Start one.")


@pytest.mark.parametrize("command", ["", *cli.COMMANDS])
def test_help_answers_at_once(command: str, call: Call) -> None:
    code, out, _ = call(*command.split(), "--help")
    assert code == 0
    assert out.startswith(f"usage: {bootstrap.COMMAND} {command}".rstrip())


def test_help_needs_nothing_but_the_standard_library() -> None:
    """-S leaves out the folder of installed packages."""
    command = [sys.executable, "-S", "-m", "helpers", "lab", "--help"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)


@pytest.mark.parametrize("arguments", [(), ("nonsense",), ("run",), ("run", "four"), ("lab", "--sever", "url")])
def test_a_wrong_command_line_is_refused_with_usage(arguments: tuple[str, ...], call: Call) -> None:
    code, _, err = call(*arguments)
    assert code == 2
    assert err.startswith("usage:")


@pytest.mark.parametrize("code", [0, 1])
def test_run_exits_as_the_lesson_did(code: int, call: Call, stand_in: Callable[..., None]) -> None:
    run_lesson = Recorder(code)
    stand_in("helpers.notebooks", run_lesson=run_lesson)
    assert call("run", "4") == (code, f"{LINE}\n", "")
    assert run_lesson.calls == [4]


@pytest.mark.parametrize(("arguments", "lessons"), [((), []), (("3", "4"), [3, 4])])
def test_build_takes_any_number_of_notebooks(
    arguments: tuple[str, ...], lessons: list[int], call: Call, stand_in: Callable[..., None]
) -> None:
    build = Recorder(0)
    stand_in("helpers.notebooks", build=build)
    assert call("build", *arguments)[0] == 0
    assert build.calls == [lessons]


@pytest.mark.parametrize(("arguments", "lesson"), [((), None), (("4",), 4)])
def test_reset_prints_what_was_rebuilt(
    arguments: tuple[str, ...], lesson: int | None, call: Call, stand_in: Callable[..., None]
) -> None:
    stand_in("helpers.lab", rebuild=lambda number: f"rebuilt {number}")
    assert call("reset", *arguments) == (0, f"{LINE}\nrebuilt {lesson}\n", "")


def test_an_error_for_people_is_printed_alone(call: Call, stand_in: Callable[..., None]) -> None:
    stand_in("helpers.lab", rebuild=refuse)
    assert call("reset") == (1, f"{LINE}\n", "No server. Start one.\n")


def test_another_error_keeps_its_traceback(call: Call, stand_in: Callable[..., None]) -> None:
    stand_in("helpers.notebooks", run_lesson=lambda _: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        call("run", "1")


@pytest.mark.parametrize(
    ("strays", "server", "out"),
    [
        ([], None, "Nothing was running.\n"),
        (["worker A"], None, "worker A\n"),
        ([], "Stopped it.", "Stopped it.\n"),
        (["worker A", "worker B"], "Stopped it.", "worker A\nworker B\nStopped it.\n"),
    ],
)
def test_stop_says_what_it_ended(
    strays: list[str], server: str | None, out: str, call: Call, stand_in: Callable[..., None]
) -> None:
    stand_in("helpers.lab", stop_stray_workers=lambda: list(strays))
    stand_in("helpers.servers", stop_server=lambda: server)
    assert call("stop") == (0, out, "")


def test_lab_names_the_server_before_jupyterlab_starts(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    started = Recorder(0)
    monkeypatch.setattr("helpers.jupyter.run", lambda browser: started(browser))
    code, out, _ = call("lab", "--no-browser", "--server", "embedded")
    assert code == 0
    assert out.startswith(f"{LINE}\n")
    assert out.endswith(f"{bootstrap.COMMAND} stop\n")
    assert started.calls == [False]


def test_lab_without_a_server_starts_nothing(call: Call, stand_in: Callable[..., None]) -> None:
    stand_in("helpers.servers", find_server=refuse)
    assert call("lab") == (1, "", "No server. Start one.\n")


def test_the_choice_of_server_reaches_all_children(call: Call, stand_in: Callable[..., None]) -> None:
    stand_in("helpers.lab", rebuild=lambda _: os.environ["LAB_SERVER"])
    assert call("reset", "--server", "docker") == (0, f"{LINE}\ndocker\n", "")


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        ((), []),
        (("-k", "lease and not old", "-x", "tests/test_x.py"), ["-k", "lease and not old", "-x", "tests/test_x.py"]),
        (("--server", "url", "-q"), ["-q"]),
        (("--", "--help"), ["--help"]),
    ],
)
def test_test_passes_its_arguments_to_pytest(
    given: tuple[str, ...], passed: list[str], call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand_over = Recorder(5)
    monkeypatch.setattr(bootstrap, "hand_over", lambda command: sys.exit(hand_over(command)))
    monkeypatch.chdir(ROOT / "tests")
    assert call("test", *given)[0] == 5
    assert hand_over.calls == [[sys.executable, "-m", "pytest", *passed]]
    assert Path.cwd() == ROOT


@pytest.mark.parametrize(("encoding", "mark"), [("utf-8", "✓ "), ("ascii", "ok "), ("cp1252", "ok ")])
def test_doctor_prints_on_any_terminal(encoding: str, mark: str) -> None:
    program = """
from helpers.cli import doctor, main
doctor.checks = lambda: [doctor.Check(True, "naïve ☃"), doctor.Check(False, "bad", "{command} reset")]
import sys
sys.exit(main(["doctor"]))
"""
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"},
        capture_output=True,
        check=False,
    )
    lines = result.stdout.decode(encoding).splitlines()
    assert result.returncode == 1, result.stderr
    assert lines[0].startswith(mark)
    assert lines[1].endswith(f"bad To mend it: {bootstrap.COMMAND} reset")
    assert lines[2] == "1 to mend."


def test_doctor_finds_a_session_idle_in_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    from helpers.servers import find_server
    from helpers.servers.server import connect

    monkeypatch.setattr(doctor, "IDLE_SECONDS", 0)
    server = find_server()
    with closing(connect(server.url, application_name="forgotten notebook")) as session:
        session.execute("BEGIN")
        wrong = [check for check in doctor._database(server) if check.well is False]
        assert any('"forgotten notebook" has been waiting' in check.text and check.cure for check in wrong)
        session.execute("ROLLBACK")
        assert not any("forgotten notebook" in check.text for check in doctor._database(server))


def test_doctor_names_a_clock_that_differs_from_the_servers() -> None:
    from helpers.servers import find_server

    server = find_server()
    told = "the lab asks the server's alone"
    assert not any(told in check.text for check in doctor._database(server))
    with time_machine.travel(datetime.now(UTC) + timedelta(hours=1), tick=True):
        (clock,) = (check for check in doctor._database(server) if told in check.text)
    assert clock.well is None, "which is nothing to mend"
    assert 3500 < int(re.findall(r"by (\d+) s", clock.text)[0]) < 3700


def test_doctor_names_the_state_of_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    from helpers.servers import find_server
    from helpers.servers.server import connect

    with closing(connect(find_server().url)) as session:
        session.execute("BEGIN")  # all of it is taken back
        session.execute("DROP SCHEMA IF EXISTS backend_training CASCADE")
        assert doctor._schema(session).text.startswith("no tables yet")
        session.execute("CREATE SCHEMA backend_training CREATE TABLE tasks (id bigint)")
        assert doctor._schema(session) == Check(False, doctor.BAD_SCHEMA, doctor.CURE_SCHEMA)
        session.execute("CREATE TABLE backend_training.task_events ()")
        assert doctor._schema(session).text == "tables as the course begins, 0 tasks"
        session.execute("ALTER TABLE backend_training.tasks ADD COLUMN lease_until timestamptz")
        session.execute("INSERT INTO backend_training.tasks VALUES (42)")
        assert doctor._schema(session).text == "tables as lesson 4 leaves them, 1 tasks"
        session.execute("ROLLBACK")


def test_doctor_goes_on_without_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("helpers.servers.find_server", refuse)
    monkeypatch.setattr("helpers.lab.find_stray_workers", lambda: ["worker A is left"])
    monkeypatch.setenv("DATABASE_URL", "mysql://user:secret@host/x")
    checks = list(doctor._with_environment())
    wrong = {check.text: check.cure for check in checks if check.well is False}
    assert wrong.pop("No server. Start one.") == doctor.CURE_SERVER
    assert wrong.pop("worker A is left") == "{command} stop"
    (told,) = wrong
    assert told.startswith("DATABASE_URL")
    assert "secret" not in told
