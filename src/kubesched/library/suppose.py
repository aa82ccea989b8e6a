"""Suppositions about a cluster, as people write them: ``drain N``, ``add 3 like N``, ``pod.cpu=3``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kubesched.api import objects as api
from kubesched.api.quantity import QuantityError, nanos
from kubesched.explain.rules.resources import HOSTNAME, with_requests
from kubesched.library.results import Fate

if TYPE_CHECKING:
    from kubesched.library.cluster import Cluster

FORMS = (
    "drain N",
    "cordon N",
    "uncordon N",
    "untaint N KEY",
    "add 3 like N",
    "delete pod X",
    "delete node N",
    "pod.cpu=3",
)
_REQUEST = re.compile(r"pod\.(?P<resource>[\w./-]+)=(?P<amount>\S+)")
PodEdit = Callable[[api.Pod], api.Pod]


class SupposeError(ValueError):
    """A supposition that cannot be read, or that is about something the cluster does not have."""


def suppose(cluster: Cluster, statements: Iterable[str]) -> list[PodEdit]:
    """Change the cluster as the statements say; returns what they change in the pods that are asked about."""
    edits = []
    for each in statements:
        edit = _apply(cluster, each)
        if edit is not None:
            edits.append(edit)
    return edits


def _apply(cluster: Cluster, statement: str) -> PodEdit | None:
    request = _REQUEST.fullmatch(statement.strip())
    if request is not None:
        return _requesting(statement, request["resource"], request["amount"])
    try:
        match statement.split():
            case ["drain", name]:
                _drain(cluster, name)
            case ["cordon" | "uncordon" as verb, name]:
                _set_cordon(cluster, name, verb == "cordon")
            case ["untaint", name, key]:
                _untaint(cluster, name, key)
            case ["add", count, "like", name] if count.isdecimal():
                _add_like(cluster, int(count), name)
            case ["delete", "pod", key]:
                cluster.remove(cluster.explainer().find(key))
            case ["delete", "node", name]:
                cluster.remove(cluster.node(name))
            case _:
                raise SupposeError(f"--what-if {statement!r} cannot be read; write one of: {', '.join(FORMS)}")
    except LookupError as problem:
        raise SupposeError(f"--what-if {statement!r}: {problem.args[0]}") from None
    return None


def _requesting(statement: str, resource: str, amount: str) -> PodEdit:
    try:
        exact = nanos(amount)
    except QuantityError as problem:
        raise SupposeError(f"--what-if {statement!r}: {problem}") from None
    units = -(-exact // (10**6 if resource == "cpu" else 10**9))
    return lambda pod: with_requests(pod, {resource: units})


def _drain(cluster: Cluster, name: str) -> None:
    """Cordon the node, and move its pods to where they would go."""
    placements = cluster.drain(name)
    _set_cordon(cluster, name, True)
    for each in placements:
        if each.fate in (Fate.PLACED, Fate.PENDING):
            here = next(pod for pod in cluster.pods if pod.uid == each.pod.uid)
            cluster.remove(here)
            cluster.add(replace(each.pod, spec=replace(each.pod.spec, node_name=each.node)))


def _set_cordon(cluster: Cluster, name: str, cordoned: bool) -> None:
    node = cluster.node(name)
    cluster.add(replace(node, spec=replace(node.spec, unschedulable=cordoned)))


def _untaint(cluster: Cluster, name: str, key: str) -> None:
    node = cluster.node(name)
    left = tuple(taint for taint in node.spec.taints if taint.key != key)
    if len(left) == len(node.spec.taints):
        has = ", ".join(taint.key for taint in node.spec.taints) or "none"
        raise LookupError(f"node {name} has no taint {key!r}; it has {has}")
    cluster.add(replace(node, spec=replace(node.spec, taints=left)))


def _add_like(cluster: Cluster, count: int, name: str) -> None:
    node, known = cluster.node(name), {each.name for each in cluster.nodes}
    number = 0
    for _ in range(count):
        number += 1
        while f"{name}-new-{number}" in known:
            number += 1
        new = f"{name}-new-{number}"
        labels = {**node.labels, **({HOSTNAME: new} if HOSTNAME in node.labels else {})}
        cluster.add(replace(node, metadata=replace(node.metadata, name=new, uid="", labels=labels)))
