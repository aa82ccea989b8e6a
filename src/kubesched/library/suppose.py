"""Suppositions about a cluster, as people write them: ``drain N``, ``fail zone Z``, ``add 3 like N``, ``pod.cpu=3``.

`--what-if` of `kubesched explain` and `kubesched whatif` share them. A statement changes nodes and displaces pods; the
caller decides what becomes of the displaced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TypeVar

from msgspec.structs import replace

from kubesched.api import objects as api
from kubesched.api.builders import ZONE
from kubesched.api.quantity import QuantityError, nanos
from kubesched.api.taints import tolerates
from kubesched.explain.evicting import belongs_to_node
from kubesched.explain.explainer import Explainer
from kubesched.explain.rules.resources import HOSTNAME, with_requests
from kubesched.library.core import ClusterCore
from kubesched.library.draining import Budgets, evictions
from kubesched.library.results import Fate, Placement
from kubesched.library.trial import by_priority, fresh

FORMS = (
    "drain N",
    "cordon N",
    "uncordon N",
    "taint N KEY=VALUE:EFFECT",
    "untaint N KEY",
    "remove N",
    "fail N",
    "fail zone Z",
    "add 3 like N",
    "delete pod X",
    "delete node N",
    "pod.cpu=3",
)
MOST_NODES = 100_000
"""As many as one statement may add."""
_REQUEST = re.compile(r"pod\.(?P<resource>[\w./-]+)=(?P<amount>\S+)")
_TAINT = re.compile(r"(?P<key>[\w./-]+)(=(?P<value>[\w.-]*))?:(?P<effect>NoSchedule|PreferNoSchedule|NoExecute)")
PodEdit = Callable[[api.Pod], api.Pod]
AnyObject = TypeVar("AnyObject", bound=api.Object)


class SupposeError(ValueError):
    """A supposition that cannot be read, or that is about something the cluster does not have."""


@dataclass(slots=True)
class Displaced:
    """What statements did to pods: those to be scheduled again are pending, others stay or may not be evicted."""

    budgets: Budgets
    pods: list[Placement] = field(default_factory=list)
    edits: list[PodEdit] = field(default_factory=list)
    """What statements change in the pods that are asked about."""


def suppose(cluster: ClusterCore, statements: Iterable[str]) -> list[PodEdit]:
    """Change the cluster as the statements say; returns what they change in the pods that are asked about.

    Pods that a statement displaces go where they would go then.
    """
    edits: list[PodEdit] = []
    for each in statements:
        effect = apply(cluster, [each])
        waiting = [fresh(placement.pod) for placement in effect.pods if placement.fate is Fate.PENDING]
        for placement in list(cluster.play(by_priority(waiting))):
            if placement.fate is Fate.PENDING:
                cluster.set(placement.pod)
        edits += effect.edits
    return edits


def apply(cluster: ClusterCore, statements: Iterable[str]) -> Displaced:
    """Change the cluster's nodes and take displaced pods from it."""
    effect = Displaced(Budgets(cluster.all(api.PodDisruptionBudget), cluster.all(api.Pod)))
    for each in statements:
        _apply(cluster, each, effect)
    return effect


def _apply(cluster: ClusterCore, statement: str, effect: Displaced) -> None:
    request = _REQUEST.fullmatch(statement.strip())
    if request is not None:
        effect.edits.append(_requesting(statement, request["resource"], request["amount"]))
        return
    try:
        _apply_to_nodes(cluster, statement, effect)
    except LookupError as problem:
        raise SupposeError(f"{statement!r}: {problem.args[0]}") from None


def _apply_to_nodes(cluster: ClusterCore, statement: str, effect: Displaced) -> None:
    match statement.split():
        case ["drain", name]:
            for node in nodes_called(cluster, name):
                _set_cordon(cluster, node, True)
                _displace(cluster, effect, evictions(effect.budgets, cluster.pods_on(node.name)))
        case ["cordon" | "uncordon" as verb, name]:
            for node in nodes_called(cluster, name):
                _set_cordon(cluster, node, verb == "cordon")
        case ["taint", name, text] if (taint := _TAINT.fullmatch(text)) is not None:
            for node in nodes_called(cluster, name):
                _taint(cluster, node, api.Taint(taint["key"], taint["value"] or "", taint["effect"]), effect)
        case ["untaint", name, key]:
            _untaint(cluster, name, key)
        case ["fail", "zone", zone]:
            _lose(cluster, _in_zone(cluster, zone), effect)
        case ["remove" | "fail", name]:
            _lose(cluster, nodes_called(cluster, name), effect)
        case ["add", count, "like", name] if count.isdecimal():
            if len(count) > len(str(MOST_NODES)) or int(count) > MOST_NODES:
                raise SupposeError(f"at most {MOST_NODES} nodes can be added at once")
            _add_like(cluster, int(count), name)
        case ["delete", "pod", key]:
            cluster.remove(Explainer(cluster.state, cluster.engines, cluster.all(api.Pod)).find(key))
        case ["delete", "node", name]:
            cluster.remove(cluster.node(name))
        case _:
            hint = "" if " " in statement else "; in a shell, put quotes around each change: 'drain node-1'"
            raise SupposeError(f"{statement!r} cannot be read; write one of: {', '.join(FORMS)}{hint}")


