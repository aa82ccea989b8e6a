"""What one process binds to a node must fit there together."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.apiserver.storage.store import Store
from kubesched.torture.room import ProcessRoom

NODE = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "3"}}}
CSI_NODE = {"metadata": {"name": "n"}, "spec": {"drivers": [{"name": "disk", "allocatable": {"count": 1}}]}}


def pod(name: str, *, port: int = 0, claim: str = "", **requests: str) -> dict[str, Any]:
    ports = [{"hostPort": port}] if port else []
    volumes = [{"persistentVolumeClaim": {"claimName": claim}}] if claim else []
    spec = {"containers": [{"resources": {"requests": requests}, "ports": ports}], "volumes": volumes}
    return {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec}


def over_allocated(*pods: dict[str, Any], ended: str = "", owners: int = 1) -> list[str]:
    found: list[str] = []
    room, store = ProcessRoom(lambda _, text: found.append(text)), Store()
    store.shelf("nodes").observers.append(room.on_node)
    store.shelf("csinodes").observers.append(room.on_csi_node)
    store.shelf("pods").observers.append(lambda event: room.on_pod(event, event.record.load()))
    store.put("nodes", "n", NODE)
    store.put("csinodes", "n", CSI_NODE)
    for number, each in enumerate(pods):
        room.check(each, "n", number % owners, limits_known=True)
        if each["metadata"]["name"] == ended:
            store.put("pods", ended, {**each, "status": {"phase": "Succeeded"}})
    return [text.partition("n: ")[2] for text in found]


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ({"cpu": "1"}, {"cpu": "1"}, ""),
        ({"cpu": "1"}, {"cpu": "1001m"}, "2001 of cpu, and the node has 2000"),
        ({"memory": "1Gi"}, {"memory": "1"}, "1073741825 of memory, and the node has 1073741824"),
        ({"port": 80}, {"port": 80}, "host port 80 for default/a too"),
        ({"port": 80}, {"port": 81}, ""),
        ({"claim": "x"}, {"claim": "y"}, "2 volumes, and the node takes 1"),
        ({"claim": "x"}, {"claim": "x"}, ""),
    ],
)
def test_two_pods(first: dict[str, Any], second: dict[str, Any], text: str) -> None:
    """Two pods of one process together are too much, or are not; what others did or what has ended does not count."""
    pods = pod("a", **first), pod("b", **second)
    assert over_allocated(*pods) == ([text] if text else [])
    assert over_allocated(*pods, ended="a") == []
    assert over_allocated(*pods, owners=2) == []


def test_the_number_of_pods() -> None:
    """A node takes no more pods than it says."""
    assert over_allocated(*(pod(name) for name in "abc")) == []
    assert over_allocated(*(pod(name) for name in "abcd")) == ["4 of pods, and the node has 3"]
