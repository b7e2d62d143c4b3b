"""Whatever a learner's function does, the check ends in a sentence, leaves nothing behind, and the next check works."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest
from sqlalchemy import text

from helpers.db import SessionFactory, engine, forget_engine
from helpers.errors import LabError
from helpers.exercises.catalogue import NAMES
from helpers.exercises.claim import wrong as wrong_claim
from helpers.exercises.claim.answers import claim_task
from helpers.exercises.exercise import Exercise, progress_table
from helpers.exercises.lease import wrong as wrong_lease
from helpers.exercises.lease.answers import claim_task as claim_with_lease
from helpers.exercises.lease.answers import mark_as_completed
from helpers.exercises.simulate import wrong as wrong_simulate
from helpers.exercises.simulate.answers import simulate
from helpers.lab import rebuild
from helpers.paths import ROOT, lab_home


def as_in_a_notebook(code: str, name: str) -> Callable[..., Any]:
    """A function that no module can import: it has to travel by value."""
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(code, space)
    return space[name]  # type: ignore[no-any-return]


def whys(exercise: Exercise, *functions: Callable[..., Any], full: bool = False) -> str:
    verdict = exercise.check(*functions, full=full)
    assert not verdict.passed
    return " ".join(finding.why for finding in verdict.failed) or verdict.headline


def test_a_function_of_a_notebook_brings_along_what_it_uses() -> None:
    code = """
from helpers.exercises.simulate import answers as module
OFFSET = 0
def helper(mode, order):
    return module.simulate(mode, order) + OFFSET
def simulate(mode, order):
    return helper(mode, order)
"""
    assert Exercise("simulate").check(as_in_a_notebook(code, "simulate")).passed


def test_a_function_of_a_notebook_uses_the_sessions_of_the_check() -> None:
    code = """
from sqlalchemy import text
from helpers.db import SessionFactory
def claim_task():
    with SessionFactory.begin() as session:
        row = session.execute(text('''
            UPDATE backend_training.tasks SET status = 'processing'
            WHERE id = (SELECT id FROM backend_training.tasks WHERE status = 'pending' ORDER BY id LIMIT 1
                        FOR UPDATE SKIP LOCKED)
            RETURNING id, type''')).mappings().one_or_none()
        return None if row is None else dict(row)
"""
    verdict = Exercise("claim").check(as_in_a_notebook(code, "claim_task"))
    assert verdict.passed, repr(verdict)


def test_what_cannot_travel_is_named() -> None:
    lock = threading.Lock()

    def holds_a_lock(_mode: str, _order: list[str]) -> int:
        with lock:
            return 1

    said = whys(Exercise("simulate"), holds_a_lock)
    assert "cannot be taken to another process" in said
    assert "Make it inside the function" in said


def test_the_function_itself_is_asked_for() -> None:
    exercise = Exercise("simulate")
    assert "takes the function itself" in exercise.check(3).headline  # type: ignore[arg-type]
    assert "takes 1 function here" in exercise.check().headline
    assert "takes 2 functions here" in Exercise("lease").check(claim_with_lease).headline


def test_an_endless_loop_that_prints_is_a_sentence_with_the_first_lines() -> None:
    verdict = Exercise("simulate").check(wrong_simulate.prints_for_ever)
    assert [finding.why for finding in verdict.failed] == [
        "It had not come back after 5 s, and was ended. Is there a loop that never ends, or a wait?"
    ]
    assert verdict.printed.splitlines() == ["still counting"] * 5 + ["…"]


def test_a_debugging_print_is_shown_and_does_no_harm_in_the_mini_check() -> None:
    verdict = Exercise("simulate").check(wrong_simulate.prints_as_well)
    assert verdict.passed
    assert verdict.printed.startswith("counting ['A', 'A', 'B', 'B']")


def test_the_next_check_works_after_the_worst() -> None:
    exercise = Exercise("simulate")
    for worst in (wrong_simulate.ends_its_process, wrong_simulate.kills_its_process):
        assert "ended its own process" in whys(exercise, worst)
    assert exercise.check(simulate).passed


def test_print_may_be_something_else() -> None:
    code = """
