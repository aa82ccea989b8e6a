"""VolumeBinding's PreBind: what it writes, what it waits for, and how it fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from tests.builders import ZONE, cluster, node, pod
from tests.plugins.volumes.storage import Harness, claim, classes, csi_node, selects, volume

from kubesched.api import objects as api
from kubesched.cluster.state import ClusterState
from kubesched.config.args import VolumeBindingArgs
from kubesched.framework.handle import Services
from kubesched.framework.state import CycleState
from kubesched.framework.status import Code, Status
from kubesched.plugins.volume_binding import VolumeBinding

BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"


class FakeApi:
    """An API server and the clock of its world. Something may happen to the cluster whenever time passes."""

    def __init__(self, cluster: ClusterState) -> None:
        self.cluster = cluster
        self.calls: list[tuple[Any, ...]] = []
        self.refuse: str = ""
        self.time = 0.0
        self.meanwhile: Callable[[float], None] = lambda now: None

    async def bind_volume(
        self, name: str, claim_ref: api.ObjectReference, annotations: Mapping[str, str], resource_version: str
    ) -> api.PersistentVolume:
        self._called("bind", name, claim_ref.name, dict(annotations), resource_version)
        old = self.cluster.get(api.PersistentVolume, name)
        assert old is not None
        spec = msgspec.structs.replace(old.spec, claim_ref=claim_ref)
        return msgspec.structs.replace(old, spec=spec, metadata=_newer(old.metadata, annotations))

    async def annotate_claim(
        self, namespace: str, name: str, annotations: Mapping[str, str], resource_version: str
    ) -> api.PersistentVolumeClaim:
        self._called("annotate", f"{namespace}/{name}", dict(annotations), resource_version)
        old = self.cluster.get(api.PersistentVolumeClaim, f"{namespace}/{name}")
        assert old is not None
        return msgspec.structs.replace(old, metadata=_newer(old.metadata, annotations))

    def _called(self, *call: Any) -> None:
        if self.refuse == call[1]:
            raise ConnectionError(f"{call[1]} was changed by somebody else")
        self.calls.append(call)

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        self.meanwhile(self.time)


def _newer(metadata: api.ObjectMeta, annotations: Mapping[str, str]) -> api.ObjectMeta:
    return msgspec.structs.replace(metadata, annotations={**metadata.annotations, **annotations}, resource_version="20")


class World:
    """A pod with a claim for a local volume and a claim to provision, reserved on node a."""

    def __init__(self, *objects: api.Object, timeout: int = 600) -> None:
        self.pod = pod("p", claims=["static", "dynamic"])
        self.cluster = cluster(
            node("a", zone="x"),
            *classes(),
            claim("static", storage_class="local", version="10"),
            claim("dynamic", version="10"),
            volume("v", version="10"),
            *objects,
        )
        self.api = FakeApi(self.cluster)
        services = Services(client=self.api, clock=self.api)  # type: ignore[arg-type]  # all that this plugin asks for
        self.asked = Harness(
            VolumeBinding, self.cluster, VolumeBindingArgs(bind_timeout_seconds=timeout), services=services
        )
        self.state = self.reserve(self.pod)

    def reserve(self, incoming: api.Pod) -> CycleState:
        """Take a pod as far as Reserve."""
        info = self.cluster.classes.info(incoming)
        state = CycleState(info.pod_class)
        assert self.asked.pre_filter(incoming, state) in (None, Status(Code.SKIP))
        if incoming.spec.volumes:
            assert not self.asked.filter(incoming, state=state)
        assert self.asked.plugin.reserve(state, incoming, "a") is None
        self.cluster.assume(info, "a")
        return state

    async def pre_bind(self) -> Status | None:
        """Run PreBind."""
        status = await self.asked.plugin.pre_bind(self.state, self.pod, "a")
        assert status is None or isinstance(status, Status)
        return status

    def finish(self, now: float = 0) -> None:
        """Do what the volume controllers do."""
        bound = {BIND_COMPLETED: "yes"}
        self.cluster.set(claim("static", storage_class="local", volume="v", annotations=bound, version="30"))
        self.cluster.set(self.written_volume())
        self.cluster.set(claim("dynamic", volume="new", annotations={**bound, SELECTED_NODE: "a"}, version="30"))
        self.cluster.set(volume("new", storage_class="wait"))

    def written_volume(self, **fields: Any) -> api.PersistentVolume:
        """The static volume after it was written."""
        reference = api.ObjectReference(namespace="default", name="static", uid="claim.static")
        return volume("v", **{"claimed_by": reference, "version": "20", **fields})


async def test_everything_is_written_and_waited_for() -> None:
    """Volumes first, then claims, each against the version it was decided on; done when both are bound."""
    world = World()
    world.api.meanwhile = lambda now: world.finish() if now >= 3 else None
    assert await world.pre_bind() is None
    assert world.api.calls == [
        ("bind", "v", "static", {BOUND_BY_CONTROLLER: "yes"}, "10"),
        ("annotate", "default/dynamic", {SELECTED_NODE: "a"}, "10"),
    ]
    assert world.api.time == 3


async def test_nothing_to_bind_is_nothing_to_do() -> None:
    """No calls, no waiting, for a pod without claims and for one whose claims are bound."""
    world = World(claim("bound", volume="w"), volume("w"))
    for incoming in (pod("none"), pod("done", claims=["bound"])):
        state = world.reserve(incoming)
        assert await world.asked.plugin.pre_bind(state, incoming, "a") is None
    assert not world.api.calls


async def test_without_pre_filter_the_attempt_fails_as_upstream() -> None:
    """There is no state to bind by."""
    world = World()
    status = await world.asked.plugin.pre_bind(world.asked.state(world.pod), world.pod, "a")
    assert (status.code, status.reasons) == (Code.ERROR, ("not found",))


async def test_it_gives_up_after_the_timeout() -> None:
    """With upstream's message, after the seconds in the arguments."""
    world = World(timeout=30)
    status = await world.pre_bind()
    assert status is not None
    assert (status.code, status.reasons) == (Code.ERROR, ("binding volumes: context deadline exceeded",))
    assert world.api.time == 30


