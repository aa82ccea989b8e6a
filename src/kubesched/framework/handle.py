"""What a plugin may use of the scheduler that it runs in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kubesched.api import objects as api
from kubesched.base.clock import Clock
from kubesched.base.features import Features
from kubesched.base.log import SILENT, Log
from kubesched.cluster.nominations import Nominations
from kubesched.cluster.state import ClusterState

if TYPE_CHECKING:
    from kubesched.framework.what_if import WhatIf


T = TypeVar("T")
O = TypeVar("O", bound=api.Object)  # noqa: E741  # the one-letter name for "some kind of object"


class ApiClient(Protocol):
    """The calls that a plugin may make to the API server, in PreBind, Bind, PostBind and background tasks.

    A kind is a class: `kubesched.Pod`, `kubesched.Node`, or one of the plugin's own, derived from `kubesched.Object`.

    Each call raises an `ApiError` when the server refuses it and an `OSError` when the server cannot be reached. If the
    plugin does not catch them, the attempt fails and the pod is tried again.
    """

    async def read(self, kind: type[O], name: str, namespace: str = "") -> O:
        """One object as it is now, which may be newer than in `handle.cluster`."""
        ...

    async def list(self, kind: type[O]) -> Sequence[O]:
        """All objects of a kind, in every namespace; of pods, those that have not ended."""
        ...

    async def create_object(self, kind: type[O], body: dict[str, Any], namespace: str = "") -> O:
        """Create an object from its JSON, apiVersion and kind left out; returns what was stored."""
        ...

    async def merge_patch(
        self, kind: type[O], name: str, patch: dict[str, Any], namespace: str = "", *, subresource: str = ""
    ) -> O:
        """Change fields of an object, or of its subresource, as ``kubectl patch --type=merge`` does; returns what was
        stored."""
        ...

    async def delete_object(self, kind: type[O], name: str, namespace: str = "") -> None:
        """Delete an object."""
        ...

    async def bind(self, pod: api.Pod, node_name: str) -> None:
        """Create the pod's Binding."""
        ...

    async def patch_pod_status(self, pod: api.Pod, patch: dict[str, Any]) -> api.Pod:
        """Apply a strategic merge patch to a pod's status; returns what was stored."""
        ...

    async def delete_pod(self, pod: api.Pod) -> None:
        """Delete the pod with this UID."""
        ...

    async def bind_volume(
        self, name: str, claim_ref: api.ObjectReference, annotations: Mapping[str, str], resource_version: str
    ) -> api.PersistentVolume:
        """Set a volume's claimRef and annotations, if it has this version still; returns what was stored."""
        ...

    async def annotate_claim(
        self, namespace: str, name: str, annotations: Mapping[str, str], resource_version: str
    ) -> api.PersistentVolumeClaim:
        """Set a claim's annotations, if it has this version still; returns what was stored."""
        ...

    def one_at_a_time(self, uid: str) -> AbstractAsyncContextManager[None]:
        """For ``async with``: only one task at a time gets in for the same UID. For an object that several pods change
        at the same time, so that their writes do not conflict."""
        ...


class WaitingPod(Protocol):
    """A pod that has a node and waits for Permit plugins to allow it."""

    @property
    def pod(self) -> api.Pod:
        """The pod, as if it were on its node."""
        ...

    @property
    def pending_plugins(self) -> Collection[str]:
        """The plugins that have not allowed it yet."""
        ...

    def allow(self, plugin: str) -> None:
        """Allow the pod for a plugin. Once all plugins have allowed it, its binding goes on."""
        ...

    def reject(self, plugin: str, message: str = "") -> bool:
        """Send the pod back to the queue; False if it was allowed or rejected already."""
        ...


class WaitingPods(Protocol):
    """All pods that wait on Permit, of every profile."""

    def __iter__(self) -> Iterator[WaitingPod]: ...
    def __len__(self) -> int: ...

    def get(self, uid: str) -> WaitingPod | None:
        """The waiting pod with this UID."""
        ...


class RecordEvent(Protocol):
    """Creates Events about pods, in the name of one profile."""

    def __call__(
        self, regarding: api.Pod, kind: str, reason: str, action: str, note: str, related: api.Pod | None = None
    ) -> None:
        """Record an event; `kind` is Normal or Warning."""
        ...