import builtins
from helpers.exercises.simulate import answers as module
def simulate(mode, order):
    global print
    print = 5
    builtins.print = None
    return module.simulate(mode, order)
"""
    assert Exercise("simulate").check(as_in_a_notebook(code, "simulate")).passed


def exits_in_the_database() -> Any:
    with SessionFactory.begin() as session:
        session.execute(text("SELECT id FROM backend_training.tasks FOR UPDATE"))
        os._exit(9)


def loops_in_the_database() -> Any:
    with SessionFactory.begin() as session:
        session.execute(text("SELECT id FROM backend_training.tasks FOR UPDATE"))
        while True:
            pass


def sleeps_in_the_database() -> Any:
    with SessionFactory.begin() as session:
        session.execute(text("SELECT id, pg_sleep(3600) FROM backend_training.tasks FOR UPDATE"))


@pytest.mark.parametrize(
    ("function", "says"),
    [
        pytest.param(exits_in_the_database, "exit code 9", marks=pytest.mark.thorough),
        (loops_in_the_database, "It had not come back after 10 s"),
        pytest.param(sleeps_in_the_database, "It had not come back after 10 s", marks=pytest.mark.thorough),
        (wrong_claim.leaves_its_session_open, "its transaction was still open"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_locks_of_a_function_that_never_came_back_do_not_hinder_the_next_check(
    function: Callable[[], Any], says: str
) -> None:
    exercise = Exercise("claim")
    assert says in whys(exercise, function)
    assert exercise.check(claim_task).passed


def starts_a_process(_mode: str, _order: list[str]) -> int:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)  # started by an exercise"])
    while True:
        pass


def test_processes_that_the_function_started_end_with_it() -> None:
    assert "was ended" in whys(Exercise("simulate"), starts_a_process)
    commands = [" ".join(process.info["cmdline"] or []) for process in psutil.process_iter(["cmdline"])]
    assert [command for command in commands if "# started by an exercise" in command] == []


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the child ends by its own time limit")
def test_the_check_ends_with_the_notebook(
    eventually: Callable[[Callable[[], object]], None], is_gone: Callable[[int], bool]
) -> None:
    code = (
        "from helpers.exercises.exercise import Exercise\n"
        "from helpers.exercises.simulate.wrong import loops_for_ever\n"
        "Exercise('simulate').check(loops_for_ever)\n"
    )
    notebook = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    children: list[psutil.Process] = []
    deadline = time.monotonic() + 60
    while not children and time.monotonic() < deadline:
        children = [p for p in psutil.Process(notebook.pid).children() if "helpers.checking.child" in p.cmdline()]
        time.sleep(0.01)
    notebook.kill()
    notebook.wait()
    assert children
    eventually(lambda: all(is_gone(child.pid) for child in children))


def test_a_missing_server_is_named_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    url = engine().url.set(host="127.0.0.1", port=1, password="geheim")
    monkeypatch.setenv("DATABASE_URL", url.render_as_string(hide_password=False))
    forget_engine()
    try:
        said = whys(Exercise("claim"), claim_task)
        assert Exercise("simulate").check(simulate).passed  # which needs none
    finally:
        monkeypatch.undo()
        forget_engine()
    assert "127.0.0.1" in said
    assert "geheim" not in said


def test_a_check_does_not_touch_the_rows_of_the_lesson() -> None:
    rebuild(4)
    sql = text("SELECT xmin, t.* FROM backend_training.tasks AS t ORDER BY id")
    with engine().connect() as connection:
        before = connection.execute(sql).fetchall()
    assert Exercise("claim").check(claim_task).passed
    with engine().connect() as connection:
        assert connection.execute(sql).fetchall() == before


def test_a_failure_shows_the_shortest_order_and_replays_it(capsys: pytest.CaptureFixture[str]) -> None:
    exercise = Exercise("lease")
    verdict = exercise.check(claim_with_lease, wrong_lease.completes_without_the_number)
    [finding] = verdict.failed
    assert finding.rows
    assert "⏰ time passes, and every lease ends" in finding.transcript
    assert "A: UPDATE tasks SET status='completed'" in finding.transcript
    assert finding.schedule
    assert f'ex.replay("{finding.schedule}")' in repr(verdict)
    capsys.readouterr()
    exercise.replay(finding.schedule)
    assert capsys.readouterr().out.strip() == finding.transcript
    with pytest.raises(LabError, match='says "X"'):
        exercise.replay("A X")


def test_there_is_nothing_to_replay_before_a_check() -> None:
    with pytest.raises(LabError, match=r"Run ex\.check"):
        Exercise("claim").replay("A B")
    with pytest.raises(LabError, match="no schedules"):
        Exercise("simulate").replay("A B")


def unwritten(_task_id: int, _attempts: int) -> None: ...


def test_the_first_of_two_functions_can_be_checked_alone() -> None:
    verdict = Exercise("lease").check(claim_with_lease, unwritten)
    assert not verdict.passed
    assert verdict.failed == []
    assert "mark_as_completed is not attempted yet" in verdict.headline
    assert not Exercise("lease").check(unwritten, mark_as_completed).attempted


def test_a_function_that_goes_around_the_sessions_of_the_check_is_told() -> None:
    code = """
