"""What nodes, services, volumes, roles and the like must look like, and what of them is fixed."""

from __future__ import annotations

from collections.abc import Callable

from kubesched.api.names import label_key_errors, label_value_errors
from kubesched.api.quantity import QuantityError, nanos
from kubesched.client.protocol import JSON
from kubesched.controlplane.problems import IMMUTABLE, Problems

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_SERVICE_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_VOLUME_MODES = ("Block", "Filesystem")
_RECLAIM = ("Delete", "Recycle", "Retain")
_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
_SYSTEM_PRIORITY = 1_000_000_000


def _node(obj: JSON, problems: Problems) -> None:
    seen = set()
    for index, taint in enumerate((obj.get("spec") or {}).get("taints") or []):
        path = f"spec.taints[{index}]"
        for error in label_key_errors(taint.get("key") or ""):
            problems.invalid(f"{path}.key", taint.get("key") or "", error)
        for error in label_value_errors(taint.get("value") or ""):
            problems.invalid(f"{path}.value", taint.get("value"), error)
        if taint.get("effect") not in _EFFECTS:
            problems.unsupported(f"{path}.effect", taint.get("effect") or "", _EFFECTS)
        identity = (taint.get("key"), taint.get("effect"))
        if identity in seen:
            problems.duplicate(path, taint)
        seen.add(identity)


