"""What the tests of the embedded API server share: small objects, and paths to put them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, TypeVar

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.storage.store import StoreEvent
from kubesched.apiserver.wire.request import UserInfo
from kubesched.apiserver.wire.status import StatusError
from kubesched.base.types import JSON

T = TypeVar("T")

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
NAMESPACES = "/api/v1/namespaces"
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
PATIENCE = 120.0
CREATED_AT = 1_700_000_000.0


class FixedClock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.time = CREATED_AT

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds


def pod(name: str = "p", **spec: Any) -> JSON:
    """A small pod; keywords are fields of its spec."""
    containers = [{"name": "c", "image": "nginx:1.25"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": containers, **spec},
    }


def node(name: str = "n", **capacity: str) -> JSON:
    """A small node."""
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110", **capacity}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"capacity": amounts}}


def config_map(name: str = "c", labels: dict[str, str] | None = None, **data: str) -> JSON:
    """A ConfigMap: the plainest object there is."""
    meta: JSON = {"name": name}
    if labels:
        meta["labels"] = labels
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def deployment(name: str = "d", replicas: int | None = None) -> JSON:
    """A small Deployment."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
    spec: JSON = {"selector": {"matchLabels": labels}, "template": template}
    if replicas is not None:
        spec["replicas"] = replicas
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def failing_observer(_event: StoreEvent) -> None:
    """An observer of the store that always raises."""
    raise ZeroDivisionError


def as_user(api: ApiServer, name: str, *groups: str) -> LocalClient:
    """A client with this user and these groups."""
    return LocalClient(api, UserInfo(name, groups))


async def refusal(call: Any) -> StatusError:
    """The error that a call ends with."""
    try:
        answer = await call
    except StatusError as error:
        return error
    raise AssertionError(f"not refused: {answer}")


async def upcoming(events: AsyncIterator[T]) -> T:
    """The next item of a stream. Fails after a timeout instead of waiting for ever."""
    return await asyncio.wait_for(anext(events), PATIENCE)


async def take(events: AsyncIterator[JSON], count: int) -> list[tuple[str, str]]:
    """The next events of a watch, as type and name."""
    taken = []
    for _ in range(count):
        event = await upcoming(events)
        taken.append((event["type"], event["object"].get("metadata", {}).get("name", "")))
    return taken
