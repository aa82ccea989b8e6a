"""Allocation of cluster addresses and node ports of services."""

from __future__ import annotations

import ipaddress
from random import Random

from kubesched.apiserver.storage.store import Store
from kubesched.apiserver.validation.problems import Problems
from kubesched.apiserver.wire.status import invalid
from kubesched.base.types import JSON

SERVICE_NETWORK = "10.96.0.0/12"
RANGES, ADDRESSES = "networking.k8s.io/servicecidrs", "networking.k8s.io/ipaddresses"
_NODE_PORTS = range(30000, 32768)
_HEADLESS = "None"
_WITH_PORTS = ("NodePort", "LoadBalancer")
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
        _set_families(service)
        services = [record.load().get("spec") or {} for record in self._store.records("/services")]
        used = {s.get("clusterIP") for s in services}
        if not spec.get("clusterIP"):
            spec["clusterIP"] = self._free_address(used)
        elif spec["clusterIP"] != _HEADLESS:
            self._check_address(service, used)
        spec["clusterIPs"] = [spec["clusterIP"]]
        if spec["type"] in _WITH_PORTS:
            self._assign_ports(service, {p.get("nodePort") for s in services for p in s.get("ports") or []})

    def keep(self, old: JSON, new: JSON) -> None:
        """Keep the address and ports on an update, and allocate what a new type needs."""
        before, after = old["spec"], new["spec"]
        _drop_unneeded(before, after)
        if after["type"] == "ExternalName":
            return
        for field in ("ipFamilies", "ipFamilyPolicy"):
            if not after.get(field) and field in before:
                after[field] = before[field]
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
        if after["type"] not in _WITH_PORTS:
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
        spec, problems = service["spec"], Problems()
        ports = spec.get("ports") or []
        wanted = {port.get("port"): port["nodePort"] for port in reversed(ports) if port.get("nodePort")}
        done: dict[int | None, int] = {}
        """Node ports by port: a port of two protocols has the same node port in both."""
        for index, port in enumerate(ports):
            number = port.get("nodePort") or done.get(port.get("port")) or wanted.get(port.get("port"))
            if number and number == done.get(port.get("port")):
                port["nodePort"] = number
                continue
            if not number and spec.get("allocateLoadBalancerNodePorts") is False:
                continue
            if number:
                _check_port(f"spec.ports[{index}].nodePort", number, used, problems)
            number = number or self._random.choice([each for each in _NODE_PORTS if each not in used])
            port["nodePort"] = done[port.get("port")] = number
            used.add(number)
        if problems.found:
            raise invalid("Service", "", service["metadata"].get("name", ""), problems.found)

    def _free_address(self, used: set[str | None]) -> str:
        networks = self._networks()
        for _ in range(_TRIES):
            network = networks[0] if len(networks) == 1 else self._random.choice(networks)
            # The first addresses are reserved for well-known services such as DNS.
            reserved = min(max(16, network.num_addresses // 16), 256, network.num_addresses // 2)
            address = str(network[self._random.randrange(reserved, network.num_addresses - 1)])
            if address not in used and self._store.get(ADDRESSES, address) is None:
                return address
        raise RuntimeError("no service address is free")

    def _networks(self) -> list[ipaddress.IPv4Network]:
        """The networks of the ServiceCIDRs that are not being deleted; the default one if there are none."""
        ranges = [record.load() for record in self._store.records(RANGES)]
        texts = [
            text for each in ranges if "deletionTimestamp" not in each["metadata"] for text in each["spec"]["cidrs"]
        ]
        return [ipaddress.IPv4Network(text) for text in texts if ":" not in text] or [_DEFAULT]

    def _check_address(self, service: JSON, used: set[str | None]) -> None:
        text = service["spec"]["clusterIP"]
        problems = Problems()
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            problems.invalid("spec.clusterIPs[0]", text, detail)
        else:
            network = next((each for each in self._networks() if address in each), None)
            why = f"failed to allocate IP {text}"
            if network is None or address in (network[0], network[-1]):
                detail = f"{why}: the provided network does not match the current range"
                problems.invalid("spec.clusterIPs", [text], detail)
            elif text in used or self._store.get(ADDRESSES, text) is not None:
                problems.invalid("spec.clusterIPs", [text], f"{why}: provided IP is already allocated")
        if problems.found:
            raise invalid("Service", "", service["metadata"].get("name", ""), problems.found)


_DEFAULT = ipaddress.IPv4Network(SERVICE_NETWORK)


def _set_families(service: JSON) -> None:
    """Complete the address families of a new service. There are only IPv4 addresses here."""
    spec, problems = service["spec"], Problems()
    address = spec.get("clusterIP") or ""
    is_dual = address == _HEADLESS and not spec.get("selector")
    """A headless service whose endpoints somebody writes may have endpoints of both families in any cluster."""
    policy = spec.setdefault("ipFamilyPolicy", "RequireDualStack" if is_dual else "SingleStack")
    given = spec.get("ipFamilies") or []
    families = spec["ipFamilies"] = [*(given or ["IPv4"])]
    if is_dual:
        if policy != "SingleStack" and len(families) == 1:
            families.append("IPv6" if families == ["IPv4"] else "IPv4")
        return
    if ":" in address and not given:
        problems.invalid("spec.clusterIPs[0]", [address], "IPv6 is not configured on this cluster")
    elif policy == "RequireDualStack":
        problems.invalid("spec.ipFamilyPolicy", policy, "this cluster is not configured for dual-stack services")
    for index, family in enumerate(families):
        if family == "IPv6":
            problems.invalid(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")
    if problems.found:
        raise invalid("Service", "", service["metadata"].get("name", ""), problems.found)


_NEEDED_BY = {
    **dict.fromkeys(("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"), ("ClusterIP", *_WITH_PORTS)),
    "internalTrafficPolicy": ("ClusterIP", *_WITH_PORTS),
    "externalTrafficPolicy": _WITH_PORTS,
    **dict.fromkeys(("allocateLoadBalancerNodePorts", "loadBalancerClass", "healthCheckNodePort"), ("LoadBalancer",)),
}
"""The fields that only some types of services have, and those types."""


def _drop_unneeded(before: JSON, after: JSON) -> None:
    """Remove what the old type needed and the new one does not, unless the client changed it."""
    for field, types in _NEEDED_BY.items():
        if before["type"] in types and after["type"] not in types and before.get(field) == after.get(field):
            after.pop(field, None)
    if before["type"] in _WITH_PORTS and after["type"] not in _WITH_PORTS:
        known = [port.get("nodePort") for port in before.get("ports") or []]
        if known == [port.get("nodePort") for port in after.get("ports") or []]:
            for port in after.get("ports") or []:
                port.pop("nodePort", None)


def _check_port(field: str, given: int, used: set[int | None], problems: Problems) -> None:
    first, last = _NODE_PORTS[0], _NODE_PORTS[-1]
    if given not in _NODE_PORTS:
        detail = f"provided port is not in the valid range. The range of valid ports is {first}-{last}"
        problems.invalid(field, given, detail)
    elif given in used:
        problems.invalid(field, given, "provided port is already allocated")
