"""Validation of objects with upstream's messages: names, labels, and the rules of each kind.

All problems of an object are reported at once, each with its field. Only the rules that matter around a scheduler are
implemented. Everything else is stored unchecked.
"""

from __future__ import annotations

from typing import Any

from kubesched.api.names import label_key_errors, label_value_errors
from kubesched.apiserver.kinds.registry import ApiResource
from kubesched.apiserver.validation import autoscaling as validation_autoscaling
from kubesched.apiserver.validation import certificates as validation_certificates
from kubesched.apiserver.validation import claims as validation_claims
from kubesched.apiserver.validation import core as validation_core
from kubesched.apiserver.validation import definitions as validation_definitions
from kubesched.apiserver.validation import device_claims as validation_device_claims
from kubesched.apiserver.validation import device_slices as validation_device_slices
from kubesched.apiserver.validation import endpoints as validation_endpoints
from kubesched.apiserver.validation import events as validation_events
from kubesched.apiserver.validation import flow_control as validation_flow_control
from kubesched.apiserver.validation import jobs as validation_jobs
from kubesched.apiserver.validation import limits as validation_limits
from kubesched.apiserver.validation import networking as validation_networking
from kubesched.apiserver.validation import pod as validation_pod
from kubesched.apiserver.validation import pod_groups as validation_pod_groups
from kubesched.apiserver.validation import pod_updates as validation_pod_updates
from kubesched.apiserver.validation import policies as validation_policies
from kubesched.apiserver.validation import rbac as validation_rbac
from kubesched.apiserver.validation import runtime_classes as validation_runtime_classes
from kubesched.apiserver.validation import services as validation_services
from kubesched.apiserver.validation import storage_kinds as validation_storage_kinds
from kubesched.apiserver.validation import webhooks as validation_webhooks
from kubesched.apiserver.validation import workloads as validation_workloads
from kubesched.apiserver.validation.checks import Check, Comparison, NameErrors
from kubesched.apiserver.validation.naming import label_errors, path_segment_errors, subdomain_errors
from kubesched.apiserver.validation.problems import Problems
from kubesched.apiserver.wire.status import Cause
from kubesched.base.types import JSON

_LABEL_NAMES = ("/namespaces", "/services", "apps/statefulsets")
"""Kinds whose names become part of host names."""
_ANY_NAMES = (
    "apiregistration.k8s.io/apiservices",
    "certificates.k8s.io/certificatesigningrequests",
    "policy/poddisruptionbudgets",
)
"""Kinds whose names only have to fit into a path."""
_MAX_CRON_JOB = 52
_ANY_FINALIZER = (
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "coordination.k8s.io",
    "policy",
)
"""Groups in which upstream does not check that finalizers are qualified."""
_MAX_ANNOTATIONS = 256 << 10
_WHOLE_OBJECT = ("resize", "ephemeralcontainers", "approval")
"""Subresources whose writes are checked like those to the object."""


def creation_problems(resource: ApiResource, obj: JSON) -> list[Cause]:
    """The problems of a new object."""
    problems = Problems()
    _check_name(resource, obj["metadata"], problems)
    _check_metadata(obj["metadata"], problems)
    _check_finalizer_names(resource, obj["metadata"], problems)
    check = _NEW.get(resource.storage) or _CREATE.get(resource.storage)
    if check is not None:
        check(obj, problems)
    return problems.found


def update_problems(resource: ApiResource, old: JSON, new: JSON, subresource: str) -> list[Cause]:
    """The problems of an update."""
    problems = Problems()
    _check_metadata(new["metadata"], problems)
    _check_finalizer_names(resource, new["metadata"], problems)
    _check_finalizers(old["metadata"], new["metadata"], problems)
    if subresource in ("", *_WHOLE_OBJECT) and (check := _CREATE.get(resource.storage)) is not None:
        check(new, problems)
    if (compare := _comparison(resource.storage, subresource)) is not None:
        compare(old, new, problems)
    return problems.found


def _comparison(storage: str, subresource: str) -> Comparison | None:
    if subresource == "status":
        return _STATUS.get(storage)
    return _PARTS.get(subresource) if subresource else _UPDATE.get(storage)


def _check_name(resource: ApiResource, meta: JSON, problems: Problems) -> None:
    name = meta.get("name") or ""
    if not name:
        problems.required("metadata.name", "name or generateName is required")
        return
    errors = _name_errors(resource)
    prefix = meta.get("generateName") or ""
    for error in errors(prefix.rstrip("-.") + "a") if prefix else ():
        problems.invalid("metadata.generateName", prefix, error)
    for error in errors(name):
        problems.invalid("metadata.name", name, error)
    if resource.storage == "batch/cronjobs" and len(name) > _MAX_CRON_JOB:
        problems.invalid("metadata.name", name, f"must be no more than {_MAX_CRON_JOB} characters")


