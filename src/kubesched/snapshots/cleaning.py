"""What is left out of a snapshot: secrets, and everything that commonly contains some and that scheduling never reads.

Containers lose their environment, commands, arguments, probes and hooks; volumes their options; devices the parameters
for their drivers. Annotations that repeat the whole object go too, and so does what only the API server reads.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from typing import Any

import msgspec

from kubesched.base.types import JSON

CONTAINERS = frozenset(("containers", "initContainers", "ephemeralContainers"))
OF_CONTAINERS = frozenset(
    ("env", "envFrom", "command", "args", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
)
ANYWHERE = frozenset(("managedFields", "volumeAttributes", "caBundle", "selfLink", "lastState"))
ANNOTATIONS = frozenset(
    (
        "kubectl.kubernetes.io/last-applied-configuration",
        "deployment.kubernetes.io/desired-replicas",
        "control-plane.alpha.kubernetes.io/leader",
    )
)
REMOVED = "snapshot.kubesched.io/removed"
"""Annotation of a pod template: tells templates apart that differ only in what was removed. A Deployment would roll out
again if two of its ReplicaSets became equal."""
FORBIDDEN_KINDS = frozenset(("Secret", "ConfigMap"))


class Cleaner:
    """Makes copies of objects without what must not leave the cluster. One cleaner cleans a whole snapshot."""

    def __init__(self) -> None:
        # The key is never written, so that values cannot be tried until the mark fits.
        self._key = secrets.token_bytes(32)

    def __call__(self, obj: Mapping[str, Any]) -> JSON:
        """The cleaned copy of an object."""
        return {key: self._value(key, value) for key, value in obj.items() if key not in ANYWHERE}

    def _value(self, key: str, value: Any) -> Any:
        if isinstance(value, dict):
            if key == "annotations":
                return {name: text for name, text in value.items() if name not in ANNOTATIONS}
            if key == "flexVolume":
                value = {name: each for name, each in value.items() if name != "options"}
            if key == "opaque":
                value = {**value, "parameters": {}}
            return self._template(value) if key == "template" else self(value)
        if isinstance(value, list):
            if key in CONTAINERS:
                value = [_container(each) for each in value]
            return [self._value("", each) for each in value]
        return value

    def _template(self, template: JSON) -> JSON:
        result = self(template)
        removed = [part for each in _containers(template) for part in each.items() if part[0] in OF_CONTAINERS]
        if removed:
            mark = hmac.digest(self._key, msgspec.json.encode(removed), "sha256")[:8].hex()
            metadata = result.get("metadata") or {}
            annotations = {**(metadata.get("annotations") or {}), REMOVED: mark}
            result["metadata"] = {**metadata, "annotations": annotations}
        return result


def _containers(template: JSON) -> list[JSON]:
    spec = template.get("spec")
    lists = [spec.get(name) for name in sorted(CONTAINERS)] if isinstance(spec, dict) else []
    return [each for some in lists if isinstance(some, list) for each in some if isinstance(each, dict)]


def _container(container: Any) -> Any:
    if not isinstance(container, dict):
        return container
    return {name: value for name, value in container.items() if name not in OF_CONTAINERS}
