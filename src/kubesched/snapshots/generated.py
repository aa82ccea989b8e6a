"""Runs the embedded cluster's controllers for a moment of virtual time, to see which objects they make."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from kubesched.apiserver.apiserver import ApiServer
from kubesched.base.clocks import VirtualClock, run_virtual
from kubesched.base.types import JSON
from kubesched.embedded import ClusterSettings, EmbeddedCluster
from kubesched.kubelet.nodes import NodeSettings
from kubesched.snapshots.contents import Item
from kubesched.snapshots.restore import Restorer

MADE = ("Pod", "ReplicaSet", "PersistentVolumeClaim", "ResourceClaim")
SETTLE_SECONDS = 5.0


def generate(workloads: Sequence[Item], context: Sequence[Item]) -> tuple[list[Item], list[str]]:
    """The objects that controllers make for workloads, and what the API server says about those that it refuses."""
    found: list[Item] = []
    refused: list[str] = []

    async def main(clock: VirtualClock) -> None:
        api = ApiServer(clock=clock, random=Random(0))
        settings = ClusterSettings(node=NodeSettings(heartbeat=0), events=False, seed=0)
        cluster = EmbeddedCluster(api, settings)
        restorer = Restorer(api)
        restorer.restore([*context, *workloads])
        given = {each.key for each in workloads}
        cluster.start()
        try:
            await clock.advance(SETTLE_SECONDS)
        finally:
            await cluster.stop()
        for kind in MADE:
            resource = next(each for each in api.registry if each.kind == kind and each.is_stored)
            made = (_undated(record.load()) for record in api.store.records(resource.storage))
            items = [Item(resource.group_version, kind, each, "") for each in made]
            found.extend(each for each in items if each.key not in given)
        refused.extend(restorer.result.refused)

    run_virtual(main)
    return found, refused


def _undated(obj: JSON) -> JSON:
    """The object without the moment of virtual time at which it was made."""
    del obj["metadata"]["creationTimestamp"]
    return obj
