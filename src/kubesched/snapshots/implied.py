"""What manifests imply: the pods of Deployments, Jobs and other workloads, made by the controllers themselves."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random

from kubesched.apiserver.apiserver import ApiServer
from kubesched.base.clocks import VirtualClock, run_virtual
from kubesched.embedded import ClusterSettings, EmbeddedCluster
from kubesched.kubelet.nodes import NodeSettings
from kubesched.snapshots.contents import Item
from kubesched.snapshots.restore import Restorer

WORKLOADS = frozenset(
    ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job", "CronJob", "PodGroup")
)
CONTEXT = frozenset(("Namespace", "Node", "PriorityClass", "StorageClass", "LimitRange", "ResourceClaimTemplate"))
"""What the pods of a workload depend on."""
MADE = ("Pod", "ReplicaSet", "PersistentVolumeClaim", "ResourceClaim")
SETTLE_SECONDS = 5.0


def implied(items: Iterable[Item], context: Iterable[Item] = ()) -> list[Item]:
    """The objects that controllers would create for workloads written by hand. `context` is the cluster they join.

    Workloads that were read from a cluster have their pods there. Warns of those that an API server would refuse.
    """
    given = list(items)
    workloads = [each for each in given if each.kind in WORKLOADS and not each.was_read]
    if not workloads:
        return []
    around = [each for each in (*given, *context) if each.kind in CONTEXT]
    # A thread of its own: a notebook's thread has an event loop that runs already.
    with ThreadPoolExecutor(1) as pool:
        found, refused = pool.submit(_generate, workloads, around).result()
    for each in refused:
        warnings.warn(f"ignored: {each}", stacklevel=2)
    return found


def _generate(workloads: Sequence[Item], context: Sequence[Item]) -> tuple[list[Item], list[str]]:
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
            made = (record.load() for record in api.store.records(resource.storage))
            items = [Item(resource.group_version, kind, each, "") for each in made]
            found.extend(each for each in items if each.key not in given)
        refused.extend(restorer.result.refused)

    run_virtual(main)
    return found, refused
