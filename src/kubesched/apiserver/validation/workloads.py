"""Validation of Deployments, ReplicaSets and other workloads, and of their immutable fields."""

from __future__ import annotations

from typing import Any

import msgspec

from kubesched.api import objects as api
from kubesched.api.selectors import NOTHING, Selector, SelectorError, label_selector
from kubesched.apiserver.validation.checks import Check, Comparison, fixed
from kubesched.apiserver.validation.claims import check_claim_spec
from kubesched.apiserver.validation.containers import non_negative, one_of
from kubesched.apiserver.validation.naming import PERCENT_RULE, is_percent, label_errors, percentage
from kubesched.apiserver.validation.pod import check_template
from kubesched.apiserver.validation.problems import IMMUTABLE, Problems
from kubesched.apiserver.validation.selectors import check_label_selector, check_labels
from kubesched.base.types import JSON

_TEMPLATE = "spec.template"


def check_amount_or_percent(part: JSON, field: str, path: str, problems: Problems) -> None:
    """Check that a count, if set, is a number or a percentage."""
    value = part.get(field)
    if isinstance(value, str) and not is_percent(value):
        problems.invalid(f"{path}.{field}", value, PERCENT_RULE)
    elif isinstance(value, str) and field != "maxSurge" and percentage(value) > 100:
        problems.invalid(f"{path}.{field}", value, "must not be greater than 100%")
    else:
        non_negative(part, field, path, problems)


def _check_template(spec: JSON, problems: Problems, kind: str) -> None:
    template = spec.get("template") or {}
    pod = template.get("spec") or {}
    claims = [{"name": (each.get("metadata") or {}).get("name")} for each in spec.get("volumeClaimTemplates") or []]
    if claims:
        # The claims of a StatefulSet become volumes of its pods, so containers may mount them.
        names = [each["name"] for each in claims]
        own = [each for each in pod.get("volumes") or [] if each.get("name") not in names]
        added = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in dict.fromkeys(names)]
        pod = {**pod, "volumes": [*own, *added]}
    check_template({**template, "spec": pod}, _TEMPLATE, problems)
    if kind == "StatefulSet":  # upstream checks these twice
        check_labels((template.get("metadata") or {}).get("labels"), f"{_TEMPLATE}.labels", problems)
    policy = pod.get("restartPolicy")
    if policy and policy != "Always":
        problems.unsupported(f"{_TEMPLATE}.spec.restartPolicy", policy, ("Always",))
    if pod.get("activeDeadlineSeconds") is not None:
        owner = "ReplicaSet" if kind == "Deployment" else kind
        detail = f"activeDeadlineSeconds in {owner} is not Supported"
        problems.forbidden(f"{_TEMPLATE}.spec.activeDeadlineSeconds", detail)


def _check_selector(spec: JSON, problems: Problems, kind: str) -> None:
    selector = spec.get("selector")
    if selector is None and kind != "DaemonSet":
        problems.required("spec.selector")
    before = len(problems.found)
    check_label_selector(selector, "spec.selector", problems)
    if selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
        whom = "deployment" if kind == "ReplicaSet" else kind.lower()
        problems.invalid("spec.selector", {}, f"empty selector is invalid for {whom}")
        return
    if len(problems.found) > before:
        if kind != "DaemonSet":
            detail = "" if kind == "StatefulSet" else "invalid label selector"
            problems.invalid("spec.selector", _shown(selector or {}), detail)
        return
    check_template_labels(spec, problems)


def check_template_labels(spec: JSON, problems: Problems) -> None:
    """Check that the selector selects the pods of the template."""
    selector, labels = spec.get("selector"), ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if selector is None or not selects(selector, labels or {}):
        problems.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")


def _shown(selector: JSON) -> JSON:
    """A selector as messages show it: keys and operators even if they are empty."""
    shown = [{"key": "", "operator": "", **each} for each in selector.get("matchExpressions") or []]
    return {**selector, "matchExpressions": shown} if shown else selector


def selects(selector: JSON, labels: JSON) -> bool:
    """Whether a label selector matches these labels. A malformed one matches nothing."""
    return compiled(selector).matches(labels)


