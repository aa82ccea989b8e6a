"""Consistent other names: a snapshot that may be shown to others, about which scheduling decides as before.

A name is replaced part by part, so that ``web-0`` still belongs to ``web``. The same part gets the same replacement
everywhere, in all files that are written with the same key. Strings are replaced unless they are known to be harmless:
enumerations, quantities, times, Kubernetes' own labels. Most annotations and all addresses are left out.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Mapping
from functools import lru_cache
from typing import Any
from uuid import UUID

from kubesched.base.annotations import DEVICES
from kubesched.base.types import JSON

ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
LETTERS = 6
LABEL_LENGTH = 63
_SEPARATORS = re.compile(r"([-._/:@]+)")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SAFE = re.compile(
    r"[A-Z][A-Za-z]*"  # an enumeration
    r"|[-+]?[0-9.]+([eE][-+]?[0-9]+)?(n|u|m|k|[KMGTPE]i?)?|[0-9]+%"  # a quantity or a percentage
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z"  # a time
    r"|true|false|"
)
_OWN_DOMAIN = re.compile(r"([a-z0-9-]+\.)*(kubernetes\.io|k8s\.io|kubesched\.io)/.*")
_USERS_LABEL = re.compile(r"((?:.*\.)?node-(?:role|restriction)\.kubernetes\.io)/(.*)")
"""A domain of Kubernetes' in which users choose the names."""
_CLASS_QUOTA = re.compile(r"(.+)(\.storageclass\.storage\.k8s\.io/.+)")
_LITERAL = re.compile(r"""(["'])((?:(?!\1)[^\\])*)\1""")
"""A string in an expression."""
WORDS = frozenset(
    (
        *("default", "kube-system", "kube-public", "kube-node-lease", "default-scheduler", "main", "kubernetes"),
        *("pod-template-hash", "controller-revision-hash", "pod-template-generation", "controller-uid", "job-name"),
        *("system-cluster-critical", "system-node-critical", "amd64", "arm64", "linux", "windows"),
    )
)
PARTS = frozenset(("latest", "sha256"))
"""Parts of images that say nothing. An image without a tag has the first one."""
ROLES = frozenset(("control-plane", "master", "worker"))
KEPT_FIELDS = frozenset(
    (
        *("apiVersion", "kind", "schedulerName", "operator", "resourceVersion", "topologyPolicy", "fieldPath"),
        *("resourceName", "extendedResourceName", "schedule", "timeZone"),
        *("completedIndexes", "failedIndexes", "succeededIndexes", "$patch"),
    )
)
NAMES = frozenset(
    (
        *("name", "value", "key", "values", "namespace", "namespaces", "nodeName", "nominatedNodeName"),
        *("topologyKey", "topologyKeys", "matchLabelKeys", "mismatchLabelKeys"),
    )
)
"""Fields that are replaced as names and labels are, also if they look like an enumeration."""
FIELDS = frozenset(("metadata.name", "metadata.namespace"))
"""Keys of requirements that are no labels."""
ATTRIBUTES = frozenset(("matchAttribute", "distinctAttribute"))
KEPT_KEYS = frozenset(
    ("requests", "limits", "capacity", "allocatable", "overhead", "hard", "used", "allocatedResources", "counters")
)
"""Fields whose keys are names of resources, or of a device's capacities, and whose values are quantities."""
LABELS = frozenset(("labels", "matchLabels", "nodeSelector", "selector", "podSelector"))
LEFT_OUT = frozenset(
    (
        *("addresses", "podIP", "podIPs", "hostIP", "hostIPs", "clusterIP", "clusterIPs", "podCIDR"),
        *("podCIDRs", "nodeInfo", "daemonEndpoints", "message", "containerStatuses", "initContainerStatuses"),
        *(
            "ephemeralContainerStatuses",
            "externalIPs",
            "loadBalancerIP",
            "providerID",
            "imagePullSecrets",
            "hostAliases",
        ),
        *("dnsConfig", "parameters", "opaque", "finalizers", "securityContext", "config", "disruptedPods"),
    )
)
PLAIN_ANNOTATIONS = (
    *("kubesched.io/", "snapshot.kubesched.io/", "storageclass.kubernetes.io/is-default-class"),
    *("cluster-autoscaler.kubernetes.io/safe-to-evict", "karpenter.sh/do-not-disrupt"),
    *("controller.kubernetes.io/pod-deletion-cost", "preemption-toleration.scheduling.x-k8s.io/"),
)
"""Beginnings of annotations whose values name nothing and on which answers depend."""
KEPT_ANNOTATIONS = (*PLAIN_ANNOTATIONS, "kubernetes.io/config.mirror", "volume.kubernetes.io/selected-node")


