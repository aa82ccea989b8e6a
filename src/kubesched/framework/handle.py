"""What a plugin may use of the scheduler it runs in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from kubesched.api import objects as api
from kubesched.cluster.cluster import Cluster
from kubesched.cluster.nominations import Nominations

if TYPE_CHECKING:
    from kubesched.framework.runtime import Framework


class Clock(Protocol):
    """Time, real or simulated."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds, from wherever the clock counts."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let this much time pass."""
        ...


class Log(Protocol):
    """Takes a structured message with klog's verbosity; -1 is an error."""

    def __call__(self, level: int, message: str, /, **fields: object) -> None:
        """Say something."""
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


class Handle:
    """The scheduler as a plugin sees it.

    Decisions alone, as in a replay or a what-if, come without an API server and without time. Then only `cluster`,
    `random`, `profile_name` and `framework` are there, the log is silent and nobody waits.
    """

    def __init__(self, cluster: Cluster, random: Random, profile_name: str = "default-scheduler") -> None:
        self.cluster = cluster
        self.random = random
        self.profile_name = profile_name
        self.framework: Framework
        """The profile this plugin runs in; set once all its plugins are made."""
        self.client: Any = None
        """What a plugin may ask of the API server."""
        self.clock: Clock
        self.log: Log = no_log
        self.recorder: Recorder = no_event
        self.waiting_pods: WaitingPods = NobodyWaits()
        self.activate: Activate = no_activation
        """Have pods tried as soon as possible, whatever they wait for."""

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


def no_log(level: int, message: str, /, **fields: object) -> None:
    """Says nothing."""


def no_event(
    regarding: api.Pod, kind: str, reason: str, action: str, note: str, related: api.Pod | None = None
) -> None:
    """Records nothing."""
