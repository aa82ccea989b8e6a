"""Pods as scheduling sees them: a class shared by all pods of one template, and a record per pod.

Pods made from one template agree in everything that scheduling reads. That part is compiled once, interned as a
`PodClass`, and each pod points at it. A plugin caches in the class what it derives from a pod, so the thousandth
pod of a deployment needs no compilation.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack
from weakref import WeakValueDictionary

import msgspec

from kubesched.api import objects as api
from kubesched.api.resources import Requests, node_requests, scheduling_requests
from kubesched.base.features import DEFAULT_FEATURES, Features
from kubesched.cluster.terms import AffinityTerms, affinity_terms

if TYPE_CHECKING:
    from kubesched.cluster.counters import RowCounter

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - compared with host ports

Tag = tuple[Hashable, ...]
"""Something of a pod that others on its node may collide with: a host port, a disk, a claim."""


class SharedSpec:
    """A spec that pod classes share. Classes from one template may differ in labels."""

    __slots__ = ("__weakref__", "spec")

    def __init__(self, spec: api.PodSpec) -> None:
        self.spec = spec


class PodClass:
    """Everything scheduling reads of a pod, compiled and shared."""

    __slots__ = (
        "__weakref__",
        "counters",
        "labels",
        "memo",
        "namespace",
        "node_requests",
        "only_containers_count",
        "pods",
        "requests",
        "rows",
        "shared_spec",
        "spec",
        "synced",
        "tags",
        "template",
        "terminating_rows",
        "terms",
        "usage",
    )

    def __init__(
        self,
        pod: api.Pod,
        shared_spec: SharedSpec,
        features: Features = DEFAULT_FEATURES,
        template: PodClass | None = None,
    ) -> None:
        self.namespace = pod.namespace
        self.labels: Mapping[str, str] = pod.metadata.labels
        self.template = template
        """The class of such pods without labels; None if this is it."""
        self.shared_spec = shared_spec
        self.spec = shared_spec.spec
        self.only_containers_count: bool
        """Whether all requests are those of the containers in the spec; then there is only one way to add them up."""
        self.requests: Requests
        self.node_requests: Requests
        self.terms: AffinityTerms
        self.tags: tuple[Tag, ...]
        if template is None:
            self.only_containers_count = _only_containers_count(pod)
            self.requests = scheduling_requests(pod, features)
            self.node_requests = self.requests if self.only_containers_count else node_requests(pod, features)
            self.terms = affinity_terms(pod.namespace, pod.spec.affinity)
            self.tags = tuple(_tags(pod))
        else:
            self.only_containers_count = template.only_containers_count
            self.requests, self.node_requests = template.requests, template.node_requests
            self.terms, self.tags = template.terms, template.tags
        self.memo: dict[Hashable, Any] = {}
        # Set by the cluster: what the class adds to a row of the node table, where its pods are, its counters.
        self.usage: object = None
        self.pods = 0
        self.rows: dict[int, int] = {}
        self.terminating_rows: dict[int, int] = {}
        self.counters: list[RowCounter] = []
        self.synced = (-1, 0)

    @property
    def without_labels(self) -> PodClass:
        """The class of such pods without labels. Filters that read only specs answer the same for both."""
        return self if self.template is None else self.template

    def remember(self, key: Hashable, make: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
        """The cached result of `make` for `key`. What is asked for with every pod gives arguments instead of a lambda,
        which would be made each time."""
        try:
            found: T = self.memo[key]
        except KeyError:
            found = self.memo[key] = make(*args)
        return found


class PodInfo:
    """A pod and its class; for a pod on a node also the row it is on."""

    __slots__ = ("pod", "pod_class", "row", "terminating")

    def __init__(self, pod: api.Pod, pod_class: PodClass) -> None:
        self.pod = pod
        self.pod_class = pod_class
        self.row = -1
        self.terminating = pod.is_terminating

    def __repr__(self) -> str:
        return f"PodInfo({self.pod.key})"


class PodClasses:
    """Interns pod classes by the encoded form of what scheduling reads.

    A class lives as long as a pod of it does, here or in the queue. The classes used last live on, because the next pod
    of a template often comes after the one before it is gone.
    """

    RECENT = 256
    """How many classes live on at most."""
    RECENT_BYTES = 1 << 20
    """How large their encoded forms are at most. What is derived from a class is up to ten times as large."""

    def __init__(self, features: Features = DEFAULT_FEATURES) -> None:
        self._features = features
        self.exact = False
        """Whether the names of resource claims make a difference. No built-in plugin caches anything about claims."""
        self._by_key: WeakValueDictionary[bytes, PodClass] = WeakValueDictionary()
        self._specs: WeakValueDictionary[bytes, SharedSpec] = WeakValueDictionary()
        self._templates: WeakValueDictionary[tuple[str, bytes, str], PodClass] = WeakValueDictionary()
        """Classes without labels, by namespace, spec, and requests if those are not the spec's."""
        self._recent: OrderedDict[bytes, PodClass] = OrderedDict()
        self._recent_bytes = 0
        self._encode = msgspec.json.Encoder(order="deterministic").encode

    def __len__(self) -> int:
        return len(self._by_key)

    def info(self, pod: api.Pod) -> PodInfo:
        """The record of `pod`; its spec and labels are the class's, so that a thousand pods hold one copy."""
        pod = identified(pod)
        meta, spec = pod.metadata, pod.spec
        if spec.node_name:
            spec = msgspec.structs.replace(spec, node_name="")
        if spec.volumes:
            spec = _without_mere_names(spec)
        claims = spec.resource_claims
        if claims and not self.exact:
            spec = msgspec.structs.replace(spec, resource_claims=tuple(map(_unnamed, claims)))
        key = self._encode((meta.namespace, meta.labels, spec))
        resized = not self.only_spec_counts(pod.status)
        pod_class = self._recent.get(key)
        if pod_class is None:
            pod_class = self._by_key.get(key) or self._add(key, _without_status(pod) if resized else pod, spec)
            self._keep(key, pod_class)
        else:
            self._recent.move_to_end(key)
        if resized:
            pod_class = self._resized(key, pod, spec, pod_class)
        if spec is not pod_class.spec:
            shared = pod_class.spec
            if pod.spec.node_name or claims != shared.resource_claims:
                shared = msgspec.structs.replace(shared, node_name=pod.spec.node_name, resource_claims=claims)
            meta = msgspec.structs.replace(meta, labels=pod_class.labels)
            pod = msgspec.structs.replace(pod, metadata=meta, spec=shared)
        return PodInfo(pod, pod_class)

    def only_spec_counts(self, status: api.PodStatus) -> bool:
        """Whether a pod with this status holds exactly what its spec asks for."""
        return not _has_resize_status(status) and not (
            self._features.dra_node_allocatable_resources and status.node_allocatable_resource_claim_statuses
        )

    def _add(self, key: bytes, pod: api.Pod, spec: api.PodSpec, variant: str = "") -> PodClass:
        spec_key = self._encode(spec)
        shared = self._specs.get(spec_key)
        if shared is None:
            shared = self._specs[spec_key] = SharedSpec(spec)
        template = self._templates.get((pod.namespace, spec_key, variant))
        if template is None:
            bare = msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, labels={}))
            template = PodClass(bare, shared, self._features)
            self._templates[pod.namespace, spec_key, variant] = template
        if pod.metadata.labels:
            pod_class = self._by_key[key] = PodClass(pod, shared, self._features, template)
        else:
            pod_class = self._by_key[key] = template
        return pod_class

    def _keep(self, key: bytes, pod_class: PodClass) -> None:
        recent = self._recent
        recent[key] = pod_class
        self._recent_bytes += len(key)
        while len(recent) > 1 and (len(recent) > self.RECENT or self._recent_bytes > self.RECENT_BYTES):
            self._recent_bytes -= len(recent.popitem(last=False)[0])

    def _resized(self, key: bytes, pod: api.Pod, spec: api.PodSpec, plain: PodClass) -> PodClass:
        """The class of a pod whose container statuses may hold more, or less, than its spec asks for."""
        actual = node_requests(pod, self._features)
        if actual == plain.node_requests:
            return plain
        variant = repr(actual)
        key += variant.encode()
        return self._by_key.get(key) or self._add(key, pod, spec, variant)