async def test_a_timeout_of_zero_is_over_at_once() -> None:
    """The writes are made, nothing is waited for."""
    world = World(timeout=0)
    assert await world.pre_bind() is not None
    assert (len(world.api.calls), world.api.time) == (2, 0)


def is_free(world: World, name: str) -> bool:
    """Whether a claim or volume counts as its stored self again."""
    if name == "v":
        return not world.asked.reasons(pod("q", claims=["other"]))
    return SELECTED_NODE not in world.asked.plugin._claims.get("default/dynamic").annotations


@pytest.mark.parametrize("refused", ["v", "default/dynamic"])
async def test_unreserve_after_a_refused_write_takes_everything_back(refused: str) -> None:
    """Also a write that succeeded: the watch may never show it, if a backup is restored."""
    world = World(claim("other", storage_class="local"))
    world.api.refuse = refused
    status = await world.pre_bind()
    assert status is not None
    assert (status.code, status.reasons) == (Code.ERROR, (f"{refused} was changed by somebody else",))
    world.asked.plugin.unreserve(world.state, world.pod, "a")
    assert {name for name in ("v", "dynamic") if is_free(world, name)} == {"v", "dynamic"}


ELSEWHERE = selects((ZONE, "In", "y"))
MISMATCH = 'node affinity doesn\'t match node "a": no matching NodeSelectorTerms'


def _change(world: World, *objects: api.Object, gone: api.Object | None = None) -> None:
    """Everything comes good but for these objects."""
    world.finish()
    for each in objects:
        world.cluster.set(each)
    if gone is not None:
        world.cluster.remove(gone)


