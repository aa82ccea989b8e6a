"""Allocation of cluster addresses and node ports of services."""

from __future__ import annotations

import ipaddress
from random import Random

from kubesched.apiserver.storage.store import Store
from kubesched.apiserver.validation.problems import Problems
from kubesched.apiserver.wire.status import invalid
from kubesched.base.types import JSON

_NETWORK = ipaddress.ip_network("10.96.0.0/12")
_NODE_PORTS = range(30000, 32768)
_HEADLESS = "None"
_TRIES = 1000


class ServiceAddresses:
    """Allocates cluster addresses and node ports that no stored service uses."""

    def __init__(self, store: Store, random: Random) -> None:
        self._store = store
        self._random = random

    def assign(self, service: JSON) -> None:
        """Allocate the address and ports of a new service, as its type needs."""
        spec = service["spec"]
        if spec["type"] == "ExternalName":
            return
        services = [record.load().get("spec") or {} for record in self._store.records("/services")]
        if not spec.get("clusterIP"):
            spec["clusterIP"] = self._free_address({s.get("clusterIP") for s in services})
        elif spec["clusterIP"] != _HEADLESS:
            self._check_address(service, {s.get("clusterIP") for s in services})
        spec["clusterIPs"] = [spec["clusterIP"]]
        if spec["type"] in ("NodePort", "LoadBalancer"):
            self._assign_ports(service, {p.get("nodePort") for s in services for p in s.get("ports") or []})

    def keep(self, old: JSON, new: JSON) -> None:
        """Keep the address and ports on an update, and allocate what a new type needs."""
        before, after = old["spec"], new["spec"]
        if after["type"] == "ExternalName":
            return
        if not after.get("clusterIP") and before.get("clusterIP"):
            after["clusterIP"] = before["clusterIP"]
        if before.get("clusterIP") and after["clusterIP"] != before["clusterIP"]:
            problems = Problems()
            problems.invalid("spec.clusterIPs[0]", [after["clusterIP"]], "may not change once set")
            raise invalid("Service", "", new["metadata"]["name"], problems.found)
        if not after.get("clusterIP"):
            self.assign(new)
            return
        after["clusterIPs"] = [after["clusterIP"]]
        self._keep_ports(before, new)

    def _keep_ports(self, before: JSON, new: JSON) -> None:
        after = new["spec"]
        if after["type"] not in ("NodePort", "LoadBalancer"):
            return
        known = {(p.get("port"), p.get("protocol")): p.get("nodePort") for p in before.get("ports") or []}
        for port in after.get("ports") or []:
            kept = known.get((port.get("port"), port.get("protocol")))
            if kept and not port.get("nodePort"):
                port["nodePort"] = kept
        services = [record.load().get("spec") or {} for record in self._store.records("/services")]
        own = set(known.values())
        self._assign_ports(new, {p.get("nodePort") for s in services for p in s.get("ports") or []} - own)

    def _assign_ports(self, service: JSON, used: set[int | None]) -> None:
        problems = Problems()
        for index, port in enumerate(service["spec"].get("ports") or []):
            field, number = f"spec.ports[{index}].nodePort", port.get("nodePort")
            if not number:
                free = [number for number in _NODE_PORTS if number not in used]
                port["nodePort"] = self._random.choice(free)
            elif number not in _NODE_PORTS:
                first, last = _NODE_PORTS[0], _NODE_PORTS[-1]
                detail = f"provided port is not in the valid range. The range of valid ports is {first}-{last}"
                problems.invalid(field, number, detail)
            elif number in used:
                problems.invalid(field, number, "provided port is already allocated")
            used.add(port["nodePort"])
        if problems.found:
            raise invalid("Service", "", service["metadata"].get("name", ""), problems.found)

    def _free_address(self, used: set[str | None]) -> str:
        for _ in range(_TRIES):
            # The first addresses are reserved for well-known services such as DNS.
            address = str(_NETWORK[self._random.randrange(256, _NETWORK.num_addresses - 1)])
            if address not in used:
                return address
        raise RuntimeError("no service address is free")

    def _check_address(self, service: JSON, used: set[str | None]) -> None:
        address = service["spec"]["clusterIP"]
        problems = Problems()
        if address in used:
            problems.invalid("spec.clusterIPs", [address], "failed to allocate IP: provided IP is already allocated")
        try:
            ipaddress.ip_address(address)
        except ValueError:
            problems.invalid(
                "spec.clusterIPs[0]", address, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            )
        if problems.found:
            raise invalid("Service", "", service["metadata"].get("name", ""), problems.found)
