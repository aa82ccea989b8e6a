"""Pods and nodes in one line each, for tests, scenarios and benchmarks.

Every builder has sensible defaults, takes the fields that tests vary as keywords, and has a short form for the
repetitive parts: ``pod("web-1", cpu="500m", labels={"app": "web"})``,
``node("n1", zone="a", taints=["dedicated=gpu:NoSchedule"])``. The objects are the ordinary frozen structs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kubesched.api import objects as api
from kubesched.base.annotations import RUN_TIME

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
PAUSE = "registry.k8s.io/pause:3.10"
"""The image of containers that need none in particular."""
IMAGE_SIZE = 1_000_000

Labels = Mapping[str, str]
Resources = Mapping[str, api.Quantity]
Selects = api.LabelSelector | Labels | None
"""A selector, or the labels that it requires."""


# --- pods -------------------------------------------------------------------------------------------------------------


def pod(
    name: str = "pod",
    *,
    namespace: str = "default",
    uid: str = "",
    labels: Labels | None = None,
    annotations: Labels | None = None,
    owner: api.OwnerReference | None = None,
    created: str | None = None,
    terminating: bool = False,
    # Where it runs, and for how long.
    node: str = "",
    nominated: str = "",
    phase: str = "",
    started: str | None = None,
    run_time: str = "",
    conditions: Iterable[api.PodCondition] = (),
    # What it requests: these describe its only container, unless `containers` are given.
    cpu: api.Quantity | None = None,
    memory: api.Quantity | None = None,
    requests: Resources | None = None,
    limits: Resources | None = None,
    image: str = PAUSE,
    host_ports: Iterable[int | api.ContainerPort] = (),
    containers: Sequence[api.Container] | None = None,
    init_containers: Iterable[api.Container] = (),
    overhead: Resources | None = None,
    pod_requests: Resources | None = None,
    statuses: Iterable[api.ContainerStatus] = (),
    # Where it may run.
    node_selector: Labels | None = None,
    affinity: api.Affinity | None = None,
    tolerations: Iterable[str | api.Toleration] = (),
    spread: Iterable[api.TopologySpreadConstraint] = (),
    # Everything else.
    priority: int | None = None,
    preemption_policy: str | None = None,
    scheduler: str = "",
    volumes: Iterable[api.Volume] = (),
    claims: Iterable[str] = (),
    gates: Iterable[str] = (),
    resource_claims: Iterable[str] = (),
    group: str = "",
) -> api.Pod:
    """A pod: pending, unless it has a `node`. Its UID is made from its name, unless one is given.

    A pod with a `run_time` such as ``90s`` ends after that time where kubelets are simulated.
    """
    if containers is None:
        only = container(cpu=cpu, memory=memory, requests=requests, limits=limits, image=image, host_ports=host_ports)
        containers = [only]
    mounted = [api.Volume(name=c, persistent_volume_claim=api.PersistentVolumeClaimVolumeSource(c)) for c in claims]
    return api.Pod(
        metadata=api.ObjectMeta(
            name=name,
            namespace=namespace,
            uid=uid or f"{namespace}.{name}",
            labels=dict(labels or {}),
            annotations=({RUN_TIME: run_time} if run_time else {}) | dict(annotations or {}),
            creation_timestamp=created,
            deletion_timestamp="2026-01-01T00:00:00Z" if terminating else None,
            owner_references=(owner,) if owner is not None else (),
        ),
        spec=api.PodSpec(
            node_name=node,
            scheduler_name=scheduler,
            priority=priority,
            preemption_policy=preemption_policy,
            node_selector=dict(node_selector or {}),
            affinity=affinity,
            tolerations=tuple(toleration(t) if isinstance(t, str) else t for t in tolerations),
            topology_spread_constraints=tuple(spread),
            containers=tuple(containers),
            init_containers=tuple(init_containers),
            overhead=dict(overhead or {}),
            resources=None if pod_requests is None else api.ResourceRequirements(dict(pod_requests)),
            volumes=(*volumes, *mounted),
            scheduling_gates=tuple(map(api.PodSchedulingGate, gates)),
            resource_claims=tuple(api.PodResourceClaim(name, resource_claim_name=name) for name in resource_claims),
            scheduling_group=api.PodSchedulingGroup(group) if group else None,
            restart_policy="Never" if run_time else "",
        ),
        status=api.PodStatus(
            phase=phase,
            nominated_node_name=nominated,
            start_time=started,
            conditions=tuple(conditions),
            container_statuses=tuple(statuses),
        ),
    )


def container(
    name: str = "main",
    *,
    cpu: api.Quantity | None = None,
    memory: api.Quantity | None = None,
    requests: Resources | None = None,
    limits: Resources | None = None,
    image: str = PAUSE,
    host_ports: Iterable[int | api.ContainerPort] = (),
    sidecar: bool = False,
) -> api.Container:
    """A container; as an init container with `sidecar` it keeps running. A limit without a request is the request
    too, as the API server has it."""
    requested = {**(limits or {}), **(requests or {}), **_given(cpu=cpu, memory=memory)}
    return api.Container(
        name=name,
        image=image,
        resources=api.ResourceRequirements(requested, dict(limits or {})),
        ports=tuple(host_port(p) if isinstance(p, int) else p for p in host_ports),
        restart_policy="Always" if sidecar else None,
    )


def host_port(port: int, protocol: str = "", address: str = "") -> api.ContainerPort:
    """A container port that takes the same port of the node."""
    return api.ContainerPort(container_port=port, host_port=port, host_ip=address, protocol=protocol)


def toleration(text: str) -> api.Toleration:
    """``"key=value:Effect"``, ``"key:Effect"`` for any value, ``"key"`` for any effect too, ``"*"`` for every taint."""
    key, value, effect = _split(text)
    key = "" if key == "*" else key
    if value is None:
        return api.Toleration(key=key, operator="Exists", effect=effect)
    return api.Toleration(key=key, operator="Equal", value=value, effect=effect)


def owner(kind: str, name: str, api_version: str = "apps/v1") -> api.OwnerReference:
    """The reference of a pod to the controller that owns it."""
    return api.OwnerReference(api_version=api_version, kind=kind, name=name, uid=f"{kind}.{name}", controller=True)


# --- affinity and spreading -------------------------------------------------------------------------------------------


def selector(labels: Labels | None = None, *expressions: api.LabelSelectorRequirement) -> api.LabelSelector:
    """A label selector; without arguments it selects everything."""
    return api.LabelSelector(match_labels=dict(labels or {}), match_expressions=expressions)


def expression(key: str, operator: str, *values: str) -> api.LabelSelectorRequirement:
    """An expression of a label selector."""
    return api.LabelSelectorRequirement(key, operator, values)


def node_term(*expressions: tuple[str, ...], name: str = "") -> api.NodeSelectorTerm:
    """A node selector term of ``(key, operator, *values)`` on labels, and perhaps the one name a node may have."""
    fields = (api.NodeSelectorRequirement("metadata.name", "In", (name,)),) if name else ()
    labels = tuple(api.NodeSelectorRequirement(e[0], e[1], e[2:]) for e in expressions)
    return api.NodeSelectorTerm(match_expressions=labels, match_fields=fields)


def pod_term(
    selects: Selects, key: str = HOSTNAME, *, namespaces: Iterable[str] = (), namespace_selector: Selects = None
) -> api.PodAffinityTerm:
    """An inter-pod term: pods that `selects` matches, in the domain of `key`."""
    return api.PodAffinityTerm(
        topology_key=key,
        label_selector=selected(selects),
        namespaces=tuple(namespaces),
        namespace_selector=selected(namespace_selector),
    )


Weighted = tuple[int, api.PodAffinityTerm]


def affinity(
    *,
    nodes: Iterable[api.NodeSelectorTerm] | None = None,
    prefer_nodes: Iterable[tuple[int, api.NodeSelectorTerm]] = (),
    near: Iterable[api.PodAffinityTerm] = (),
    away: Iterable[api.PodAffinityTerm] = (),
    prefer_near: Iterable[Weighted] = (),
    prefer_away: Iterable[Weighted] = (),
) -> api.Affinity:
    """Node affinity (one of `nodes` must match), pod affinity (`near`) and anti-affinity (`away`)."""
    return api.Affinity(
        node_affinity=api.NodeAffinity(
            None if nodes is None else api.NodeSelector(tuple(nodes)),
            tuple(api.PreferredSchedulingTerm(weight, term) for weight, term in prefer_nodes),
        ),
        pod_affinity=api.PodAffinity(tuple(near), tuple(api.WeightedPodAffinityTerm(w, t) for w, t in prefer_near)),
        pod_anti_affinity=api.PodAntiAffinity(
            tuple(away), tuple(api.WeightedPodAffinityTerm(w, t) for w, t in prefer_away)
        ),
    )


def spread(
    selects: Selects,
    key: str = ZONE,
    *,
    skew: int = 1,
    soft: bool = False,
    min_domains: int | None = None,
    affinity_policy: str | None = None,
    taints_policy: str | None = None,
    match_label_keys: Iterable[str] = (),
) -> api.TopologySpreadConstraint:
    """A topology spread constraint: DoNotSchedule, or ScheduleAnyway if it is `soft`."""
    return api.TopologySpreadConstraint(
        max_skew=skew,
        topology_key=key,
        when_unsatisfiable="ScheduleAnyway" if soft else "DoNotSchedule",
        label_selector=selected(selects),
        min_domains=min_domains,
        node_affinity_policy=affinity_policy,
        node_taints_policy=taints_policy,
        match_label_keys=tuple(match_label_keys),
    )


# --- nodes ------------------------------------------------------------------------------------------------------------


def node(
    name: str = "node",
    *,
    cpu: api.Quantity | None = "4",
    memory: api.Quantity | None = "16Gi",
    pods: api.Quantity | None = 110,
    resources: Resources | None = None,
    labels: Labels | None = None,
    zone: str | None = None,
    taints: Iterable[str | api.Taint] = (),
    unschedulable: bool = False,
    images: Mapping[str, int] | Iterable[str] = (),
    annotations: Labels | None = None,
) -> api.Node:
    """A node with its hostname label, in a zone if one is given.

    `images` are the names of images on the node, with their sizes in bytes if those matter. An amount that is None is
    left out; in a scenario the node's kubelet then sets it, as the scenario's `cluster` says.
    """
    sizes = images if isinstance(images, Mapping) else dict.fromkeys(images, IMAGE_SIZE)
    own = {HOSTNAME: name} | ({} if zone is None else {ZONE: zone})
    return api.Node(
        metadata=api.ObjectMeta(
            name=name, uid=f"node.{name}", labels=own | dict(labels or {}), annotations=dict(annotations or {})
        ),
        spec=api.NodeSpec(
            unschedulable=unschedulable, taints=tuple(taint(t) if isinstance(t, str) else t for t in taints)
        ),
        status=api.NodeStatus(
            allocatable={**_given(cpu=cpu, memory=memory, pods=pods), **(resources or {})},
            images=tuple(api.ContainerImage((image,), size) for image, size in sizes.items()),
        ),
    )


def taint(text: str) -> api.Taint:
    """``"key=value:Effect"`` or ``"key:Effect"``, as kubectl writes taints."""
    key, value, effect = _split(text)
    return api.Taint(key=key, value=value or "", effect=effect)


# --- helpers ----------------------------------------------------------------------------------------------------------


def selected(selects: Selects) -> api.LabelSelector | None:
    """A selector, made from labels if those are given."""
    return selects if selects is None or isinstance(selects, api.LabelSelector) else selector(selects)


def _given(**amounts: api.Quantity | None) -> dict[str, api.Quantity]:
    return {resource: amount for resource, amount in amounts.items() if amount is not None}


def _split(text: str) -> tuple[str, str | None, str]:
    """``key=value:Effect`` in its parts; the value is None where there is no ``=``."""
    rest, _, effect = text.partition(":")
    key, has_value, value = rest.partition("=")
    return key, value if has_value else None, effect
