"""Notes everything that decisions depend on, in order, so that a replay makes the same ones.

A decision follows from the cluster events that were handled before it, the responses to the scheduler's own calls, the
turns of tasks, the order of attempts, random choices, and the time at which the attempt started. The journal notes each
of these when it takes effect. While there is a journal, the random generator gets a new seed for each attempt, which is
noted too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Protocol, TypeVar

from kubesched.api import objects as api
from kubesched.base.clock import Clock
from kubesched.base.types import JSON
from kubesched.client.protocol import ApiError, Client, O
from kubesched.queue.pods import QueuedPodInfo
from kubesched.scheduler.attempt import Attempt
from kubesched.scheduler.inbox import Inbox
from kubesched.scheduler.subscribers.publisher import Subscriber

T = TypeVar("T")
Handle = Callable[[api.Object | None, api.Object | None], None]


class JournalOutput(Protocol):
    """Where a journal is written. Times are those of the scheduler's monotonic clock."""

    def event(self, old: api.Object | None, new: api.Object | None, moment: float) -> None:
        """A cluster event is about to be handled."""

    def attempt(self, attempted: JSON, moment: float) -> None:
        """A pod has left the queue."""

    def decision(self, decided: JSON, moment: float) -> None:
        """The attempt has found a node, or none."""

    def call(self, called: JSON, result: api.Object | None, moment: float) -> None:
        """The API server has responded."""

    def turn(self, taken: JSON, moment: float) -> None:
        """A task beside the scheduling cycles goes on."""


class PodCycle(Protocol):
    """Tries one pod, or one group of pods."""

    @property
    def may_wait(self) -> bool: ...

    async def run(self, queued: QueuedPodInfo) -> None: ...


class Journal(Subscriber):
    """Notes what happens to one scheduler."""

    def __init__(self, output: JournalOutput, clock: Clock, seeds: Random) -> None:
        self._output = output
        self._clock = clock
        self._seeds = seeds
        self._popped: JSON | None = None
        """A pod that has left the queue and is not noted yet."""

    def receiver(self, inbox: Inbox, handle: Handle) -> Handle:
        """A receiver of cluster events that notes each when it is handled."""

        def noted(old: api.Object | None, new: api.Object | None) -> None:
            self._output.event(old, new, self._clock.monotonic())
            handle(old, new)

        def receive(old: api.Object | None, new: api.Object | None) -> None:
            inbox.put(noted, old, new)

        return receive

    def around(self, cycle: PodCycle, random: Random) -> PodCycle:
        """A cycle that seeds the generator and notes the pod first."""
        return _NotedCycle(cycle, self, random)

    def popped(self, queued: QueuedPodInfo, random: Random) -> None:
        """A pod has left the queue. It is noted with the time at which its attempt starts."""
        seed = self._seeds.getrandbits(48)
        random.seed(seed)
        self._popped = {"pod": queued.pod.key, "uid": queued.uid, "seed": seed}

    def note_popped(self, moment: float | None = None) -> None:
        """Note the pod that left the queue, if that has not been done."""
        if self._popped is not None:
            self._output.attempt(self._popped, self._clock.monotonic() if moment is None else moment)
            self._popped = None

    def called(self, called: JSON, result: api.Object | None) -> None:
        """The API server has responded to a call."""
        moment = self._clock.monotonic()
        self.note_popped(moment)
        self._output.call(called, result, moment)

    async def take(self, what: str, name: str) -> None:
        """A task beside the scheduling cycles goes on (see `turns`)."""
        moment = self._clock.monotonic()
        self.note_popped(moment)
        self._output.turn({"turn": what, "name": name}, moment)

    # --- stages of an attempt -----------------------------------------------------------------------------------------

    def started(self, attempt: Attempt) -> None:
        self.note_popped(attempt.started)

    def searched(self, attempt: Attempt) -> None:
        self.note_popped(attempt.started)
        self._output.decision(decision_of(attempt), self._clock.monotonic())


def decision_of(attempt: Attempt) -> JSON:
    """What an attempt decided. Two decisions are the same if all of it is."""
    found: JSON = {
        "pod": attempt.pod.key,
        "uid": attempt.pod.uid,
        "outcome": attempt.outcome.value,
        "node": attempt.node,
        "evaluated": attempt.evaluated,
        "feasible": attempt.feasible,
    }
    if attempt.best_rows is not None:
        found["best"] = len(attempt.best_rows)  # how many nodes were equally good
    if attempt.message:
        found["message"] = attempt.message
    made = attempt.post_filter
    if made is not None and made.nominated_node_name:
        found["nominated"] = made.nominated_node_name
        found["victims"] = sorted(victim.pod.key for victim in made.victims)
    return found