FAILURES: list[tuple[str, Callable[[World], None], str]] = [
    ("the node goes", lambda w: w.cluster.remove(node("a")), 'failed to get node "a": node "a" not found'),
    ("the pod goes", lambda w: w.cluster.remove(w.pod), 'pod does not exist any more: pod "p" not found'),
    (
        "the volume goes",
        lambda w: w.cluster.remove(volume("v")),
        'failed to check binding: persistentvolumes "v" not found',
    ),
    (
        "the claim goes",
        lambda w: w.cluster.remove(claim("static")),
        'failed to check binding: persistentvolumeclaims "default/static" not found',
    ),
    ("the volume moves", lambda w: _change(w, w.written_volume(affinity=ELSEWHERE)), f'pv "v" {MISMATCH}'),
    ("the volume is freed", lambda w: _change(w, w.written_volume(claimed_by=None)), 'ClaimRef got reset for pv "v"'),
    (
        "the claim to provision goes",
        lambda w: _change(w, gone=claim("dynamic")),
        'failed to check provisioning pvc: persistentvolumeclaims "default/dynamic" not found',
    ),
    (
        "all annotations go",
        lambda w: _change(w, claim("dynamic", version="30")),
        'selectedNode annotation reset for PVC "dynamic"',
    ),
    (
        "the provisioner gives up",
        lambda w: _change(w, claim("dynamic", version="30", annotations={"x": "y"})),
        'provisioning failed for PVC "dynamic"',
    ),
    (
        "the new volume is elsewhere",
        lambda w: _change(w, volume("new", storage_class="wait", affinity=ELSEWHERE)),
        f'pv "new" {MISMATCH}',
    ),
    (
        "the volume cannot be translated",
        lambda w: _change(
            w,
            csi_node("a", migrated=["kubernetes.io/azure-disk"]),
            w.written_volume(azure_disk=api.AzureDiskVolumeSource(kind="Dedicated")),
        ),
        "failed to translate pv to csi: could not translate pv: kind(Dedicated) is not supported in csi migration",
    ),
    (
        "the new volume cannot be translated",
        lambda w: _change(
            w,
            csi_node("a", migrated=["kubernetes.io/azure-disk"]),
            volume("new", azure_disk=api.AzureDiskVolumeSource(kind="Dedicated")),
        ),
        "could not translate pv: kind(Dedicated) is not supported in csi migration",
    ),
]


@pytest.mark.parametrize(("event", "problem"), [f[1:] for f in FAILURES], ids=[f[0] for f in FAILURES])
async def test_what_cannot_come_good_ends_the_wait(event: Callable[[World], None], problem: str) -> None:
    """The pod is scheduled again, at once and with upstream's reason."""
    world = World()
    world.api.meanwhile = lambda now: event(world)
    status = await world.pre_bind()
    assert status is not None
    assert (status.code, status.reasons) == (Code.ERROR, (f"binding volumes: {problem}",))
    assert world.api.time == 1


PATIENCE: list[tuple[str, Callable[[World], None]]] = [
    ("our volume has not come back", lambda w: _change(w, w.written_volume(version="19"))),
    ("our claim has not come back", lambda w: _change(w, claim("dynamic", version="19"))),
    ("the claim is not bound", lambda w: _change(w, claim("static", storage_class="local", version="30"))),
    (
        "the new claim is not bound",
        lambda w: _change(w, claim("dynamic", version="30", annotations={SELECTED_NODE: "a"})),
    ),
    ("the new volume is not known", lambda w: _change(w, gone=volume("new"))),
]


@pytest.mark.parametrize("event", [p[1] for p in PATIENCE], ids=[p[0] for p in PATIENCE])
async def test_what_may_come_good_is_waited_for(event: Callable[[World], None]) -> None:
    """Events and controllers are slow."""
    world = World()
    world.api.meanwhile = lambda now: event(world) if now < 5 else world.finish()
    assert await world.pre_bind() is None
    assert world.api.time == 5