def identified(pod: api.Pod) -> api.Pod:
    """The pod with a UID. A manifest has none; its key takes the place, so that pods do not overwrite each other."""
    if pod.metadata.uid:
        return pod
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=f"pod:{pod.key}"))


def _without_mere_names(spec: api.PodSpec) -> api.PodSpec:
    """The spec without volumes that scheduling reads nothing of.

    Every pod has a volume with a unique name for its service account's token, and would be a class of its own.
    """
    volumes = tuple(volume for volume in spec.volumes if volume != api.Volume(name=volume.name))
    return spec if len(volumes) == len(spec.volumes) else msgspec.structs.replace(spec, volumes=volumes)


def _unnamed(claim: api.PodResourceClaim) -> api.PodResourceClaim:
    """A pod's claim without the name of the object, which is often another for each pod."""
    return claim if claim.resource_claim_name is None else msgspec.structs.replace(claim, resource_claim_name="")


def _has_resize_status(status: api.PodStatus) -> bool:
    if status.resources is not None or status.allocated_resources:
        return True
    statuses = (*status.container_statuses, *status.init_container_statuses)
    return bool(statuses) and any(c.resources is not None or c.allocated_resources for c in statuses)


def _only_containers_count(pod: api.Pod) -> bool:
    status = pod.status
    return (
        pod.spec.resources is None
        and not _has_resize_status(status)
        and not status.node_allocatable_resource_claim_statuses
    )