def nodes_called(cluster: ClusterCore, name: str) -> list[api.Node]:
    """The nodes of a name, or of a pattern such as ``pool-a-*``."""
    if not any(sign in name for sign in "*?["):
        return [cluster.node(name)]
    found = [each for each in cluster.all(api.Node) if fnmatchcase(each.name, name)]
    if not found:
        raise LookupError(f"no node is called {name!r}")
    return found


def _in_zone(cluster: ClusterCore, zone: str) -> list[api.Node]:
    nodes = cluster.all(api.Node)
    found = [each for each in nodes if each.labels.get(ZONE) == zone]
    if not found:
        known = sorted({each.labels[ZONE] for each in nodes if ZONE in each.labels})
        raise LookupError(f"no node is in zone {zone!r}; the zones are {', '.join(known) or 'not labelled'}")
    return found


def _displace(cluster: ClusterCore, effect: Displaced, plan: Iterable[Placement]) -> None:
    for each in list(plan):
        if each.fate is Fate.PENDING:
            cluster.remove(each.pod)
            each = each.moved_from(each.pod.node_name)
        effect.pods.append(each)


def _lose(cluster: ClusterCore, nodes: Iterable[api.Node], effect: Displaced) -> None:
    """Take nodes away, whatever budgets say. Pods of DaemonSets go with them."""
    for node in nodes:
        for pod in cluster.pods_on(node.name):
            if belongs_to_node(pod):
                cluster.remove(pod)
            else:
                effect.budgets.lose(pod)
                _displace(cluster, effect, [Placement(pod, Fate.PENDING)])
        cluster.remove(node)


def _taint(cluster: ClusterCore, node: api.Node, taint: api.Taint, effect: Displaced) -> None:
    others = tuple(each for each in node.spec.taints if (each.key, each.effect) != (taint.key, taint.effect))
    cluster.set(replace(node, spec=replace(node.spec, taints=(*others, taint))))
    if taint.effect == "NoExecute":
        leaving = [each for each in cluster.pods_on(node.name) if not _tolerated(each, taint)]
        for pod in leaving:
            effect.budgets.lose(pod)
        _displace(cluster, effect, (Placement(each, Fate.PENDING) for each in leaving))


def _tolerated(pod: api.Pod, taint: api.Taint) -> bool:
    return any(tolerates(each, taint) for each in pod.spec.tolerations)


def _requesting(statement: str, resource: str, amount: str) -> PodEdit:
    try:
        exact = nanos(amount)
    except QuantityError as problem:
        raise SupposeError(f"{statement!r}: {problem}") from None
    units = -(-exact // (10**6 if resource == "cpu" else 10**9))
    return lambda pod: with_requests(pod, {resource: units})


def _set_cordon(cluster: ClusterCore, node: api.Node, cordoned: bool) -> None:
    cluster.set(replace(node, spec=replace(node.spec, unschedulable=cordoned)))


def _untaint(cluster: ClusterCore, name: str, key: str) -> None:
    node = cluster.node(name)
    left = tuple(taint for taint in node.spec.taints if taint.key != key)
    if len(left) == len(node.spec.taints):
        has = ", ".join(taint.key for taint in node.spec.taints) or "none"
        raise LookupError(f"node {name} has no taint {key!r}; it has {has}")
    cluster.set(replace(node, spec=replace(node.spec, taints=left)))


def _add_like(cluster: ClusterCore, count: int, name: str) -> None:
    """Add nodes with what a node of that kind comes with: devices, volume limits and the pods of DaemonSets."""
    slices = [each for each in cluster.all(api.ResourceSlice) if each.spec.node_name == name]
    limits = cluster.get(api.CSINode, name)
    daemons = [each for each in cluster.pods_on(name) if belongs_to_node(each)]
    node, known = cluster.node(name), {each.name for each in cluster.all(api.Node)}
    number = 0
    for _ in range(count):
        number += 1
        while f"{name}-new-{number}" in known:
            number += 1
        new = f"{name}-new-{number}"
        labels = {**node.labels, **({HOSTNAME: new} if HOSTNAME in node.labels else {})}
        cluster.set(replace(node, metadata=replace(node.metadata, name=new, uid="", labels=labels)))
        if limits is not None:
            cluster.set(_renamed(limits, new))
        for slice_ in slices:
            own = slice_.spec.pool.name
            pool = replace(slice_.spec.pool, name=new if own == name else f"{own}-{new}")
            made = _renamed(slice_, f"{slice_.name}-{new}")
            cluster.set(replace(made, spec=replace(slice_.spec, node_name=new, pool=pool)))
        for pod in daemons:
            made_pod = _renamed(pod, f"{pod.name}-{new}")
            cluster.set(replace(made_pod, spec=replace(pod.spec, node_name=new)))


def _renamed(obj: AnyObject, name: str) -> AnyObject:
    """Another object of the same kind."""
    return replace(obj, metadata=replace(obj.metadata, name=name, uid=""))
