"""What controllers share: the API, the loop, the copies of pods and nodes, the recorder and the source of chance."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from kubesched.controllers.access import NODES, PODS, Access
from kubesched.controllers.cache import Cache, Index
from kubesched.controllers.events import Recorder
from kubesched.controllers.loop import WorkLoop
from kubesched.controllers.views import Node, Pod


@dataclass(slots=True)
class Context:
    """One cluster's, for all of its controllers."""

    access: Access
    loop: WorkLoop
    recorder: Recorder
    random: Random
    pods: Cache[Pod]
    nodes: Cache[Node]
    pods_by_owner: Index[Pod]
    """By the UID of the owner that manages them."""
    pods_by_node: Index[Pod]
    pods_by_namespace: Index[Pod]
    orphans: Index[Pod]
    """Pods that nobody manages, by namespace: whoever selects them may adopt them."""


def make_context(access: Access, random: Random, *, events: bool = True) -> Context:
    """The shared parts, filled with what is in the store."""
    pods = Cache(access.store.shelf(PODS), Pod)
    return Context(
        access=access,
        loop=WorkLoop(access.clock),
        recorder=Recorder(access, enabled=events),
        random=random,
        pods=pods,
        nodes=Cache(access.store.shelf(NODES), Node),
        pods_by_owner=pods.index(_owner),
        pods_by_node=pods.index(lambda pod: (pod.spec.node_name,) if pod.spec.node_name else ()),
        pods_by_namespace=pods.index(lambda pod: (pod.metadata.namespace,)),
        orphans=pods.index(lambda pod: () if pod.metadata.controller else (pod.metadata.namespace,)),
    )


def _owner(pod: Pod) -> tuple[str, ...]:
    owner = pod.metadata.controller
    return (owner.uid,) if owner is not None else ()