def _without_status(pod: api.Pod) -> api.Pod:
    return msgspec.structs.replace(pod, status=api.PodStatus())


def _tags(pod: api.Pod) -> Iterable[Tag]:
    for protocol, port, address in dict.fromkeys(host_ports(pod.spec)):
        yield ("port", protocol, port, address)
        yield ("port", protocol, port, "*")  # for a pod that wants the port on every address
    for volume in pod.spec.volumes:
        yield from disks(volume)
        if volume.persistent_volume_claim is not None:
            yield ("claim", pod.namespace, volume.persistent_volume_claim.claim_name)


def disks(volume: api.Volume) -> Iterable[Tag]:
    """The disks a volume mounts by itself, without a claim, that two pods on a node cannot share freely.

    The last item of a tag tells whether it is mounted read-only. A Ceph image counts once per monitor, because sharing
    one monitor makes two images the same.
    """
    if (gce := volume.gce_persistent_disk) is not None:
        yield ("disk", "gce", gce.pd_name, gce.read_only)
    if (ebs := volume.aws_elastic_block_store) is not None:
        yield ("disk", "ebs", ebs.volume_id, False)  # never shared, read-only or not
    if (iscsi := volume.iscsi) is not None:
        yield ("disk", "iscsi", iscsi.iqn, iscsi.read_only)
    if (rbd := volume.rbd) is not None:
        for monitor in dict.fromkeys(rbd.monitors):
            yield ("disk", "rbd", monitor, rbd.pool, rbd.image, rbd.read_only)


def host_ports(spec: api.PodSpec) -> tuple[tuple[str, int, str], ...]:
    """The (protocol, port, address) triples that containers and sidecars take on the node."""
    sidecars = (c for c in spec.init_containers if c.restart_policy == "Always")
    return tuple(
        (port.protocol or "TCP", port.host_port, port.host_ip or ANY_ADDRESS)
        for container in (*sidecars, *spec.containers)
        for port in container.ports
        if port.host_port > 0
    )
