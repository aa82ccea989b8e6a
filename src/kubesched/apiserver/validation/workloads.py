"""Validation of Deployments, ReplicaSets and other workloads, and of their immutable fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from kubesched.api import objects as api
from kubesched.api.selectors import SelectorError, label_selector
from kubesched.apiserver.job_indexes import index_ranges
from kubesched.apiserver.validation.containers import non_negative, one_of
from kubesched.apiserver.validation.core import check_claim_spec
from kubesched.apiserver.validation.naming import PERCENT_RULE, is_percent, label_errors
from kubesched.apiserver.validation.pod import check_label_selector, check_labels, check_pod_spec
from kubesched.apiserver.validation.problems import IMMUTABLE, Problems
from kubesched.base.types import JSON

_TEMPLATE = "spec.template"


def check_amount_or_percent(part: JSON, field: str, path: str, problems: Problems) -> None:
    """Check that a count, if set, is a number or a percentage."""
    value = part.get(field)
    if isinstance(value, str) and not is_percent(value):
        problems.invalid(f"{path}.{field}", value, PERCENT_RULE)
    elif isinstance(value, str) and field != "maxSurge" and int(value[:-1]) > 100:
        problems.invalid(f"{path}.{field}", value, "must not be greater than 100%")
    else:
        non_negative(part, field, path, problems)


def _check_template(spec: JSON, problems: Problems, kind: str) -> None:
    template = spec.get("template") or {}
    pod = template.get("spec") or {}
    claims = [{"name": (each.get("metadata") or {}).get("name")} for each in spec.get("volumeClaimTemplates") or []]
    if claims:
        # The claims of a StatefulSet become volumes of its pods, so containers may mount them.
        names = {each["name"] for each in claims}
        own = [each for each in pod.get("volumes") or [] if each.get("name") not in names]
        pod = {**pod, "volumes": [*own, *({**each, "emptyDir": {}} for each in claims)]}
    check_labels((template.get("metadata") or {}).get("labels"), f"{_TEMPLATE}.labels", problems)
    check_pod_spec(pod, f"{_TEMPLATE}.spec", problems)
    policy = pod.get("restartPolicy")
    if policy and policy != "Always":
        problems.unsupported(f"{_TEMPLATE}.spec.restartPolicy", policy, ("Always",))
    if pod.get("activeDeadlineSeconds") is not None:
        owner = "ReplicaSet" if kind == "Deployment" else kind
        detail = f"activeDeadlineSeconds in {owner} is not Supported"
        problems.forbidden(f"{_TEMPLATE}.spec.activeDeadlineSeconds", detail)


def _check_selector(spec: JSON, problems: Problems, kind: str) -> None:
    selector = spec.get("selector")
    if selector is None:
        problems.required("spec.selector")
    before = len(problems.found)
    check_label_selector(selector, "spec.selector", problems)
    if selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
        whom = "deployment" if kind == "ReplicaSet" else kind.lower()
        problems.invalid("spec.selector", selector, f"empty selector is invalid for {whom}")
        return
    if len(problems.found) > before:
        problems.invalid("spec.selector", selector, "invalid label selector")
        return
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if selector is None or not selects(selector, labels or {}):
        problems.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")


def selects(selector: JSON, labels: JSON) -> bool:
    """Whether a label selector matches these labels. A malformed one matches nothing."""
    try:
        compiled = label_selector(msgspec.convert(selector, api.LabelSelector))
    except (SelectorError, msgspec.ValidationError):
        return False
    return compiled.matches(labels)


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
        problems.unsupported("spec.strategy.type", type_, ("Recreate", "RollingUpdate"))
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
    deadline = spec.get("progressDeadlineSeconds")
    if isinstance(deadline, int) and deadline <= (spec.get("minReadySeconds") or 0):
        problems.invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _stateful_set(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    if spec.get("podManagementPolicy") not in ("OrderedReady", "Parallel"):
        problems.invalid(
            "spec.podManagementPolicy", spec.get("podManagementPolicy"), "must be 'OrderedReady' or 'Parallel'"
        )
    strategy = spec.get("updateStrategy") or {}
    if strategy.get("type") not in ("RollingUpdate", "OnDelete"):
        problems.invalid("spec.updateStrategy.type", strategy.get("type"), "must be 'RollingUpdate' or 'OnDelete'")
    rolling = strategy.get("rollingUpdate") or {}
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
    _check_template(spec, problems, "StatefulSet")
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or []):
        check_claim_spec(claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}].spec", problems)


def _daemon_set(obj: JSON, problems: Problems) -> None:
    _workload(obj, problems)
    strategy = (obj.get("spec") or {}).get("updateStrategy") or {}
    one_of(strategy, "type", ("RollingUpdate", "OnDelete"), "spec.updateStrategy", problems)
    rolling = strategy.get("rollingUpdate") or {}
    path = "spec.updateStrategy.rollingUpdate"
    for field in ("maxUnavailable", "maxSurge"):
        check_amount_or_percent(rolling, field, path, problems)
    if rolling and _is_zero(rolling.get("maxUnavailable")) and _is_zero(rolling.get("maxSurge")):
        problems.required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")


def _is_zero(value: Any) -> bool:
    return value in (0, "0", "0%")


def _replication_controller(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    non_negative(spec, "replicas", "spec", problems)
    selector = spec.get("selector") or {}
    if not selector:
        problems.required("spec.selector")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        problems.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    _check_template(spec, problems, "ReplicationController")


def _job(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    for field in ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"):
        non_negative(spec, field, "spec", problems)
    one_of(spec, "completionMode", ("NonIndexed", "Indexed"), "spec", problems)
    _check_success_policy(spec, problems)
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
        problems.required("spec.completions", "when completion mode is Indexed")
    if spec.get("backoffLimitPerIndex") is not None and spec.get("completionMode") != "Indexed":
        problems.invalid("spec.backoffLimitPerIndex", spec["backoffLimitPerIndex"], "requires indexed completion mode")
    one_of(spec, "podReplacementPolicy", ("Failed", "TerminatingOrFailed"), "spec", problems)
    pod = (spec.get("template") or {}).get("spec") or {}
    check_pod_spec(pod, f"{_TEMPLATE}.spec", problems)
    if pod.get("restartPolicy") == "Always":
        problems.required(f"{_TEMPLATE}.spec.restartPolicy", 'valid values: "OnFailure", "Never"')


def _check_success_policy(spec: JSON, problems: Problems) -> None:
    policy = spec.get("successPolicy")
    if policy is None:
        return
    path = "spec.successPolicy"
    if spec.get("completionMode") != "Indexed":
        problems.invalid(path, policy, "requires indexed completion mode")
    if not policy.get("rules"):
        problems.required(f"{path}.rules", "at least one rules must be specified when the successPolicy is specified")
    for index, rule in enumerate(policy.get("rules") or []):
        here, indexes = f"{path}.rules[{index}]", rule.get("succeededIndexes")
        if indexes is None and rule.get("succeededCount") is None:
            problems.required(here, "at least one of succeededCount or succeededIndexes must be specified")
        try:
            ranges = index_ranges(indexes) if indexes is not None else []
        except ValueError as error:
            problems.invalid(f"{here}.succeededIndexes", indexes, f"error parsing succeededIndexes: {error}")
            continue
        if ranges and ranges[-1].stop > (spec.get("completions") or 0):
            problems.invalid(f"{here}.succeededIndexes", indexes, "error parsing succeededIndexes: too large index")


def _cron_job(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    schedule = spec.get("schedule")
    if not schedule:
        problems.required("spec.schedule")
    elif not schedule.startswith("@") and len(schedule.split()) != 5:
        fields = schedule.split()
        detail = f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
        problems.invalid("spec.schedule", schedule, detail)
    non_negative(spec, "startingDeadlineSeconds", "spec", problems)
    one_of(spec, "concurrencyPolicy", ("Allow", "Forbid", "Replace"), "spec", problems)


def _disruption_budget(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        problems.invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    for field in ("minAvailable", "maxUnavailable"):
        check_amount_or_percent(spec, field, "spec", problems)
    one_of(spec, "unhealthyPodEvictionPolicy", ("AlwaysAllow", "IfHealthyBudget"), "spec", problems)
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
    before, after = old["spec"], new["spec"]
    elastic = before.get("completionMode") == "Indexed" and after.get("completions") == after.get("parallelism")
    if before.get("completions") != after.get("completions") and not elastic:
        problems.invalid("spec.completions", after.get("completions"), IMMUTABLE)
    for field in ("completionMode", "template"):
        if old["spec"].get(field) != new["spec"].get(field) and not old["spec"].get("suspend"):
            problems.invalid(f"spec.{field}", new["spec"].get(field), IMMUTABLE)


CHECKS: dict[str, Callable[[JSON, Problems], None]] = {
    "apps/deployments": _deployment,
    "apps/replicasets": _workload,
    "apps/statefulsets": _stateful_set,
    "apps/daemonsets": _daemon_set,
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
