"""Simulated nodes: registration, status, images and heartbeats."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from kubesched.apiserver.wire.status import StatusError
from kubesched.base.annotations import DEVICES, KUBELET, NODE_LOAD
from kubesched.base.load_text import load_parts
from kubesched.base.types import JSON
from kubesched.config.errors import suggest
from kubesched.kubelet.addresses import Addresses
from kubesched.kubelet.behavior import PREFIX
from kubesched.kubelet.devices import DevicePublisher, DeviceTextError
from kubesched.kubelet.images import full_image, image_digest, image_size
from kubesched.reconcile.access import LEASES, NODES
from kubesched.reconcile.conditions import set_condition
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.events import reference
from kubesched.reconcile.loop import Controller
from kubesched.reconcile.views import Node, Pod

LEASE_NAMESPACE = "kube-node-lease"
MAX_HEARTBEATS = 100
"""Maximum number of leases renewed per second. With more nodes, each one reports less often."""
STATUS_SECONDS = 300.0
VERSION = "v1.36.0"
MAX_IMAGES = 50
_HEALTHY = {
    "MemoryPressure": ("False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    "Ready": ("True", "KubeletReady", "kubelet is posting ready status"),
}


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """The capacity of nodes that do not specify it, and the interval of heartbeats."""

    cpu: str = "4"
    memory: str = "8Gi"
    pods: str = "110"
    storage: str = "100Gi"
    devices: str = ""
    """The simulated devices of nodes without an annotation for them; see `kubelet.devices`."""
    heartbeat: float = 10.0
    """Seconds between heartbeats; 0 for none, which saves a long simulation most of its writes."""


class SimulatedNodes(Controller):
    """All simulated nodes."""

    name = "kubelet"

    def __init__(self, context: ControllerContext, settings: NodeSettings) -> None:
        super().__init__(context.loop)
        self._context = context
        self._access = context.access
        self._settings = settings
        self.addresses = Addresses(context)
        self._images: dict[str, dict[str, None]] = {}
        self._leases: dict[str, JSON] = {}
        self._status_at: dict[str, float] = {}
        self._up: set[str] = set()
        self.on_change: Callable[[Node], None] = _ignore
        """Called with a node whose kubelet has started or stopped."""
        self._devices = DevicePublisher(self._access, settings.devices, self.enqueue)
        context.nodes.watch(self._on_node)

    # --- registration ----------------------------------------------------------------------------------------------

    def create(self, name: str, labels: dict[str, str] | None = None, taints: Sequence[JSON] = ()) -> None:
        """Register a node like a kubelet. An existing node is left alone."""
        spec = {"taints": [dict(taint) for taint in taints]} if taints else {}
        body: JSON = {"metadata": {"name": name, "labels": dict(labels or {})}, "spec": spec, "status": {}}
        self._complete(body)
        self._status(body)
        try:
            self._access.create(NODES, body)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise

    def is_up(self, name: str) -> bool:
        """Whether a node exists and its kubelet works."""
        return name in self._up

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            assert old is not None
            self._drop(old.metadata.name)
            return
        fresh = old is None or old.metadata.uid != new.metadata.uid
        before = not fresh and new.metadata.name in self._up
        runs = not new.kubelet_stopped
        if fresh or before != runs or (old is not None and self._has_other_wishes(old, new)):
            self.enqueue(new.metadata.name)

    def _has_other_wishes(self, old: Node, new: Node) -> bool:
        """Whether other devices are wanted, or one of our annotations has changed."""
        if _wishes(old) != _wishes(new):
            return True
        return old.status.devices != new.status.devices or self._devices.text_of(old) != self._devices.text_of(new)

    def _drop(self, name: str) -> None:
        self._up.discard(name)
        self.addresses.forget(name)
        for known in (self._images, self._leases, self._status_at):
            known.pop(name, None)

    def sync(self, key: str) -> None:
        """Start or stop a kubelet."""
        node = self._context.nodes.get(key)
        if node is None:
            return
        for problem in _annotation_problems(node):
            self._record(key, "Warning", "InvalidAnnotation", problem)
        if node.kubelet_stopped:
            self._up.discard(key)
        elif key not in self._up:
            self._register(key)
            self._up.add(key)
            self._beat(key)
            self._record(key, "Normal", "Starting", "Starting kubelet.")
        else:
            self._access.edit_status(NODES, key, _follow_capacity)
        if not node.kubelet_stopped:
            self._publish_devices(key)
        self.on_change(self._context.nodes.objects[key])

    def _register(self, name: str) -> None:
        node = self._access.get(NODES, name)
        assert node is not None
        self._images[name] = {
            each: None for image in (node.get("status") or {}).get("images") or [] for each in image.get("names") or []
        }
        if not _is_complete(node):
            self._access.edit(NODES, name, self._complete, manager="kubelet")
        self._write_status(name)

    def _complete(self, node: JSON) -> None:
        labels = node["metadata"].get("labels") or {}
        own = {
            "beta.kubernetes.io/arch": "amd64",
            "beta.kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "kubernetes.io/hostname": node["metadata"]["name"],
            "kubernetes.io/os": "linux",
        }
        node["metadata"]["labels"] = {**own, **labels}
        spec = node.setdefault("spec", {})
        if not spec.get("podCIDR"):
            spec["podCIDR"] = self.addresses.subnet(node["metadata"]["name"])
            spec["podCIDRs"] = [spec["podCIDR"]]

    def _write_status(self, name: str) -> None:
        self._status_at[name] = self._access.clock.monotonic()
        self._access.edit_status(NODES, name, self._status)

    def _status(self, node: JSON) -> None:
        name, status, now = node["metadata"]["name"], node["status"], self._access.now()
        settings = self._settings
        given = status.get("capacity") or status.get("allocatable") or {}
        defaults = {
            "cpu": settings.cpu,
            "ephemeral-storage": settings.storage,
            "memory": settings.memory,
            "pods": settings.pods,
        }
        status["capacity"] = {**defaults, **given}
        status["allocatable"] = {**status["capacity"], **(status.get("allocatable") or {})}
        conditions = list(status.get("conditions") or [])
        for kind, (value, reason, message) in _HEALTHY.items():
            new = {"type": kind, "status": value, "lastHeartbeatTime": now, "reason": reason, "message": message}
            conditions = set_condition(conditions, new, now)
        status["conditions"] = conditions
        status.setdefault(
            "addresses",
            [{"type": "InternalIP", "address": self.addresses.node(name)}, {"type": "Hostname", "address": name}],
        )
        status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 10250}})
        status.setdefault("nodeInfo", _node_info(name))
        status.setdefault("images", [])

    def _publish_devices(self, name: str) -> None:
        try:
            self._devices.publish(self._context.nodes.objects[name])
        except DeviceTextError as error:
            self._record(name, "Warning", "InvalidAnnotation", f"{DEVICES}: {error}")

    def _record(self, name: str, kind: str, reason: str, message: str) -> None:
        node = self._access.get(NODES, name) if self._context.events.enabled else None
        if node is not None:
            self._context.events.record("kubelet", {**reference(node), "uid": name}, kind, reason, message, host=name)

    # --- images -------------------------------------------------------------------------------------------------------

    def has_image(self, name: str, image: str) -> bool:
        return full_image(image) in self._images.get(name, ())

    def has_reported(self, name: str, images: Sequence[str]) -> None:
        """Take images of a node as reported. A replay has the recorded reports."""
        self._images.setdefault(name, {}).update(dict.fromkeys(map(full_image, images)))

    def pulled(self, pod: Pod) -> None:
        """Add the images of a pod to those of its node."""
        name = pod.spec.node_name
        known = self._images.setdefault(name, {})
        wanted = [full_image(each.image) for each in (*pod.spec.init_containers, *pod.spec.containers)]
        new = [image for image in dict.fromkeys(wanted) if image not in known]
        if not new:
            return
        known.update(dict.fromkeys(new))

        def edit(node: JSON) -> None:
            images = [{"names": [_digest_name(each), each], "sizeBytes": image_size(each)} for each in new]
            all_images = [*(node["status"].get("images") or []), *images]
            # As upstream: only the largest ones.
            node["status"]["images"] = sorted(all_images, key=lambda each: -each.get("sizeBytes", 0))[:MAX_IMAGES]

        self._access.edit_status(NODES, name, edit)

    # --- heartbeats ---------------------------------------------------------------------------------------------------

    @property
    def heartbeat(self) -> float:
        """Seconds between two heartbeats of a node."""
        return max(self._settings.heartbeat, len(self._up) / MAX_HEARTBEATS) if self._settings.heartbeat else 0.0

    async def run(self) -> None:
        """Renew the leases of all nodes, some of them each second."""
        if not self._settings.heartbeat:
            await asyncio.Event().wait()
        waiting: list[str] = []
        while True:
            await self._access.clock.sleep(1.0)
            if not waiting:
                waiting = sorted(self._up, key=self.addresses.number, reverse=True)
            for _ in range(min(len(waiting), math.ceil(len(self._up) / max(self.heartbeat, 1.0)))):
                if (name := waiting.pop()) in self._up:
                    self._beat(name)

    def _beat(self, name: str) -> None:
        if not self._settings.heartbeat:
            return
        node = self._context.nodes.get(name)
        if node is None:
            return
        lease = self._leases.get(name)
        if lease is None:
            lease = self._leases[name] = self._new_lease(node)
        now = datetime.fromtimestamp(self._access.clock.now(), UTC)
        lease["spec"]["renewTime"] = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        self._access.put(LEASES, f"{LEASE_NAMESPACE}/{name}", lease)
        overdue = self._access.clock.monotonic() - self._status_at.get(name, 0.0) >= STATUS_SECONDS
        if overdue or node.readiness != "True":
            self._write_status(name)

    def _new_lease(self, node: Node) -> JSON:
        owner = {"apiVersion": "v1", "kind": "Node", "name": node.metadata.name, "uid": node.metadata.uid}
        found = self._access.get(LEASES, f"{LEASE_NAMESPACE}/{node.metadata.name}")
        meta: JSON = {"name": node.metadata.name, "namespace": LEASE_NAMESPACE}
        known = (found or {}).get("metadata") or {}
        meta["uid"] = known.get("uid") or self._access.names.uid()
        meta["creationTimestamp"] = known.get("creationTimestamp") or self._access.now()
        meta["ownerReferences"] = [owner]
        spec = {"holderIdentity": node.metadata.name, "leaseDurationSeconds": 40}
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}


def _follow_capacity(node: JSON) -> None:
    """Make all extended resources in a node's capacity allocatable, and no others."""
    status = node["status"]
    devices = {name: amount for name, amount in (status.get("capacity") or {}).items() if "/" in name}
    native = {name: amount for name, amount in (status.get("allocatable") or {}).items() if "/" not in name}
    status["allocatable"] = {**native, **devices}


