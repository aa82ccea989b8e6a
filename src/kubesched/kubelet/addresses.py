"""Addresses: a subnet for every node and a unique address in it for every pod."""

from __future__ import annotations

from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.views import Node, Pod

_FIRST_SUBNET = 116 * 256
"""10.244.0, counted from 10.128.0: the usual start of pod addresses."""
_SUBNETS = 128 * 256


class Addresses:
    """Assigns addresses. Existing nodes and pods keep theirs when the process restarts."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._numbers: dict[str, int] = {}
        self._next_number = 0
        self._hosts: dict[str, dict[int, str]] = {}
        for node in context.nodes.objects.values():
            self._restore(node)

    def _restore(self, node: Node) -> None:
        """Derive the number of an existing node from its subnet."""
        number = _number_of(node.spec.pod_cidr)
        if number is not None:
            self._numbers[node.metadata.name] = number
            self._next_number = max(self._next_number, number + 1)

    def forget(self, name: str) -> None:
        """Forget a deleted node. Its number is not reused, so that two nodes never share a subnet."""
        self._hosts.pop(name, None)

    def number(self, name: str) -> int:
        """Return the number of a node, which determines its addresses."""
        if name not in self._numbers:
            self._numbers[name] = self._next_number
            self._next_number += 1
        return self._numbers[name]

    def subnet(self, name: str) -> str:
        """Return the subnet for a node's pods."""
        return f"{_subnet(self.number(name))}.0/24"

    def node(self, name: str) -> str:
        """Return the address of a node."""
        number = self.number(name) + 10
        return f"192.{168 + number // 65536}.{number // 256 % 256}.{number % 256}"

    def pod(self, pod: Pod) -> str:
        """Return the address of a pod. Assigns a free one in the node's subnet if it has none."""
        name = pod.spec.node_name
        if pod.spec.host_network:
            return self.node(name)
        if pod.status.pod_ip:
            return pod.status.pod_ip
        hosts = self._hosts_of(name)
        host = next((each for each in range(2, 255) if each not in hosts), 254)
        hosts[host] = pod.metadata.uid
        node = self._context.nodes.get(name)
        subnet = node.spec.pod_cidr.rpartition(".")[0] if node is not None and node.spec.pod_cidr else ""
        return f"{subnet or _subnet(self.number(name))}.{host}"

    def _hosts_of(self, name: str) -> dict[int, str]:
        """Return the used addresses of a node, including those of pods from before a restart."""
        if name not in self._hosts:
            pods = self._context.pods_by_node.get(name)
            taken = [pod for pod in pods if pod.status.pod_ip and not pod.spec.host_network and not pod.has_ended]
            self._hosts[name] = {_host_of(pod.status.pod_ip): pod.metadata.uid for pod in taken}
        return self._hosts[name]

    def free(self, pod: Pod) -> None:
        """Release the address of a pod that has ended or was deleted."""
        hosts = self._hosts.get(pod.spec.node_name)
        if hosts and pod.status.pod_ip and not pod.spec.host_network:
            host = _host_of(pod.status.pod_ip)
            if hosts.get(host) == pod.metadata.uid:
                del hosts[host]


def _host_of(address: str) -> int:
    """The last part of an address; -1 for one that is not of version 4, which a user has written."""
    part = address.rpartition(".")[2]
    return int(part) if part.isdecimal() and len(part) <= 3 else -1


def _subnet(number: int) -> str:
    """Return the first three parts of a subnet: 10.244.0 and up, then 10.128.0 and up after 10.255.255."""
    place = (_FIRST_SUBNET + number) % _SUBNETS
    return f"10.{128 + place // 256}.{place % 256}"


def _number_of(subnet: str) -> int | None:
    """Return the number of the node with this subnet, or None for a foreign subnet."""
    first, *parts = subnet.partition("/")[0].split(".")
    if first != "10" or len(parts) != 3 or not all(part.isdecimal() for part in parts):
        return None
    return ((int(parts[0]) - 128) * 256 + int(parts[1]) - _FIRST_SUBNET) % _SUBNETS
