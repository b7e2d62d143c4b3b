"""Without tables, with those of another lesson, and without a server, a cell says in a sentence what to do."""

from textwrap import dedent

import pytest

from helpers import lab
from tests.lab.kernels import Kernel

SET_UP = dedent("""
    import threading, time
    from sqlalchemy import text
    from helpers import lab
    from helpers.db import SessionFactory
    from helpers.exercises.claim.answers import claim_task as answer
    from helpers.repository import lease, naive, priority
    from helpers.scripts import run_script
    from helpers.servers import stop_server
    lab.open(8)
    lab.run_script("08_batches_and_quotas/01_migrate.sql")
    def sleeps():
        with SessionFactory.begin() as session:
            session.execute(text("SELECT pg_sleep(20)"))
    over = threading.Event()
    def stop_when(fact):
        def watch():
            while not over.is_set() and not lab.value(f"SELECT {fact}"):
                time.sleep(0.02)
            stop_server()
        watcher = threading.Thread(target=watch)
        watcher.start()
        return watcher
""")

# What a cell calls that touches the tables.
CALLS = {
    "claim_times": "lab.claim_times((10, 20))",
    "execute": "lab.execute('UPDATE backend_training.tasks SET priority = NULL WHERE false')",
    "explain": "lab.explain('SELECT priority FROM backend_training.tasks')",
    "explain_generic": "lab.explain_generic('SELECT priority FROM backend_training.tasks')",
    "kill_at_each_point": "lab.kill_at_each_point(documents, 4)",
    "load": "lab.load('08_batches_and_quotas/03_thirty_tasks.sql')",
    "order_table": "lab.order_table({'naive': naive.try_claim_task})",
    "plan": "lab.plan('SELECT priority FROM backend_training.tasks')",
    "query": "lab.query('SELECT priority FROM backend_training.tasks')",
    "rehearse": "lab.rehearse('UPDATE backend_training.tasks SET priority = NULL WHERE false')",
    "replay_calls": "lab.replay_calls(naive.try_claim_task, 'AB')",
    "replay_order": "lab.replay_order(naive.try_claim_task, 'ABAB')",
    "reset": "lab.reset()",
    "run_script": "lab.run_script('08_batches_and_quotas/02_reset.sql')",
    "storm": "lab.storm(tasks=1, workers=1, seconds=5, lease_seconds=1)",
    "stream": "lab.stream('--by-priority')",
    "throughput": "lab.throughput(workers=(1,))",
    "trace": "lab.trace(priority.claim_task, 10)",
    "value": "lab.value('SELECT max(priority) FROM backend_training.tasks')",
    "wait_until": "lab.wait_until(\"(SELECT priority FROM backend_training.tasks WHERE id = 42) = 'LOW'\", timeout=1)",
}
# These use the columns of the base alone, so that the tables of every lesson serve.
CALLS_ON_THE_BASE = {
    "locks": "lab.locks()",
    "race": "lab.race('atomic', 2)",
    "remaining_lease": "lab.remaining_lease(42, 10)",
    "task": "lab.task(42)",
    "tasks": "lab.tasks()",
    "timeline": "lab.timeline()",
    "vacuum": "lab.vacuum()",
}
# Each of these starts a process, which says it.
PROCESSES = {
    "start_relay": "lab.start_relay('R', '--documents', 'http://127.0.0.1:9')",
    "start_worker": "lab.start_worker('A', '--retry')",
}
PROCESSES_ON_THE_BASE = {
    "run_racer": "lab.run_racer('A', 'naive')",
    "start_long_transaction": "lab.start_long_transaction('W')",
}
# These use no tables of the lab, but the server.
OF_THE_SERVER = {
    "exercise": "print(repr(lab.exercise('claim').check(answer)))",
    "session": "lab.session('A').run('SELECT 1')",
    "start_documents": "lab.start_documents()",
}
# They show what is there already, read files, or are what brings the tables.
OTHERS = """
    Repository Session Worker body choose_order claim_times_chart compare end_workers find_stray_workers lease_seconds
    my_repository open pages_chart part predict predictions progress questions race_chart rebuild script sequence_chart
    source stop_stray_workers stream_chart throughput_chart
"""

WITHOUT_TABLES = "run_script('00_base/00_drop.sql')"
# As another notebook leaves them, of which this one knows nothing.
LESSON_1 = """
for name in "00_drop", "01_migrate", "02_reset":
    run_script(f"00_base/{name}.sql")
lab.execute("UPDATE backend_training.tasks SET status = 'completed' WHERE id = 43")
"""
WORK_OF_LESSON_1 = "SELECT count(*) = 1 FROM backend_training.tasks WHERE id = 43 AND status = 'completed'"

