"""Adding an exercise touches one folder, and deleting the folder removes it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.exercises.catalogue import NAMES
from helpers.paths import LAB_SQL, ROOT

# Everything that there is of it.
COUNT = {
    "__init__.py": '''
"""A lost update."""

LESSON = 2
''',
    "checks.py": """
from helpers.checking import Definition, Orders, Rule, Situation, database, texts_of, tried
from helpers.checking.tasks import ONE_TASK
from helpers.exercises.count import LESSON
from helpers.schedules import Offence, invariant, no_error_but

TEXTS = texts_of(__package__)


def alone(functions):
    database.set_rows(ONE_TASK)
    yield from tried("count()", functions[0], wrong=not_one, expected="1")


def caller(count):
    return count()


def not_one(outcome):
    return "" if outcome.value == 1 else TEXTS["why"]["not_one"]


@invariant(TEXTS["offences"]["lost_name"])
def none_is_lost(run):
    counted = run.rows[0]["type"]
    return None if counted == "2" else Offence(TEXTS["offences"]["lost"].format(n=counted))


orders = Orders(TEXTS, {none_is_lost: "lost"})
RULES = (none_is_lost, no_error_but())

EXERCISE = Definition(
    package=__package__,
    lesson=LESSON,
    functions=("count",),
    mini=(Rule("alone", alone),),
    full=(orders.every("two", Situation(ONE_TASK, RULES, A=caller, B=caller)),),
    database=True,
)
""",
    "answers.py": """
from sqlalchemy import text

from helpers.db import SessionFactory

COUNT = "UPDATE backend_training.tasks SET type = (CASE type WHEN 'generate_report' THEN 0 ELSE type::int END) + 1"


def count():
    with SessionFactory.begin() as session:
        return int(session.scalar(text(COUNT + " WHERE id = 42 RETURNING type")))


def count_with_another_name():
    return count()


SOLUTION = (count,)
OTHERS = [(count_with_another_name,)]
""",
    "wrong.py": """
from sqlalchemy import text

from helpers.db import SessionFactory


def reads_and_writes():
    with SessionFactory.begin() as session:
        kind = session.scalar(text("SELECT type FROM backend_training.tasks WHERE id = 42"))
        number = 1 if kind == "generate_report" else int(kind) + 1
        session.execute(text("UPDATE backend_training.tasks SET type = :number WHERE id = 42"), {"number": str(number)})
        return number


WRONG = {
    "reads and writes": ((reads_and_writes,), "Read and write in one statement."),
}
FULL = {"reads and writes"}
""",
    "texts/en.toml": """
title = "Count"
task = "Write `count()`."
hints = ["One statement is enough.", "`UPDATE … RETURNING`"]

[rules]
alone = "one call"
two = "two calls, in every order"

[expected]
alone = "1"
two = "2"

[why]
not_one = "It returns the number."
lost = "Read and write in one statement."

[offences]
lost_name = "every call counts"
lost = "two calls counted {n}"
""",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the project, without any answer that a learner or another test has left in it."""
    root = tmp_path / "project"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "helpers", root / "helpers", ignore=ignore)
    shutil.copytree(LAB_SQL, root / "lab_sql")
    return root


@pytest.fixture
def shows(project: Path) -> Callable[[str], str]:
    """A function that runs code in the copy, and gives what it prints."""

    def run(code: str) -> str:
        environment = os.environ | {"PYTHONPATH": str(project), "PYTHONIOENCODING": "utf-8"}
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=project, env=environment, capture_output=True, encoding="utf-8"
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def add(project: Path, name: str, files: dict[str, str]) -> Path:
    folder = project / "helpers" / "exercises" / name
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content, encoding="utf-8")
    return folder


NAMED = "from helpers.exercises.catalogue import NAMES; print(*NAMES)"
USED = """
from helpers.exercises.exercise import Exercise, progress_table
from helpers.exercises.count import answers, wrong

exercise = Exercise("count")
print(repr(exercise))
for (functions, says) in wrong.WRONG.values():
    verdict = exercise.check(*functions, full=True)
    assert not verdict.passed and says in repr(verdict), verdict
    exercise.replay(verdict.failed[0].schedule)
for functions in (answers.SOLUTION, *answers.OTHERS):
    verdict = exercise.check(*functions, full=True)
    assert verdict.passed, verdict
exercise.hint()
print(exercise.solution())
print(progress_table())
"""


def test_a_folder_is_an_exercise_and_nothing_else_has_to_know_of_it(project: Path, shows: Callable[[str], str]) -> None:
    folder = add(project, "count", COUNT)
    for name in NAMES:  # nor does it need any of the others
        shutil.rmtree(folder.parent / name)
    shown = shows(USED)
    assert shown.startswith("Count\n\nWrite `count()`.")
    assert "✗ every call counts: two calls counted 1" in shown
    assert "Hint 1 of 2: One statement is enough." in shown
    assert "return int(session.scalar(" in shown
    assert "solved" in shown


def test_exercises_come_in_the_order_of_their_lessons_and_go_with_their_folder(
    project: Path, shows: Callable[[str], str]
) -> None:
    folder = add(project, "count", COUNT)
    assert shows(NAMED).split() == [NAMES[0], "count", *NAMES[1:]]
    shutil.rmtree(folder)
    assert shows(NAMED).split() == list(NAMES)
