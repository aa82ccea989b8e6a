"""What a plugin may use of the scheduler it runs in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

from kubesched.api import objects as api
from kubesched.base.clock import Clock
from kubesched.base.features import Features
from kubesched.base.log import Log, SilentLog
from kubesched.cluster.cluster import Cluster
from kubesched.cluster.nominations import Nominations

if TYPE_CHECKING:
    from kubesched.framework.runtime import Framework


O = TypeVar("O", bound=api.Object)  # noqa: E741  # the one-letter name for "some kind of object"


class ApiClient(Protocol):
    """What a plugin may ask of the API server, in PreBind, Bind, PostBind and whatever it spawns.

    A kind is a class: `kubesched.Pod`, `kubesched.Node`, or one of the plugin's own, derived from `kubesched.Object`.

    Each call raises an `ApiError` when the server refuses and an `OSError` when it is out of reach. To a plugin that
    lets them pass, the attempt fails and the pod is tried again.
    """

    async def read(self, kind: type[O], name: str, namespace: str = "") -> O:
        """One object as it is now, which may be newer than what `handle.cluster` has heard of."""
        ...

    async def list(self, kind: type[O]) -> Sequence[O]:
        """All objects of a kind, in every namespace; of pods, those that have not ended."""
        ...

    async def merge_patch(self, kind: type[O], name: str, patch: dict[str, Any], namespace: str = "") -> O:
        """Change fields of an object as ``kubectl patch --type=merge`` does; answers with what was stored."""
        ...

    async def bind(self, pod: api.Pod, node_name: str) -> None:
        """Create the pod's Binding."""
        ...

    async def patch_pod_status(self, pod: api.Pod, patch: dict[str, Any]) -> api.Pod:
        """Apply a strategic merge patch to a pod's status; answers with what was stored."""
        ...

    async def delete_pod(self, pod: api.Pod) -> None:
        """Delete the pod with this UID."""
        ...

    async def bind_volume(
        self, name: str, claim_ref: api.ObjectReference, annotations: Mapping[str, str], resource_version: str
    ) -> api.PersistentVolume:
        """Set a volume's claimRef and annotations, if it has this version still; answers with what was stored."""
        ...

    async def annotate_claim(
        self, namespace: str, name: str, annotations: Mapping[str, str], resource_version: str
    ) -> api.PersistentVolumeClaim:
        """Set a claim's annotations, if it has this version still; answers with what was stored."""
        ...


class WaitingPod(Protocol):
    """A pod that has a node and waits for Permit plugins to let it go there."""

    @property
    def pod(self) -> api.Pod:
        """The pod, as if it were on its node."""
        ...

    @property
    def pending_plugins(self) -> Collection[str]:
        """The plugins that have not allowed it yet."""
        ...

    def allow(self, plugin: str) -> None:
        """Say yes for a plugin; the last yes lets the pod go on."""
        ...

    def reject(self, plugin: str, message: str = "") -> bool:
        """Send the pod back to the queue; False if it has been decided already."""
        ...


class WaitingPods(Protocol):
    """All pods that wait on Permit, of every profile."""

    def __iter__(self) -> Iterator[WaitingPod]: ...
    def __len__(self) -> int: ...

    def get(self, uid: str) -> WaitingPod | None:
        """The waiting pod with this UID."""
        ...


class Recorder(Protocol):
    """Makes Events of what happens to pods, in the name of one profile."""

    def __call__(
        self, regarding: api.Pod, kind: str, reason: str, action: str, note: str, related: api.Pod | None = None
    ) -> None:
        """Record an event; `kind` is Normal or Warning."""
        ...


Activate = Callable[[Iterable[api.Pod]], None]
Spawn = Callable[[Coroutine[Any, Any, None]], object]


NOT_YET = {"framework": "it is there once all plugins of the profile are made: use it in a method, not in __init__"}
NOT_HERE = "decisions alone, as in a replay or in check_plugin, come without an API server and without time"


class Handle:
    """The scheduler as a plugin sees it.

    Decisions alone, as in a replay or a what-if, come without an API server and without time. Then only `cluster`,
    `random`, `profile_name` and `framework` are there, the log is silent and nobody waits.
    """

    framework: Framework
    """The profile this plugin runs in, with its other plugins; set once all of them are made."""
    client: ApiClient
    """What a plugin may ask of the API server."""
    clock: Clock
    spawn: Spawn
    """Start something that nobody waits for: what Permit, which answers at once, needs time for. What it raises is
    logged, and it ends with the scheduler."""

    def __init__(self, cluster: Cluster, random: Random, profile_name: str = "default-scheduler") -> None:
        self.cluster = cluster
        self.random = random
        self.profile_name = profile_name
        self.log: Log = SilentLog()
        self.recorder: Recorder = no_event
        self.waiting_pods: WaitingPods = NobodyWaits()
        self.activate: Activate = no_activation
        """Have pods tried as soon as possible, whatever they wait for."""

    if not TYPE_CHECKING:  # a type checker that saw this would let every name pass

        def __getattr__(self, name: str) -> NoReturn:
            """Says why something is not there."""
            if name not in Handle.__annotations__:
                raise AttributeError(f"a handle has no {name}")
            raise AttributeError(f"there is no handle.{name} here: {NOT_YET.get(name, NOT_HERE)}")

    @property
    def features(self) -> Features:
        """The feature gates of this scheduler."""
        return self.cluster.features

    @property
    def nominations(self) -> Nominations:
        """Which pods have been promised which node."""
        return self.cluster.nominations


class NobodyWaits:
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
    regarding: api.Pod, kind: str, reason: str, action: str, note: str, related: api.Pod | None = None
) -> None:
    """Records nothing."""
