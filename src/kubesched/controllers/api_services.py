"""API services: one for every group and version that is served, and whether each is available.

Those of built-in groups are created at start and those of custom resources come and go with their definitions, as
upstream. Requests are not passed on to other servers here, so an API service with a backend is never available.
"""

from __future__ import annotations

from kubesched.apiserver.crd.custom_resources import DEFINITIONS
from kubesched.apiserver.storage.store import StoreEvent
from kubesched.base.types import JSON
from kubesched.reconcile.access import SERVICES
from kubesched.reconcile.conditions import set_condition
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.loop import Controller

API_SERVICES = "apiregistration.k8s.io/apiservices"
_LABEL = "kube-aggregator.kubernetes.io/automanaged"
_CUSTOM = (1000, 100)
_GROUPS = {
    "": 18000,
    "apps": 17800,
    "events.k8s.io": 17750,
    "authentication.k8s.io": 17700,
    "authorization.k8s.io": 17600,
    "autoscaling": 17500,
    "batch": 17400,
    "certificates.k8s.io": 17300,
    "networking.k8s.io": 17200,
    "policy": 17100,
    "rbac.authorization.k8s.io": 17000,
    "storage.k8s.io": 16800,
    "admissionregistration.k8s.io": 16700,
    "apiextensions.k8s.io": 16700,
    "scheduling.k8s.io": 16600,
    "coordination.k8s.io": 16500,
    "node.k8s.io": 16300,
    "discovery.k8s.io": 16200,
    "resource.k8s.io": 16200,
    "flowcontrol.apiserver.k8s.io": 16100,
    "metrics.k8s.io": 100,
}
_VERSIONS = {
    ("", "v1"): 1,
    ("autoscaling", "v2"): 30,
    ("flowcontrol.apiserver.k8s.io", "v1"): 21,
    ("metrics.k8s.io", "v1beta1"): 100,
    ("resource.k8s.io", "v1"): 21,
    ("resource.k8s.io", "v1beta2"): 15,
    ("resource.k8s.io", "v1alpha3"): 1,
    ("scheduling.k8s.io", "v1alpha2"): 2,
}
_MOST_VERSIONS = 15
_OWN = "apiregistration.k8s.io"


class ApiServiceController(Controller):
    """Registers what is served."""

    name = "autoregister"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context.loop)
        self._access = context.access
        self._started = False
        self._has_backends = False
        """Whether an API service refers to a service. Only then services matter."""
        for storage in (API_SERVICES, DEFINITIONS):
            self._access.store.shelf(storage).observers.append(self._on_event)
        self._access.store.shelf(SERVICES).observers.append(self._on_service)
        self.enqueue("")

    def _on_event(self, _event: StoreEvent) -> None:
        if not self._access.writing_status:
            self.enqueue("")

    def _on_service(self, _event: StoreEvent) -> None:
        if self._has_backends:
            self.enqueue("")

    def sync(self, key: str) -> None:
        stored = {obj["metadata"]["name"]: obj for obj in self._access.list(API_SERVICES)}
        custom = self._custom()
        for name, body in {**({} if self._started else self._built_in()), **custom}.items():
            if name not in stored:
                self._access.create(API_SERVICES, body)
        self._started = True
        self._has_backends = any(obj["spec"].get("service") for obj in stored.values())
        for name, obj in stored.items():
            if (obj["metadata"].get("labels") or {}).get(_LABEL) == "true" and name not in custom:
                self._access.delete(API_SERVICES, name)
        for name in tuple(self._access.store.shelf(API_SERVICES).sorted_keys()):
            self._access.edit_status(API_SERVICES, name, self._set_available)

    def _built_in(self) -> dict[str, JSON]:
        served = dict.fromkeys((each.group, each.version) for each in self._access.api.registry if not each.custom)
        made = (
            _api_service(group, version, _GROUPS[group], _VERSIONS.get((group, version), _MOST_VERSIONS), "onstart")
            for group, version in served
            if group != _OWN
        )
        return {body["metadata"]["name"]: body for body in made}

    def _custom(self) -> dict[str, JSON]:
        served = dict.fromkeys((each.group, each.version) for each in self._access.api.registry if each.custom)
        made = (_api_service(group, version, *_CUSTOM, "true") for group, version in served)
        return {body["metadata"]["name"]: body for body in made}

    def _set_available(self, obj: JSON) -> None:
        status, reason, message = self._availability(obj["spec"].get("service"))
        condition = {"type": "Available", "status": status, "reason": reason, "message": message}
        conditions = obj["status"].get("conditions") or []
        obj["status"]["conditions"] = set_condition(conditions, condition, self._access.now())

    def _availability(self, service: JSON | None) -> tuple[str, str, str]:
        if not service:
            return "True", "Local", "Local APIServices are always available"
        namespace, name = service.get("namespace", ""), service.get("name", "")
        if self._access.store.get(SERVICES, f"{namespace}/{name}") is None:
            return "False", "ServiceNotFound", f'service/{name} in "{namespace}" is not present'
        return "False", "FailedDiscoveryCheck", "requests are not passed on to other servers in this cluster"


def _api_service(group: str, version: str, group_priority: int, version_priority: int, managed: str) -> JSON:
    spec: JSON = {"version": version, "groupPriorityMinimum": group_priority, "versionPriority": version_priority}
    if group:
        spec["group"] = group
    return {"metadata": {"name": f"{version}.{group}", "labels": {_LABEL: managed}}, "spec": spec}
