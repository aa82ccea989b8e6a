"""Rules that objects must keep, with upstream's words: names, labels, and what each kind demands.

Every problem of an object is reported at once and names its field. The rules are those that a user of a scheduler's
world meets; what is not checked here is stored as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from kubesched.api.names import label_key_errors, label_value_errors
from kubesched.client.protocol import JSON
from kubesched.controlplane import validation_core, validation_pod, validation_workloads
from kubesched.controlplane.problems import Problems
from kubesched.controlplane.resources import Resource
from kubesched.controlplane.status import Cause

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")

_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    " an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_NAME_RULES: dict[str, tuple[re.Pattern[str], str, int]] = {
    "/namespaces": (_LABEL, _LABEL_RULE, 63),
    "/services": (_LABEL, _LABEL_RULE, 63),
}
_MAX_NAME = 253
_MAX_ANNOTATIONS = 256 << 10


def creation_problems(resource: Resource, obj: JSON) -> list[Cause]:
    """What is wrong with a new object."""
    problems = Problems()
    _check_name(resource, obj["metadata"], problems)
    _check_metadata(obj["metadata"], problems)
    check = _CREATE.get(resource.storage)
    if check is not None:
        check(obj, problems)
    return problems.found


def update_problems(resource: Resource, old: JSON, new: JSON, subresource: str) -> list[Cause]:
    """What is wrong with an object's next version."""
    problems = Problems()
    _check_metadata(new["metadata"], problems)
    _check_finalizers(old["metadata"], new["metadata"], problems)
    if subresource not in ("", "resize", "ephemeralcontainers"):
        return problems.found
    check = _CREATE.get(resource.storage)
    if check is not None:
        check(new, problems)
    compare = _UPDATE.get(resource.storage)
    if compare is not None and not subresource:
        compare(old, new, problems)
    return problems.found


def _check_name(resource: Resource, meta: JSON, problems: Problems) -> None:
    name = meta.get("name") or ""
    if not name:
        problems.required("metadata.name", "name or generateName is required")
        return
    if resource.group == "rbac.authorization.k8s.io":
        _check_path_segment(name, problems)
        return
    pattern, rule, longest = _NAME_RULES.get(resource.storage, (_SUBDOMAIN, _SUBDOMAIN_RULE, _MAX_NAME))
    if len(name) > longest:
        problems.invalid("metadata.name", name, f"must be no more than {longest} characters")
    elif not pattern.fullmatch(name):
        problems.invalid("metadata.name", name, rule)


def _check_path_segment(name: str, problems: Problems) -> None:
    if name in (".", ".."):
        problems.invalid("metadata.name", name, f"may not be '{name}'")
    for character in "/%":
        if character in name:
            problems.invalid("metadata.name", name, f"may not contain '{character}'")


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
    if sum(len(key) + len(str(value)) for key, value in annotations.items()) > _MAX_ANNOTATIONS:
        problems.add("FieldValueTooLong", "metadata.annotations", "Too long: may not be more than 262144 bytes")
    _check_owners(meta, problems)


def _check_owners(meta: JSON, problems: Problems) -> None:
    controllers = []
    for index, owner in enumerate(meta.get("ownerReferences") or []):
        path = f"metadata.ownerReferences[{index}]"
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                problems.invalid(f"{path}.{field}", owner.get(field) or "", "must not be empty")
        if owner.get("controller"):
            controllers.append(owner.get("name"))
    if len(controllers) > 1:
        problems.invalid(
            "metadata.ownerReferences",
            "",
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


_CREATE: dict[str, Callable[[JSON, Problems], None]] = {
    "/pods": validation_pod.check_pod,
    **validation_core.CHECKS,
    **validation_workloads.CHECKS,
}

_UPDATE: dict[str, Callable[[JSON, JSON, Problems], None]] = {
    "/pods": validation_pod.compare_pods,
    **validation_core.COMPARISONS,
    **validation_workloads.COMPARISONS,
}
