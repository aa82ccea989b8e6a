"""Which NUMA zone each container of a node is on, as the node's report encodes it.

The containers with exclusive resources are sorted by hash. Each zone lists the positions of its containers, as
differences in a base-89 code. The busiest zone is left out: it has the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from kubesched.contrib.numa_reports import NodeResourceTopology, attribute, kubelet_settings, numa_id
from kubesched.contrib.pod_fingerprint import xxh64

ContainerKey = tuple[str, str, str]
"""Namespace, pod and container."""
METADATA: Final = "topology.node.k8s.io/numaplacement-metadata"
VECTOR: Final = "topology.node.k8s.io/numaplacement-vector"
PREFIX: Final = "npv0v001"
ENCODING: Final = "leb89"
_LAST_DIGITS: Final = 64
_DIGITS: Final = {
    character: number for number, character in enumerate(sorted({chr(code) for code in range(33, 127)} - set('"&<>\\')))
}
"""89 characters: the first 64 end a number, the others are leading digits in base 25."""


def container_zones(report: NodeResourceTopology, containers: Collection[ContainerKey]) -> dict[ContainerKey, int]:
    """The zone of each of these containers, which must be all with exclusive resources on the node; nothing if the
    report does not say, or is about other containers."""
    if kubelet_settings(report)[0] != "single-numa-node":
        return {}
    try:
        return _decoded(report, sorted(containers, key=_container_hash))
    except ValueError:
        return {}


def _decoded(report: NodeResourceTopology, containers: list[ContainerKey]) -> dict[ContainerKey, int]:
    count, zones, busiest = _metadata(attribute(report.attributes, METADATA))
    vectors = {numa_id(each.name): attribute(each.attributes, VECTOR) for each in report.zones}
    vectors = {zone: vector for zone, vector in vectors.items() if vector}
    if count != len(containers) or not 0 <= busiest < zones:
        raise ValueError("the report is about other containers or zones")
    if any(not 0 <= zone < zones or zone == busiest for zone in vectors):
        raise ValueError("a zone is unknown, or should not be listed")
    found: dict[ContainerKey, int] = {}
    for zone, vector in vectors.items():
        for position in _positions(vector, count):
            if containers[position] in found:
                raise ValueError("a container is there twice")
            found[containers[position]] = zone
    return {container: found.get(container, busiest) for container in containers}


def _metadata(text: str) -> tuple[int, int, int]:
    """How many containers and zones there are, and the busiest zone."""
    prefix, *fields = text.split("::")
    values = dict(each.split("=", 1) for each in fields)
    if prefix != PREFIX or values.get("ve") != ENCODING:
        raise ValueError("an unknown format")
    return int(values.get("cc", "-1")), int(values.get("nn", "-1")), int(values.get("bn", "-1"))


def _positions(vector: str, count: int) -> Iterator[int]:
    position = lead = 0
    is_long = False
    for character in vector:
        digit = _DIGITS.get(character, -1)
        if digit < 0:
            raise ValueError("an unknown character")
        if digit >= _LAST_DIGITS:
            lead, is_long = lead * 25 + digit - _LAST_DIGITS, True
        else:
            position += _LAST_DIGITS * (lead + 1) + digit if is_long else digit
            lead, is_long = 0, False
        if max(position, lead) >= count:
            raise ValueError("a position is too large")
        if not is_long:
            yield position
    if is_long:
        raise ValueError("the last number has no end")


def _container_hash(container: ContainerKey) -> int:
    return xxh64("\0".join(container).encode())