class _NotedCycle:
    def __init__(self, cycle: PodCycle, journal: Journal, random: Random) -> None:
        self._cycle = cycle
        self._journal = journal
        self._random = random

    @property
    def may_wait(self) -> bool:
        return self._cycle.may_wait

    async def run(self, queued: QueuedPodInfo) -> None:
        self._journal.popped(queued, self._random)
        try:
            await self._cycle.run(queued)
        finally:
            # A pod that is skipped has no attempt.
            self._journal.note_popped()


class NotedClient:
    """A client whose responses to reads and writes are noted. Lists, watches, events and leases are not."""

    def __init__(self, client: Client, called: Callable[[JSON, api.Object | None], None]) -> None:
        self._client = client
        self._called = called
        self._under_way: dict[CallKey, list[object]] = {}
        """Calls that have no response yet, in the order in which they were made."""
        self.list = client.list
        self.watch = client.watch
        self.create_event = client.create_event
        self.patch_event = client.patch_event
        self.get_lease = client.get_lease
        self.create_lease = client.create_lease
        self.update_lease = client.update_lease

    async def read(self, kind: type[O], name: str, namespace: str = "") -> O:
        return await self._noted(call_key("read", kind, name, namespace), self._client.read(kind, name, namespace))

    async def bind(self, pod: api.Pod, node_name: str) -> None:
        await self._noted(call_key("bind", api.Pod, pod.name, pod.namespace), self._client.bind(pod, node_name))

    async def patch_pod_status(self, pod: api.Pod, patch: JSON) -> api.Pod:
        key = call_key("patch_pod_status", api.Pod, pod.name, pod.namespace)
        return await self._noted(key, self._client.patch_pod_status(pod, patch))

    async def delete_pod(self, pod: api.Pod) -> None:
        await self._noted(call_key("delete_pod", api.Pod, pod.name, pod.namespace), self._client.delete_pod(pod))

    async def create_object(self, kind: type[O], body: JSON, namespace: str = "") -> O:
        key = call_key("create_object", kind, created_name(body), namespace)
        return await self._noted(key, self._client.create_object(kind, body, namespace))

    async def merge_patch(self, kind: type[O], name: str, patch: JSON, namespace: str = "", subresource: str = "") -> O:
        key = call_key("merge_patch", kind, name, namespace)
        return await self._noted(key, self._client.merge_patch(kind, name, patch, namespace, subresource))

    async def delete_object(self, kind: type[O], name: str, namespace: str = "") -> None:
        key = call_key("delete_object", kind, name, namespace)
        await self._noted(key, self._client.delete_object(kind, name, namespace))

    async def _noted(self, key: CallKey, call: Awaitable[T]) -> T:
        this = object()
        self._under_way.setdefault(key, []).append(this)
        try:
            result = await call
        except ApiError as problem:
            error = {"code": problem.code, "reason": problem.reason, "message": problem.message}
            self._called({**self._response_to(key, this), "error": error}, None)
            raise
        except OSError as problem:
            self._called({**self._response_to(key, this), "error": {"message": str(problem)}}, None)
            raise
        except BaseException:
            self._response_to(key, this)
            raise
        self._called(self._response_to(key, this), result if isinstance(result, api.Object) else None)
        return result

    def _response_to(self, key: CallKey, call: object) -> JSON:
        """What a response belongs to. `before` is how many calls with the same key were made earlier and have no
        response yet: two preemptions may delete the same victim."""
        calls = self._under_way[key]
        before = calls.index(call)
        del calls[before]
        if not calls:
            del self._under_way[key]
        called: JSON = dict(zip(("call", "kind", "name"), key, strict=True))
        return {**called, "before": before} if before else called


CallKey = tuple[str, str, str]
"""The method, the kind, and the object's namespace and name."""


def call_key(call: str, kind: type[api.Object], name: str, namespace: str) -> CallKey:
    """What a response belongs to."""
    return call, kind.kind or kind.__name__, f"{namespace}/{name}" if namespace else name


def created_name(body: JSON) -> str:
    """The name of an object that is to be created, or the prefix of a generated name."""
    meta: dict[str, Any] = body.get("metadata") or {}
    return str(meta.get("name") or meta.get("generateName") or "")