def compiled(selector: JSON) -> Selector:
    """A label selector in its compiled form. A malformed one matches nothing."""
    try:
        return label_selector(msgspec.convert(selector, api.LabelSelector))
    except (SelectorError, msgspec.ValidationError):
        return NOTHING


def _workload(obj: JSON, problems: Problems) -> None:
    spec, kind = obj.get("spec") or {}, obj["kind"]
    for field in ("replicas", "minReadySeconds", "revisionHistoryLimit"):
        non_negative(spec, field, "spec", problems)
    _check_selector(spec, problems, kind)
    _check_template(spec, problems, kind)


def _deployment(obj: JSON, problems: Problems) -> None:
    _workload(obj, problems)
    spec = obj.get("spec") or {}
    strategy = spec.get("strategy") or {}
    type_ = strategy.get("type")
    if type_ not in ("RollingUpdate", "Recreate"):
        problems.unsupported("spec.strategy", _internal(strategy), ("Recreate", "RollingUpdate"))
    if type_ == "Recreate" and strategy.get("rollingUpdate") is not None:
        problems.forbidden("spec.strategy.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")
    rolling = strategy.get("rollingUpdate") or {}
    for field in ("maxUnavailable", "maxSurge"):
        check_amount_or_percent(rolling, field, "spec.strategy.rollingUpdate", problems)
    if type_ == "RollingUpdate" and _is_zero(rolling.get("maxUnavailable")) and _is_zero(rolling.get("maxSurge")):
        problems.invalid(
            "spec.strategy.rollingUpdate.maxUnavailable",
            rolling.get("maxUnavailable"),
            "may not be 0 when `maxSurge` is 0",
        )
    non_negative(spec, "progressDeadlineSeconds", "spec", problems)
    deadline = spec.get("progressDeadlineSeconds")
    if isinstance(deadline, int) and deadline <= (spec.get("minReadySeconds") or 0):
        problems.invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _internal(strategy: JSON) -> JSON:
    """A strategy in upstream's internal form, which messages show."""
    rolling = strategy.get("rollingUpdate")
    shown = {field[0].upper() + field[1:]: (rolling or {}).get(field, 0) for field in ("maxUnavailable", "maxSurge")}
    return {"Type": strategy.get("type"), "RollingUpdate": None if rolling is None else shown}


def _stateful_set(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    if spec.get("podManagementPolicy") not in ("OrderedReady", "Parallel"):
        problems.invalid(
            "spec.podManagementPolicy", spec.get("podManagementPolicy"), "must be 'OrderedReady' or 'Parallel'"
        )
    strategy = spec.get("updateStrategy") or {}
    rolling = strategy.get("rollingUpdate") or {}
    if strategy.get("type") not in ("RollingUpdate", "OnDelete"):
        shown = {"Partition": rolling.get("partition") or 0, "MaxUnavailable": None}
        shown = {"Type": strategy.get("type"), "RollingUpdate": shown if rolling else None}
        problems.invalid("spec.updateStrategy", shown, "must be 'RollingUpdate' or 'OnDelete'")
    non_negative(rolling, "partition", "spec.updateStrategy.rollingUpdate", problems)
    for error in label_errors(spec["serviceName"]) if spec.get("serviceName") else ():
        problems.invalid("spec.serviceName", spec["serviceName"], error)
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for field in ("whenDeleted", "whenScaled"):
        one_of(retention, field, ("Retain", "Delete"), "spec.persistentVolumeClaimRetentionPolicy", problems)
    non_negative(spec.get("ordinals") or {}, "start", "spec.ordinals", problems)
    for field in ("replicas", "minReadySeconds"):
        non_negative(spec, field, "spec", problems)
    _check_selector(spec, problems, "StatefulSet")
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or []):
        check_claim_spec(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}].spec", problems)
    _check_template(spec, problems, "StatefulSet")


