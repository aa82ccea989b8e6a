"""What Deployments, ReplicaSets and the other kinds that make pods must look like, and what of them is fixed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from kubesched.api import objects as api
from kubesched.api.selectors import SelectorError, label_selector
from kubesched.client.protocol import JSON
from kubesched.controlplane.problems import IMMUTABLE, Problems
from kubesched.controlplane.validation_pod import check_label_selector, check_pod_spec

_TEMPLATE = "spec.template"


def _non_negative(part: JSON, field: str, path: str, problems: Problems) -> None:
    value = part.get(field)
    if isinstance(value, int) and value < 0:
        problems.invalid(f"{path}.{field}", value, "must be greater than or equal to 0")


def _check_template(spec: JSON, problems: Problems, restart: tuple[str, ...] = ("Always",)) -> None:
    template = spec.get("template") or {}
    pod = template.get("spec") or {}
    claims = [{"name": (each.get("metadata") or {}).get("name")} for each in spec.get("volumeClaimTemplates") or []]
    if claims:
        # The claims of a StatefulSet become volumes of its pods, so containers may mount them.
        names = {each["name"] for each in claims}
        own = [each for each in pod.get("volumes") or [] if each.get("name") not in names]
        pod = {**pod, "volumes": [*own, *({**each, "emptyDir": {}} for each in claims)]}
    check_pod_spec(pod, f"{_TEMPLATE}.spec", problems)
    policy = pod.get("restartPolicy")
    if policy and policy not in restart:
        problems.unsupported(f"{_TEMPLATE}.spec.restartPolicy", policy, restart)


def _check_selector(spec: JSON, problems: Problems) -> None:
    selector = spec.get("selector")
    if selector is None:
        problems.required("spec.selector")
        return
    check_label_selector(selector, "spec.selector", problems)
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        problems.invalid("spec.selector", selector, "empty selector is invalid for deployment")
        return
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    if not selects(selector, labels):
        problems.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")


def selects(selector: JSON, labels: JSON) -> bool:
    """Whether a label selector selects these labels; one that does not parse selects nothing."""
    try:
        compiled = label_selector(msgspec.convert(selector, api.LabelSelector))
    except (SelectorError, msgspec.ValidationError):
        return False
    return compiled.matches(labels)


def _workload(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    _non_negative(spec, "replicas", "spec", problems)
    _non_negative(spec, "minReadySeconds", "spec", problems)
    _non_negative(spec, "revisionHistoryLimit", "spec", problems)
    _check_selector(spec, problems)
    _check_template(spec, problems)


def _deployment(obj: JSON, problems: Problems) -> None:
    _workload(obj, problems)
    spec = obj.get("spec") or {}
    strategy = spec.get("strategy") or {}
    type_ = strategy.get("type")
    if type_ not in ("RollingUpdate", "Recreate"):
        problems.unsupported("spec.strategy.type", type_, ("Recreate", "RollingUpdate"))
    if type_ == "Recreate" and strategy.get("rollingUpdate") is not None:
        problems.forbidden("spec.strategy.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'")
    rolling = strategy.get("rollingUpdate") or {}
    if type_ == "RollingUpdate" and _is_zero(rolling.get("maxUnavailable")) and _is_zero(rolling.get("maxSurge")):
        problems.invalid(
            "spec.strategy.rollingUpdate.maxUnavailable",
            rolling.get("maxUnavailable"),
            "may not be 0 when `maxSurge` is 0",
        )


def _is_zero(value: Any) -> bool:
    return value in (0, "0", "0%")


def _replication_controller(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    _non_negative(spec, "replicas", "spec", problems)
    selector = spec.get("selector") or {}
    if not selector:
        problems.required("spec.selector")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        problems.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    _check_template(spec, problems)


def _job(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    for field in ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"):
        _non_negative(spec, field, "spec", problems)
    pod = (spec.get("template") or {}).get("spec") or {}
    check_pod_spec(pod, f"{_TEMPLATE}.spec", problems)
    if pod.get("restartPolicy") == "Always":
        problems.required(f"{_TEMPLATE}.spec.restartPolicy", 'valid values: "OnFailure", "Never"')


def _cron_job(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    if not spec.get("schedule"):
        problems.required("spec.schedule")


def _disruption_budget(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        problems.invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    check_label_selector(spec.get("selector"), "spec.selector", problems)


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


def _compare_jobs(old: JSON, new: JSON, problems: Problems) -> None:
    _same_selector(old, new, problems)
    for field in ("completionMode", "template"):
        if old["spec"].get(field) != new["spec"].get(field) and not old["spec"].get("suspend"):
            problems.invalid(f"spec.{field}", new["spec"].get(field), IMMUTABLE)


CHECKS: dict[str, Callable[[JSON, Problems], None]] = {
    "apps/deployments": _deployment,
    "apps/replicasets": _workload,
    "apps/statefulsets": _workload,
    "apps/daemonsets": _workload,
    "/replicationcontrollers": _replication_controller,
    "batch/jobs": _job,
    "batch/cronjobs": _cron_job,
    "policy/poddisruptionbudgets": _disruption_budget,
}

COMPARISONS: dict[str, Callable[[JSON, JSON, Problems], None]] = {
    "apps/deployments": _same_selector,
    "apps/replicasets": _same_selector,
    "apps/daemonsets": _same_selector,
    "apps/statefulsets": _compare_stateful_sets,
    "batch/jobs": _compare_jobs,
}
