"""Validation of nodes, services, volumes, roles and other kinds, and of their immutable fields."""

from __future__ import annotations

from collections.abc import Callable

from kubesched.api.names import label_key_errors, label_value_errors
from kubesched.api.quantity import QuantityError, nanos
from kubesched.apiserver.validation.containers import check_port, non_negative, one_of
from kubesched.apiserver.validation.naming import config_key_errors, subdomain_errors
from kubesched.apiserver.validation.pod import check_label_selector, check_labels, check_node_selector
from kubesched.apiserver.validation.problems import IMMUTABLE, Problems, check_address
from kubesched.base.types import JSON

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
        path = f"metadata.taints[{index}]"  # so upstream calls them
        for error in label_key_errors(taint.get("key") or ""):
            problems.invalid(f"{path}.key", taint.get("key") or "", error)
        for error in label_value_errors(taint.get("value") or ""):
            problems.invalid(f"{path}.value", taint.get("value"), error)
        if taint.get("effect") not in _EFFECTS:
            problems.unsupported(f"{path}.effect", taint.get("effect") or "", _EFFECTS)
        identity = (taint.get("key"), taint.get("effect"))
        if identity in seen:
            problems.duplicate(path, taint, "taints must be unique by key and effect pair")
        seen.add(identity)
    for field in ("capacity", "allocatable"):
        _not_negative((obj.get("status") or {}).get(field), f"status.{field}.{{}}", problems)


def _not_negative(amounts: JSON | None, path: str, problems: Problems) -> None:
    for name, quantity in (amounts or {}).items():
        try:
            negative = nanos(quantity) < 0
        except QuantityError as error:
            problems.invalid(path.format(name), quantity, str(error))
            continue
        if negative:
            problems.invalid(path.format(name), str(quantity), "must be greater than or equal to 0")


