"""The network between a scheduler and the API server: calls and watches that arrive late, twice, half or never.

A call leaves its process: once sent, it takes effect even if the process is frozen or killed meanwhile. Faults come
from the plan in `client.faults`; this adds what only a simulation can do: processes, old lists, and watches that show
nothing new.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from contextvars import Context
from random import Random
from typing import Any, TypeVar

from kubesched.api import objects as api
from kubesched.apiserver.inprocess.direct import DirectClient
from kubesched.client.faults import ClientCall, Faults, FaultyClient
from kubesched.client.protocol import ApiError, Listing, WatchEvent, WatchType

T = TypeVar("T")

CALL_SECONDS = 30.0
"""How long a process waits for an answer."""
LATEST_SECONDS = 2.5
"""How long a write is under way at most. A leader stops five seconds before another can begin, by clocks that drift;
what arrives later than that could not be told from the acts of a second leader."""
QUIET_SECONDS = 20.0
"""How long a watch whose events got lost stays open and shows nothing, before it breaks."""
READS = frozenset(("list", "watch", "read", "get_lease"))
LEASES = frozenset(("get_lease", "create_lease", "update_lease"))
EVENTS = frozenset(("create_event", "patch_event"))


class LostError(Exception):
    """A call, or the answer to it, vanishes: the process that waits for it gives up after a while."""


class Met:
    """Which faults met which code, counted."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()

    def note(self, fault: str, where: str) -> None:
        self.counts[fault, where] += 1

    @property
    def faults(self) -> set[str]:
        return {fault for fault, _ in self.counts}


class Server:
    """The API server as the network sees it: it can be away, be replaced, and serve old lists."""

    def __init__(self, client: DirectClient) -> None:
        self.client = client
        self.away = False
        self.lag = 0
        """How many versions behind lists are."""
        self.meddle: Callable[[ClientCall], None] | None = None
        """Called when a call arrives and when it has taken effect: the moment for others to change something."""
        self.is_stale: Callable[[ClientCall], bool] | None = None
        """Whether a write names a version of its object that is not the present one: the server must refuse it."""


class _Stream:
    """One open watch: what has arrived and was not read yet."""

    def __init__(self, kind: type[api.Object]) -> None:
        self.kind = kind
        self._events: deque[WatchEvent] = deque()
        self._end: tuple[Exception | None] | None = None
        self._arrived = asyncio.Event()

    def put(self, event: WatchEvent) -> None:
        if self._end is None:  # what is under way when a connection ends is lost
            self._events.append(event)
            self._arrived.set()

    def end(self, error: Exception | None) -> None:
        if self._end is None:
            self._end = (error,)
            self._arrived.set()

    async def next(self) -> WatchEvent | None:
        while not self._events:
            if self._end is not None:
                if self._end[0] is not None:
                    raise self._end[0]
                return None
            self._arrived.clear()
            await self._arrived.wait()
        return self._events.popleft()


