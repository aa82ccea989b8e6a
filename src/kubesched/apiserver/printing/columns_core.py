"""The columns of `kubectl get` for nodes, services, volumes, events and other kinds without pods."""

from __future__ import annotations

from typing import Any

from kubesched.apiserver.printing.table import NONE, UNKNOWN, UNSET, Cell, Columns, age, columns, labels_text, since
from kubesched.base.types import JSON

_ROLE_PREFIX = "node-role.kubernetes.io/"
_ROLE_LABEL = "kubernetes.io/role"
_DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _parts(obj: JSON) -> tuple[JSON, JSON]:
    return obj.get("spec") or {}, obj.get("status") or {}


def _listed(obj: JSON | None, key: str) -> list[Any]:
    return (obj or {}).get(key) or []


# --- nodes and namespaces ---------------------------------------------------------------------------------------------


def _node(node: JSON, now: float) -> list[Cell]:
    spec, status = _parts(node)
    info = status.get("nodeInfo") or {}
    return [
        _node_state(spec, status),
        _roles(node["metadata"].get("labels") or {}),
        age(node, now),
        info.get("kubeletVersion") or "",
        _address(status, "InternalIP"),
        _address(status, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        _kernel(info),
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _kernel(info: JSON) -> str:
    version, machine = info.get("kernelVersion") or UNKNOWN, info.get("architecture")
    return f"{version} ({machine})" if machine else version


def _node_state(spec: JSON, status: JSON) -> str:
    ready = next((c for c in _listed(status, "conditions") if c.get("type") == "Ready"), None)
    word = "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{word},SchedulingDisabled" if spec.get("unschedulable") else word


def _roles(labels: JSON) -> str:
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    roles |= {value for key, value in labels.items() if key == _ROLE_LABEL and value}
    return ",".join(sorted(role for role in roles if role)) or NONE


def _address(status: JSON, type_: str) -> str:
    return next((a.get("address", NONE) for a in _listed(status, "addresses") if a.get("type") == type_), NONE)


def _namespace(obj: JSON, now: float) -> list[Cell]:
    return [_parts(obj)[1].get("phase", ""), age(obj, now)]


# --- services ---------------------------------------------------------------------------------------------------------


def _service(obj: JSON, now: float) -> list[Cell]:
    spec, status = _parts(obj)
    type_ = spec.get("type", "ClusterIP")
    if type_ == "ExternalName":
        cluster_ip, external = NONE, spec.get("externalName") or NONE
    else:
        cluster_ip, external = spec.get("clusterIP") or NONE, _external_address(spec, status, type_)
    ports = ",".join(_service_port(port) for port in _listed(spec, "ports")) or NONE
    return [type_, cluster_ip, external, ports, age(obj, now), labels_text(spec.get("selector"))]


def _external_address(spec: JSON, status: JSON, type_: str) -> str:
    addresses = [i.get("ip") or i.get("hostname", "") for i in _listed(status.get("loadBalancer"), "ingress")]
    addresses = (addresses if type_ == "LoadBalancer" else []) + _listed(spec, "externalIPs")
    return ",".join(addresses) or ("<pending>" if type_ == "LoadBalancer" else NONE)


def _service_port(port: JSON) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}"


def _some(items: list[str], most: int) -> str:
    if not items:
        return NONE
    more = f" + {len(items) - most} more..." if len(items) > most else ""
    return ",".join(items[:most]) + more


def _endpoints(obj: JSON, now: float) -> list[Cell]:
    found = []
    for subset in _listed(obj, "subsets"):
        ports = [f":{port.get('port')}" for port in _listed(subset, "ports")] or [""]
        found += [f"{a.get('ip')}{port}" for port in ports for a in _listed(subset, "addresses")]
    return [_some(found, 3), age(obj, now)]


def _component_status(obj: JSON, now: float) -> list[Cell]:
    healthy: JSON = next((each for each in _listed(obj, "conditions") if each.get("type") == "Healthy"), {})
    state = {"True": "Healthy", "False": "Unhealthy"}.get(healthy.get("status", ""), "Unknown")
    return [state, healthy.get("message", ""), healthy.get("error", "")]


def _endpoint_slice(obj: JSON, now: float) -> list[Cell]:
    ports = [str(port.get("port", "*")) for port in _listed(obj, "ports")]
    addresses = [a for endpoint in _listed(obj, "endpoints") for a in _listed(endpoint, "addresses")]
    return [
        obj.get("addressType", ""),
        _some(ports, 3) if ports else UNSET,
        _some(addresses, 3) if addresses else UNSET,
        age(obj, now),
    ]


# --- configuration ----------------------------------------------------------------------------------------------------


def _config_map(obj: JSON, now: float) -> list[Cell]:
    return [len(obj.get("data") or {}) + len(obj.get("binaryData") or {}), age(obj, now)]


def _secret(obj: JSON, now: float) -> list[Cell]:
    return [obj.get("type", ""), len(obj.get("data") or {}), age(obj, now)]


def _quota(obj: JSON, now: float) -> list[Cell]:
    status = _parts(obj)[1]
    used, hard = status.get("used") or {}, status.get("hard") or {}
    limits: list[str] = []
    requests: list[str] = []
    for name in sorted(hard):
        text = f"{name}: {used.get(name, 0)}/{hard[name]}"
        (limits if name.startswith("limits") else requests).append(text)
    return [", ".join(requests), ", ".join(limits), age(obj, now)]


# --- storage ----------------------------------------------------------------------------------------------------------


def _modes(modes: list[str]) -> str:
    return ",".join(_MODES[mode] for mode in _MODES if mode in modes)


def _volume(obj: JSON, now: float) -> list[Cell]:
    spec, status = _parts(obj)
    claim = spec.get("claimRef")
    phase = "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase", "")
    return [
        str((spec.get("capacity") or {}).get("storage", "")),
        _modes(_listed(spec, "accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        phase,
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or UNSET,
        status.get("reason", ""),
        age(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


def _claim(obj: JSON, now: float) -> list[Cell]:
    spec, status = _parts(obj)
    bound = bool(spec.get("volumeName"))
    phase = "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase", "")
    return [
        phase,
        spec.get("volumeName", ""),
        str((status.get("capacity") or {}).get("storage", "")) if bound else "",
        _modes(_listed(status, "accessModes")) if bound else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or UNSET,
        age(obj, now),
        spec.get("volumeMode") or UNSET,
    ]


def _storage_class(obj: JSON, now: float) -> list[Cell]:
    return [
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", "Delete"),
        obj.get("volumeBindingMode", "Immediate"),
        bool(obj.get("allowVolumeExpansion")),
        age(obj, now),
    ]


def _storage_class_name(obj: JSON) -> str:
    """A storage class's name, marked if it is the default."""
    name: str = obj["metadata"].get("name", "")
    annotations = obj["metadata"].get("annotations") or {}
    return f"{name} (default)" if any(annotations.get(key) == "true" for key in _DEFAULT_CLASS) else name


def _csi_driver(obj: JSON, now: float) -> list[Cell]:
    spec = _parts(obj)[0]
    tokens = ",".join(token.get("audience", "") for token in _listed(spec, "tokenRequests")) or UNSET
    return [
        spec.get("attachRequired", True),
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        tokens,
        bool(spec.get("requiresRepublish")),
        ",".join(_listed(spec, "volumeLifecycleModes")) or NONE,
        age(obj, now),
    ]


def _csi_node(obj: JSON, now: float) -> list[Cell]:
    return [len(_listed(_parts(obj)[0], "drivers")), age(obj, now)]


def _attachment(obj: JSON, now: float) -> list[Cell]:
    spec, status = _parts(obj)
    volume = (spec.get("source") or {}).get("persistentVolumeName", "")
    return [spec.get("attacher", ""), volume, spec.get("nodeName", ""), bool(status.get("attached")), age(obj, now)]


# --- events -----------------------------------------------------------------------------------------------------------


def _event(obj: JSON, now: float) -> list[Cell]:
    involved = obj.get("involvedObject") or obj.get("regarding") or {}
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    component, host = source.get("component"), source.get("host")
    if not component:
        component = obj.get("reportingComponent") or obj.get("reportingController") or ""
        host = obj.get("reportingInstance")
    if host:
        component = f"{component}, {host}"
    kind = involved.get("kind", "").lower()
    first, last, count = event_times(obj)
    return [
        _interval(last, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{kind}/{involved.get('name', '')}" if involved.get("name") else kind,
        involved.get("fieldPath", ""),
        component,
        (obj.get("message") or obj.get("note") or "").strip(),
        _interval(first, now),
        count,
    ]


def event_times(obj: JSON) -> tuple[str | None, str | None, int]:
    """When an event was first and last seen, and how often. Old and new events have different fields for it."""
    made = obj.get("eventTime") or obj["metadata"].get("creationTimestamp")
    first = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or made
    last = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp") or first
    count = obj.get("count") or obj.get("deprecatedCount") or 1
    if series := obj.get("series"):
        return first, series.get("lastObservedTime") or last, series.get("count") or count
    return first, last, count


def _interval(time: str | None, now: float) -> str:
    return since(time, now)


# --- the rest ---------------------------------------------------------------------------------------------------------


def _created(obj: JSON, _now: float) -> list[Cell]:
    return [obj["metadata"].get("creationTimestamp") or UNKNOWN]


def _role_binding(obj: JSON, now: float) -> list[Cell]:
    role = obj.get("roleRef") or {}
    subjects = _listed(obj, "subjects")
    by_kind = {kind: [s for s in subjects if s.get("kind") == kind] for kind in ("User", "Group", "ServiceAccount")}
    accounts = [f"{s.get('namespace', '')}/{s.get('name', '')}" for s in by_kind["ServiceAccount"]]
    return [
        f"{role.get('kind', '')}/{role.get('name', '')}",
        age(obj, now),
        ", ".join(s.get("name", "") for s in by_kind["User"]),
        ", ".join(s.get("name", "") for s in by_kind["Group"]),
        ", ".join(accounts),
    ]


def _priority_class(obj: JSON, now: float) -> list[Cell]:
    policy = obj.get("preemptionPolicy", "PreemptLowerPriority")
    return [obj.get("value", 0), bool(obj.get("globalDefault")), age(obj, now), policy]


def _lease(obj: JSON, now: float) -> list[Cell]:
    return [_parts(obj)[0].get("holderIdentity") or "", age(obj, now)]


def _resource_claim(obj: JSON, now: float) -> list[Cell]:
    status = _parts(obj)[1]
    words = ["deleted"] if obj["metadata"].get("deletionTimestamp") else []
    words += ["allocated"] if status.get("allocation") else []
    words += ["reserved"] if status.get("reservedFor") else []
    return [",".join(words) if status.get("allocation") or words else "pending", age(obj, now)]


def _workload(obj: JSON, now: float) -> list[Cell]:
    return [age(obj, now)]


def _pod_group(obj: JSON, now: float) -> list[Cell]:
    spec, status = _parts(obj)
    conditions = {each.get("type"): each for each in _listed(status, "conditions")}
    word = "Pending"
    if (scheduled := conditions.get("PodGroupScheduled")) is not None:
        word = "Scheduled" if scheduled.get("status") == "True" else "Unschedulable"
    if (disrupted := conditions.get("DisruptionTarget")) is not None:
        word = disrupted.get("reason", "")
    policy = "Gang" if (spec.get("schedulingPolicy") or {}).get("gang") is not None else "Basic"
    workload = ((spec.get("podGroupTemplateRef") or {}).get("workload") or {}).get("workloadName") or NONE
    return [policy, workload, word, age(obj, now)]


def _resource_slice(obj: JSON, now: float) -> list[Cell]:
    spec = _parts(obj)[0]
    return [spec.get("nodeName", ""), spec.get("driver", ""), (spec.get("pool") or {}).get("name", ""), age(obj, now)]


def _attributes_class(obj: JSON, now: float) -> list[Cell]:
    return [obj.get("driverName", ""), age(obj, now)]


_BINDING = "Role, Age, +Users, +Groups, +ServiceAccounts"

COLUMNS: dict[str, Columns] = {
    "/nodes": columns(
        "Status, Roles, Age, Version, +Internal-IP, +External-IP, +OS-Image, +Kernel-Version, +Container-Runtime", _node
    ),
    "/namespaces": columns("Status, Age", _namespace),
    "/services": columns("Type, Cluster-IP, External-IP, Port(s), Age, +Selector", _service),
    "/componentstatuses": columns("Status, Message, Error", _component_status),
    "/endpoints": columns("Endpoints, Age", _endpoints),
    "discovery.k8s.io/endpointslices": columns("AddressType, Ports, Endpoints, Age", _endpoint_slice),
    "/configmaps": columns("Data, Age", _config_map),
    "/secrets": columns("Type, Data, Age", _secret),
    "/resourcequotas": columns("Request, Limit, Age", _quota),
    "/limitranges": columns("Created At:date", _created),
    "/persistentvolumes": columns(
        "Capacity, Access Modes, Reclaim Policy, Status, Claim, StorageClass, VolumeAttributesClass, Reason, Age,"
        " +VolumeMode",
        _volume,
    ),
    "/persistentvolumeclaims": columns(
        "Status, Volume, Capacity, Access Modes, StorageClass, VolumeAttributesClass, Age, +VolumeMode", _claim
    ),
    "storage.k8s.io/storageclasses": columns(
        "Provisioner, ReclaimPolicy, VolumeBindingMode, AllowVolumeExpansion, Age",
        _storage_class,
        _storage_class_name,
    ),
    "storage.k8s.io/csidrivers": columns(
        "AttachRequired:boolean, PodInfoOnMount:boolean, StorageCapacity:boolean, TokenRequests,"
        " RequiresRepublish:boolean, Modes, Age",
        _csi_driver,
    ),
    "storage.k8s.io/csinodes": columns("Drivers:integer, Age", _csi_node),
    "storage.k8s.io/csistoragecapacities": columns("Created At:date", _created),
    "storage.k8s.io/volumeattachments": columns("Attacher:string/name, PV, Node, Attached:boolean, Age", _attachment),
    "storage.k8s.io/volumeattributesclasses": columns("DriverName, Age", _attributes_class),
    "/events": columns(
        "Last Seen, Type, Reason, Object, +Subobject, +Source, Message, +First Seen, +Count",
        _event,
        name_last=True,
    ),
    "rbac.authorization.k8s.io/rolebindings": columns(_BINDING, _role_binding),
    "rbac.authorization.k8s.io/clusterrolebindings": columns(_BINDING, _role_binding),
    "rbac.authorization.k8s.io/roles": columns("Created At:date", _created),
    "rbac.authorization.k8s.io/clusterroles": columns("Created At:date", _created),
    "apiextensions.k8s.io/customresourcedefinitions": columns("Created At:date", _created),
    "scheduling.k8s.io/priorityclasses": columns(
        "Value:integer, Global-Default:boolean, Age, PreemptionPolicy", _priority_class
    ),
    "scheduling.k8s.io/workloads": columns("Age", _workload),
    "scheduling.k8s.io/podgroups": columns("Policy, Workload, Status, Age", _pod_group),
    "coordination.k8s.io/leases": columns("Holder, Age", _lease),
    "resource.k8s.io/resourceclaims": columns("State, Age", _resource_claim),
    "resource.k8s.io/resourceslices": columns("Node, Driver, Pool, Age", _resource_slice),
}