class ClaimMetrics(Protocol):
    """Counts what happens to resource claims."""

    def claim_created(self, status: str) -> None:
        """A claim was to be created: "success" or "failure"."""
        ...

    def device_awaited(self, profile: str, driver: str, status: str, seconds: float) -> None:
        """A pod has waited for the devices of a claim, one of which is this driver's."""
        ...

    def conditions_used(self, profile: str, driver: str, status: str) -> None:
        """A device with binding conditions was part of an attempt."""
        ...


class NoClaimMetrics:
    """Counts nothing."""

    def claim_created(self, status: str) -> None: ...
    def device_awaited(self, profile: str, driver: str, status: str, seconds: float) -> None: ...
    def conditions_used(self, profile: str, driver: str, status: str) -> None: ...


Activate = Callable[[Iterable[api.Pod]], None]
Spawn = Callable[[Coroutine[Any, Any, None]], object]

NOT_YET = "it is there once all plugins of the profile are made: use it in a method, not in __init__"
NOT_HERE = "decisions alone, as in a replay or in check_plugin, come without an API server and without time"


class NoWaitingPods:
    """No pod waits on Permit."""

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def get(self, uid: str) -> WaitingPod | None:
        return None


def no_activation(pods: Iterable[api.Pod]) -> None:
    """Activates nothing: there is no queue."""


def no_event(
    profile: str, regarding: api.Pod, kind: str, reason: str, action: str, note: str, related: api.Pod | None = None
) -> None:
    """Records nothing."""


@dataclass(frozen=True, slots=True)
class Services:
    """What a running scheduler offers to the plugins of all profiles."""

    client: ApiClient | None = None
    clock: Clock | None = None
    spawn: Spawn | None = None
    log: Log = SILENT
    event: Callable[..., None] = no_event
    """Records an event in the name of the profile that is its first argument."""
    waiting_pods: WaitingPods = field(default_factory=NoWaitingPods)
    activate: Activate = no_activation
    claim_metrics: ClaimMetrics = field(default_factory=NoClaimMetrics)


Choose = Callable[[Sequence[int]], int]
"""Chooses one of several rows."""


class Handle:
    """The scheduler as a plugin sees it.

    A replay or a what-if decides without an API server and without time. Then `client`, `clock` and `spawn` are
    missing, the log is silent and no pod waits.
    """

    def __init__(
        self,
        cluster: ClusterState,
        random: Random,
        profile_name: str = "default-scheduler",
        *,
        services: Services | None = None,
        what_if: Callable[[], WhatIf | None] = lambda: None,
        choose: Choose | None = None,
    ) -> None:
        self.cluster = cluster
        self.random = random
        self.choose = choose
        """Chooses between equal rows where a replay follows a recording; usually None: what is random is random."""
        self.profile_name = profile_name
        self._services = services = Services() if services is None else services
        self._what_if = what_if
        self.log = services.log
        self.recorder: RecordEvent = partial(services.event, profile_name)
        """Creates Events about pods."""
        self.waiting_pods = services.waiting_pods
        self.claim_metrics = services.claim_metrics
        self.activate = services.activate
        """Have pods tried as soon as possible, whatever they wait for."""

    @property
    def client(self) -> ApiClient:
        """The calls that a plugin may make to the API server."""
        return _present("client", self._services.client, NOT_HERE)

    @property
    def clock(self) -> Clock:
        """Time, real or virtual."""
        return _present("clock", self._services.clock, NOT_HERE)

    @property
    def spawn(self) -> Spawn:
        """Start a background task, for example from Permit, which must return at once. What it raises is logged. It
        ends with the scheduler."""
        return _present("spawn", self._services.spawn, NOT_HERE)

    @property
    def what_if(self) -> WhatIf:
        """Suppose pods were added or removed, and run the profile's Filter plugins on the result: for preemption."""
        return _present("what_if", self._what_if(), NOT_YET)

    @property
    def features(self) -> Features:
        """The feature gates of this scheduler."""
        return self.cluster.features

    @property
    def nominations(self) -> Nominations:
        """The pods that are nominated to nodes."""
        return self.cluster.nominations


def _present(name: str, value: T | None, reason: str) -> T:
    if value is None:
        raise AttributeError(f"there is no handle.{name} here: {reason}")
    return value
