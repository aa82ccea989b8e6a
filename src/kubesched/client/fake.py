"""An API server inside the process, for tests, simulations and the benchmark of the loop.

It answers the whole `Client` protocol from an `ObjectStore`, and can be disturbed: calls that fail, that take time,
that hang, or that do their work and then lose the answer. Undisturbed, a call is done without the event loop turning.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from kubesched.api import objects as api
from kubesched.base.clock import Clock
from kubesched.base.types import JSON
from kubesched.client.protocol import ApiError, Listing, WatchEvent
from kubesched.client.store import ObjectStore

P = ParamSpec("P")
T = TypeVar("T")
O = TypeVar("O", bound=api.Object)  # noqa: E741 - the one-letter name for "some kind of object", as in the protocol

ANY = "*"
"""Stands for every call in `fail`, `delay` and `pause`."""

CALLS = frozenset(
    (
        ANY,
        "list",
        "watch",
        "read",
        "bind",
        "patch_pod_status",
        "delete_pod",
        "create_event",
        "patch_event",
        "merge_patch",
        "get_lease",
        "create_lease",
        "update_lease",
    )
)


@dataclass(slots=True)
class _Failure:
    error: Exception | Callable[[], Exception]
    times: float
    probability: float
    answer_lost: bool

    def strike(self, chance: random.Random) -> Exception | None:
        if self.times <= 0 or (self.probability < 1 and chance.random() >= self.probability):
            return None
        self.times -= 1
        return self.error if isinstance(self.error, Exception) else self.error()


class Disturbances:
    """What goes wrong with one client's calls, and when. The random source is seeded, so a run can be repeated."""

    def __init__(self, seed: int = 0) -> None:
        self.calm = True
        self._chance = random.Random(seed)
        self._failures: dict[str, list[_Failure]] = {}
        self._delays: dict[str, Callable[[], float]] = {}
        self._paused: dict[str, asyncio.Event] = {}

    def fail(
        self,
        call: str,
        error: Exception | Callable[[], Exception] | None = None,
        *,
        times: float | None = None,
        probability: float = 1.0,
        answer_lost: bool = False,
    ) -> None:
        """Make a call fail: the next `times`, by default once, or with a probability for ever.

        With `answer_lost` the call has its effect before it fails, as when the connection breaks.
        """
        if times is None:
            times = 1 if probability >= 1 else math.inf
        failure = _Failure(error or _injected, times, probability, answer_lost)
        self._failures.setdefault(_known(call), []).append(failure)
        self.calm = False

    def delay(self, call: str, seconds: float | Callable[[], float]) -> None:
        """Make a call take this long before it has its effect."""
        self._delays[_known(call)] = seconds if callable(seconds) else lambda: seconds
        self.calm = False

    def pause(self, call: str = ANY) -> None:
        """Let calls hang until `resume`."""
        self._paused.setdefault(_known(call), asyncio.Event())
        self.calm = False

    def resume(self, call: str = ANY) -> None:
        """Let the calls go on that hang since `pause`."""
        event = self._paused.pop(_known(call), None)
        if event is not None:
            event.set()

    def heal(self) -> None:
        """End every disturbance."""
        for call in tuple(self._paused):
            self.resume(call)
        self._failures.clear()
        self._delays.clear()
        self.calm = True

    async def before(self, call: str) -> None:
        for name in (call, ANY):
            while name in self._paused:
                await self._paused[name].wait()
            if name in self._delays:
                await asyncio.sleep(self._delays[name]())
        self._strike(call, answer_lost=False)

    async def after(self, call: str) -> None:
        self._strike(call, answer_lost=True)

    def _strike(self, call: str, answer_lost: bool) -> None:
        for name in (call, ANY):
            for failure in self._failures.get(name, ()):
                if failure.answer_lost == answer_lost and (error := failure.strike(self._chance)):
                    raise error


def _injected() -> Exception:
    return ApiError(500, "InternalError", "a failure made for a test")


def _known(call: str) -> str:
    if call not in CALLS:
        raise ValueError(f"{call!r} is no call of the client; there are: {', '.join(sorted(CALLS))}")
    return call


