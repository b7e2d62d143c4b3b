"""A network between the workers and the server that can be cut and can stall: one proxy a place.

The proxies of a storm share one thread, whose event loop moves the bytes.
"""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress

CHUNK = 65_536  # bytes
ANSWER_SECONDS = 10.0  # for the thread to do what it was asked to do


class Proxy:
    """Passes bytes between a port of its own on 127.0.0.1 and the server's. Any thread may cut and stall it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, host: str, port: int) -> None:
        self.port = 0  # known once it is open
        self._loop = loop
        self._target = host, port
        self._flows = asyncio.Event()
        self._flows.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._connections: set[asyncio.Task[None]] = set()

    def cut(self) -> None:
        """Close all connections, as a broken cable does. New ones are accepted at once."""
        self._loop.call_soon_threadsafe(self._abort)

    def stall(self) -> None:
        """Pass nothing on, but keep the connections open, until `flow`."""
        self._loop.call_soon_threadsafe(self._flows.clear)

    def flow(self) -> None:
        """Pass on what has waited, and all that comes."""
        self._loop.call_soon_threadsafe(self._flows.set)

    async def open(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening, and close all connections."""
        if self.port:
            self._server.close()
        self._abort()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections)

    def _abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _connected(self, from_worker: asyncio.StreamReader, to_worker: asyncio.StreamWriter) -> None:
        """One connection, from its beginning to its end."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        writers = [to_worker]
        self._writers.add(to_worker)
        try:
            from_server, to_server = await asyncio.open_connection(*self._target)
            writers.append(to_server)
            self._writers.add(to_server)
            await asyncio.gather(self._pump(from_worker, to_server), self._pump(from_server, to_worker))
        except (OSError, asyncio.CancelledError):
            pass  # the server is not there, or the storm is over: the worker learns it by the close below
        finally:
            self._connections.discard(task)
            self._writers.difference_update(writers)
            for writer in writers:
                writer.close()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        """Pass bytes on in one direction. What one side has closed is then closed for the other."""
        with suppress(OSError):
            while data := await source.read(CHUNK):
                await self._flows.wait()
                sink.write(data)
                await sink.drain()
        sink.close()


@contextmanager
def network(host: str, port: int, places: int) -> Iterator[list[Proxy]]:
    """The proxies of one storm, for as long as the block lasts. `host` and `port` are the server's."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="proxies", daemon=True)
    thread.start()

    def wait_for(work: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, loop).result(ANSWER_SECONDS)

    proxies = [Proxy(loop, host, port) for _ in range(places)]
    try:
        for proxy in proxies:
            wait_for(proxy.open())
        yield proxies
    finally:
        for proxy in proxies:
            wait_for(proxy.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(ANSWER_SECONDS)
        loop.close()
