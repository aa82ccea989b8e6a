"""Validation of nodes, data, priority classes and other kinds, and of their immutable fields."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable

from kubesched.api.names import label_key_errors, label_value_errors
from kubesched.apiserver.validation.checks import check_amount, check_choice, check_range, each, fixed
from kubesched.apiserver.validation.containers import non_negative
from kubesched.apiserver.validation.naming import config_key_errors
from kubesched.apiserver.validation.problems import IMMUTABLE, Problems
from kubesched.base.types import JSON

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_SYSTEM_PRIORITY = 1_000_000_000


def _node(obj: JSON, problems: Problems) -> None:
    seen = set()
    for index, taint in enumerate((obj.get("spec") or {}).get("taints") or []):
        path = f"metadata.taints[{index}]"  # so upstream calls them
        for error in label_key_errors(taint.get("key") or ""):
            problems.invalid(f"{path}.key", taint.get("key") or "", error)
        for error in label_value_errors(taint.get("value") or ""):
            problems.invalid(f"{path}.value", taint.get("value"), error)
        check_choice(taint.get("effect"), _EFFECTS, f"{path}.effect", problems)
        identity = (taint.get("key"), taint.get("effect"))
        if identity in seen:
            shown = {field.capitalize(): taint.get(field) or "" for field in ("key", "value", "effect")}
            detail = "taints must be unique by key and effect pair"
            problems.duplicate(path, {**shown, "TimeAdded": taint.get("timeAdded")}, detail)
        seen.add(identity)
    ranges = (obj.get("spec") or {}).get("podCIDRs") or []
    found = [check_range(text, path, problems) for text, path in each(ranges, "spec.podCIDRs")]
    versions = [each_.version for each_ in found if each_ is not None]
    if len(versions) == 2 and len(set(versions)) == 1:
        problems.invalid("spec.podCIDRs", ranges, "may specify no more than one CIDR for each IP family")
    for field in ("capacity", "allocatable"):
        _not_negative((obj.get("status") or {}).get(field), f"status.{field}.{{}}", problems)


def _not_negative(amounts: JSON | None, path: str, problems: Problems) -> None:
    for name, quantity in (amounts or {}).items():
        check_amount(quantity, path.format(name), problems)


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
    check_choice(obj.get("preemptionPolicy"), ("PreemptLowerPriority", "Never"), "preemptionPolicy", problems)


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


_BASIC = "kubernetes.io/basic-auth"
_SECRET_KEYS = {
    _BASIC: ("username", "password"),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
}
_ACCOUNT = "kubernetes.io/service-account.name"


def _json_error(encoded: str) -> str:
    try:
        text = base64.b64decode(encoded)
        json.loads(text)
    except RecursionError:
        return "exceeded max depth"
    except ValueError:
        start = text.lstrip()[:1].decode("latin-1")
        return f"invalid character '{start}' looking for beginning of value" if start else _NO_JSON
    return ""


_NO_JSON = "unexpected end of JSON input"


def _secret(obj: JSON, problems: Problems) -> None:
    _data(obj, problems)
    type_, data = obj.get("type") or "", obj.get("data") or {}
    wanted = _SECRET_KEYS.get(type_, ())
    for key in wanted if type_ != _BASIC or not data.keys() & set(wanted) else ():
        if key not in data:
            problems.required(f"data[{key}]")
        elif key.startswith(".docker") and (error := _json_error(data[key])):
            problems.invalid(f"data[{key}]", "<secret contents redacted>", error)
    if type_ == "kubernetes.io/service-account-token" and not (obj["metadata"].get("annotations") or {}).get(_ACCOUNT):
        problems.required(f"metadata.annotations[{_ACCOUNT}]")


def _namespace(obj: JSON, problems: Problems) -> None:
    for name in (obj.get("spec") or {}).get("finalizers") or []:
        for error in label_key_errors(name):
            problems.invalid("spec.finalizers", name, error)
        if "/" not in name and name not in STANDARD_FINALIZERS:
            problems.invalid("spec.finalizers", name, NOT_QUALIFIED)


STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
NOT_QUALIFIED = "name is neither a standard finalizer name nor is it fully qualified"


# --- updates ----------------------------------------------------------------------------------------------------------


def _compare_priority_classes(old: JSON, new: JSON, problems: Problems) -> None:
    if old.get("value") != new.get("value"):
        problems.forbidden("value", "may not be changed in an update.")
    fixed("preemptionPolicy")(old, new, problems)


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
    had, has = ((obj.get("spec") or {}).get("podCIDRs") for obj in (old, new))
    if had and had != has:
        problems.forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid')


CHECKS: dict[str, Callable[[JSON, Problems], None]] = {
    "/namespaces": _namespace,
    "/nodes": _node,
    "scheduling.k8s.io/priorityclasses": _priority_class,
    "coordination.k8s.io/leases": _lease,
    "/configmaps": _data,
    "/secrets": _secret,
}

COMPARISONS: dict[str, Callable[[JSON, JSON, Problems], None]] = {
    "/nodes": _compare_nodes,
    "/configmaps": _compare_data,
    "/secrets": _compare_secrets,
    "scheduling.k8s.io/priorityclasses": _compare_priority_classes,
}