def _service(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    type_ = spec.get("type")
    if type_ not in _SERVICE_TYPES:
        problems.unsupported("spec.type", type_, _SERVICE_TYPES)
    ports = spec.get("ports") or []
    if not ports and spec.get("clusterIP") != "None" and type_ != "ExternalName":
        problems.required("spec.ports")
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        number = port.get("port") or 0
        if not 0 < number < 65536:
            problems.invalid(f"{path}.port", number, "must be between 1 and 65535, inclusive")
        target = port.get("targetPort")
        if isinstance(target, int) and not 0 < target < 65536:
            problems.invalid(f"{path}.targetPort", target, "must be between 1 and 65535, inclusive")
        if len(ports) > 1 and not port.get("name"):
            problems.required(f"{path}.name")
        if port.get("protocol") not in _PROTOCOLS:
            problems.unsupported(f"{path}.protocol", port.get("protocol"), _PROTOCOLS)


def _modes(spec: JSON, problems: Problems, detail: str = "") -> None:
    modes = spec.get("accessModes") or []
    if not modes:
        problems.required("spec.accessModes", detail)
    for mode in modes:
        if mode not in _ACCESS_MODES:
            problems.unsupported("spec.accessModes", mode, _ACCESS_MODES)
    if spec.get("volumeMode") not in (None, *_VOLUME_MODES):
        problems.unsupported("spec.volumeMode", spec["volumeMode"], _VOLUME_MODES)


def _claim(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    _modes(spec, problems, "at least 1 access mode is required")
    _storage(((spec.get("resources") or {}).get("requests") or {}).get("storage"), "spec.resources[storage]", problems)


def _storage(amount: str | int | None, path: str, problems: Problems) -> None:
    if amount is None:
        problems.required(path)
        return
    try:
        positive = nanos(amount) > 0
    except QuantityError as error:
        problems.invalid(path, amount, str(error))
        return
    if not positive:
        problems.invalid(path, str(amount), "must be greater than zero")


_NOT_SOURCES = frozenset(
    (
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    )
)


def _volume(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    _modes(spec, problems)
    if spec.get("capacity"):
        _storage(spec["capacity"].get("storage"), "spec.capacity[storage]", problems)
    else:
        problems.required("spec.capacity")
    if spec.get("persistentVolumeReclaimPolicy") not in _RECLAIM:
        problems.unsupported("spec.persistentVolumeReclaimPolicy", spec.get("persistentVolumeReclaimPolicy"), _RECLAIM)
    if not any(value is not None for key, value in spec.items() if key not in _NOT_SOURCES):
        problems.required("spec", "must specify a volume type")
    if spec.get("local") is not None and not (spec.get("nodeAffinity") or {}).get("required"):
        problems.required("spec.nodeAffinity", "Local volume requires node affinity")


def _storage_class(obj: JSON, problems: Problems) -> None:
    if not obj.get("provisioner"):
        problems.required("provisioner")
    if obj.get("reclaimPolicy") not in ("Delete", "Retain"):
        problems.unsupported("reclaimPolicy", obj.get("reclaimPolicy"), ("Delete", "Retain"))
    if obj.get("volumeBindingMode") not in _BINDING_MODES:
        problems.unsupported("volumeBindingMode", obj.get("volumeBindingMode"), _BINDING_MODES)


def _priority_class(obj: JSON, problems: Problems) -> None:
    name, value = obj["metadata"].get("name") or "", obj.get("value") or 0
    if name.startswith("system-"):
        if name not in ("system-cluster-critical", "system-node-critical"):
            problems.forbidden(
                "metadata.name",
                "priority class names with 'system-' prefix are reserved for system use only. error: "
                f"{name} is not a known system priority class",
            )
    elif value > _SYSTEM_PRIORITY:
        problems.forbidden("value", f"maximum allowed value of a user defined priority is {_SYSTEM_PRIORITY}")
    if obj.get("preemptionPolicy") not in ("PreemptLowerPriority", "Never"):
        problems.unsupported("preemptionPolicy", obj.get("preemptionPolicy"), ("Never", "PreemptLowerPriority"))


def _role(obj: JSON, problems: Problems) -> None:
    for index, rule in enumerate(obj.get("rules") or []):
        path = f"rules[{index}]"
        if not rule.get("verbs"):
            problems.required(f"{path}.verbs", "verbs must contain at least one value")
        urls = rule.get("nonResourceURLs")
        if urls and (rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames")):
            problems.invalid(
                f"{path}.nonResourceURLs", urls, "rules cannot apply to both regular resources and non-resource URLs"
            )
        elif not urls:
            for field in ("apiGroups", "resources"):
                if not rule.get(field):
                    problems.required(f"{path}.{field}", f"resource rules must supply at least one {_SINGULAR[field]}")


_SINGULAR = {"apiGroups": "api group", "resources": "resource"}


def _role_binding(obj: JSON, problems: Problems) -> None:
    role = obj.get("roleRef") or {}
    if role.get("kind") not in ("Role", "ClusterRole"):
        problems.unsupported("roleRef.kind", role.get("kind") or "", ("Role", "ClusterRole"))
    if not role.get("name"):
        problems.required("roleRef.name")
    for index, subject in enumerate(obj.get("subjects") or []):
        path = f"subjects[{index}]"
        if not subject.get("name"):
            problems.required(f"{path}.name")
        kind = subject.get("kind")
        if kind not in ("User", "Group", "ServiceAccount"):
            problems.unsupported(f"{path}.kind", kind or "", ("ServiceAccount", "User", "Group"))
        if kind == "ServiceAccount" and not subject.get("namespace") and obj["kind"] == "ClusterRoleBinding":
            problems.required(f"{path}.namespace")


def _lease(obj: JSON, problems: Problems) -> None:
    duration = (obj.get("spec") or {}).get("leaseDurationSeconds")
    if isinstance(duration, int) and duration <= 0:
        problems.invalid("spec.leaseDurationSeconds", duration, "must be greater than 0")


# --- updates ----------------------------------------------------------------------------------------------------------


def _fixed(*fields: str) -> Callable[[JSON, JSON, Problems], None]:
    def compare(old: JSON, new: JSON, problems: Problems) -> None:
        for field in fields:
            if old.get(field) != new.get(field):
                problems.invalid(field, new.get(field), IMMUTABLE)

    return compare


_STORAGE_CLASS_FIXED = ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode")


def _compare_storage_classes(old: JSON, new: JSON, problems: Problems) -> None:
    for field in _STORAGE_CLASS_FIXED:
        if old.get(field) != new.get(field):
            problems.forbidden(field, f"updates to {field} are forbidden.")


def _compare_bindings(old: JSON, new: JSON, problems: Problems) -> None:
    if old.get("roleRef") != new.get("roleRef"):
        problems.invalid("roleRef", new.get("roleRef"), "cannot change roleRef")


_CLAIM_CHANGEABLE = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


def _compare_claims(old: JSON, new: JSON, problems: Problems) -> None:
    free = {"resources", "volumeAttributesClassName"}
    if not old["spec"].get("volumeName"):
        free |= {"volumeName"}
    before = {key: value for key, value in old["spec"].items() if key not in free}
    after = {key: value for key, value in new["spec"].items() if key not in free}
    if "storageClassName" not in before:
        after.pop("storageClassName", None)
    if before != after:
        problems.forbidden("spec", _CLAIM_CHANGEABLE)


def _compare_data(old: JSON, new: JSON, problems: Problems) -> None:
    if not old.get("immutable"):
        return
    for field in ("data", "binaryData", "immutable"):
        if old.get(field) != new.get(field):
            problems.forbidden(field, "field is immutable when `immutable` is set")


def _compare_secrets(old: JSON, new: JSON, problems: Problems) -> None:
    _compare_data(old, new, problems)
    if old.get("type") != new.get("type"):
        problems.invalid("type", new.get("type"), IMMUTABLE)


def _compare_nodes(old: JSON, new: JSON, problems: Problems) -> None:
    before, after = (old.get("spec") or {}).get("providerID"), (new.get("spec") or {}).get("providerID")
    if before and before != after:
        problems.forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid')


CHECKS: dict[str, Callable[[JSON, Problems], None]] = {
    "/nodes": _node,
    "/services": _service,
    "/persistentvolumeclaims": _claim,
    "/persistentvolumes": _volume,
    "storage.k8s.io/storageclasses": _storage_class,
    "scheduling.k8s.io/priorityclasses": _priority_class,
    "rbac.authorization.k8s.io/roles": _role,
    "rbac.authorization.k8s.io/clusterroles": _role,
    "rbac.authorization.k8s.io/rolebindings": _role_binding,
    "rbac.authorization.k8s.io/clusterrolebindings": _role_binding,
    "coordination.k8s.io/leases": _lease,
}

COMPARISONS: dict[str, Callable[[JSON, JSON, Problems], None]] = {
    "/nodes": _compare_nodes,
    "/configmaps": _compare_data,
    "/secrets": _compare_secrets,
    "/persistentvolumeclaims": _compare_claims,
    "storage.k8s.io/storageclasses": _compare_storage_classes,
    "scheduling.k8s.io/priorityclasses": _fixed("value", "preemptionPolicy"),
    "rbac.authorization.k8s.io/rolebindings": _compare_bindings,
    "rbac.authorization.k8s.io/clusterrolebindings": _compare_bindings,
}
