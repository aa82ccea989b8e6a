"""Validation of RuntimeClasses."""

from __future__ import annotations

from kubesched.apiserver.validation.checks import Check, Comparison, each, fixed, require_name
from kubesched.apiserver.validation.containers import check_resources
from kubesched.apiserver.validation.naming import label_errors
from kubesched.apiserver.validation.pod import check_tolerations
from kubesched.apiserver.validation.problems import Problems
from kubesched.apiserver.validation.selectors import check_labels
from kubesched.base.types import JSON


def _runtime_class(obj: JSON, problems: Problems) -> None:
    overhead, scheduling = obj.get("overhead"), obj.get("scheduling") or {}
    if overhead is not None:
        check_resources({"limits": overhead.get("podFixed")}, "overhead", problems)
    check_labels(scheduling.get("nodeSelector"), "scheduling.nodeSelector", problems)
    check_tolerations(scheduling, "scheduling", problems)
    seen = []
    for toleration, path in each(scheduling.get("tolerations"), "scheduling.tolerations"):
        identity = {key: value for key, value in toleration.items() if key != "tolerationSeconds" and value}
        if identity in seen:
            problems.duplicate(path, _internal(toleration))
        seen.append(identity)
    require_name(obj.get("handler"), label_errors, "handler", problems)


def _internal(toleration: JSON) -> JSON:
    """A toleration in upstream's internal form, which messages show."""
    fields = ("key", "operator", "value", "effect")
    shown = {field.capitalize(): toleration.get(field) or "" for field in fields}
    return {**shown, "TolerationSeconds": toleration.get("tolerationSeconds")}


CHECKS: dict[str, Check] = {"node.k8s.io/runtimeclasses": _runtime_class}
COMPARISONS: dict[str, Comparison] = {"node.k8s.io/runtimeclasses": fixed("handler")}
