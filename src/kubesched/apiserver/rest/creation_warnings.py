"""Warnings about objects that have less effect here than in a real cluster.

Each client sees a warning once: a user with a user agent, until the server stops. Forty network policies warn once,
whether one command applies them or forty do.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubesched.apiserver.admission.certificate_requests import CERTIFICATE_REQUESTS, CLIENT_SIGNER
from kubesched.apiserver.kinds.registry import ApiResource
from kubesched.apiserver.wire.request import ApiRequest
from kubesched.base.types import JSON

MAX_SEEN = 4096
"""How many warnings to remember. A client whose warning was forgotten sees it again."""
NAMESPACES = "/namespaces"
"""The kind whose updates warn, too: labels are often given to namespaces that exist."""
_MAX_AGENT = 256
_GATED = {
    version: f"{version} is always served here; kube-scheduler and kubesched read it only with the feature {gates}"
    for version, gates in (
        ("scheduling.k8s.io/v1alpha2", "gates GenericWorkload and GangScheduling"),
        ("resource.k8s.io/v1beta2", "gate DRADeviceTaintRules"),
        ("resource.k8s.io/v1alpha3", "gate DRADeviceTaintRules"),
    )
}
WITHOUT_EFFECT = frozenset(
    (
        "APIService",
        "FlowSchema",
        "Ingress",
        "IngressClass",
        "MutatingWebhookConfiguration",
        "NetworkPolicy",
        "PriorityLevelConfiguration",
        "ValidatingWebhookConfiguration",
        "VolumeAttributesClass",
    )
)
"""Kinds that are only stored."""
_NO_CONVERSION = (
    "spec.conversion: webhooks are not called in this cluster; objects have the same fields in every version"
)
_POD_SECURITY = tuple(f"pod-security.kubernetes.io/{mode}" for mode in ("enforce", "warn", "audit"))
_NO_POD_SECURITY = (
    "labels of pod-security.kubernetes.io are stored but have no effect in this cluster: pods are not checked"
)


class CreationWarnings:
    """The warnings of creations, and which client has seen which."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, str], None] = {}

    def new_for(self, request: ApiRequest, resource: ApiResource, obj: JSON) -> Iterator[str]:
        """What is to be said about a new object or a namespace and was not said to this client before."""
        agent = request.headers.get("user-agent", "")[:_MAX_AGENT]
        for text in _warnings(resource, obj):
            key = (request.client, agent, text)
            if key not in self._seen:
                if len(self._seen) >= MAX_SEEN:
                    del self._seen[next(iter(self._seen))]
                self._seen[key] = None
                yield text


def _warnings(resource: ApiResource, obj: JSON) -> Iterator[str]:
    if resource.group_version in _GATED:
        yield _GATED[resource.group_version]
    if resource.kind in WITHOUT_EFFECT and not resource.custom:
        yield f"{resource.kind} is stored but has no effect in this cluster"
    if resource.storage == NAMESPACES and _restricts_pods(obj["metadata"].get("labels") or {}):
        yield _NO_POD_SECURITY
    if resource.storage == CERTIFICATE_REQUESTS and (signer := obj["spec"].get("signerName")) != CLIENT_SIGNER:
        yield f"nothing signs certificates for {signer} in this cluster"
    if resource.kind == "CustomResourceDefinition" and not resource.custom:
        conversion = (obj.get("spec") or {}).get("conversion") or {}
        if conversion.get("strategy") == "Webhook":
            yield _NO_CONVERSION


def _restricts_pods(labels: JSON) -> bool:
    return any(labels.get(name, "privileged") != "privileged" for name in _POD_SECURITY)
