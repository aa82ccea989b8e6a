"""The contract between a plugin and the scheduler.

A plugin is a class with a `name`. It takes part in an extension point by having that point's method:

| point      | method                                                        | result                                  |
| ---------- | ------------------------------------------------------------- | --------------------------------------- |
| PreEnqueue | `pre_enqueue(pod)`                                            | `None` or a `Status`                    |
| QueueSort  | `sort_key(pod)` or `less(a, b)`                               | a comparable key; a bool                |
| PreFilter  | `pre_filter(state, pod, nodes)`, `add_pod`, `remove_pod`      | `None`, `Status` (Skip), or node names  |
|            | `ignores(pod_class)`, if it has one                           | whether it always skips such pods       |
| Filter     | `filter(state, pod, node)` or `filter_all(state, pod, nodes)` | `None` or `Status`; or `Verdicts`       |
|            | `filter_depends_on(state, pod, other)`, if it has one         | whether pods like `other` matter        |
| PostFilter | `post_filter(state, pod, diagnosis)`                          | `(PostFilterResult or None, Status)`    |
| PreScore   | `pre_score(state, pod, nodes)`                                | `None` or `Status` (Skip)               |
| Score      | `score(state, pod, node)` or `score_all(state, pod, nodes)`   | an int; int64s, or one int for all      |
|            | `normalize(state, pod, scores)`                               | an array of 0…100                       |
| Reserve    | `reserve(state, pod, node_name)`, `unreserve`                 | `None` or `Status`                      |
| Permit     | `permit(state, pod, node_name)`                               | `None`, `Status`, `(Status, seconds)`   |
| PreBind    | `pre_bind_needed(state, pod, node_name)`, if it has one       | whether there is anything to do         |
|            | `pre_bind_waits(state, pod, node_name)`, if it has one        | whether it waits for others, not only   |
|            |                                                               | for its own writes                      |
|            | `async pre_bind(state, pod, node_name)`                       | `None` or `Status`                      |
| Bind       | `async bind(state, pod, node_name)`                           | `None` or `Status` (Skip: not mine)     |
| PostBind   | `async post_bind(state, pod, node_name)`                      |                                         |
| Sign       | `sign(pod)`: the parts of a pod that Filter and Score read    | a dict, or a `Status`: not signable     |
| Placement- | `generate_placements(group, parent)`                          | `Placement`s, or a `Status`             |
| Generate   |                                                               |                                         |
| Placement- | `score_placement(group, assignments)`                         | an int                                  |
| Score      | `normalize_placements(scores)`                                | ints of 0…100                           |
| events     | `events_to_register()`                                        | `EventHint`s                            |

`None` means success. An exception fails the attempt, with the plugin's name in the message.

A vectorised method returns a result for every row of its window, also for rows that another plugin has rejected
already. Those results are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from kubesched.cluster.pods import PodInfo
from kubesched.cluster.table import Ints, Mask
from kubesched.framework.events import EventHint
from kubesched.framework.handle import Handle as Handle
from kubesched.framework.status import Status

if TYPE_CHECKING:
    from kubesched.api import objects as api
    from kubesched.cluster.pods import PodClass
    from kubesched.framework.state import CycleState

MAX_NODE_SCORE = 100
MIN_NODE_SCORE = 0

Codes = npt.NDArray[np.integer[Any]] | Mask
"""A verdict per row: 0 (or False) passes, anything else is the plugin's own code for the reason."""


class Reads(Enum):
    """What a plugin's pre_filter, filter and score read, beside the plugin's own arguments.

    It decides what is called again for the next pod of the same class: nothing while no node changes (NODE), only the
    nodes whose pods changed (PODS), or everything (ROW and CLUSTER; the latter is always correct). "The node object" is
    all of `NodeInfo.node`, annotations and conditions included: any change of it counts. The same holds for pods.
    """

    NODE = "the pod's class and the node object"
    PODS = "the pod's class, the node object and the pods on that node"
    ROW = "anything about the pod, the node object and the pods on that node"
    CLUSTER = "anything"

    @property
    def is_cacheable(self) -> bool:
        """Whether results for one pod are valid for the next pod of its class."""
        return self in _CACHEABLE


_CACHEABLE = (Reads.NODE, Reads.PODS)


class Verdicts(NamedTuple):
    """The result of Filter for a window: a code per row, and the status of each code."""

    codes: Codes
    status_of: Callable[[int], Status]


