"""Which fields a write may change, kind by kind, what a new object starts with, and generations.

A write to an object keeps its status, and a write to its status keeps the rest. A changed spec is a new generation.
Kinds differ in the details, and clients rely on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kubesched.apiserver.kinds.registry import ApiResource
from kubesched.apiserver.meta import bump_generation
from kubesched.base.types import JSON

# A kubelet registers its node with a status. Every other kind starts with an empty one.
_STATUS_AT_CREATION = frozenset(("/nodes", "apps/controllerrevisions"))

_INITIAL_STATUS: dict[str, JSON] = {
    "/pods": {"phase": "Pending"},
    "/namespaces": {"phase": "Active"},
    "/persistentvolumes": {"phase": "Pending"},
    "/persistentvolumeclaims": {"phase": "Pending"},
    "/services": {"loadBalancer": {}},
    "policy/poddisruptionbudgets": {
        "currentHealthy": 0,
        "desiredHealthy": 0,
        "disruptionsAllowed": 0,
        "expectedPods": 0,
    },
    "networking.k8s.io/ingresses": {"loadBalancer": {}},
    "apps/daemonsets": {
        "currentNumberScheduled": 0,
        "desiredNumberScheduled": 0,
        "numberMisscheduled": 0,
        "numberReady": 0,
    },
    "apps/replicasets": {"replicas": 0},
    "/replicationcontrollers": {"replicas": 0},
    "apps/statefulsets": {"replicas": 0, "availableReplicas": 0},
}

_GATED: JSON = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
    "lastProbeTime": None,
}

# Upstream counts generations of pods only since 1.34, of nodes and volumes not at all.
_WITH_GENERATION = frozenset(
    (
        "/pods",
        "/podtemplates",
        "/replicationcontrollers",
        "apps/daemonsets",
        "apps/deployments",
        "apps/replicasets",
        "apps/statefulsets",
        "admissionregistration.k8s.io/mutatingadmissionpolicies",
        "admissionregistration.k8s.io/mutatingadmissionpolicybindings",
        "admissionregistration.k8s.io/mutatingwebhookconfigurations",
        "admissionregistration.k8s.io/validatingadmissionpolicies",
        "admissionregistration.k8s.io/validatingadmissionpolicybindings",
        "admissionregistration.k8s.io/validatingwebhookconfigurations",
        "batch/cronjobs",
        "batch/jobs",
        "flowcontrol.apiserver.k8s.io/flowschemas",
        "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations",
        "networking.k8s.io/ingressclasses",
        "networking.k8s.io/ingresses",
        "networking.k8s.io/networkpolicies",
        "policy/poddisruptionbudgets",
        "discovery.k8s.io/endpointslices",
        "apiextensions.k8s.io/customresourcedefinitions",
        "scheduling.k8s.io/priorityclasses",
        "resource.k8s.io/deviceclasses",
        "resource.k8s.io/devicetaintrules",
        "resource.k8s.io/resourceslices",
    )
)

# In these groups a status update cannot change labels.
_STATUS_KEEPS_LABELS = ("apps", "batch", "policy")


def prepare_create(resource: ApiResource, obj: JSON) -> None:
    """Set the initial status and generation of a new object."""
    storage = resource.storage
    if storage == "/limitranges" and not obj["metadata"].get("name"):
        obj["metadata"]["name"] = obj["metadata"]["uid"]
    if resource.has_status and storage not in _STATUS_AT_CREATION:
        obj.pop("status", None)
    if (initial := _INITIAL_STATUS.get(storage)) is not None:
        obj["status"] = dict(initial)
        if storage == "/pods":
            _prepare_pod(obj)
    elif resource.has_status and not resource.custom:
        obj.setdefault("status", {})
    complete_conditions(resource, obj)
    if storage in _WITH_GENERATION or resource.custom:
        obj["metadata"]["generation"] = 1


def complete_conditions(resource: ApiResource, obj: JSON) -> None:
    """Give every condition a type and a status, if only empty ones, as upstream's encoding does. Readers rely on it."""
    conditions = () if resource.custom else (obj.get("status") or {}).get("conditions") or ()
    for each in conditions:
        each.setdefault("type", "")
        each.setdefault("status", "")


def _prepare_pod(pod: JSON) -> None:
    spec, labels = pod.get("spec") or {}, pod["metadata"].get("labels") or {}
    if spec.get("schedulingGates"):
        pod["status"]["conditions"] = [{**_GATED, "lastTransitionTime": pod["metadata"]["creationTimestamp"]}]
    for constraint in spec.get("topologySpreadConstraints") or []:
        _select_by_own_labels(constraint, labels)
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind) or {}
        for term in terms.get("requiredDuringSchedulingIgnoredDuringExecution") or []:
            _select_by_own_labels(term, labels)
        for weighted in terms.get("preferredDuringSchedulingIgnoredDuringExecution") or []:
            _select_by_own_labels(weighted.get("podAffinityTerm") or {}, labels)


def _select_by_own_labels(part: JSON, labels: JSON) -> None:
    """Turn matchLabelKeys into requirements, because schedulers read the selector only."""
    selector = part.get("labelSelector")
    if selector is None:
        return
    for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        added = [
            {"key": key, "operator": operator, "values": [labels[key]]}
            for key in part.get(field) or []
            if key in labels
        ]
        known = selector.get("matchExpressions") or []
        if added := [each for each in added if each not in known]:
            selector["matchExpressions"] = [*known, *added]


