"""Addresses of services of type LoadBalancer, which a cloud gives them in a real cluster.

Nothing answers there, as on every address here, but who waits for one goes on: helm --wait, for example.
"""

from __future__ import annotations

import ipaddress

from kubesched.apiserver.storage.store import StoreEvent
from kubesched.base.types import JSON
from kubesched.reconcile.access import SERVICES
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.loop import Controller

NETWORK = ipaddress.IPv4Network("198.18.0.0/15")
"""Reserved for tests of networks, so that it is nobody's."""


class LoadBalancerController(Controller):
    """Keys are services. Those with a class are left to whoever serves the class."""

    name = "service-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context.loop)
        self._access = context.access
        self._events = context.events
        shelf = self._access.store.shelf(SERVICES)
        shelf.observers.append(self._on_service)
        for key in shelf.sorted_keys():
            self.enqueue(key)

    def _on_service(self, event: StoreEvent) -> None:
        self.enqueue(event.record.key)

    def sync(self, key: str) -> None:
        service = self._access.get(SERVICES, key)
        if service is None or "deletionTimestamp" in service["metadata"]:
            return
        spec, known = service["spec"], _ingress(service)
        if spec.get("type") != "LoadBalancer":
            if known:
                self._write(key, [])
        elif not known and not spec.get("loadBalancerClass"):
            self._tell(service, "EnsuringLoadBalancer", "Ensuring load balancer")
            self._write(key, [{"ip": spec.get("loadBalancerIP") or self._free(), "ipMode": "VIP"}])
            self._tell(service, "EnsuredLoadBalancer", "Ensured load balancer")

    def _free(self) -> str:
        used = {each.get("ip") for service in self._access.list(SERVICES) for each in _ingress(service)}
        return next(text for text in map(str, NETWORK.hosts()) if text not in used)

    def _write(self, key: str, ingress: list[JSON]) -> None:
        def edit(service: JSON) -> None:
            service["status"]["loadBalancer"] = {"ingress": ingress} if ingress else {}

        self._access.edit_status(SERVICES, key, edit)

    def _tell(self, service: JSON, reason: str, message: str) -> None:
        meta = service["metadata"]
        about = {"kind": "Service", "apiVersion": "v1", **{part: meta[part] for part in ("namespace", "name", "uid")}}
        self._events.record(self.name, about, "Normal", reason, message)


def _ingress(service: JSON) -> list[JSON]:
    found: list[JSON] = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    return found
