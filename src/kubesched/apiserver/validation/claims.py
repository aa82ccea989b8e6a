"""Validation of volumes, claims on them and their classes, and of their immutable fields."""

from __future__ import annotations

from kubesched.api.names import label_key_errors
from kubesched.api.quantity import canonical, nanos, value
from kubesched.apiserver.validation.checks import (
    Check,
    Comparison,
    check_name,
    check_set_name,
    each,
    fixed,
    require_name,
)
from kubesched.apiserver.validation.containers import one_of
from kubesched.apiserver.validation.device_names import check_driver
from kubesched.apiserver.validation.naming import subdomain_errors
from kubesched.apiserver.validation.problems import Problems
from kubesched.apiserver.validation.selectors import check_label_selector, check_node_selector
from kubesched.base.types import JSON

_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES = ("Block", "Filesystem")
_RECLAIM = ("Delete", "Recycle", "Retain")
_CLASS_RECLAIM = ("Delete", "Retain")
_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")


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
    source = spec.get("dataSource") or {}
    for field in ("dataSource", "dataSourceRef"):
        if source.get("kind") and not source.get("name"):
            problems.required(f"{path}.{field}.name")
    check_name(spec.get("volumeAttributesClassName"), subdomain_errors, f"{path}.volumeAttributesClassName", problems)


def _class_name(spec: JSON, path: str, problems: Problems) -> None:
    check_name(spec.get("storageClassName"), subdomain_errors, f"{path}.storageClassName", problems)


def _storage(amount: str | int | None, path: str, problems: Problems) -> None:
    if amount is None:
        problems.required(path)
        return
    if nanos(amount) <= 0:
        problems.invalid(path, canonical(amount), "must be greater than zero")


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
    check_volume_spec(obj.get("spec") or {}, "spec", problems)


def check_volume_spec(spec: JSON, path: str, problems: Problems, *, inline: bool = False) -> None:
    """Check the spec of a volume, or of one inside an attachment, which has less."""
    if inline:
        _check_inline(spec, path, problems)
    _modes(spec, path, problems)
    if not inline:
        _capacity(spec.get("capacity"), f"{path}.capacity", problems)
        one_of(spec, "persistentVolumeReclaimPolicy", _RECLAIM, path, problems)
    placed = spec.get("nodeAffinity")
    if placed is not None and placed.get("required") is None:
        problems.required(f"{path}.nodeAffinity.required", "must specify required node constraints")
    elif placed is not None:
        check_node_selector(placed["required"], f"{path}.nodeAffinity.required", problems)
    _source(spec, path, problems)
    _class_name(spec, path, problems)
    if spec.get("local") is not None and placed is None:
        problems.required(f"{path}.nodeAffinity", "Local volume requires node affinity")


def _check_inline(spec: JSON, path: str, problems: Problems) -> None:
    for field in ("claimRef", "capacity"):
        if spec.get(field):
            problems.forbidden(f"{path}.{field}", "may not be specified in the context of inline volumes")
    if spec.get("csi") is None:
        problems.required(f"{path}.csi", "has to be specified in the context of inline volumes")


def _capacity(capacity: JSON | None, path: str, problems: Problems) -> None:
    if not capacity:
        problems.required(path)
    if list(capacity or ()) != ["storage"]:
        problems.unsupported(path, capacity, ("storage",))
        return
    amount, where = (capacity or {})["storage"], f"{path}[storage]"
    if nanos(amount) < 0:
        problems.invalid(where, value(amount), "must be a valid resource quantity")
    _storage(amount, where, problems)


def _source(spec: JSON, path: str, problems: Problems) -> None:
    sources = [key for key, value in spec.items() if key not in _NOT_SOURCES and value is not None]
    if not sources:
        problems.required(path, "must specify a volume type")
    for extra in sources[1:]:
        problems.forbidden(f"{path}.{extra}", "may not specify more than 1 volume type")
    for kind in sources[:1]:
        part, where = spec[kind], f"{path}.{kind}"
        if kind in ("hostPath", "local"):
            _place(part, f"{where}.path", problems)
        elif kind == "nfs":
            check_nfs(part, where, problems)
        elif kind == "csi":
            check_driver(part.get("driver"), f"{where}.driver", problems)
            if not part.get("volumeHandle"):
                problems.required(f"{where}.volumeHandle")


def _place(part: JSON, path: str, problems: Problems) -> None:
    place = part.get("path") or ""
    if not place:
        problems.required(path)
    elif ".." in place.split("/"):
        problems.invalid(path, place, "must not contain '..'")


def check_nfs(part: JSON, path: str, problems: Problems) -> None:
    """Check an NFS export."""
    for field in ("server", "path"):
        if not part.get(field):
            problems.required(f"{path}.{field}")
    if not (part.get("path") or "").startswith("/"):
        problems.invalid(f"{path}.path", part.get("path") or "", "must be an absolute path")


def _storage_class(obj: JSON, problems: Problems) -> None:
    require_name((obj.get("provisioner") or "").lower(), label_key_errors, "provisioner", problems)
    if obj.get("reclaimPolicy"):
        one_of(obj, "reclaimPolicy", _CLASS_RECLAIM, "", problems)
    one_of(obj, "volumeBindingMode", _BINDING_MODES, "", problems)
    terms: list[JSON] = [{}]  # so upstream: an empty term counts as repeated
    for term, path in each(obj.get("allowedTopologies"), "allowedTopologies"):
        found = _topology(term, f"{path}.matchLabelExpressions", problems)
        if found in terms:
            problems.duplicate(f"{path}.matchLabelExpressions", "")
        terms.append(found)


def _topology(term: JSON, path: str, problems: Problems) -> JSON:
    """Check one term of a class's topologies. Returns the values of each key."""
    found: JSON = {}
    for part, where in each(term.get("matchLabelExpressions"), path):
        key, values = part.get("key") or "", part.get("values") or []
        if not values:
            problems.required(f"{where}.values")
        for index, (choice, here) in enumerate(each(values, f"{where}.values")):
            if choice in values[:index]:
                problems.duplicate(here, choice)
        check_set_name(key, label_key_errors, f"{where}.key", problems)
        if key in found:
            problems.duplicate(f"{where}.key", key)
        found[key] = set(values)
    return found


# --- updates ----------------------------------------------------------------------------------------------------------

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


CHECKS: dict[str, Check] = {
    "/persistentvolumeclaims": _claim,
    "/persistentvolumes": _volume,
    "storage.k8s.io/storageclasses": _storage_class,
}
COMPARISONS: dict[str, Comparison] = {
    "/persistentvolumeclaims": _compare_claims,
    "/persistentvolumes": _compare_volumes,
    "storage.k8s.io/storageclasses": fixed("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"),
}
