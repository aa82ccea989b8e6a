"""What manifests imply: the pods of Deployments, Jobs and other workloads, made by the controllers themselves."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from kubesched.api.objects import PodGroup
from kubesched.snapshots.contents import Item

WORKLOADS = frozenset(
    (
        ("apps/v1", "Deployment"),
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "DaemonSet"),
        ("v1", "ReplicationController"),
        ("batch/v1", "Job"),
        ("batch/v1", "CronJob"),
        (PodGroup.api_version, PodGroup.kind),
    )
)
CONTEXT = frozenset(("Namespace", "Node", "PriorityClass", "StorageClass", "LimitRange", "ResourceClaimTemplate"))
"""What the pods of a workload depend on."""


def is_workload(item: Item) -> bool:
    """Whether controllers make pods or more for it. Others have kinds of the same names: Volcano has Jobs too."""
    return (item.version, item.kind) in WORKLOADS


def implied(items: Iterable[Item], context: Iterable[Item] = ()) -> list[Item]:
    """The objects that controllers would create for workloads written by hand. `context` is the cluster they join.

    Workloads that were read from a cluster have their pods there. Warns of those that an API server would refuse.
    """
    given = list(items)
    workloads = [each for each in given if is_workload(each) and not each.was_read]
    if not workloads:
        return []
    # Not at the top: it loads the whole embedded cluster, and most questions need none of it.
    from kubesched.snapshots.generated import generate

    around = [each for each in (*given, *context) if each.kind in CONTEXT]
    # A thread of its own: a notebook's thread has an event loop that runs already.
    with ThreadPoolExecutor(1) as pool:
        found, refused = pool.submit(generate, workloads, around).result()
    for each in refused:
        warnings.warn(f"ignored: {each}", stacklevel=2)
    return found
