"""NodeResourcesFit: how much is missing, and the request or the node with which the pod would fit."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from kubesched.api import objects as api
from kubesched.api.quantity import nanos
from kubesched.explain.amounts import number, quantity, requested, shown
from kubesched.explain.change import Change
from kubesched.explain.rules.rule import Detail
from kubesched.explain.survey import Survey

PLUGIN = "NodeResourcesFit"
HOSTNAME = "kubernetes.io/hostname"
_REDUCE, _ADD_NODE = 2.0, 6.0


class Shortage:
    """One resource of which a node has too little."""

    def __init__(self, survey: Survey, row: int, resource: str) -> None:
        table = survey.table
        column = table.column_of(resource)
        self.resource = resource
        self.asked = requested(survey.info.pod_class.requests).get(resource, 0)
        self.offered = int(table.allocatable[column, row])
        self.free = self.offered - int(table.used[column, row])

    @property
    def missing(self) -> int:
        """How much more the node would need."""
        return self.asked - self.free

    def detail(self) -> Detail:
        """The shortage in words and numbers."""
        name = self.resource
        values = {
            "resource": name,
            "requested": number(name, self.asked),
            "free": number(name, self.free),
            "allocatable": number(name, self.offered),
            "shortBy": number(name, self.missing),
        }
        if name == "pods":
            held = self.offered - self.free
            return Detail(f"too many pods: {held} of at most {self.offered} are there", values)
        words = f"{name} short by {shown(name, self.missing)}: asks for {shown(name, self.asked)}, "
        return Detail(words + f"{shown(name, self.free)} free of {shown(name, self.offered)}", values)


def shortages(survey: Survey, row: int) -> list[Shortage]:
    """The resources of which a node has too little."""
    verdict = survey.verdicts.get(PLUGIN)
    if verdict is None or not verdict.mask[row] or verdict.whole is not None:
        return []
    names = ("pods" if each == "Too many pods" else each.removeprefix("Insufficient ") for each in reasons(survey, row))
    return [Shortage(survey, row, name) for name in names]


def reasons(survey: Survey, row: int) -> tuple[str, ...]:
    """The plugin's own reasons."""
    return tuple(survey.verdicts[PLUGIN].status(row).reasons)


def details(survey: Survey, row: int) -> list[Detail]:
    return [each.detail() for each in shortages(survey, row)]


def fixes(survey: Survey, row: int) -> list[Change]:
    missing = shortages(survey, row)
    found = []
    if all(each.resource != "pods" and each.free > 0 for each in missing):
        found.append(_ask_for_less(missing))
    if all(each.asked <= each.offered for each in missing):
        found.append(add_node_like(survey, row))
    return found


def _ask_for_less(missing: list[Shortage]) -> Change:
    amounts = {each.resource: each.free for each in missing}
    words = " and ".join(
        f"{each.resource} {shown(each.resource, each.free)} instead of {shown(each.resource, each.asked)}"
        for each in missing
    )
    share = max(each.missing / each.asked for each in missing)
    return Change("request", f"ask for {words}", _REDUCE + 3 * share, edit=lambda pod: with_requests(pod, amounts))


def add_node_like(survey: Survey, row: int, labels: Mapping[str, str] | None = None) -> Change:
    """One more node like that of the row, with nothing on it."""
    node = survey.table.node(row)
    name = f"{node.name}-like"
    changed = {**node.labels, **(labels or {})}
    if HOSTNAME in changed:
        changed[HOSTNAME] = name
    meta = replace(node.metadata, name=name, uid="", labels=changed)
    words = f"add a node like {node.name}"
    if labels:
        words += " with " + ", ".join(f"{key}={value}" for key, value in labels.items())
    return Change("node", words, _ADD_NODE, objects=(replace(node, metadata=meta),))


def with_requests(pod: api.Pod, amounts: Mapping[str, int]) -> api.Pod:
    """The pod with other total requests, in the scheduler's units: the difference goes to its largest containers."""
    for resource, amount in amounts.items():
        pod = _with_request(pod, resource, amount)
    return pod


def _with_request(pod: api.Pod, resource: str, amount: int) -> api.Pod:
    """Containers share the new amount in proportion; sidecars and init containers get no more than that."""
    spec = pod.spec
    if spec.resources is not None and resource in spec.resources.requests:
        given = replace(spec.resources, requests={**spec.resources.requests, resource: quantity(resource, amount)})
        return replace(pod, spec=replace(spec, resources=given))
    overhead = _units(resource, spec.overhead)
    sidecars = sum(_units(resource, c.resources.requests) for c in spec.init_containers if c.restart_policy == "Always")
    left = max(0, amount - overhead - sidecars)
    held = [_units(resource, each.resources.requests) for each in spec.containers]
    total = sum(held)
    shares = [left * each // total for each in held] if total else [left] + [0] * (len(held) - 1)
    if shares:
        shares[0] += left - sum(shares)
    containers = tuple(
        _asking(each, resource, share) if share or resource in each.resources.requests else each
        for each, share in zip(spec.containers, shares, strict=True)
    )
    first = tuple(
        _asking(each, resource, min(left, _units(resource, each.resources.requests)))
        if each.restart_policy != "Always" and resource in each.resources.requests
        else each
        for each in spec.init_containers
    )
    return replace(pod, spec=replace(spec, containers=containers, init_containers=first))


def _asking(container: api.Container, resource: str, amount: int) -> api.Container:
    requests = {**container.resources.requests, resource: quantity(resource, amount)}
    return replace(container, resources=replace(container.resources, requests=requests))


def _units(resource: str, amounts: api.ResourceList) -> int:
    if resource not in amounts:
        return 0
    exact = nanos(amounts[resource])
    return -(-exact // (10**6 if resource == "cpu" else 10**9))


def missing_shares(survey: Survey) -> npt.NDArray[np.float64]:
    """Per row, how much of what the pod asks for is missing, as a sum of shares; 0 where there is room."""
    if "shares" not in survey.memo:
        table = survey.table
        asked = requested(survey.info.pod_class.requests)
        columns = {name: table.column_of(name) for name in asked}
        missing = np.zeros(survey.size)
        for name, amount in asked.items():
            free = table.allocatable[columns[name], : survey.size] - table.used[columns[name], : survey.size]
            missing += np.maximum(0, amount - free) / max(1, amount)
        survey.memo["shares"] = missing
    return survey.memo["shares"]  # type: ignore[no-any-return]  # stored above