# What is under way when the server is stopped: how it is begun, and by which fact one sees that it is.
WORKER_IS_THERE = "count(*) > 0 FROM pg_stat_activity WHERE application_name LIKE 'worker:%'"
CALL_IS_CHECKED = "count(*) > 0 FROM pg_stat_activity WHERE datname LIKE '%check' AND query LIKE '%pg_sleep(20)%'"
UNDER_WAY = {
    "check": ("print(repr(lab.exercise('claim').check(sleeps)))", CALL_IS_CHECKED),
    "claim_times": ("lab.claim_times((10, 100_000))", "count(*) > 100 FROM backend_training.tasks"),
    "kill_at_each_point": ("lab.kill_at_each_point(documents, 4)", WORKER_IS_THERE),
    "race": ("lab.race('naive', 2)", WORKER_IS_THERE),
    "session": (
        "s = lab.session('A'); s.run('SELECT pg_sleep(60)'); s.run('SELECT 1'); lab.tasks()",
        "count(*) > 0 FROM pg_stat_activity WHERE application_name = 'session:A' AND query LIKE 'SELECT pg_sleep%'",
    ),
    "start_worker": ("lab.start_worker('A', '--wait-seconds', 60); lab.tasks()", WORKER_IS_THERE),
    "start_worker that drains": ("lab.start_worker('A', '--retry', '--drain', '--wait-seconds', 1)", WORKER_IS_THERE),
    "storm": ("lab.storm(tasks=50, workers=2, seconds=20, lease_seconds=1)", WORKER_IS_THERE),
    "stream": ("lab.stream('--by-priority')", WORKER_IS_THERE),
    "throughput": ("lab.throughput(workers=(1, 2, 4, 8))", "count(*) > 100 FROM backend_training.tasks"),
    "wait_until": ("lab.wait_until('false')", "true"),
}


def say(kernel: Kernel, call: str, before: str = "") -> str:
    """What a cell with this call says, after the code `before`."""
    kernel.run(f"lab.end_workers()\n{before}")
    said = kernel.run(call)
    assert "Traceback" not in said, f"{call}: {said}"
    return said


def test_every_function_is_looked_at() -> None:
    calls = {*CALLS, *CALLS_ON_THE_BASE, *PROCESSES, *PROCESSES_ON_THE_BASE, *OF_THE_SERVER}
    assert {*calls, *OTHERS.split()} == set(lab.__all__)


def test_without_tables_a_cell_says_which_cell_makes_them(kernel: Kernel) -> None:
    kernel.run(f"{SET_UP}\ndocuments = lab.start_documents()")
    for call in (CALLS | CALLS_ON_THE_BASE).values():
        assert "Run the notebook's first code cell" in say(kernel, call, WITHOUT_TABLES), call


def test_with_the_tables_of_another_lesson_a_cell_says_so_and_changes_nothing(kernel: Kernel) -> None:
    kernel.run(f"{SET_UP}\ndocuments = lab.start_documents()")
    for call in CALLS.values():
        said = say(kernel, call, LESSON_1)
        assert "those of another lesson" in said, call
        assert "Run this notebook's first code cell" in said, call
        assert lab.value(WORK_OF_LESSON_1), call
    for call in CALLS_ON_THE_BASE.values():
        say(kernel, call, LESSON_1)


@pytest.mark.thorough
def test_a_process_says_the_same(kernel: Kernel) -> None:
    kernel.run(SET_UP)
    for call in (PROCESSES | PROCESSES_ON_THE_BASE).values():
        said = say(kernel, call, WITHOUT_TABLES)
        assert "first code cell" in said, call
        assert "exit code 69" in said, call
    for call in PROCESSES.values():
        said = say(kernel, call, LESSON_1)
        assert "those of another lesson" in said, call
        assert "exit code 69" in said, call


@pytest.mark.thorough
def test_without_a_server_a_cell_names_the_command_that_helps(server_of_its_own: None, kernel: Kernel) -> None:
    kernel.run(f"{SET_UP}\ndocuments = lab.start_documents()\nstop_server()")
    for call in (CALLS | CALLS_ON_THE_BASE | OF_THE_SERVER).values():
        assert "python3 -m helpers doctor" in say(kernel, call), call
    assert "Lesson 8 is open" in kernel.run("lab.open(8)"), "opening the lesson starts the server again"
    assert "pending" in kernel.run("print(repr(lab.tasks()))")


@pytest.mark.parametrize(
    "name", [n if n in ("storm", "check") else pytest.param(n, marks=pytest.mark.thorough) for n in UNDER_WAY]
)
def test_a_server_that_goes_away_meanwhile_is_a_sentence(server_of_its_own: None, kernel: Kernel, name: str) -> None:
    call, fact = UNDER_WAY[name]
    kernel.run(f"{SET_UP}\ndocuments = lab.start_documents()")
    said = say(kernel, f"watcher = stop_when({fact!r})\n{call}")
    kernel.run("over.set(); watcher.join()")
    assert "python3 -m helpers doctor" in said, said
    assert "Lesson 8 is open" in kernel.run("lab.open(8)")
    assert "exit code 0" in kernel.run("lab.start_worker('A', '--retry')"), "the kernel works as before"
