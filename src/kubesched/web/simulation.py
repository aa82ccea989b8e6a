"""A simulation's report as a cluster to look at: `kubesched simulate -o json`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from kubesched.api import objects as api
from kubesched.library.core import ClusterCore
from kubesched.library.manifests import Manifests, read_objects
from kubesched.web.model import ClusterModel
from kubesched.web.moments import Moment, What

BEGINNING = 4096
"""Bytes that are looked at to tell a report from manifests."""
KINDS = {
    "created": What.CREATED,
    "pending": What.FAILED,
    "bound": What.BOUND,
    "succeeded": What.ENDED,
    "failed": What.ENDED,
    "deleted": What.DELETED,
}
NODE_KINDS = {"created": What.NODE_ADDED, "deleted": What.NODE_REMOVED}


class SimulatedMoment(msgspec.Struct, frozen=True):
    """One line of a report's timeline."""

    time: float
    what: str
    kind: str = ""
    name: str = ""
    text: str = ""
    cpu: int = 0
    memory: int = 0


class SimulationReport(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a report that the page shows."""

    scenario: str
    virtual_seconds: float
    timeline: list[SimulatedMoment]
    objects: list[dict[str, Any]]


def is_simulation(path: Path) -> bool:
    """Whether a file is a simulation's report."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        start = file.read(BEGINNING)
    return b'"bindings"' in start and b'"digest"' in start


def load_simulation(path: Path, model: ClusterModel) -> str:
    """Read a report into the model and return the scenario's name. Raises ValueError."""
    try:
        report = msgspec.json.decode(path.read_bytes(), type=SimulationReport)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        hint = "kubesched simulate -o json writes one, for one scenario"
        raise ValueError(f"{path} is not the report of a simulation: {error}; {hint}") from None
    model.clock = lambda: report.virtual_seconds
    for each in completed_objects(read_objects(report.objects))[0]:
        model.load(each)
    for moment in report.timeline:
        _replay(moment, model)
    return report.scenario


def completed_objects(manifests: Manifests) -> tuple[list[api.Object], Mapping[str, int]]:
    """Objects as an API server would store them and those that they imply, nodes first and pods last; and how many of
    other kinds are ignored.
    """
    made = ClusterCore()
    made.add(manifests)
    others = [each for each in made.objects if not isinstance(each, api.Node | api.Pod)]
    return [*made.all(api.Node), *others, *made.all(api.Pod)], made.ignored


def _replay(moment: SimulatedMoment, model: ClusterModel) -> None:
    if moment.kind == "Node" and moment.what in NODE_KINDS:
        model.moments.add(Moment(moment.time, NODE_KINDS[moment.what], "", moment.name))
        return
    what = KINDS.get(moment.what)
    if moment.kind != "Pod" or what is None:
        return
    node = moment.text if what is What.BOUND else ""
    text = moment.text if what is What.FAILED else ""
    model.moments.add(Moment(moment.time, what, moment.name, node, text))
    if what is What.BOUND:
        row = model.state.nodes.row_of.get(node)
        if row is not None:  # nodes that have gone since are not on the map
            requests = {"pods": 1, "cpu": moment.cpu, "memory": moment.memory}
            model.placements.placed(moment.name, row, requests, moment.time)
    elif what in (What.ENDED, What.DELETED):
        model.placements.ended(moment.name, moment.time)