def _daemon_set(obj: JSON, problems: Problems) -> None:
    _workload(obj, problems)
    strategy = (obj.get("spec") or {}).get("updateStrategy") or {}
    if strategy.get("type") not in ("RollingUpdate", "OnDelete"):
        problems.unsupported("spec.updateStrategy", _internal(strategy), ("RollingUpdate", "OnDelete"))
    if strategy.get("type") == "RollingUpdate":
        _rolling_update(strategy.get("rollingUpdate"), problems)


def _rolling_update(rolling: JSON | None, problems: Problems) -> None:
    path = "spec.updateStrategy.rollingUpdate"
    if rolling is None:
        problems.required(path)
        return
    for field in ("maxUnavailable", "maxSurge"):
        check_amount_or_percent(rolling, field, path, problems)
    if _is_zero(rolling.get("maxUnavailable")) and _is_zero(rolling.get("maxSurge")):
        problems.required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")
    elif not _is_zero(rolling.get("maxUnavailable")) and not _is_zero(rolling.get("maxSurge")):
        problems.invalid(f"{path}.maxSurge", rolling.get("maxSurge"), "may not be set when maxUnavailable is non-zero")


def _is_zero(value: Any) -> bool:
    return value in (0, "0", "0%")


def _replication_controller(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    for field in ("minReadySeconds", "replicas"):
        non_negative(spec, field, "spec", problems)
    selector = spec.get("selector") or {}
    if not selector:
        problems.required("spec.selector")
    if spec.get("template") is None:
        problems.required("spec.template")
        return
    labels = (spec["template"].get("metadata") or {}).get("labels")
    if any((labels or {}).get(key) != value for key, value in selector.items()):
        problems.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    _check_template(spec, problems, "ReplicationController")


def _disruption_budget(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        fields = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")
        shown = {field[0].upper() + field[1:]: spec.get(field) for field in fields}
        problems.invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        check_amount_or_percent(spec, field, "spec", problems)
    one_of(spec, "unhealthyPodEvictionPolicy", ("AlwaysAllow", "IfHealthyBudget"), "spec", problems)
    check_label_selector(spec.get("selector"), "spec.selector", problems)


def _pod_template(obj: JSON, problems: Problems) -> None:
    check_template(obj.get("template") or {}, "template", problems)


def _revision(obj: JSON, problems: Problems) -> None:
    revision = obj.get("revision") or 0
    if revision < 0:
        problems.invalid("revision", revision, "must be greater than or equal to 0")


def _new_revision(obj: JSON, problems: Problems) -> None:
    _revision(obj, problems)
    if obj.get("data") is None:
        problems.required("data", "data is mandatory")
    elif not isinstance(obj["data"], dict):
        problems.required("data", "data must be a valid JSON object")


# --- updates ----------------------------------------------------------------------------------------------------------


def _same_selector(old: JSON, new: JSON, problems: Problems) -> None:
    before, after = old["spec"].get("selector"), new["spec"].get("selector")
    if before != after:
        problems.invalid("spec.selector", after, IMMUTABLE)


_STATEFUL_CHANGEABLE = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy',"
    " 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def _compare_stateful_sets(old: JSON, new: JSON, problems: Problems) -> None:
    fixed = ("selector", "serviceName", "volumeClaimTemplates", "podManagementPolicy")
    if any(old["spec"].get(field) != new["spec"].get(field) for field in fixed):
        problems.forbidden("spec", _STATEFUL_CHANGEABLE)


NEW: dict[str, Check] = {"apps/controllerrevisions": _new_revision}
CHECKS: dict[str, Check] = {
    "/podtemplates": _pod_template,
    "apps/controllerrevisions": _revision,
    "apps/deployments": _deployment,
    "apps/replicasets": _workload,
    "apps/statefulsets": _stateful_set,
    "apps/daemonsets": _daemon_set,
    "/replicationcontrollers": _replication_controller,
    "policy/poddisruptionbudgets": _disruption_budget,
}

COMPARISONS: dict[str, Comparison] = {
    "apps/controllerrevisions": fixed("data"),
    "apps/deployments": _same_selector,
    "apps/replicasets": _same_selector,
    "apps/daemonsets": _same_selector,
    "apps/statefulsets": _compare_stateful_sets,
}
