"""The parts that all reconcilers of one cluster share."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from kubesched.base.features import DEFAULT_FEATURES, Features
from kubesched.reconcile.access import NODES, PODS, Access
from kubesched.reconcile.cache import Cache, Index
from kubesched.reconcile.events import EventWriter
from kubesched.reconcile.loop import WorkLoop
from kubesched.reconcile.owned import OwnedPods
from kubesched.reconcile.views import Node, Pod


@dataclass(slots=True)
class ControllerContext:
    """API access, the work loop, cached pods and nodes, the event writer and the random generator of one cluster."""

    access: Access
    loop: WorkLoop
    events: EventWriter
    random: Random
    pods: Cache[Pod]
    nodes: Cache[Node]
    owned_pods: OwnedPods
    pods_by_owner: Index[Pod]
    """By the UID of the owner that manages them."""
    pods_by_node: Index[Pod]
    pods_by_namespace: Index[Pod]
    orphans: Index[Pod]
    """Pods without a managing owner, by namespace: a workload whose selector matches may adopt them."""
    features: Features


def make_context(
    access: Access, random: Random, *, events: bool = True, features: Features = DEFAULT_FEATURES
) -> ControllerContext:
    """Build the shared parts and fill the caches from the store."""
    pods = Cache(access.store.shelf(PODS), Pod)
    return ControllerContext(
        access=access,
        loop=WorkLoop(access.clock),
        events=EventWriter(access, enabled=events),
        random=random,
        pods=pods,
        nodes=Cache(access.store.shelf(NODES), Node),
        owned_pods=OwnedPods(pods),
        pods_by_owner=pods.index(_owner),
        pods_by_node=pods.index(lambda pod: (pod.spec.node_name,) if pod.spec.node_name else ()),
        pods_by_namespace=pods.index(lambda pod: (pod.metadata.namespace,)),
        orphans=pods.index(lambda pod: () if pod.metadata.controller else (pod.metadata.namespace,)),
        features=features,
    )


def _owner(pod: Pod) -> tuple[str, ...]:
    owner = pod.metadata.controller
    return (owner.uid,) if owner is not None else ()
