"""The objects behind the addresses of services: an IPAddress for each, and ServiceCIDRs with their conditions.

The API server chooses the addresses (`apiserver/admission/allocation.py`); here they become visible.
"""

from __future__ import annotations

import ipaddress

from kubesched.apiserver.admission.allocation import ADDRESSES, RANGES, SERVICE_NETWORK
from kubesched.apiserver.storage.store import ChangeType, Record, StoreEvent
from kubesched.base.types import JSON
from kubesched.reconcile.access import SERVICES
from kubesched.reconcile.conditions import set_condition
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.loop import Controller

DEFAULT = "kubernetes"
FINALIZER = "networking.k8s.io/service-cidr-finalizer"
_LABELS = {"ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}
_IN_USE = "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR"


class ServiceAddressController(Controller):
    """Keys are the names of ServiceCIDRs, and ``namespace/name address`` for an address that a service may have."""

    name = "service-cidrs-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context.loop)
        self._access = context.access
        store = self._access.store
        store.shelf(SERVICES).observers.append(self._on_service)
        store.shelf(ADDRESSES).observers.append(self._on_address)
        store.shelf(RANGES).observers.append(self._on_range)
        self.enqueue(DEFAULT)
        for record in store.records(SERVICES):
            self._enqueue_addresses(record)
        for record in store.records(ADDRESSES):
            self._enqueue_parent(record)

    # --- events -------------------------------------------------------------------------------------------------------

    def _on_service(self, event: StoreEvent) -> None:
        if not event.only_status:
            self._enqueue_addresses(event.record)
            if event.previous is not None:
                self._enqueue_addresses(event.previous)

    def _enqueue_addresses(self, record: Record) -> None:
        for address in _addresses(record.load()):
            self.enqueue(f"{record.key} {address}")

    def _on_address(self, event: StoreEvent) -> None:
        self._enqueue_parent(event.record)
        if event.change is ChangeType.DELETED:
            self._enqueue_ranges()

    def _enqueue_parent(self, record: Record) -> None:
        parent = record.load()["spec"].get("parentRef") or {}
        if parent.get("resource") == "services":
            self.enqueue(f"{parent.get('namespace', '')}/{parent['name']} {record.key}")

    def _on_range(self, _event: StoreEvent) -> None:
        if not self._access.writing_status:
            self._enqueue_ranges()

    def _enqueue_ranges(self) -> None:
        for name in {DEFAULT, *self._access.store.shelf(RANGES).sorted_keys()}:
            self.enqueue(name)

    # --- reconciling --------------------------------------------------------------------------------------------------

    def sync(self, key: str) -> None:
        service, _, address = key.partition(" ")
        if address:
            self._sync_address(service, address)
        else:
            self._sync_range(key)

    def _sync_address(self, service: str, address: str) -> None:
        namespace, _, name = service.rpartition("/")
        parent = {"resource": "services", "namespace": namespace, "name": name}
        found = self._access.get(ADDRESSES, address)
        is_used = address in _addresses(self._access.get(SERVICES, service) or {})
        if is_used and found is None:
            body = {"metadata": {"name": address, "labels": dict(_LABELS)}, "spec": {"parentRef": parent}}
            self._access.create(ADDRESSES, body)
        elif not is_used and found is not None and found["spec"].get("parentRef") == parent:
            self._access.delete(ADDRESSES, address)

    def _sync_range(self, name: str) -> None:
        found = self._access.get(RANGES, name)
        if found is None:
            if name == DEFAULT:
                body = {"metadata": {"name": name, "finalizers": [FINALIZER]}, "spec": {"cidrs": [SERVICE_NETWORK]}}
                self._access.create(RANGES, body)
            return
        if "deletionTimestamp" not in found["metadata"]:
            if FINALIZER not in (found["metadata"].get("finalizers") or []):
                self._access.edit(RANGES, name, _protect)
            self._set_ready(name, "True", "", "Kubernetes Service CIDR is ready")
        elif self._is_in_use(found):
            self._set_ready(name, "False", "Terminating", _IN_USE)
        else:
            self._access.edit(RANGES, name, _release)

    def _is_in_use(self, found: JSON) -> bool:
        """Whether a service has an address that is in this range and no other."""
        own = [ipaddress.ip_network(text) for text in found["spec"]["cidrs"]]
        others = [
            ipaddress.ip_network(text)
            for each in self._access.list(RANGES)
            if each["metadata"]["name"] != found["metadata"]["name"]
            for text in each["spec"]["cidrs"]
        ]
        records = self._access.store.records(ADDRESSES)
        addresses = [ipaddress.ip_address(each.key) for each in records if _LABELS.items() <= each.labels.items()]
        inside = [address for address in addresses if any(address in network for network in own)]
        return any(not any(address in network for network in others) for address in inside)

    def _set_ready(self, name: str, status: str, reason: str, message: str) -> None:
        condition = {"type": "Ready", "status": status, "reason": reason, "message": message}

        def edit(obj: JSON) -> None:
            conditions = obj["status"].get("conditions") or []
            obj["status"]["conditions"] = set_condition(conditions, condition, self._access.now())

        self._access.edit_status(RANGES, name, edit)


def _addresses(service: JSON) -> list[str]:
    found = (service.get("spec") or {}).get("clusterIPs") or []
    return [address for address in found if address and address != "None"]


def _protect(obj: JSON) -> None:
    obj["metadata"]["finalizers"] = [*(obj["metadata"].get("finalizers") or []), FINALIZER]


def _release(obj: JSON) -> None:
    obj["metadata"]["finalizers"] = [each for each in obj["metadata"].get("finalizers") or [] if each != FINALIZER]