from sqlalchemy import text
from helpers.db import engine
def claim_task():
    with engine().begin() as connection:
        return connection.execute(text('''
            UPDATE backend_training.tasks SET status = 'processing'
            WHERE id = (SELECT id FROM backend_training.tasks WHERE status = 'pending' ORDER BY id LIMIT 1)
            RETURNING id, type''')).mappings().one_or_none()
"""
    assert "Use `SessionFactory` of helpers.db" in whys(Exercise("claim"), as_in_a_notebook(code, "claim_task"))


def test_hints_come_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    exercise = Exercise("simulate")
    for number in (1, 2, 3, 3):
        exercise.hint()
        assert capsys.readouterr().out.startswith(f"Hint {number} of 3: ")
    assert progress_table().rows[0][3] == "3"


def test_the_solution_is_shown_on_request_and_noted() -> None:
    assert "def simulate(" in repr(Exercise("simulate").solution())
    assert "def mark_as_completed(" in repr(Exercise("lease").solution())
    shown = [name for name, row in zip(NAMES, progress_table().rows, strict=True) if row[4] == "yes"]
    assert shown == ["simulate", "lease"]


def test_progress_is_kept_and_never_taken_back() -> None:
    assert {row[2] for row in progress_table().rows} == {"not attempted"}
    exercise = Exercise("simulate")
    exercise.check(wrong_simulate.forgets_to_return)
    assert progress_table().rows[0][2] == "attempted"
    exercise.check(simulate)
    assert progress_table().rows[0][2] == "mini passed"
    exercise.check(wrong_simulate.forgets_to_return)
    assert progress_table().rows[0][2] == "mini passed"
    exercise.check(simulate, full=True)
    assert progress_table().rows[0][2] == "solved"
    exercise.solution()
    assert progress_table().rows[0][4] == "no"  # it was solved without


def test_a_broken_progress_file_counts_as_empty() -> None:
    path = lab_home() / "progress.json"
    for content in ("{", "[]", json.dumps({"simulate": {"state": "won"}}), json.dumps({"simulate": 3})):
        path.write_text(content, encoding="utf-8")
        assert progress_table().rows[0][2] == "not attempted"


def test_an_unknown_exercise_is_named_with_the_known_ones() -> None:
    with pytest.raises(LabError, match="The exercises are: simulate, transfer, claim, lease"):
        Exercise("simulation")


def test_the_verdict_is_shown_in_a_notebook_as_in_a_terminal() -> None:
    verdict = Exercise("simulate").check(wrong_simulate.atomic_as_naive)
    for shown in (repr(verdict), verdict._repr_html_()):
        assert "Not yet right." in shown
        assert shown.count("what was true at the READ") == 1
    assert "helpers/" not in repr(verdict) + verdict._repr_html_()
