"""A wire between a scheduler and the API server that a test can cut."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

CHUNK = 65536


class Relay:
    """Passes bytes on, from a port of its own to another. Runs in a thread while entered."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay")
        self._writers: set[asyncio.StreamWriter] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        self._passing = asyncio.Event()
        self._passing.set()

    def __enter__(self) -> Self:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._connected, "127.0.0.1", 0), self._loop
        ).result()
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self) -> int:
        """Break every connection there is, in the middle of whatever it carries; answers with how many there were."""
        return asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result()

    def silence(self, silent: bool) -> None:
        """Pass nothing on and break nothing, as a firewall that drops packets; or go on with what has piled up."""
        self._loop.call_soon_threadsafe(self._passing.clear if silent else self._passing.set)

    async def _cut(self) -> int:
        count = len(self._writers) // 2
        self._passing.set()
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.gather(*self._pumps)
        return count

    async def _close(self) -> None:
        self._server.close()
        await self._cut()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            self._writers.add(sink)
            pump = asyncio.create_task(self._pump(source, sink))
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(CHUNK):
                await self._passing.wait()
                sink.write(data)
                await sink.drain()
        self._writers.discard(sink)
        sink.close()
        with suppress(OSError):
            await sink.wait_closed()