def _is_complete(node: JSON) -> bool:
    return "podCIDR" in (node.get("spec") or {}) and "kubernetes.io/hostname" in (node["metadata"].get("labels") or {})


def _digest_name(image: str) -> str:
    return f"{image.rpartition(':')[0]}@sha256:{image_digest(image)}"


def _node_info(name: str) -> JSON:
    identity = image_digest(name)[:32]
    return {
        "architecture": "amd64",
        "bootID": identity,
        "containerRuntimeVersion": "containerd://2.1.0",
        "kernelVersion": "6.12.0",
        "kubeProxyVersion": "",
        "kubeletVersion": VERSION,
        "machineID": identity,
        "operatingSystem": "linux",
        "osImage": "simulated by kubesched",
        "systemUUID": identity,
    }


def _ignore(_node: Node) -> None:
    pass


def _wishes(node: Node) -> dict[str, str]:
    """The annotations that are meant for us."""
    return {name: text for name, text in node.metadata.annotations.items() if name.startswith(PREFIX)}


def _annotation_problems(node: Node) -> Iterator[str]:
    """What is wrong with a node's annotations. Wrong ones have no effect. Devices are checked where they are read."""
    for name, text in _wishes(node).items():
        if name == KUBELET and text not in ("", "running", "stopped"):
            yield f'{KUBELET}: expected stopped or running, got "{text}"'
        elif name == NODE_LOAD and None in load_parts(text):
            yield f'{NODE_LOAD}: expected mean and deviation in percent such as cpu=45:10,memory=30, got "{text}"'
        elif name not in (KUBELET, NODE_LOAD, DEVICES):
            hint = suggest(name, (KUBELET, NODE_LOAD, DEVICES))
            yield f"{name}: nodes have no such annotation{f'; {hint}' if hint else ''}"
