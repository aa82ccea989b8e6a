"""Faults for any client: calls that fail, hang, are slow, lose their answer or are sent twice, and watches that break.

`FaultyClient` wraps a client: the in-memory one in tests, the simulator's, or the one that speaks HTTP. `Faults` is the
plan: rules by the name of a call and by what it is called with. Chance comes from a seeded source, so that a run can be
repeated. Without rules a call goes straight through and takes no extra turn of the event loop.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple, TypeVar

from kubesched.api import objects as api
from kubesched.base.types import JSON
from kubesched.client.protocol import ApiError, Client, Listing, WatchEvent

T = TypeVar("T")
O = TypeVar("O", bound=api.Object)  # noqa: E741 - the one-letter name for "some kind of object", as in the protocol

ANY = "*"
"""Stands for every call in a rule."""

CALLS = frozenset(
    (
        ANY,
        "list",
        "watch",
        "watch_event",
        "read",
        "bind",
        "patch_pod_status",
        "delete_pod",
        "create_event",
        "patch_event",
        "create_object",
        "merge_patch",
        "delete_object",
        "get_lease",
        "create_lease",
        "update_lease",
    )
)
"""What rules can name: the calls of a client, and the arrival of each event of a watch."""


class ClientCall(NamedTuple):
    """A call that a rule may apply to: its name and its arguments, in the order of the protocol.

    The arguments of a ``watch_event`` are the kind and the event.
    """

    name: str
    args: tuple[Any, ...]


When = Callable[[ClientCall], bool]
MakeError = Exception | Callable[[], Exception]
Seconds = float | Callable[[], float]


def _always(_: ClientCall) -> bool:
    return True


@dataclass(slots=True)
class _Chance:
    """Which calls a rule applies to, and how often it still does."""

    when: When
    times: float
    probability: float

    def strikes(self, call: ClientCall, random: Random) -> bool:
        if self.times <= 0 or not self.when(call):
            return False
        if self.probability < 1 and random.random() >= self.probability:
            return False
        self.times -= 1
        return True


@dataclass(slots=True)
class _Failure(_Chance):
    error: MakeError
    answer_lost: bool

    def make(self) -> Exception:
        return self.error if isinstance(self.error, Exception) else self.error()


@dataclass(slots=True)
class _Delay:
    seconds: Seconds
    answer: bool
    when: When

    def draw(self) -> float:
        return self.seconds() if callable(self.seconds) else self.seconds


class Faults:
    """The plan: what goes wrong with which calls. Several clients may share one."""

    def __init__(self, random: Random | None = None) -> None:
        self.is_empty = True
        """Whether there are no rules, so that calls need not look for any."""
        self._random = random or Random(0)
        self._failures: dict[str, list[_Failure]] = {}
        self._repeats: dict[str, list[_Chance]] = {}
        self._delays: dict[str, list[_Delay]] = {}
        self._paused: dict[str, asyncio.Event] = {}

    # --- rules --------------------------------------------------------------------------------------------------------

    def fail(
        self,
        call: str,
        error: MakeError | None = None,
        *,
        times: float | None = None,
        probability: float = 1.0,
        answer_lost: bool = False,
        when: When = _always,
    ) -> None:
        """Make a call fail: the next `times`, by default once, or with a probability from now on.

        With `answer_lost` the call takes effect before it fails, as when the connection breaks. A ``watch_event`` that
        fails ends its watch with the error.
        """
        chance = (when, _times(times, probability), probability)
        self._failures.setdefault(_known(call), []).append(_Failure(*chance, error or _injected, answer_lost))
        self.is_empty = False

    def repeat(self, call: str, *, times: float | None = None, probability: float = 1.0, when: When = _always) -> None:
        """Send a call twice, as a proxy does that tries again by itself; the caller gets the second answer."""
        self._repeats.setdefault(_known(call), []).append(_Chance(when, _times(times, probability), probability))
        self.is_empty = False

    def delay(self, call: str, seconds: Seconds, *, answer: bool = False, when: When = _always) -> None:
        """Make a call take this long before it takes effect, or, with `answer`, after it did.

        It replaces an earlier delay of the same call under the same condition.
        """
        others = [each for each in self._delays.get(_known(call), ()) if (each.answer, each.when) != (answer, when)]
        self._delays[call] = [*others, _Delay(seconds, answer, when)]
        self.is_empty = False

    def pause(self, call: str = ANY) -> None:
        """Make calls hang until `resume`."""
        self._paused.setdefault(_known(call), asyncio.Event())
        self.is_empty = False

    def resume(self, call: str = ANY) -> None:
        """Let the calls continue that hang since `pause`."""
        event = self._paused.pop(_known(call), None)
        if event is not None:
            event.set()
        self.is_empty = not (self._paused or self._failures or self._repeats or self._delays)

    def heal(self) -> None:
        """Remove every rule."""
        for call in tuple(self._paused):
            self.resume(call)
        self._failures.clear()
        self._repeats.clear()
        self._delays.clear()
        self.is_empty = True

    # --- one call -----------------------------------------------------------------------------------------------------

    async def before(self, call: ClientCall) -> None:
        """Wait as the rules say, and raise what they say, before a call takes effect."""
        for name in (call.name, ANY):
            while name in self._paused:
                await self._paused[name].wait()
            await self._wait(name, call, answer=False)
        self._strike(call, answer_lost=False)

    async def after(self, call: ClientCall) -> None:
        """The same after it took effect."""
        for name in (call.name, ANY):
            await self._wait(name, call, answer=True)
        self._strike(call, answer_lost=True)

    def repeats(self, call: ClientCall) -> bool:
        """Whether to send a call twice."""
        rules = (rule for name in (call.name, ANY) for rule in self._repeats.get(name, ()))
        return any(rule.strikes(call, self._random) for rule in rules)

    async def _wait(self, name: str, call: ClientCall, answer: bool) -> None:
        for rule in self._delays.get(name, ()):
            if rule.answer == answer and rule.when(call):
                await asyncio.sleep(rule.draw())

    def _strike(self, call: ClientCall, answer_lost: bool) -> None:
        for name in (call.name, ANY):
            for rule in self._failures.get(name, ()):
                if rule.answer_lost == answer_lost and rule.strikes(call, self._random):
                    raise rule.make()


def _times(times: float | None, probability: float) -> float:
    return times if times is not None else 1 if probability >= 1 else math.inf


def _injected() -> Exception:
    return ApiError(500, "InternalError", "injected failure")


def _known(call: str) -> str:
    if call not in CALLS:
        raise ValueError(f"{call!r} is not a call of a client; use one of: {', '.join(sorted(CALLS))}")
    return call


class _Watch:
    """One open watch, which can be cut while it waits for an event."""

    def __init__(self, kind: type[api.Object], faults: Faults) -> None:
        self.kind = kind
        self.is_cut = False
        self.error: Exception | None = None
        self._faults = faults
        self._waiting: asyncio.Timeout | None = None

    def cut(self, error: Exception | None) -> None:
        self.is_cut, self.error = True, error
        if self._waiting is not None:
            self._waiting.reschedule(-math.inf)

    async def next_of(self, events: AsyncGenerator[WatchEvent, None]) -> WatchEvent | None:
        """The next event; None once the watch is cut or has ended."""
        try:
            async with asyncio.timeout(None) as self._waiting:
                event = await anext(events)
                if not self._faults.is_empty:
                    await self._faults.before(ClientCall("watch_event", (self.kind, event)))
        except StopAsyncIteration:
            return None
        except TimeoutError:
            if not self.is_cut:
                raise
        finally:
            self._waiting = None
        return None if self.is_cut else event


class FaultyClient:
    """A client with faults. `fail`, `repeat`, `delay`, `pause`, `resume` and `heal` are those of its plan.

    Clients of the same cluster that are to fail separately are separate wrappers around one client.
    """

    def __init__(self, client: Client, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self.calls: Counter[str] = Counter()
        """How often each call was made."""
        self.fail = self.faults.fail
        self.repeat = self.faults.repeat
        self.delay = self.faults.delay
        self.pause = self.faults.pause
        self.resume = self.faults.resume
        self.heal = self.faults.heal
        self._client = client
        self._watches: set[_Watch] = set()

    @property
    def open_watches(self) -> int:
        """How many watches are open."""
        return len(self._watches)

    def cut_watches(self, kind: type[api.Object] | None = None, error: Exception | None = None) -> None:
        """End the open watches of a kind, or of all kinds: as a restarting server does, or with an error."""
        for watch in tuple(self._watches):
            if kind in (None, watch.kind):
                watch.cut(error)

    # --- the client protocol ------------------------------------------------------------------------------------------

    async def list(self, kind: type[api.Object]) -> Listing:
        return await self._call("list", self._client.list, kind)

    async def watch(self, kind: type[api.Object], resource_version: str) -> AsyncGenerator[WatchEvent, None]:
        self.calls["watch"] += 1
        await self.faults.before(ClientCall("watch", (kind, resource_version)))
        watch = _Watch(kind, self.faults)
        self._watches.add(watch)
        try:
            async with aclosing(self._client.watch(kind, resource_version)) as events:
                while not watch.is_cut and (event := await watch.next_of(events)) is not None:
                    yield event
        finally:
            self._watches.discard(watch)
        if watch.error is not None:
            raise watch.error

    async def read(self, kind: type[O], name: str, namespace: str = "") -> O:
        return await self._call("read", self._client.read, kind, name, namespace)

    async def bind(self, pod: api.Pod, node_name: str) -> None:
        await self._call("bind", self._client.bind, pod, node_name)

    async def patch_pod_status(self, pod: api.Pod, patch: JSON) -> api.Pod:
        return await self._call("patch_pod_status", self._client.patch_pod_status, pod, patch)

    async def delete_pod(self, pod: api.Pod) -> None:
        await self._call("delete_pod", self._client.delete_pod, pod)

    async def create_event(self, namespace: str, event: JSON) -> None:
        await self._call("create_event", self._client.create_event, namespace, event)

    async def patch_event(self, namespace: str, name: str, patch: JSON) -> None:
        await self._call("patch_event", self._client.patch_event, namespace, name, patch)

    async def create_object(self, kind: type[O], body: JSON, namespace: str = "") -> O:
        return await self._call("create_object", self._client.create_object, kind, body, namespace)

    async def merge_patch(self, kind: type[O], name: str, patch: JSON, namespace: str = "", subresource: str = "") -> O:
        return await self._call("merge_patch", self._client.merge_patch, kind, name, patch, namespace, subresource)

    async def delete_object(self, kind: type[O], name: str, namespace: str = "") -> None:
        await self._call("delete_object", self._client.delete_object, kind, name, namespace)

    async def get_lease(self, namespace: str, name: str) -> JSON:
        return await self._call("get_lease", self._client.get_lease, namespace, name)

    async def create_lease(self, namespace: str, lease: JSON) -> JSON:
        return await self._call("create_lease", self._client.create_lease, namespace, lease)

    async def update_lease(self, namespace: str, name: str, lease: JSON) -> JSON:
        return await self._call("update_lease", self._client.update_lease, namespace, name, lease)

    async def _call(self, name: str, act: Callable[..., Awaitable[T]], *args: Any) -> T:
        self.calls[name] += 1
        if self.faults.is_empty:
            return await act(*args)
        call = ClientCall(name, args)
        await self.faults.before(call)
        result = await act(*args)
        if self.faults.repeats(call):
            result = await act(*args)
        await self.faults.after(call)
        return result
