"""Objects of older API versions, as the version that is read has them.

Snapshots and manifests outlive the versions in which they were written. A kind is here if its meaning can be kept;
any other version of a kind is ignored, as are the kinds that scheduling does not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

import msgspec

from kubesched.base.types import JSON

Raw = bytes | Mapping[str, Any]


def current_form(version: str, kind: str, data: Raw) -> tuple[str, Raw]:
    """An object's version and the object, in the version that is read today if it is in an older one."""
    known = _CURRENT.get((version, kind))
    if known is None:
        return version, data
    convert = _CONVERT.get((version, kind))
    if convert is None:
        return known, data
    body: JSON = msgspec.json.decode(data) if isinstance(data, bytes) else deepcopy(dict(data))
    # With a spec of another type the object cannot be read in any version, and its reader says so.
    if isinstance(body.get("spec"), dict):
        convert(body["spec"])
    return known, body


def _with_selector(spec: JSON) -> None:
    """The first versions took the labels of the template where no selector was given."""
    template = spec.get("template")
    metadata = (template.get("metadata") if isinstance(template, dict) else None) or {}
    if not spec.get("selector") and isinstance(metadata, dict):
        spec["selector"] = {"matchLabels": metadata.get("labels") or {}}


def _without_empty_selector(spec: JSON) -> None:
    """An empty selector was one for no pod; today it is one for all."""
    selector = spec.get("selector")
    if isinstance(selector, dict) and not any(selector.values()):
        del spec["selector"]


def _with_exact_requests(spec: JSON) -> None:
    """What is asked for stood beside a request's name."""
    devices = spec.get("devices")
    requests = devices.get("requests") if isinstance(devices, dict) else None
    if not isinstance(requests, list):
        return
    for index, each in enumerate(requests):
        if isinstance(each, dict) and not each.get("firstAvailable"):
            asked = {key: value for key, value in each.items() if key not in ("name", "firstAvailable")}
            requests[index] = {"name": each.get("name"), "exactly": asked}


def _with_exact_requests_in_template(spec: JSON) -> None:
    if isinstance(spec.get("spec"), dict):
        _with_exact_requests(spec["spec"])


def _without_basic(spec: JSON) -> None:
    """What a device has stood under the word basic."""
    devices = spec.get("devices")
    for each in devices if isinstance(devices, list) else ():
        if isinstance(each, dict) and isinstance(each.get("basic"), dict):
            each |= each.pop("basic")


def _older() -> Iterator[tuple[tuple[str, str], str]]:
    for current, (versions, kinds) in {
        "apps/v1": (
            ("apps/v1beta2", "apps/v1beta1", "extensions/v1beta1"),
            ("Deployment", "ReplicaSet", "DaemonSet", "StatefulSet"),
        ),
        "autoscaling/v2": (("autoscaling/v2beta2",), ("HorizontalPodAutoscaler",)),
        "batch/v1": (("batch/v1beta1", "batch/v2alpha1"), ("CronJob",)),
        "node.k8s.io/v1": (("node.k8s.io/v1beta1",), ("RuntimeClass",)),
        "policy/v1": (("policy/v1beta1",), ("PodDisruptionBudget",)),
        "resource.k8s.io/v1": (
            ("resource.k8s.io/v1beta2", "resource.k8s.io/v1beta1"),
            ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"),
        ),
        "resource.k8s.io/v1beta2": (("resource.k8s.io/v1alpha3",), ("DeviceTaintRule",)),
        "scheduling.k8s.io/v1": (("scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha1"), ("PriorityClass",)),
        "storage.k8s.io/v1": (
            ("storage.k8s.io/v1beta1", "storage.k8s.io/v1alpha1"),
            ("StorageClass", "CSINode", "CSIDriver", "CSIStorageCapacity", "VolumeAttachment", "VolumeAttributesClass"),
        ),
    }.items():
        for version in versions:
            for kind in kinds:
                yield (version, kind), current


_CURRENT = dict(_older())
"""The version that is read, by an older version and the kind."""

_CONVERT: dict[tuple[str, str], Callable[[JSON], None]] = {
    **{
        (version, kind): _with_selector
        for version in ("apps/v1beta1", "extensions/v1beta1")
        for kind in ("Deployment", "ReplicaSet", "DaemonSet", "StatefulSet")
    },
    ("policy/v1beta1", "PodDisruptionBudget"): _without_empty_selector,
    ("resource.k8s.io/v1beta1", "ResourceClaim"): _with_exact_requests,
    ("resource.k8s.io/v1beta1", "ResourceClaimTemplate"): _with_exact_requests_in_template,
    ("resource.k8s.io/v1beta1", "ResourceSlice"): _without_basic,
}
"""What to do with the spec, where more than the version has changed."""