def prepare_update(resource: ApiResource, old: JSON, new: JSON) -> None:
    """A write to the object itself keeps the status. A changed body is a new generation."""
    if resource.has_status:
        _keep(old, new, "status")
    changed = _body(old) != _body(new)
    if resource.storage == "apps/deployments":
        changed = changed or _annotations(old) != _annotations(new)
    if changed and (resource.storage in _WITH_GENERATION or resource.custom):
        bump_generation(new)


def prepare_status_update(resource: ApiResource, old: JSON, new: JSON) -> None:
    """A write to the status keeps everything else."""
    complete_conditions(resource, new)
    for part in (set(old) | set(new)) - {"status", "metadata", "apiVersion", "kind"}:
        _keep(old, new, part)
    before, after = old["metadata"], new["metadata"]
    kept = ["ownerReferences", "finalizers"]
    if resource.custom:
        kept += ["labels", "annotations"]
    elif resource.group in _STATUS_KEEPS_LABELS:
        kept.append("labels")
    for field in kept:
        _keep(before, after, field)
    if resource.storage == "resource.k8s.io/resourceclaims":
        _drop_deallocated(old.get("status") or {}, new.get("status") or {})


def _drop_deallocated(old: JSON, new: JSON) -> None:
    """Devices that are no longer allocated lose their status."""
    gone = set(_devices((old.get("allocation") or {}).get("devices", {}).get("results")))
    gone -= set(_devices((new.get("allocation") or {}).get("devices", {}).get("results")))
    statuses = new.get("devices")
    if statuses and gone:
        new["devices"] = [each for each, id_ in zip(statuses, _devices(statuses), strict=True) if id_ not in gone]


def _devices(listed: list[JSON] | None) -> Iterator[tuple[object, ...]]:
    return (tuple(each.get(part) for part in ("driver", "pool", "device", "shareID")) for each in listed or ())


def prepare_ephemeral_update(_resource: ApiResource, old: JSON, new: JSON) -> None:
    """A write to a pod's ephemeral containers keeps everything else."""
    ephemeral = new.get("spec", {}).get("ephemeralContainers")
    _keep_all_but_spec(old, new)
    new["spec"] = {**old["spec"], **({"ephemeralContainers": ephemeral} if ephemeral else {})}
    _new_generation_if_changed(old, new)


def prepare_resize(_resource: ApiResource, old: JSON, new: JSON) -> None:
    """A resize changes only the resources and the resize policy of containers. Other containers are left to be refused.

    Resources of the pod as a whole may change too.
    """
    wanted = new.get("spec") or {}
    _keep_all_but_spec(old, new)
    resized = {kind: _resized(old["spec"].get(kind) or [], wanted.get(kind) or []) for kind in _RESIZED_KINDS}
    new["spec"] = {**old["spec"], **{kind: containers for kind, containers in resized.items() if containers}}
    _keep(wanted, new["spec"], "resources")
    _new_generation_if_changed(old, new)
    if old["spec"] != new["spec"]:
        _note_sizes(old, new)


def _note_sizes(old: JSON, new: JSON) -> None:
    """Write what the running containers have into their statuses, where simulated kubelets leave it out."""
    status = new["status"] = dict(new.get("status") or {})
    specs = {each["name"]: each for kind in _RESIZED_KINDS for each in old["spec"].get(kind) or []}
    for field in ("containerStatuses", "initContainerStatuses"):
        noted = []
        for each in status.get(field) or []:
            size = specs.get(each.get("name"), {}).get("resources") or {}
            if "resources" not in each and "running" in (each.get("state") or {}):
                each = {**each, "allocatedResources": size.get("requests") or {}, "resources": size}
            noted.append(each)
        if noted:
            status[field] = noted


_RESIZED_KINDS = ("initContainers", "containers")


def _resized(old: list[JSON], new: list[JSON]) -> list[JSON]:
    if [each.get("name") for each in old] != [each.get("name") for each in new]:
        return new
    resized = []
    for was, now in zip(old, new, strict=True):
        resized.append({**was, "resources": now.get("resources") or {}})
        _keep(now, resized[-1], "resizePolicy")
    return resized


def prepare_finalize(_resource: ApiResource, old: JSON, new: JSON) -> None:
    """A write to a namespace's finalizers, the ones in its spec."""
    _keep(old, new, "status")


def prepare_approval(resource: ApiResource, old: JSON, new: JSON) -> None:
    """A decision about a certificate changes only the conditions."""
    complete_conditions(resource, new)
    status = new.get("status") or {}
    for part in (set(old) | set(new)) - {"metadata", "apiVersion", "kind"}:
        _keep(old, new, part)
    new["status"] = {**(old.get("status") or {}), "conditions": status.get("conditions") or []}


Prepare = Callable[[ApiResource, JSON, JSON], None]

PREPARE: dict[str, Prepare] = {
    "": prepare_update,
    "status": prepare_status_update,
    "ephemeralcontainers": prepare_ephemeral_update,
    "resize": prepare_resize,
    "finalize": prepare_finalize,
    "approval": prepare_approval,
}


def _keep_all_but_spec(old: JSON, new: JSON) -> None:
    _keep(old, new, "status")
    new["metadata"] = {**old["metadata"]}


def _new_generation_if_changed(old: JSON, new: JSON) -> None:
    if old["spec"] != new["spec"]:
        bump_generation(new)


def _keep(old: JSON, new: JSON, part: str) -> None:
    if part in old:
        new[part] = old[part]
    else:
        new.pop(part, None)


def _annotations(obj: JSON) -> JSON:
    return obj["metadata"].get("annotations") or {}


def _body(obj: JSON) -> JSON:
    return {key: value for key, value in obj.items() if key not in ("metadata", "status", "apiVersion", "kind")}