def _name_errors(resource: ApiResource) -> NameErrors:
    if resource.group == "rbac.authorization.k8s.io" or resource.storage in _ANY_NAMES:
        return path_segment_errors
    if resource.storage == "/events" and not resource.group:
        return path_segment_errors
    if resource.storage == "networking.k8s.io/ipaddresses":
        return validation_networking.address_name_errors
    return label_errors if resource.storage in _LABEL_NAMES else subdomain_errors


def annotations_fit(annotations: JSON) -> bool:
    """Whether the annotations of an object are together not too long."""
    return sum(len(key) + len(str(value)) for key, value in annotations.items()) <= _MAX_ANNOTATIONS


def _check_metadata(meta: JSON, problems: Problems) -> None:
    for key, value in (meta.get("labels") or {}).items():
        for error in label_key_errors(key):
            problems.invalid("metadata.labels", key, error)
        for error in label_value_errors("" if value is None else str(value)):
            problems.invalid("metadata.labels", value, error)
    annotations = meta.get("annotations") or {}
    for key in annotations:
        for error in label_key_errors(key.lower()):
            problems.invalid("metadata.annotations", key, error)
    if not annotations_fit(annotations):
        problems.add("FieldValueTooLong", "metadata.annotations", "Too long: may not be more than 262144 bytes")
    _check_owners(meta, problems)
    for finalizer in meta.get("finalizers") or []:
        for error in label_key_errors(finalizer):
            problems.invalid("metadata.finalizers", finalizer, error)


def _check_finalizer_names(resource: ApiResource, meta: JSON, problems: Problems) -> None:
    """Finalizers of built-in kinds must be standard ones or fully qualified."""
    if resource.custom or resource.group in _ANY_FINALIZER or resource.storage == "/events":
        return
    for index, finalizer in enumerate(meta.get("finalizers") or []):
        if "/" not in finalizer and finalizer not in validation_core.STANDARD_FINALIZERS:
            problems.invalid(f"metadata.finalizers[{index}]", finalizer, validation_core.NOT_QUALIFIED)


def _check_owners(meta: JSON, problems: Problems) -> None:
    controllers = []
    path = "metadata.ownerReferences"
    for owner in meta.get("ownerReferences") or []:
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                what = "version " if field == "apiVersion" else ""
                problems.invalid(f"{path}.{field}", owner.get(field) or "", f"{what}must not be empty")
        if (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Event"):
            problems.invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner")
        if owner.get("controller"):
            controllers.append(f"{owner.get('kind')}/{owner.get('name')}")
    if len(controllers) > 1:
        problems.invalid(
            path,
            meta["ownerReferences"],
            f'Only one reference can have Controller set to true. Found "true" in references for {controllers[0]}'
            f" and {controllers[1]}",
        )


def _check_finalizers(old: JSON, new: JSON, problems: Problems) -> None:
    if "deletionTimestamp" not in old:
        return
    added = [f for f in new.get("finalizers") or [] if f not in (old.get("finalizers") or [])]
    if added:
        shown = "{" + ", ".join(f'"{finalizer}"' for finalizer in added) + "}"
        problems.forbidden(
            "metadata.finalizers",
            f"no new finalizers can be added if the object is being deleted, found new finalizers []string{shown}",
        )


_ROOMS: tuple[Any, ...] = (
    validation_autoscaling,
    validation_certificates,
    validation_claims,
    validation_core,
    validation_definitions,
    validation_device_claims,
    validation_device_slices,
    validation_endpoints,
    validation_events,
    validation_flow_control,
    validation_jobs,
    validation_limits,
    validation_networking,
    validation_pod,
    validation_pod_groups,
    validation_pod_updates,
    validation_policies,
    validation_rbac,
    validation_runtime_classes,
    validation_services,
    validation_storage_kinds,
    validation_webhooks,
    validation_workloads,
)


def _gathered(table: str) -> dict[str, Any]:
    return {kind: check for room in _ROOMS for kind, check in getattr(room, table, {}).items()}


_NEW: dict[str, Check] = _gathered("NEW")
"""Checks with further rules for new objects."""
_CREATE: dict[str, Check] = _gathered("CHECKS")
_UPDATE: dict[str, Comparison] = _gathered("COMPARISONS")
_STATUS: dict[str, Comparison] = _gathered("STATUS")
_PARTS: dict[str, Comparison] = _gathered("PARTS")
"""What else a write to a subresource must not change."""