def _service(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    type_ = spec.get("type")
    if type_ not in _SERVICE_TYPES:
        problems.unsupported("spec.type", type_, _SERVICE_TYPES)
    if type_ == "ExternalName" and not spec.get("externalName"):
        problems.required("spec.externalName")
    check_labels(spec.get("selector"), "spec.selector", problems)
    one_of(spec, "sessionAffinity", ("ClientIP", "None"), "spec", problems)
    one_of(spec, "externalTrafficPolicy", ("Cluster", "Local"), "spec", problems)
    one_of(spec, "ipFamilyPolicy", ("PreferDualStack", "RequireDualStack", "SingleStack"), "spec", problems)
    for index, address in enumerate(spec.get("externalIPs") or []):
        check_address(address, f"spec.externalIPs[{index}]", problems)
    ports = spec.get("ports") or []
    if not ports and spec.get("clusterIP") != "None" and type_ != "ExternalName":
        problems.required("spec.ports")
    names: set[str] = set()
    for index, port in enumerate(ports):
        path = f"spec.ports[{index}]"
        name = port.get("name") or ""
        if name and name in names:
            problems.duplicate(f"{path}.name", name)
        names.add(name)
        number = port.get("port") or 0
        if not 0 < number < 65536:
            problems.invalid(f"{path}.port", number, "must be between 1 and 65535, inclusive")
        check_port(port.get("targetPort"), f"{path}.targetPort", problems)
        if len(ports) > 1 and not port.get("name"):
            problems.required(f"{path}.name")
        if port.get("protocol") not in _PROTOCOLS:
            problems.unsupported(f"{path}.protocol", port.get("protocol"), _PROTOCOLS)


def _modes(spec: JSON, path: str, problems: Problems, detail: str = "") -> None:
    modes = spec.get("accessModes") or []
    if not modes:
        problems.required(f"{path}.accessModes", detail)
    for mode in modes:
        if mode not in _ACCESS_MODES:
            problems.unsupported(f"{path}.accessModes", mode, _ACCESS_MODES)
    if len(modes) > 1 and "ReadWriteOncePod" in modes:
        problems.forbidden(f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes")
    one_of(spec, "volumeMode", _VOLUME_MODES, path, problems)


def _claim(obj: JSON, problems: Problems) -> None:
    check_claim_spec(obj.get("spec") or {}, "spec", problems)


def check_claim_spec(spec: JSON, path: str, problems: Problems) -> None:
    """Check the spec of a claim or of a template of one."""
    check_label_selector(spec.get("selector"), f"{path}.selector", problems)
    _modes(spec, path, problems, "at least 1 access mode is required")
    _storage(
        (((spec.get("resources") or {}).get("requests")) or {}).get("storage"), f"{path}.resources[storage]", problems
    )
    _class_name(spec, path, problems)


def _class_name(spec: JSON, path: str, problems: Problems) -> None:
    name = spec.get("storageClassName")
    for error in subdomain_errors(name) if name else ():
        problems.invalid(f"{path}.storageClassName", name, error)


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
    _modes(spec, "spec", problems)
    capacity = spec.get("capacity") or {}
    if not capacity:
        problems.required("spec.capacity")
    if list(capacity) != ["storage"]:
        problems.unsupported("spec.capacity", capacity, ("storage",))
    else:
        _storage(capacity["storage"], "spec.capacity[storage]", problems)
    if spec.get("persistentVolumeReclaimPolicy") not in _RECLAIM:
        problems.unsupported("spec.persistentVolumeReclaimPolicy", spec.get("persistentVolumeReclaimPolicy"), _RECLAIM)
    affinity = (spec.get("nodeAffinity") or {}).get("required")
    if affinity is not None:
        check_node_selector(affinity, "spec.nodeAffinity.required", problems)
    _source(spec, problems)
    _class_name(spec, "spec", problems)
    if spec.get("local") is not None and not (spec.get("nodeAffinity") or {}).get("required"):
        problems.required("spec.nodeAffinity", "Local volume requires node affinity")


def _source(spec: JSON, problems: Problems) -> None:
    sources = [key for key, value in spec.items() if key not in _NOT_SOURCES and value is not None]
    if not sources:
        problems.required("spec", "must specify a volume type")
    for extra in sources[1:]:
        problems.forbidden(f"spec.{extra}", "may not specify more than 1 volume type")
    if sources[:1] == ["hostPath"]:
        path = spec["hostPath"].get("path") or ""
        if not path:
            problems.required("spec.hostPath.path")
        elif ".." in path.split("/"):
            problems.invalid("spec.hostPath.path", path, "must not contain '..'")
    if sources[:1] == ["csi"]:
        for field in ("driver", "volumeHandle"):
            if not spec["csi"].get(field):
                problems.required(f"spec.csi.{field}")


def _storage_class(obj: JSON, problems: Problems) -> None:
    provisioner = (obj.get("provisioner") or "").lower()
    if not provisioner:
        problems.required("provisioner")
    for error in label_key_errors(provisioner) if provisioner else ():
        problems.invalid("provisioner", provisioner, error)
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
        problems.unsupported("preemptionPolicy", obj.get("preemptionPolicy"), ("PreemptLowerPriority", "Never"))


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
        elif urls and obj["kind"] == "Role":
            problems.invalid(f"{path}.nonResourceURLs", urls, "namespaced rules cannot apply to non-resource URLs")
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
    non_negative(obj.get("spec") or {}, "leaseTransitions", "spec", problems)


def _data(obj: JSON, problems: Problems) -> None:
    binary = obj.get("binaryData") or {}
    for field in ("data", "binaryData"):
        for key in obj.get(field) or {}:
            for error in config_key_errors(key):
                problems.invalid(f"{field}[{key}]", key, error)
            if field == "data" and key in binary:
                problems.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")


_SECRET_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}
_ACCOUNT = "kubernetes.io/service-account.name"


def _secret(obj: JSON, problems: Problems) -> None:
    _data(obj, problems)
    type_, data = obj.get("type") or "", obj.get("data") or {}
    for key in _SECRET_KEYS.get(type_, ()):
        if key not in data:
            problems.required(f"data[{key}]")
    if type_ == "kubernetes.io/service-account-token" and not (obj["metadata"].get("annotations") or {}).get(_ACCOUNT):
        problems.required(f"metadata.annotations[{_ACCOUNT}]")


def _quota(obj: JSON, problems: Problems) -> None:
    _not_negative((obj.get("spec") or {}).get("hard"), "spec.hard[{}]", problems)


def _endpoint_slice(obj: JSON, problems: Problems) -> None:
    one_of(obj, "addressType", ("FQDN", "IPv4", "IPv6"), "", problems)
    for index, endpoint in enumerate(obj.get("endpoints") or []):
        path = f"endpoints[{index}].addresses"
        if not endpoint.get("addresses"):
            problems.required(path, "must contain at least 1 address")
        for number, address in enumerate(endpoint.get("addresses") or []):
            if obj.get("addressType") in ("IPv4", "IPv6"):
                check_address(address, f"{path}[{number}]", problems)


# --- updates ----------------------------------------------------------------------------------------------------------


def _fixed(*fields: str) -> Callable[[JSON, JSON, Problems], None]:
    def compare(old: JSON, new: JSON, problems: Problems) -> None:
        for field in fields:
            if old.get(field) != new.get(field):
                problems.invalid(field, new.get(field), IMMUTABLE)

    return compare


def _compare_priority_classes(old: JSON, new: JSON, problems: Problems) -> None:
    if old.get("value") != new.get("value"):
        problems.forbidden("value", "may not be changed in an update.")
    _fixed("preemptionPolicy")(old, new, problems)


def _compare_bindings(old: JSON, new: JSON, problems: Problems) -> None:
    if old.get("roleRef") != new.get("roleRef"):
        problems.invalid("roleRef", new.get("roleRef"), "cannot change roleRef")


_CLAIM_CHANGEABLE = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)


