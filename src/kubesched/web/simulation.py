"""A simulation's report as a cluster to look at: `kubesched simulate -o json`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from kubesched.api import objects as api
from kubesched.web.model import ClusterModel
from kubesched.web.moments import Moment, What

START = 200
"""Bytes at the beginning of a report that tell it from manifests."""
KINDS = {
    "created": What.CREATED,
    "pending": What.FAILED,
    "bound": What.BOUND,
    "succeeded": What.ENDED,
    "failed": What.ENDED,
    "deleted": What.DELETED,
}


class SimulatedMoment(msgspec.Struct, frozen=True):
    """One line of the timeline."""

    time: float
    what: str
    kind: str = ""
    name: str = ""
    text: str = ""


class Usage(msgspec.Struct, frozen=True):
    """A node at the end."""

    node: str


class SimulationReport(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a report that the page shows."""

    scenario: str
    virtual_seconds: float
    timeline: list[SimulatedMoment]
    utilisation: list[Usage]
    objects: list[dict[str, Any]] = []


def is_simulation(path: Path) -> bool:
    """Whether a file is a simulation's report."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return b'"bindings"' in file.read(START)


def load_simulation(path: Path, model: ClusterModel) -> str:
    """Read a report into the model and return the scenario's name. Raises ValueError."""
    try:
        report = msgspec.json.decode(path.read_bytes(), type=SimulationReport)
    except msgspec.MsgspecError as error:
        hint = "kubesched simulate -o json writes one, for one scenario"
        raise ValueError(f"{path} is not a simulation's report: {error}; {hint}") from None
    model.clock = lambda: report.virtual_seconds
    for each in report.utilisation:
        model.set(api.Node(metadata=api.ObjectMeta(name=each.node)), initial=True)
    return report.scenario


__all__ = ["KINDS", "Moment", "is_simulation", "load_simulation"]
