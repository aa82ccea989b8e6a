"""Upstream's default values, for the fields that matter.

Controllers and schedulers rely on defaulted objects, and `kubectl describe` and `diff` show them.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from kubesched.apiserver.admission import defaults_devices
from kubesched.apiserver.admission.defaults_pod import pod_spec, pod_status, requests
from kubesched.apiserver.admission.defaults_policies import POLICY_DEFAULTS
from kubesched.apiserver.kinds.registry import ApiResource
from kubesched.apiserver.kinds.schema import type_of
from kubesched.apiserver.part_cache import ENTRIES, key_of
from kubesched.apiserver.storage.store import decode, encode
from kubesched.apiserver.validation.typecheck import drop_empty
from kubesched.base.types import JSON

_RBAC_GROUP = "rbac.authorization.k8s.io"


def apply(resource: ApiResource, obj: JSON, now: float) -> None:
    """Set the defaults of an object in place. Some are the current time."""
    if (complete := _DEFAULTS.get(resource.storage)) is not None:
        complete(obj)
    elif (complete_at := _DEVICES.get(resource.storage)) is not None:
        complete_at(obj, now)


def apply_to_new(resource: ApiResource, obj: JSON, now: float) -> None:
    """The same for a new object. What pods get is cached by their spec."""
    if resource.storage != "/pods" or (key := key_of(_section(obj, "spec"))) is None:
        apply(resource, obj, now)
        return
    completed = decode(_completed_pod(key))
    obj["spec"] = completed["spec"]
    _fill(_section(obj, "status"), **completed["status"])


@lru_cache(ENTRIES)
def _completed_pod(spec: bytes) -> bytes:
    """The spec and status of a pod with defaults, given its spec."""
    pod, type_ = {"spec": decode(spec)}, type_of("core.Pod")
    assert type_ is not None
    drop_empty(pod, type_)
    _pod(pod)
    return encode(pod)


def _section(obj: JSON, name: str) -> JSON:
    """A section of an object, created if it is missing or null."""
    part = obj.get(name)
    if not isinstance(part, dict):
        part = obj[name] = {}
    return part


def _fill(part: JSON, **values: Any) -> None:
    for name, value in values.items():
        if part.get(name) is None or (part[name] == "" and name not in _MAY_BE_EMPTY):
            part[name] = value


_MAY_BE_EMPTY = frozenset(
    """completionMode fsGroupPolicy internalTrafficPolicy ipFamilyPolicy maxSurge maxUnavailable
    podReplacementPolicy preemptionPolicy reclaimPolicy volumeBindingMode volumeMode""".split()  # noqa: SIM905
)
"""Fields in which an empty text is a value of its own and not the same as none."""


def _each(part: JSON, name: str) -> list[JSON]:
    return [item for item in part.get(name) or [] if isinstance(item, dict)]


def _template(spec: JSON) -> None:
    template = _section(spec, "template")
    _section(template, "metadata")
    pod_spec(_section(template, "spec"), is_template=True)


# --- core -------------------------------------------------------------------------------------------------------------


def _pod(obj: JSON) -> None:
    spec = _section(obj, "spec")
    pod_spec(spec)
    requests(spec)
    _fill(spec, enableServiceLinks=True)
    pod_status(obj)


def _namespace(obj: JSON) -> None:
    meta = obj["metadata"]
    meta["labels"] = {**(meta.get("labels") or {}), "kubernetes.io/metadata.name": meta.get("name", "")}
    if "deletionTimestamp" not in meta:
        _fill(_section(obj, "spec"), finalizers=["kubernetes"])
    _fill(_section(obj, "status"), phase="Active")


def _node(obj: JSON) -> None:
    spec = _section(obj, "spec")
    if spec.get("podCIDR") and (spec.get("podCIDRs") or [""])[0] != spec["podCIDR"]:
        spec["podCIDRs"] = [spec["podCIDR"]]
    status = _section(obj, "status")
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])


def _service(obj: JSON) -> None:
    spec = _section(obj, "spec")
    _fill(spec, type="ClusterIP", sessionAffinity="None")
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    if spec["type"] != "ExternalName":
        _fill(spec, internalTrafficPolicy="Cluster")
    if spec["type"] in ("NodePort", "LoadBalancer"):
        _fill(spec, externalTrafficPolicy="Cluster")
    if spec["type"] == "LoadBalancer":
        _fill(spec, allocateLoadBalancerNodePorts=True)
    for port in _each(spec, "ports"):
        _fill(port, protocol="TCP")
        port["targetPort"] = port.get("targetPort") or port.get("port")


def _endpoints(obj: JSON) -> None:
    for subset in _each(obj, "subsets"):
        for port in _each(subset, "ports"):
            _fill(port, protocol="TCP")


def _secret(obj: JSON) -> None:
    _fill(obj, type="Opaque")
    plain = obj.pop("stringData", None)
    if isinstance(plain, dict):
        encoded = {key: base64.b64encode(str(value).encode()).decode() for key, value in plain.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}


def _claim(obj: JSON) -> None:
    _fill(_section(obj, "spec"), volumeMode="Filesystem")
    _fill(_section(obj, "status"), phase="Pending")


def _volume(obj: JSON) -> None:
    spec = _section(obj, "spec")
    _fill(spec, volumeMode="Filesystem", persistentVolumeReclaimPolicy="Retain")
    if isinstance(spec.get("hostPath"), dict):
        _fill(spec["hostPath"], type="")
    _fill(_section(obj, "status"), phase="Pending")


def _event(obj: JSON) -> None:
    for field in ("source", "deprecatedSource"):
        if field in obj and obj[field] is None:
            del obj[field]


def _limit_range(obj: JSON) -> None:
    """Missing defaults of a container limit follow from its other fields."""
    for limit in _each(_section(obj, "spec"), "limits"):
        if limit.get("type") != "Container":
            continue
        for field, source in (("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")):
            if amounts := {**(limit.get(source) or {}), **(limit.get(field) or {})}:
                limit[field] = amounts


# --- workloads --------------------------------------------------------------------------------------------------------


def _replica_set(obj: JSON) -> None:
    spec = _section(obj, "spec")
    _fill(spec, replicas=1)
    _template(spec)


def _replication_controller(obj: JSON) -> None:
    """Missing selector and labels come from the template. Newer kinds have no such default."""
    spec = _section(obj, "spec")
    if spec.get("template") is None:
        _fill(spec, replicas=1)
        return
    _replica_set(obj)
    if not spec.get("selector"):
        spec["selector"] = dict(spec["template"]["metadata"].get("labels") or {})
    _labels_from_template(obj)


def _labels_from_template(obj: JSON) -> None:
    labels = obj["spec"]["template"]["metadata"].get("labels")
    if labels and not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(labels)


def _deployment(obj: JSON) -> None:
    spec = _section(obj, "spec")
    _fill(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = _section(spec, "strategy")
    _fill(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _fill(_section(strategy, "rollingUpdate"), maxUnavailable="25%", maxSurge="25%")
    _template(spec)


def _stateful_set(obj: JSON) -> None:
    spec = _section(obj, "spec")
    _fill(spec, replicas=1, revisionHistoryLimit=10, podManagementPolicy="OrderedReady", serviceName="")
    _fill(_section(spec, "persistentVolumeClaimRetentionPolicy"), whenDeleted="Retain", whenScaled="Retain")
    strategy = _section(spec, "updateStrategy")
    _fill(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _fill(_section(strategy, "rollingUpdate"), partition=0)
        # Of a feature gate that is off by default. Upstream drops it too.
        strategy["rollingUpdate"].pop("maxUnavailable", None)
    for claim in _each(spec, "volumeClaimTemplates"):
        _fill(claim, kind="PersistentVolumeClaim", apiVersion="v1")
        _section(claim, "metadata")
        _claim(claim)
    _template(spec)


_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def _daemon_set(obj: JSON) -> None:
    spec = _section(obj, "spec")
    _fill(spec, revisionHistoryLimit=10)
    strategy = _section(spec, "updateStrategy")
    _fill(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _fill(_section(strategy, "rollingUpdate"), maxUnavailable=1, maxSurge=0)
    _template(spec)
    _section(obj["metadata"], "annotations").setdefault(_TEMPLATE_GENERATION, "1")


_JOB_LABELS = ("batch.kubernetes.io/controller-uid", "controller-uid")
_NO_LIMIT = 2**31 - 1
_JOB_NAME_LABELS = ("batch.kubernetes.io/job-name", "job-name")


def _job(obj: JSON) -> None:
    spec = _section(obj, "spec")
    _job_spec(spec)
    if spec["manualSelector"]:
        _labels_from_template(obj)
        return
    meta = obj["metadata"]
    labels = _section(spec["template"]["metadata"], "labels")
    for key in _JOB_LABELS:
        labels.setdefault(key, meta["uid"])
    for key in _JOB_NAME_LABELS:
        labels.setdefault(key, meta.get("name", ""))
    _fill(spec, selector={"matchLabels": {_JOB_LABELS[0]: labels[_JOB_LABELS[0]]}})
    _labels_from_template(obj)


def _job_spec(spec: JSON) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    # With a limit for each index, that of the whole job must not come first.
    limit = 6 if spec.get("backoffLimitPerIndex") is None else _NO_LIMIT
    _fill(spec, parallelism=1, backoffLimit=limit, completionMode="NonIndexed", suspend=False, manualSelector=False)
    _fill(spec, podReplacementPolicy="Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
    for rule in _each(spec.get("podFailurePolicy") or {}, "rules"):
        for pattern in _each(rule, "onPodConditions"):
            _fill(pattern, status="True")
    _template(spec)


def _cron_job(obj: JSON) -> None:
    spec = _section(obj, "spec")
    _fill(spec, concurrencyPolicy="Allow", suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)
    template = _section(spec, "jobTemplate")
    _section(template, "metadata")
    _template(_section(template, "spec"))


# --- the rest ---------------------------------------------------------------------------------------------------------


def _storage_class(obj: JSON) -> None:
    _fill(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _attachment(obj: JSON) -> None:
    _fill(_section(obj, "status"), attached=False)


def _csi_driver(obj: JSON) -> None:
    spec = _section(obj, "spec")
    _fill(spec, attachRequired=True, podInfoOnMount=False, storageCapacity=False, requiresRepublish=False)
    _fill(spec, fsGroupPolicy="ReadWriteOnceWithFSType", volumeLifecycleModes=["Persistent"], seLinuxMount=False)


def _priority_class(obj: JSON) -> None:
    _fill(obj, preemptionPolicy="PreemptLowerPriority")
    _fill(obj, value=0)


def _binding(obj: JSON) -> None:
    _fill(_section(obj, "roleRef"), apiGroup=_RBAC_GROUP)
    for subject in _each(obj, "subjects"):
        if subject.get("kind") in ("User", "Group"):
            _fill(subject, apiGroup=_RBAC_GROUP)


def _endpoint_slice(obj: JSON) -> None:
    for port in _each(obj, "ports"):
        port["protocol"] = "TCP" if port.get("protocol") is None else port["protocol"]
        _fill(port, name="")


def _definition(obj: JSON) -> None:
    spec = _section(obj, "spec")
    names = _section(spec, "names")
    kind = names.get("kind") or ""
    if kind:
        _fill(names, singular=kind.lower(), listKind=f"{kind}List")
    _fill(_section(spec, "conversion"), strategy="None")
    service = ((spec["conversion"].get("webhook") or {}).get("clientConfig") or {}).get("service")
    if service is not None:
        _fill(service, port=443)


_DEFAULTS: dict[str, Callable[[JSON], None]] = {
    "/pods": _pod,
    "/podtemplates": _template,
    "/namespaces": _namespace,
    "/nodes": _node,
    "/services": _service,
    "/endpoints": _endpoints,
    "/secrets": _secret,
    "/persistentvolumeclaims": _claim,
    "/persistentvolumes": _volume,
    "/events": _event,
    "/limitranges": _limit_range,
    "/replicationcontrollers": _replication_controller,
    "apps/replicasets": _replica_set,
    "apps/deployments": _deployment,
    "apps/statefulsets": _stateful_set,
    "apps/daemonsets": _daemon_set,
    "batch/jobs": _job,
    "batch/cronjobs": _cron_job,
    "storage.k8s.io/storageclasses": _storage_class,
    "storage.k8s.io/volumeattachments": _attachment,
    "storage.k8s.io/csidrivers": _csi_driver,
    "scheduling.k8s.io/priorityclasses": _priority_class,
    "rbac.authorization.k8s.io/rolebindings": _binding,
    "rbac.authorization.k8s.io/clusterrolebindings": _binding,
    "discovery.k8s.io/endpointslices": _endpoint_slice,
    "apiextensions.k8s.io/customresourcedefinitions": _definition,
    **POLICY_DEFAULTS,
}

_DEVICES: dict[str, Callable[[JSON, float], None]] = {
    "resource.k8s.io/resourceclaims": defaults_devices.claim,
    "resource.k8s.io/resourceclaimtemplates": defaults_devices.claim_template,
    "resource.k8s.io/resourceslices": defaults_devices.resource_slice,
    "resource.k8s.io/devicetaintrules": defaults_devices.taint_rule,
}
