"""The parts of a storm, one by one: what is forecast, the network, the verdict, and whose functions are called."""

import gc
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import psutil
import psycopg
import pytest

from helpers.db import database_url, engine
from helpers.lab.actors.workers import Worker
from helpers.lab.frame.facts import value, wait_until
from helpers.lab.storms.forecast import CALM_START_SECONDS, KINDS, counted, forecast
from helpers.lab.storms.functions import Repository, packed
from helpers.lab.storms.proxy import network
from helpers.lab.storms.verdict import SLACK, judge
from helpers.schedules.run import Row

SECONDS = 10.0
NOW = datetime(2030, 1, 1, tzinfo=UTC)


# The forecast


def test_a_seed_gives_the_same_strikes_each_time_and_another_seed_gives_others() -> None:
    assert forecast(7, 6, 60, 3) == forecast(7, 6, 60, 3)
    assert forecast(7, 6, 60, 3) != forecast(8, 6, 60, 3)


@pytest.mark.parametrize("seed", range(50))
def test_strikes_stay_within_the_storm(seed: int) -> None:
    strikes = forecast(seed, places=4, seconds=30, lease_seconds=2)
    assert [strike.at for strike in strikes] == sorted(strike.at for strike in strikes)
    for strike in strikes:
        assert CALM_START_SECONDS <= strike.at < 30
        assert strike.place in range(4)
        assert 0.6 <= strike.seconds <= 4 if strike.kind in ("freeze", "stall") else strike.seconds == 0
    assert sum(counted(strikes).values()) == len(strikes)


def test_in_a_long_storm_everything_happens_to_everybody() -> None:
    strikes = forecast(1, places=6, seconds=300, lease_seconds=3)
    assert {(strike.kind, strike.place) for strike in strikes} == {
        (kind, place) for kind in KINDS for place in range(6)
    }


# The network


class Echo(socketserver.ThreadingTCPServer):
    """A server that sends back what it gets. `gone` is set when the other side of a connection has closed."""

    daemon_threads = True

    def __init__(self) -> None:
        self.gone = threading.Event()
        super().__init__(("127.0.0.1", 0), EchoHandler)
        self.port = self.socket.getsockname()[1]


class EchoHandler(socketserver.BaseRequestHandler):
    server: Echo

    def handle(self) -> None:
        while data := receive_some(self.request):
            self.request.sendall(data)
        self.server.gone.set()


@pytest.fixture
def echo() -> Iterator[Echo]:
    with Echo() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def connect(port: int) -> Any:
    return closing(socket.create_connection(("127.0.0.1", port), timeout=SECONDS))


def receive_some(connection: socket.socket) -> bytes:
    """What comes next; nothing, where the connection has ended."""
    try:
        return connection.recv(65_536)
    except ConnectionError:
        return b""


def receive(connection: socket.socket, count: int) -> bytes:
    """So many bytes; fewer, where the connection ends before."""
    received = b""
    while len(received) < count and (data := receive_some(connection)):
        received += data
    return received


def nothing_comes(connection: socket.socket) -> None:
    """For a moment: long enough for the proxy to read what was sent."""
    connection.settimeout(0.3)
    with pytest.raises(TimeoutError):
        connection.recv(1)
    connection.settimeout(SECONDS)


def test_all_bytes_pass_in_both_directions(echo: Echo) -> None:
    sent = bytes(range(256)) * 4000  # more than the buffers on the way hold
    with network("127.0.0.1", echo.port, 1) as [proxy], connect(proxy.port) as connection:
        sender = threading.Thread(target=connection.sendall, args=[sent])
        sender.start()
        assert receive(connection, len(sent)) == sent
        sender.join()


def test_a_cut_closes_both_sides_and_new_connections_pass(echo: Echo) -> None:
    with network("127.0.0.1", echo.port, 1) as [proxy], connect(proxy.port) as connection:
        connection.sendall(b"before")
        assert receive(connection, 6) == b"before"
        proxy.cut()
        assert receive(connection, 1) == b""
        assert echo.gone.wait(SECONDS)
        with connect(proxy.port) as another:
            another.sendall(b"after")
            assert receive(another, 5) == b"after"


def test_a_cut_closes_both_sides_of_a_stalled_connection_too(echo: Echo) -> None:
    with network("127.0.0.1", echo.port, 1) as [proxy], connect(proxy.port) as connection:
        connection.sendall(b"1")
        assert receive(connection, 1) == b"1"
        proxy.stall()
        connection.sendall(b"2")
        nothing_comes(connection)
        proxy.cut()
        assert receive(connection, 1) == b""
        assert echo.gone.wait(SECONDS)


