"""A complete Kubernetes scheduler in Python: kube-scheduler's decisions, plugins in Python, every decision explained.

`kubesched.Cluster` answers questions about clusters, and the other names are for writing plugins. These names and those
of `kubesched.testing` and `kubesched.simulator` are stable: a release that removes or changes one increases the major
version, and a release before it warns. Every other module is private and may change with any release.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kubesched.api.custom import CustomObject as CustomObject
    from kubesched.api.custom import custom_kind as custom_kind
    from kubesched.api.objects import Namespace as Namespace
    from kubesched.api.objects import Node as Node
    from kubesched.api.objects import Object as Object
    from kubesched.api.objects import Pod as Pod
    from kubesched.api.quantity import Quantity as Quantity
    from kubesched.api.quantity import milli as milli
    from kubesched.api.quantity import nanos as nanos
    from kubesched.api.resources import Requests as Requests
    from kubesched.api.resources import scheduling_requests as scheduling_requests
    from kubesched.client.protocol import ApiError as ApiError
    from kubesched.cluster.pods import PodInfo as PodInfo
    from kubesched.cluster.table import Ints as Ints
    from kubesched.cluster.table import Mask as Mask
    from kubesched.cluster.view import NodeInfo as NodeInfo
    from kubesched.cluster.view import Nodes as Nodes
    from kubesched.config.errors import ConfigError as ConfigError
    from kubesched.daemon.main import run as run
    from kubesched.framework.diagnosis import Diagnosis as Diagnosis
    from kubesched.framework.events import Action as Action
    from kubesched.framework.events import EventHint as EventHint
    from kubesched.framework.events import Hint as Hint
    from kubesched.framework.events import Resource as Resource
    from kubesched.framework.events import on as on
    from kubesched.framework.functions import filter as filter
    from kubesched.framework.functions import score as score
    from kubesched.framework.handle import ApiClient as ApiClient
    from kubesched.framework.handle import Handle as Handle
    from kubesched.framework.handle import WaitingPod as WaitingPod
    from kubesched.framework.plugin import MAX_NODE_SCORE as MAX_NODE_SCORE
    from kubesched.framework.plugin import Plugin as Plugin
    from kubesched.framework.plugin import PostFilterResult as PostFilterResult
    from kubesched.framework.plugin import Reads as Reads
    from kubesched.framework.plugin import Verdicts as Verdicts
    from kubesched.framework.plugin import default_normalize as default_normalize
    from kubesched.framework.plugin import reject as reject
    from kubesched.framework.registry import Registry as Registry
    from kubesched.framework.state import PODS_TO_ACTIVATE as PODS_TO_ACTIVATE
    from kubesched.framework.state import CycleState as CycleState
    from kubesched.framework.state import PodsToActivate as PodsToActivate
    from kubesched.framework.status import SKIP as SKIP
    from kubesched.framework.status import Code as Code
    from kubesched.framework.status import Status as Status
    from kubesched.framework.status import error as error
    from kubesched.framework.status import unresolvable as unresolvable
    from kubesched.framework.status import unschedulable as unschedulable
    from kubesched.library.capacity import CapacityReport as CapacityReport
    from kubesched.library.cluster import Cluster as Cluster
    from kubesched.library.consolidation import Consolidation as Consolidation
    from kubesched.library.decision import Decision as Decision
    from kubesched.library.moves import MovePlan as MovePlan
    from kubesched.library.node_types import NodeType as NodeType
    from kubesched.library.results import Comparison as Comparison
    from kubesched.library.results import Fate as Fate
    from kubesched.library.results import Placement as Placement
    from kubesched.library.results import Placements as Placements
    from kubesched.library.sizing import NodesNeeded as NodesNeeded
    from kubesched.library.snapshotting import Recording as Recording
    from kubesched.library.snapshotting import Snapshot as Snapshot
    from kubesched.library.snapshotting import record as record
    from kubesched.library.snapshotting import snapshot as snapshot
    from kubesched.library.what_if import WhatIfResult as WhatIfResult
    from kubesched.snapshots.reader import ManifestError as ManifestError

_HOME: Final = {
    "api.custom": ("CustomObject", "custom_kind"),
    "api.objects": ("Namespace", "Node", "Object", "Pod"),
    "api.quantity": ("Quantity", "milli", "nanos"),
    "api.resources": ("Requests", "scheduling_requests"),
    "client.protocol": ("ApiError",),
    "cluster.pods": ("PodInfo",),
    "cluster.table": ("Ints", "Mask"),
    "cluster.view": ("NodeInfo", "Nodes"),
    "config.errors": ("ConfigError",),
    "daemon.main": ("run",),
    "framework.diagnosis": ("Diagnosis",),
    "framework.events": ("Action", "EventHint", "Hint", "Resource", "on"),
    "framework.functions": ("filter", "score"),
    "framework.handle": ("ApiClient", "Handle", "WaitingPod"),
    "framework.plugin": (
        "MAX_NODE_SCORE",
        "Plugin",
        "PostFilterResult",
        "Reads",
        "Verdicts",
        "default_normalize",
        "reject",
    ),
    "framework.registry": ("Registry",),
    "framework.state": ("PODS_TO_ACTIVATE", "CycleState", "PodsToActivate"),
    "framework.status": ("SKIP", "Code", "Status", "error", "unresolvable", "unschedulable"),
    "library.capacity": ("CapacityReport",),
    "library.cluster": ("Cluster",),
    "library.consolidation": ("Consolidation",),
    "library.decision": ("Decision",),
    "library.moves": ("MovePlan",),
    "library.node_types": ("NodeType",),
    "library.results": ("Comparison", "Fate", "Placement", "Placements"),
    "library.sizing": ("NodesNeeded",),
    "library.snapshotting": ("Recording", "Snapshot", "record", "snapshot"),
    "library.what_if": ("WhatIfResult",),
    "snapshots.reader": ("ManifestError",),
}
_MODULE_OF: Final = {name: module for module, names in _HOME.items() for name in names}

__all__ = sorted(_MODULE_OF)  # a sorted list of strings; type checkers read the imports above


if not TYPE_CHECKING:  # a type checker that saw this would take every name for one of ours

    def __getattr__(name: str) -> object:
        """Load a name on first use: `kubesched --help` needs none of them, and NumPy takes long to import."""
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