def _compare_claims(old: JSON, new: JSON, problems: Problems) -> None:
    bound = old["spec"].get("volumeName")
    free = {"resources", "volumeAttributesClassName"} if bound else {"volumeName"}
    before = {key: value for key, value in old["spec"].items() if key not in free}
    after = {key: value for key, value in new["spec"].items() if key not in free}
    if "storageClassName" not in before:
        after.pop("storageClassName", None)
    if before != after:
        problems.forbidden("spec", _CLAIM_CHANGEABLE)
    has = ((old.get("status") or {}).get("capacity") or {}).get("storage")
    wants = ((new["spec"].get("resources") or {}).get("requests") or {}).get("storage")
    if bound and has and wants and old["spec"] != new["spec"] and nanos(wants) < nanos(has):
        problems.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")


def _compare_volumes(old: JSON, new: JSON, problems: Problems) -> None:
    before, after = ({k: v for k, v in each["spec"].items() if k not in _NOT_SOURCES} for each in (old, new))
    if before != after:
        field = "spec.persistentvolumesource"
        problems.forbidden(field, f"{field} is immutable after creation")


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
    "/configmaps": _data,
    "/secrets": _secret,
    "/resourcequotas": _quota,
    "discovery.k8s.io/endpointslices": _endpoint_slice,
}

COMPARISONS: dict[str, Callable[[JSON, JSON, Problems], None]] = {
    "/nodes": _compare_nodes,
    "/configmaps": _compare_data,
    "/secrets": _compare_secrets,
    "/persistentvolumeclaims": _compare_claims,
    "/persistentvolumes": _compare_volumes,
    "storage.k8s.io/storageclasses": _fixed("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"),
    "scheduling.k8s.io/priorityclasses": _compare_priority_classes,
    "rbac.authorization.k8s.io/rolebindings": _compare_bindings,
    "rbac.authorization.k8s.io/clusterrolebindings": _compare_bindings,
}