class Anonymiser:
    """Replaces names. With the same `key` the same names get the same replacements; without one, a key is made."""

    def __init__(self, key: str = "") -> None:
        self._key = (key or secrets.token_hex(16)).encode()
        self._word = lru_cache(maxsize=None)(self._new_word)

    def __call__(self, obj: Mapping[str, Any]) -> JSON:
        """The object with other names."""
        return self._object(obj)

    def name(self, text: str) -> str:
        """The replacement of a name, an image or a value of a label."""
        if users := _USERS_LABEL.fullmatch(text):
            domain, own = users[1], users[2]
            return f"{self._domain(domain)}/{own if own in ROLES else self.name(own)}"
        if text in WORDS or _OWN_DOMAIN.fullmatch(text):
            return text
        if _UUID.fullmatch(text):
            return str(UUID(bytes=self._digest(text)[:16]))
        parts = _SEPARATORS.split(text)
        new = "".join(part if index % 2 else self._part(parts, index) for index, part in enumerate(parts))
        return self._word(text) if len(new) > LABEL_LENGTH >= len(text) else new

    def _part(self, parts: list[str], index: int) -> str:
        part = parts[index]
        small = part.isdecimal() and len(part) <= 3
        address = small and sum(each.isdecimal() for each in parts[::2]) >= 4
        return part if not part or part in PARTS or (small and not address) else self._word(part)

    def _digest(self, text: str) -> bytes:
        return hmac.digest(self._key, text.encode(), "sha256")

    def _new_word(self, text: str) -> str:
        digest = self._digest(text)
        first = ALPHABET[digest[0] % 26]
        return first + "".join(ALPHABET[byte % 32] for byte in digest[1:LETTERS])

    # --- objects ------------------------------------------------------------------------------------------------------

    def _object(self, fields: Mapping[str, Any]) -> JSON:
        if "operator" in fields and "key" in fields:
            return self._requirement(fields)
        return {key: self._value(key, value) for key, value in fields.items() if key not in LEFT_OUT}

    def _value(self, field: str, value: Any) -> Any:
        if isinstance(value, dict):
            if field == "annotations":
                return self._annotations(value)
            if field == "attributes":
                return {self._attribute(key): self._value("", each) for key, each in value.items()}
            if field in KEPT_KEYS:
                rename = self._attribute if _is_of_device(value) else self._resource
                return {rename(key): each for key, each in value.items()}
            if field in LABELS and all(isinstance(each, str) for each in value.values()):
                return {self.name(key): self._label(text) for key, text in value.items()}
            return self._object(value)
        if isinstance(value, list):
            # Amounts are a dict; a list of requests, of a claim on devices, is none.
            return [self._object(each) if isinstance(each, dict) else self._value(field, each) for each in value]
        if not isinstance(value, str) or field in KEPT_FIELDS:
            return value
        if field in NAMES:
            return self._label(value)
        if field in ATTRIBUTES:
            return self._attribute(value)
        if field == "expression":
            return _LITERAL.sub(lambda found: f"{found[1]}{self._literal(found[2])}{found[1]}", value)
        return value if _SAFE.fullmatch(value) else self.name(value)

    def _label(self, text: str) -> str:
        """A value that may be a number, on which ``Gt`` and ``Lt`` depend."""
        return text if text.isdecimal() or not text else self.name(text)

    def _literal(self, text: str) -> str:
        """A string in an expression about devices: a driver, a domain, or the value of an attribute."""
        return text if _SAFE.fullmatch(text) else self._domain(text)

    def _domain(self, text: str) -> str:
        return text if _OWN_DOMAIN.fullmatch(f"{text}/") else self.name(text)

    def _attribute(self, text: str) -> str:
        """The name of a device's attribute or capacity: the domain is replaced, as a driver's name is."""
        domain, slash, own = text.rpartition("/")
        return f"{self._domain(domain)}/{own}" if slash else text

    def _resource(self, text: str) -> str:
        """The name of a resource. In a quota it may have that of a storage class."""
        quota = _CLASS_QUOTA.fullmatch(text)
        return text if quota is None else self.name(quota[1]) + quota[2]

    def _requirement(self, fields: Mapping[str, Any]) -> JSON:
        key = str(fields["key"])
        result = {**fields, "key": key if key in FIELDS else self.name(key)}
        if isinstance(fields.get("values"), list):
            result["values"] = [self._label(str(each)) for each in fields["values"]]
        if isinstance(fields.get("value"), str):
            result["value"] = self._label(fields["value"])
        return result

    def _annotations(self, annotations: Mapping[str, Any]) -> JSON:
        return {
            name: text if name.startswith(PLAIN_ANNOTATIONS) else self.name(str(text))
            for name, text in annotations.items()
            # Its devices are in ResourceSlices; the description names their driver.
            if name.startswith(KEPT_ANNOTATIONS) and name != DEVICES
        }


def _is_of_device(capacity: Mapping[str, Any]) -> bool:
    """Whether amounts are those of a device; a node's are plain quantities."""
    return any(isinstance(each, dict) for each in capacity.values())