class InProcessApi:
    """The `Client` protocol on an `ObjectStore`.

    Several of them may share a store: each is then one client's view of the same cluster, disturbed on its own.
    """

    def __init__(self, clock: Clock | None = None, *, store: ObjectStore | None = None, seed: int = 0) -> None:
        self.store = ObjectStore(clock) if store is None else store
        self.disturbances = Disturbances(seed)
        self.calls: Counter[str] = Counter()
        self.deletion_takes = 0.0
        """Seconds from the deletion of a pod on a node until it is gone; infinite means until `finish_deletion`."""

    # --- the cluster, as a test writes it -----------------------------------------------------------------------------

    def create(self, obj: O | JSON) -> O:
        """Store a new object, given as a Struct or as JSON; answers with what was stored."""
        return self.store.create(obj)

    def update(self, obj: O | JSON) -> O:
        """Replace an object; 409 if it carries a version that is no longer the stored one."""
        return self.store.update(obj)

    def delete(self, obj: api.Object) -> None:
        """Remove an object at once."""
        self.store.delete(obj)

    def get(self, kind: type[O], key: str) -> O | None:
        """The object with this ``namespace/name``, or None."""
        return self.store.get(kind, key)

    def objects(self, kind: type[O]) -> tuple[O, ...]:
        """All objects of a kind in the order they were made."""
        return self.store.objects(kind)

    @property
    def events(self) -> tuple[JSON, ...]:
        """Every Event in the order of creation."""
        return self.store.events

    @property
    def bindings(self) -> tuple[tuple[str, str, str], ...]:
        """Every successful bind in order: the pod's key and UID, and the node."""
        return tuple(self.store.bindings)

    def finish_deletion(self, pod: api.Pod) -> None:
        """Let a pod that was asked to end be gone."""
        found = self.store.get(api.Pod, pod.key)
        if found is not None and found.uid == pod.uid:
            self.store.delete(found)

    # --- trouble ------------------------------------------------------------------------------------------------------

    def fail(
        self,
        call: str,
        error: Exception | Callable[[], Exception] | None = None,
        *,
        times: float | None = None,
        probability: float = 1.0,
        answer_lost: bool = False,
    ) -> None:
        """Make a call fail; see `Disturbances.fail`."""
        self.disturbances.fail(call, error, times=times, probability=probability, answer_lost=answer_lost)

    def delay(self, call: str, seconds: float | Callable[[], float]) -> None:
        """Make a call take this long; see `Disturbances.delay`."""
        self.disturbances.delay(call, seconds)

    def pause(self, call: str = ANY) -> None:
        """Let calls hang until `resume`."""
        self.disturbances.pause(call)

    def resume(self, call: str = ANY) -> None:
        """Let the calls go on that hang since `pause`."""
        self.disturbances.resume(call)

    def heal(self) -> None:
        """End every disturbance."""
        self.disturbances.heal()

    def cut_watches(self, kind: type[api.Object] | None = None, error: Exception | None = None) -> None:
        """End open watches, as a restarting server does."""
        self.store.cut_watches(kind, error)

    def forget_history(self, kind: type[api.Object] | None = None) -> None:
        """Make a watch from an earlier version answer 410."""
        self.store.forget_history(kind)

    def bookmark(self, kind: type[api.Object] | None = None) -> None:
        """Tell open watches the version reached."""
        self.store.bookmark(kind)

    # --- the client protocol ------------------------------------------------------------------------------------------

    async def list(self, kind: type[api.Object]) -> Listing:
        return await self._answer("list", self.store.listing, kind)

    async def watch(self, kind: type[api.Object], resource_version: str) -> AsyncGenerator[WatchEvent, None]:
        self.calls["watch"] += 1
        await self.disturbances.before("watch")
        async with aclosing(self.store.watch(kind, resource_version)) as events:
            async for event in events:
                yield event

    async def read(self, kind: type[O], name: str, namespace: str = "") -> O:
        return await self._answer("read", self.store.read, kind, _key(namespace, name))

    async def bind(self, pod: api.Pod, node_name: str) -> None:
        await self._answer("bind", self.store.bind, pod, node_name)

    async def patch_pod_status(self, pod: api.Pod, patch: JSON) -> api.Pod:
        return await self._answer("patch_pod_status", self._patch_status, pod, patch)

    async def delete_pod(self, pod: api.Pod) -> None:
        await self._answer("delete_pod", self._delete_pod, pod)

    async def create_event(self, namespace: str, event: JSON) -> JSON:
        return await self._answer("create_event", self.store.create_event, namespace, event)

    async def patch_event(self, namespace: str, name: str, patch: JSON) -> JSON:
        return await self._answer("patch_event", self.store.patch_event, namespace, name, patch)

    async def merge_patch(self, kind: type[O], name: str, patch: JSON, namespace: str = "") -> O:
        return await self._answer("merge_patch", self.store.patch, kind, _key(namespace, name), patch)

    async def get_lease(self, namespace: str, name: str) -> JSON:
        return await self._answer("get_lease", self.store.get_lease, namespace, name)

    async def create_lease(self, namespace: str, lease: JSON) -> JSON:
        return await self._answer("create_lease", self.store.create_lease, namespace, lease)

    async def update_lease(self, namespace: str, name: str, lease: JSON) -> JSON:
        return await self._answer("update_lease", self.store.update_lease, namespace, name, lease)

    async def _answer(self, call: str, act: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        self.calls[call] += 1
        if self.disturbances.calm:
            return act(*args, **kwargs)
        await self.disturbances.before(call)
        result = act(*args, **kwargs)
        await self.disturbances.after(call)
        return result

    def _patch_status(self, pod: api.Pod, patch: JSON) -> api.Pod:
        """A sub-resource takes only its own part of the patch, and the identity that the patch claims."""
        body: JSON = {part: patch[part] for part in ("metadata", "status") if part in patch}
        return self.store.patch(api.Pod, pod.key, body, strategic=True)

    def _delete_pod(self, pod: api.Pod) -> None:
        found = self.store.get(api.Pod, pod.key)
        if found is None or not found.spec.node_name or self.deletion_takes <= 0:
            self.store.delete(pod)
            return
        self.store.mark_for_deletion(pod)
        if self.deletion_takes < math.inf and not found.is_terminating:
            asyncio.get_running_loop().call_later(self.deletion_takes, self.finish_deletion, found)


def _key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name
