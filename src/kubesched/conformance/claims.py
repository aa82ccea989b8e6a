"""Resource claims in a replay: the API server that their writes go to, and how recordings show them."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, TypeVar, cast

import msgspec

from kubesched.api import objects as api
from kubesched.base.merge import merge_patch
from kubesched.client.protocol import ApiError
from kubesched.cluster.state import ClusterState
from kubesched.engine.decision import Decision
from kubesched.framework.handle import ApiClient, Services
from kubesched.framework.runtime import Framework
from kubesched.framework.status import Status
from kubesched.plugins.dynamic_resources import DynamicResources

O = TypeVar("O", bound=api.Object)  # noqa: E741  # the one-letter name for "some kind of object"
T = TypeVar("T")

JSON = dict[str, Any]


class ReplayClient:
    """Writes claims straight into the cluster.

    The recordings come from a client that gives no names: a claim with generateName is stored under the empty name, and
    a second one in the same namespace is refused. So it is here.
    """

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster

    async def read(self, kind: type[O], name: str, namespace: str = "") -> O:
        found = self._cluster.get(kind, f"{namespace}/{name}")
        if found is None:
            raise ApiError(404, "NotFound", f'{kind.__name__} "{name}" not found')
        return found

    async def list(self, kind: type[O]) -> Sequence[O]:
        return tuple(self._cluster.all(kind))

    async def create_object(self, kind: type[O], body: JSON, namespace: str = "") -> O:
        obj = api.decode_as(kind, body)
        if self._cluster.get(kind, obj.key) is not None:
            raise ApiError(409, "AlreadyExists", f'resourceclaims.resource.k8s.io "{obj.name}" already exists')
        self._cluster.set(obj)
        return obj

    async def merge_patch(
        self, kind: type[O], name: str, patch: JSON, namespace: str = "", *, subresource: str = ""
    ) -> O:
        old = msgspec.to_builtins(await self.read(kind, name, namespace))
        obj = api.decode_as(kind, cast("JSON", merge_patch(old, patch)))
        self._cluster.set(obj)
        return obj

    async def delete_object(self, kind: type[O], name: str, namespace: str = "") -> None:
        self._cluster.remove(await self.read(kind, name, namespace))

    async def patch_pod_status(self, pod: api.Pod, patch: JSON) -> api.Pod:
        return pod

    def one_at_a_time(self, uid: str) -> AbstractAsyncContextManager[None]:
        return nullcontext()


def services(cluster: ClusterState) -> Services:
    """What writing claims takes."""
    return Services(client=cast(ApiClient, ReplayClient(cluster)), spawn=run)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for nothing."""
    try:
        work.send(None)
    except StopIteration as done:
        return cast(T, done.value)
    work.close()
    raise RuntimeError("nothing in a replay takes time")


def write_claims(framework: Framework, decision: Decision) -> Status | None:
    """Run the PreBind of resource claims. Recordings stop before that of volumes, which waits for controllers."""
    for plugin in framework.points.get("preBind", ()):
        if isinstance(plugin, DynamicResources):
            status = run(plugin.pre_bind(decision.state, decision.pod, decision.node))
            if status is not None:
                return status
    return None


def show_claims(result: JSON, cluster: ClusterState) -> None:
    """Put the allocated claims into an attempt's result. Where there are none, recordings leave out the scores of
    DynamicResources, which are 0 then; where there are any, even a pod without claims has such scores."""
    claims = result["claims"] = recorded_claims(cluster)
    for scores in result.get("scores", {}).values():
        if claims:
            scores.setdefault(DynamicResources.name, 0)
        else:
            scores.pop(DynamicResources.name, None)


def recorded_claims(cluster: ClusterState) -> dict[str, JSON]:
    """Every claim that has an allocation, as recordings have it: without times and share ids."""
    shown = {}
    for claim in cluster.all(api.ResourceClaim):
        if claim.status.allocation is not None:
            allocation = msgspec.json.decode(msgspec.json.encode(claim.status.allocation))
            allocation.pop("allocationTimestamp", None)
            for result in allocation["devices"].get("results", ()):
                if "shareID" in result:
                    result["shareID"] = ""
            shown[_name(claim)] = {
                "allocation": allocation,
                "reservedFor": [consumer.name for consumer in claim.status.reserved_for],
            }
    return shown


def _name(claim: api.ResourceClaim) -> str:
    owner = claim.metadata.owner_references[0].name if claim.metadata.owner_references else ""
    return claim.key if claim.name else f"extended:{owner}"