def test_a_stall_holds_what_is_sent_and_a_flow_passes_it_on(echo: Echo) -> None:
    with network("127.0.0.1", echo.port, 2) as [stalled, other], connect(stalled.port) as connection:
        connection.sendall(b"1")
        assert receive(connection, 1) == b"1"
        stalled.stall()
        connection.sendall(b"2")
        nothing_comes(connection)
        with connect(other.port) as beside:  # a proxy stalls alone
            beside.sendall(b"3")
            assert receive(beside, 1) == b"3"
        stalled.flow()
        assert receive(connection, 1) == b"2"


def test_what_one_side_closes_is_closed_for_the_other(echo: Echo) -> None:
    with network("127.0.0.1", echo.port, 1) as [proxy]:
        with connect(proxy.port) as connection:
            connection.sendall(b"1")
            assert receive(connection, 1) == b"1"
        assert echo.gone.wait(SECONDS)


def test_a_server_that_is_away_is_a_closed_connection() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    with network("127.0.0.1", port, 1) as [proxy], connect(proxy.port) as connection:
        assert receive(connection, 1) == b""


def test_nothing_is_left_open(echo: Echo, caplog: pytest.LogCaptureFixture) -> None:
    with network("127.0.0.1", echo.port, 3) as proxies, connect(proxies[0].port) as connection:
        connection.sendall(b"1")
        assert receive(connection, 1) == b"1"
        proxies[0].stall()
        ports = {proxy.port for proxy in proxies}
    assert echo.gone.wait(SECONDS)
    assert "proxies" not in [thread.name for thread in threading.enumerate()]
    mine = psutil.Process().net_connections("tcp")
    assert [c for c in mine if c.laddr and c.laddr.port in ports and c.status != psutil.CONN_TIME_WAIT] == []
    del proxies
    gc.collect()
    assert caplog.messages == [], "asyncio complains of tasks that did not end"


def test_a_session_of_postgresql_passes_and_ends_on_both_sides_when_it_is_cut(lesson4: None) -> None:
    url = database_url()
    assert url.host is not None
    _, parameters = engine().dialect.create_connect_args(url)
    with network(url.host, url.port or 5432, 1) as [proxy]:
        parameters.update(host="127.0.0.1", port=proxy.port, application_name="worker:test")
        with closing(psycopg.connect(**parameters)) as connection:
            [(words,)] = connection.execute("SELECT repeat('42 ', 100000)").fetchall()
            assert words == "42 " * 100_000
            proxy.cut()
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT 1")
        wait_until("SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'worker:test'", timeout=SECONDS)


# The verdict


class Ledger:
    """Writes the rows of a ledger by hand: `ledger.claim(0, "A")` is a claim of task 1 by A, 0 s after the start."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.status, self.attempt = "pending", 0

    def write(self, at: float, who: str, status: str, attempt: int, lease: float | None) -> None:
        row = {"id": len(self.rows) + 1, "at": NOW + timedelta(seconds=at), "actor": f"worker:{who}", "event": "update"}
        row |= {"task_id": 1, "old_status": self.status, "new_status": status, "attempt": attempt, "detail": None}
        row |= {"lease_until": None if lease is None else NOW + timedelta(seconds=lease)}
        self.rows.append(row)
        self.status, self.attempt = status, attempt

    def claim(self, at: float, who: str, attempt: int | None = None, lease: float = 3.0) -> None:
        self.write(at, who, "processing", self.attempt + 1 if attempt is None else attempt, at + lease)

    def renew(self, at: float, who: str, lease: float = 3.0) -> None:
        self.write(at, who, "processing", self.attempt, at + lease)

    def complete(self, at: float, who: str) -> None:
        self.write(at, who, "completed", self.attempt, None)

    def broken(self, documents: int = 1, **more: Any) -> list[str]:
        """The names of the rules that are broken. `more`: what else is in the task's row."""
        task = {"id": 1, "status": self.status, "attempts": self.attempt} | more
        rulings = judge([task], self.rows, {1: documents})
        assert len(rulings) == 8
        return [ruling.rule for ruling in rulings if ruling.offence]


ALL = "every task is completed"
ONCE = "each task was completed once, by its last attempt"
DOCUMENTS = "each task has one document"
ONE_ATTEMPT = "one current attempt a task"
NEVER_REPEAT = "attempts never repeat"
ONLY_CURRENT = "only the current attempt completes, renews or fails"
IN_FORCE = "a claim or a renewal gives a lease in force"
WITHIN = "an attempt completes, renews or fails before its lease ends"


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