def reject(rows: Mask, status: Status) -> Verdicts | None:
    """Reject the marked rows, all for the same reason."""
    return Verdicts(rows, lambda _: status) if rows.any() else None


@dataclass(slots=True)
class PostFilterResult:
    """The node that is being made free for the pod. An empty name withdraws an earlier nomination."""

    nominated_node_name: str
    victims: Sequence[PodInfo] = field(default=())


class Plugin:
    """The base of all plugins."""

    name: ClassVar[str]
    args_type: ClassVar[type | None] = None
    """The struct that `pluginConfig` is decoded into; None for a plugin without arguments."""
    reads: ClassVar[Reads] = Reads.CLUSTER
    pre_bind_in_parallel: ClassVar[bool] = False
    """Whether `pre_bind` may run at the same time as that of other plugins that say so."""
    relies_on: ClassVar[frozenset[str]] = frozenset()
    """Points ("preFilter", "preScore") that Filter or Score needs; a profile may disable them."""
    default_weight: ClassVar[int] = 1
    """The weight of its scores if the configuration gives none."""

    def __init__(self, args: Any, handle: Handle) -> None:
        self.args = args
        self.handle = handle

    def events_to_register(self) -> Sequence[EventHint]:
        """Cluster events that may make a pod this plugin rejected schedulable."""
        return ()

    def ignores(self, pod_class: PodClass) -> bool:
        """Whether PreFilter and PreScore skip every pod of this class, whatever the cluster holds. They are then called
        once for the class, not for each of its pods; False is always correct."""
        return False

    def filter_depends_on(self, state: CycleState, pod: api.Pod, other: PodClass) -> bool:
        """Whether Filter's result for a node may change when a pod of another class is added to that node or removed
        from it. Asked of plugins that read more than a node and its pods, in what-ifs; True is always correct."""
        return True

    def close(self) -> None:  # most plugins have nothing to close
        """Called once, when the scheduler stops: release what the plugin holds."""


POINTS: dict[str, tuple[str, ...]] = {
    "preEnqueue": ("pre_enqueue",),
    "queueSort": ("sort_key", "less"),
    "preFilter": ("pre_filter",),
    "filter": ("filter", "filter_all"),
    "postFilter": ("post_filter",),
    "preScore": ("pre_score",),
    "score": ("score", "score_all"),
    "reserve": ("reserve",),
    "permit": ("permit",),
    "preBind": ("pre_bind",),
    "bind": ("bind",),
    "postBind": ("post_bind",),
    "placementGenerate": ("generate_placements",),
    "placementScore": ("score_placement",),
}
"""Extension points, by their name in the configuration, and the methods that implement them."""


def points_of(plugin: type[Plugin]) -> frozenset[str]:
    """The extension points that a plugin class implements."""
    found = _POINTS_OF.get(plugin)
    if found is None:
        found = frozenset(point for point, methods in POINTS.items() if any(hasattr(plugin, m) for m in methods))
        _POINTS_OF[plugin] = found
    return found


_POINTS_OF: WeakKeyDictionary[type, frozenset[str]] = WeakKeyDictionary()
"""Cached, because a configuration asks several times for every plugin at every point."""


def is_built_in(plugin: type) -> bool:
    """Whether a class is one of ours: those are tested, and their results need no checks."""
    return plugin.__module__.startswith("kubesched.plugins.")


def whole(scores: npt.NDArray[Any]) -> Ints:
    """Scores as whole numbers, for plugins that compute with fractions."""
    return scores if scores.dtype == np.int64 else np.rint(scores).astype(np.int64)


def default_normalize(scores: Ints, *, reverse: bool = False) -> Ints:
    """Scale to 0…100 by the highest score; `reverse` makes the lowest the best."""
    highest = scores.max(initial=0)
    if highest == 0:
        return np.full_like(scores, MAX_NODE_SCORE) if reverse else scores

    def scaled(values: Ints) -> Ints:
        parts: Ints = values * MAX_NODE_SCORE // highest
        return MAX_NODE_SCORE - parts if reverse else parts

    if scores.dtype != np.int64 or scores.min() < 0:
        return scaled(scores)
    return once_per_value(scores, int(highest), scaled)


def once_per_value(scores: Ints, highest: int, compute: Callable[[Ints], Ints]) -> Ints:
    """`compute` of scores from 0 to `highest`: once for each of these numbers, if there are fewer of them than scores.
    Dividing takes ten times as long as looking up."""
    if highest >= len(scores):
        return compute(scores)
    return compute(np.arange(highest + 1)).take(scores)
