"""Stands between docker and its engine, and can stop passing anything on, as an engine that hangs."""

import os
import shutil
import socket
import socketserver
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

PIECE = 65536


def engine_socket() -> str | None:
    """The path of the Unix socket at which the engine listens; None if it listens elsewhere."""
    command = ["docker", "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"]
    host = os.environ.get("DOCKER_HOST") or subprocess.run(command, capture_output=True, text=True).stdout.strip()
    return host.removeprefix("unix://") if host.startswith("unix://") and hasattr(socket, "AF_UNIX") else None


class Relay:
    """Listens at `path`, passes on to the engine at `target`, and freezes before a request that holds `words`."""

    def __init__(self, target: str, words: bytes) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="t42-"))  # for us alone, and short: a socket's path has a limit
        self.path = self.folder / "s"
        self._target, self._words = target, words
        self._frozen = Event()
        self._sockets: list[socket.socket] = []
        relay = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                relay._pass_on(self.request)

        self._server = socketserver.ThreadingUnixStreamServer(str(self.path), Handler)
        self._server.daemon_threads = True
        Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        self._server.server_close()
        shutil.rmtree(self.folder)

    def _pass_on(self, client: socket.socket) -> None:
        with socket.socket(socket.AF_UNIX) as engine:
            engine.connect(self._target)
            self._sockets += [client, engine]
            back = Thread(target=self._pump, args=(engine, client), daemon=True)
            back.start()
            self._pump(client, engine, self._words)
            back.join()

    def _pump(self, source: socket.socket, sink: socket.socket, words: bytes | None = None) -> None:
        """Pass on until one side closes. Frozen, it takes what comes, passes nothing on, and closes nothing."""
        with suppress(OSError):
            while data := source.recv(PIECE):
                if words and words in data:
                    self._frozen.set()
                if not self._frozen.is_set():
                    sink.sendall(data)
            if not self._frozen.is_set():
                sink.shutdown(socket.SHUT_WR)
