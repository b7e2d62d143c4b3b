"""Asking the database and waiting for it."""

import threading

import pytest
from sqlalchemy import Engine, create_engine

from helpers import lab
from helpers.db import forget_engine
from helpers.errors import LabError

pytestmark = pytest.mark.usefixtures("lesson4")


def test_a_query_is_a_data_frame_with_its_columns_also_without_rows() -> None:
    frame = lab.query("SELECT id, status FROM backend_training.tasks WHERE id = :id", id=42)
    assert frame.to_dict("records") == [{"id": 42, "status": "pending"}]
    assert list(lab.query("SELECT id FROM backend_training.tasks WHERE false").columns) == ["id"]


def test_a_value_is_a_parameter_and_never_part_of_the_sql() -> None:
    assert lab.query("SELECT :word AS word", word="'; DROP TABLE tasks; --").iat[0, 0] == "'; DROP TABLE tasks; --"


def test_execute_commits_and_counts(capsys: pytest.CaptureFixture[str]) -> None:
    lab.execute("UPDATE backend_training.tasks SET status = 'processing' WHERE id = :id", id=42)
    lab.execute("UPDATE backend_training.tasks SET status = 'completed'")
    assert capsys.readouterr().out == "1 row changed.\n3 rows changed.\n"
    assert lab.task(42)["status"] == "completed"


def test_waiting_ends_when_the_fact_is_true(capsys: pytest.CaptureFixture[str]) -> None:
    complete = threading.Timer(
        0.3, lab.execute, ["UPDATE backend_training.tasks SET status = 'completed' WHERE id = 42"]
    )
    complete.start()
    lab.wait_until("SELECT status = 'completed' FROM backend_training.tasks WHERE id = 42", timeout=30)
    complete.join()
    assert "It is true now." in capsys.readouterr().out


def test_waiting_for_what_never_comes_is_a_sentence_with_the_last_answer() -> None:
    with pytest.raises(LabError, match=r"still not true.*False"):
        lab.wait_until("SELECT status = 'completed' FROM backend_training.tasks WHERE id = 42", timeout=0.2)


def test_a_mistake_in_the_sql_is_a_sentence() -> None:
    with pytest.raises(LabError, match="syntax error"):
        lab.query("SELEKT 1")


def test_a_missing_migration_names_the_script() -> None:
    lab.rebuild(4)
    with pytest.raises(LabError, match=r"lab_sql/04_lease_and_attempts/01_migrate\.sql"):
        lab.query("SELECT attempts FROM backend_training.tasks")


def test_a_misspelt_name_is_not_taken_for_missing_tables() -> None:
    with pytest.raises(LabError, match=r'^column "statuss" does not exist$'):
        lab.query("SELECT statuss FROM backend_training.tasks")
    with pytest.raises(LabError, match=r'^relation "backend_training\.taks" does not exist$'):
        lab.query("SELECT * FROM backend_training.taks")


def test_tables_of_another_script_name_the_script() -> None:
    with pytest.raises(LabError, match=r"06_idempotent_effects/03_document_service\.sql"):
        lab.query("SELECT * FROM document_service.requests")


def test_missing_tables_name_the_set_up_cell() -> None:
    lab.run_script("00_base/00_drop.sql")
    with pytest.raises(LabError, match="first code cell"):
        lab.query("SELECT * FROM backend_training.tasks")


def test_a_server_that_is_gone_is_a_sentence_that_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    lab.query("SELECT 1")
    monkeypatch.setattr("helpers.lab.frame.facts.engine", lambda: unreachable())
    with pytest.raises(LabError, match="python3 -m helpers doctor"):
        lab.query("SELECT 1")
    forget_engine()


def unreachable() -> Engine:
    return create_engine("postgresql+psycopg://lab:secret@127.0.0.1:9/backend_training_lab")
