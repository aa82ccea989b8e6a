"""The client in the same process: what it stores without a request is what a request would have stored."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from random import Random
from typing import Any
from uuid import UUID

import pytest

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.inprocess.local import STRICT, LocalClient
from kubesched.apiserver.meta import parse_timestamp, timestamp
from kubesched.apiserver.names import NameGenerator
from kubesched.apiserver.wire.status import StatusError

CONTAINERS = [{"name": "main", "image": "example.com/job:1", "resources": {"requests": {"cpu": "1"}}}]


class _Noon:
    def now(self) -> float:
        return 43_200.0

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


def outcome(create: Awaitable[Any]) -> Any:
    """What is returned, or the code and message of the refusal."""
    try:
        return asyncio.run(_awaited(create))
    except StatusError as refusal:
        return refusal.code, refusal.reason, refusal.message


async def _awaited(work: Awaitable[Any]) -> Any:
    return await work


def autoscaler(version: str) -> dict[str, Any]:
    return {
        "apiVersion": f"autoscaling/{version}",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 3},
    }


def a_pod(name: str = "web", namespace: str | None = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": CONTAINERS, **spec}}


@pytest.mark.parametrize(
    ("group", "version", "plural", "namespace", "obj"),
    [
        ("", "v1", "pods", "default", a_pod()),
        ("", "v1", "pods", "default", {**a_pod(), "metadata": {"generateName": "web-"}}),
        ("", "v1", "pods", "default", a_pod(nodeNmae="n1")),
        ("", "v1", "pods", "default", a_pod(priority="high")),
        ("", "v1", "pods", "default", a_pod(name="Web!")),
        ("", "v1", "pods", "default", a_pod(namespace="other")),
        ("", "v1", "pods", "nowhere", a_pod()),
        ("", "v1", "pods", "default", {**a_pod(), "kind": "Node"}),
        ("", "v1", "nodes", "", {"metadata": {"name": "n1", "labels": {}}, "status": {"capacity": {"cpu": "4"}}}),
        ("autoscaling", "v1", "horizontalpodautoscalers", "default", autoscaler("v1")),
        ("autoscaling", "v2", "horizontalpodautoscalers", "default", autoscaler("v2")),
    ],
)
def test_an_object_is_stored_or_refused_as_by_a_request(
    group: str, version: str, plural: str, namespace: str, obj: dict[str, Any]
) -> None:
    """The object that is returned, the one that is stored, and the words of a refusal are the same."""
    by_request, directly = (ApiServer(clock=_Noon(), random=Random(7)) for _ in range(2))
    resource = directly.resource(group, version, plural)
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    path = f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"
    wanted = outcome(LocalClient(by_request).create(path, obj, query=STRICT))
    assert outcome(LocalClient(directly).create_stored(resource, namespace, obj)) == wanted
    stored = [[each.data for each in server.store.records(resource.storage)] for server in (directly, by_request)]
    assert stored[0] == stored[1]


def test_uids_and_dates_have_their_forms() -> None:
    """A UID is a random UUID, version 4, and a date can be read back, before the epoch too."""
    names, chance = NameGenerator(Random(3)), Random(3)
    for _ in range(100):
        assert names.uid() == str(UUID(int=chance.getrandbits(128), version=4))
    for seconds in (-86_401, -1, 0, 59, 86_399, 86_400, 951_782_399, 1_767_225_600, 4_102_444_799):
        assert parse_timestamp(timestamp(seconds)) == seconds
    assert timestamp(951_782_399.9) == "2000-02-28T23:59:59Z"