def test_a_good_day_breaks_no_rule(ledger: Ledger) -> None:
    ledger.claim(0, "A1")
    ledger.renew(1, "A1")
    ledger.complete(2, "A1")
    assert ledger.broken() == []


def test_a_takeover_after_the_lease_breaks_no_rule(ledger: Ledger) -> None:
    ledger.claim(0, "A1")
    ledger.claim(3.1, "B1")
    ledger.complete(4, "B1")
    assert ledger.broken() == []


def test_a_task_that_is_left_is_not_completed(ledger: Ledger) -> None:
    ledger.claim(0, "A1")
    assert ledger.broken(documents=0) == [ALL]
    assert ledger.broken(documents=1, status="failed") == [ALL]


def test_a_second_completion_is_found(ledger: Ledger) -> None:
    ledger.claim(0, "A1")
    ledger.claim(3.1, "B1")
    ledger.complete(4, "B1")
    ledger.complete(5, "A1")
    assert ledger.broken() == [ONCE, ONLY_CURRENT]


def test_a_completion_by_another_attempt_than_the_last_is_found(ledger: Ledger) -> None:
    ledger.claim(0, "A1")
    ledger.complete(1, "A1")
    assert ledger.broken(attempts=2) == [ONCE]


@pytest.mark.parametrize("documents", [0, 2])
def test_another_number_of_documents_than_one_is_found(ledger: Ledger, documents: int) -> None:
    ledger.claim(0, "A1")
    ledger.complete(1, "A1")
    assert ledger.broken(documents=documents) == [DOCUMENTS]


def test_a_claim_while_a_lease_is_in_force_is_found(ledger: Ledger) -> None:
    ledger.claim(0, "A1")
    ledger.claim(1, "B1")
    ledger.complete(2, "B1")
    assert ledger.broken() == [ONE_ATTEMPT]


def test_an_attempt_number_that_comes_again_is_found(ledger: Ledger) -> None:
    ledger.claim(0, "A1")
    ledger.claim(3.1, "B1", attempt=1)
    ledger.complete(4, "B1")
    assert ledger.broken() == [NEVER_REPEAT]


def test_a_renewal_of_anothers_attempt_is_found(ledger: Ledger) -> None:
    ledger.claim(0, "A1")
    ledger.claim(3.1, "B1")
    ledger.renew(4, "A1")
    ledger.complete(5, "B1")
    assert ledger.broken() == [ONLY_CURRENT]


def test_a_lease_that_is_over_when_it_is_given_is_found(ledger: Ledger) -> None:
    ledger.claim(0, "A1", lease=-1)
    ledger.claim(1, "B1")
    ledger.complete(2, "B1")
    assert ledger.broken() == [IN_FORCE]


def test_a_completion_after_the_end_of_the_lease_is_found_and_shown_as_the_ledger_has_it(ledger: Ledger) -> None:
    ledger.claim(0, "A1")
    ledger.complete(3 + SLACK.total_seconds() + 0.01, "A1")
    assert ledger.broken() == [WITHIN]
    [offence] = [r.offence for r in judge([{"id": 1, "status": "completed", "attempts": 1}], ledger.rows, {1: 1})][-1:]
    assert offence is not None
    assert list(offence.rows) == ledger.rows


def test_a_completion_that_the_ledger_notes_a_moment_late_is_none(ledger: Ledger) -> None:
    ledger.claim(0, "A1")
    ledger.complete(3 + SLACK.total_seconds() - 0.01, "A1")
    assert ledger.broken() == []


# Whose functions


def as_in_a_notebook(code: str, name: str) -> Callable[..., Any]:
    """A function that no module can import: it has to travel by value."""
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(code, space)
    return space[name]  # type: ignore[no-any-return]


COMPLETION = """
from sqlalchemy import update
from helpers.db import SessionFactory
from helpers.models import Task
WORD = "mine"
def my_completion(task_id, attempts):
    with SessionFactory.begin() as session:
        done = update(Task).where(Task.id == task_id)
        session.execute(done.values(status="completed", lease_until=None, last_error=WORD))
"""


def test_a_function_of_a_notebook_is_what_the_worker_calls(lesson5: None) -> None:
    mine = as_in_a_notebook(COMPLETION, "my_completion")
    with packed(Repository(mark_as_completed=mine)) as options:
        worker = Worker("A", "helpers.worker", ["A", "--retry", *options])
        worker.follow()
    assert worker.returncode == 0
    assert value("SELECT last_error FROM backend_training.tasks WHERE id = 42") == "mine"


def test_without_functions_there_is_no_option() -> None:
    for repository in (None, Repository()):
        with packed(repository) as options:
            assert options == []