class NetworkClient(FaultyClient):
    """The client of one process."""

    def __init__(
        self,
        server: Server,
        faults: Faults,
        random: Random,
        outside: Context,
        met: Met,
        may_write: Callable[[], bool] | None = None,
        on_sent: Callable[[str, tuple[Any, ...]], None] | None = None,
        report: Callable[[str, str], None] | None = None,
    ) -> None:
        """`outside` is the context in which the server acts. `on_sent` is called with every write that leaves,
        `report` with an invariant that does not hold."""
        super().__init__(server.client, faults)
        self._server = server
        self._random = random
        self._outside = outside
        self._met = met
        self._may_write = may_write
        self._on_sent = on_sent
        self._report = report
        self._streams: dict[_Stream, None] = {}
        self._delivered: dict[type[api.Object], int] = {}
        """The newest version that the watch of each kind has delivered since the last list."""
        self.failed_read = float("-inf")
        """When a read has failed the last time, in virtual seconds."""

    def cut(self, error: Exception | None, kind: type[api.Object] | None = None) -> None:
        """End open watches."""
        for stream in tuple(self._streams):
            if kind in (None, stream.kind):
                self._met.note(f"watch cut: {_kind(error)}", f"watch of {stream.kind.__name__}")
                stream.end(error)

    # --- calls --------------------------------------------------------------------------------------------------------

    async def _call(self, name: str, act: Callable[..., Awaitable[T]], *args: Any) -> T:
        self.calls[name] += 1
        if name not in READS:
            if self._may_write is not None and not self._may_write():
                self._met.note("write after the lease was lost", _caller())
                raise ConnectionAbortedError("not sent: this process is no longer the leader")
            if self._on_sent is not None:
                self._on_sent(name, args)
        elif name == "list":
            self._delivered.pop(args[0], None)
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        caller = _caller()
        asyncio.get_running_loop().create_task(
            self._deliver(ClientCall(name, args), act.__name__, answer, caller), context=self._outside.copy()
        )
        async with asyncio.timeout(CALL_SECONDS):
            return await answer

    async def _deliver(self, call: ClientCall, method: str, answer: asyncio.Future[T], caller: str) -> None:
        """Outside of the process: to the server and back."""
        try:
            await asyncio.sleep(self._random.uniform(0.0005, 0.02))
            try:
                await self.faults.before(call)
            except Exception as error:
                self._met.note(f"failed before: {_kind(error)}", caller)
                raise
            result = await self._act(call, method)
            if self.faults.repeats(call):
                self._met.note("sent twice", caller)
                result = await self._act(call, method)
            try:
                await self.faults.after(call)
            except Exception as error:
                self._met.note(f"failed after: {_kind(error)}", caller)
                raise
        except LostError:
            self._failed(call)
        except Exception as error:
            self._failed(call)
            if not answer.done():
                answer.set_exception(error)
                answer.exception()  # a process that was killed never asks
        else:
            if not answer.done():
                answer.set_result(result)

    def _failed(self, call: ClientCall) -> None:
        if call.name == "read":
            self.failed_read = asyncio.get_running_loop().time()

    async def _act(self, call: ClientCall, method: str) -> Any:
        if self._server.away:
            self._met.note("API server away", call.name)
            raise ConnectionRefusedError("connection refused")
        if call.name == "list" and self._server.lag:
            return await self._old_list(call.args[0])
        if call.name in READS:
            return await getattr(self._server.client, method)(*call.args)
        self._meddle(call)
        stale = self._server.is_stale is not None and self._server.is_stale(call)
        result = await getattr(self._server.client, method)(*call.args)
        if stale and self._report is not None:
            self._report("stale write", f"{call.name} has replaced a newer version than it knew")
        self._meddle(call)
        return result

    def _meddle(self, call: ClientCall) -> None:
        if self._server.meddle is not None:
            self._server.meddle(call)

    async def _old_list(self, kind: type[api.Object]) -> Listing:
        self._met.note("old list", f"list of {kind.__name__}")
        return await self._server.client.list_at(kind, self._server.lag)

    # --- watches ------------------------------------------------------------------------------------------------------

    async def watch(self, kind: type[api.Object], resource_version: str) -> AsyncGenerator[WatchEvent, None]:
        self.calls["watch"] += 1
        stream = _Stream(kind)
        self._streams[stream] = None
        pump = asyncio.get_running_loop().create_task(
            self._pump(stream, resource_version), context=self._outside.copy()
        )
        delivered = self._delivered.get(kind, 0)
        if self._report is not None and int(resource_version) < delivered:
            text = f"the watch of {kind.__name__} begins at {resource_version}; {delivered} was delivered before"
            self._report("watch", text)
        try:
            while (event := await stream.next()) is not None:
                self._delivered[kind] = max(self._delivered.get(kind, 0), int(event.resource_version or 0))
                yield event
        finally:
            self._streams.pop(stream, None)
            pump.cancel()

    async def _pump(self, stream: _Stream, resource_version: str) -> None:
        kind = stream.kind
        try:
            await asyncio.sleep(self._random.uniform(0.0005, 0.02))
            await self.faults.before(ClientCall("watch", (kind, resource_version)))
            if self._server.away:
                raise ConnectionRefusedError("connection refused")
            async with aclosing(self._server.client.watch(kind, resource_version)) as events:
                async for event in events:
                    try:
                        await self.faults.before(ClientCall("watch_event", (kind, event)))
                    except Exception as error:
                        self._met.note(f"watch broken: {_kind(error)}", f"watch of {kind.__name__}")
                        raise
                    if event.change is WatchType.BOOKMARK:
                        self._met.note("bookmark", f"watch of {kind.__name__}")
                    stream.put(event)
            stream.end(None)
        except LostError:
            self._met.note("watch that shows nothing", f"watch of {kind.__name__}")
            await asyncio.sleep(QUIET_SECONDS)
            stream.end(None)
        except Exception as error:
            stream.end(error)


def _kind(error: Exception | None) -> str:
    if error is None:
        return "its end"
    return str(error.code) if isinstance(error, ApiError) else type(error).__name__


def _caller() -> str:
    """The function that makes a call, outside of the client."""
    frame = sys._getframe(2)
    while frame.f_back is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("kubesched.") and not module.startswith(("kubesched.torture", "kubesched.client.faults")):
            return f"{module.removeprefix('kubesched.')}.{frame.f_code.co_qualname}"
        frame = frame.f_back
    return "?"
