"""Answers that pod classes share if they differ only in what they request.

Most plugins whose answers are cached do not read requests. For a pod of a size that was not seen before, only those
that read the pods on nodes are called; what the others returned for a pod of another size is taken over.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import msgspec
import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.pods import PodClass
from kubesched.cluster.table import Ints, Mask
from kubesched.framework.state import CycleState

if TYPE_CHECKING:
    from kubesched.engine.columns import CachedFilter, CachedScore

_encode = msgspec.json.Encoder(order="deterministic").encode
_NO_RESOURCES = api.ResourceRequirements()


class SharedAnswers:
    """What the plugins that do not read the pods on nodes returned, for one version of the nodes. Those that use it do
    not change what is in it."""

    __slots__ = (
        "__weakref__",
        "answers",
        "asked_pre_filters",
        "asked_pre_scores",
        "filters",
        "mask",
        "memo",
        "node_version",
        "scores",
        "skipped_scores",
        "state",
        "static",
        "suspects",
        "written",
    )

    def __init__(self, node_version: int, mask: Mask, filters: dict[str, CachedFilter], state: CycleState) -> None:
        self.node_version = node_version
        self.mask = mask
        """Rows that pass these Filters."""
        self.filters = filters
        """Without the plugins that reject no node."""
        self.state = state
        self.answers: Mapping[str, Any] = {}
        """PreFilter results."""
        self.written: Mapping[str, set[Hashable]] = {}
        """The keys of the state that each plugin in `answers` has written."""
        self.asked_pre_filters: list[Any] = []
        self.asked_pre_scores: list[Any] = []
        """The plugins that are called for every pod."""
        self.memo: Mapping[Hashable, object] = {}
        """What the plugins derived from the pod's spec."""
        self.scores: dict[str, CachedScore] | None = None
        """None until a class has been scored."""
        self.skipped_scores: frozenset[str] = frozenset()
        """Plugins whose PreScore skips Score."""
        self.suspects: Sequence[CachedScore] = ()
        """Scores out of range on some row."""
        self.static: Ints = np.zeros(0, dtype=np.int64)
        """The sum of the weighted scores that need no normalising."""

    def with_filters(self, node_version: int, mask: Mask, filters: dict[str, CachedFilter]) -> SharedAnswers:
        """A copy for another version of the nodes, without scores."""
        copied = SharedAnswers(node_version, mask, filters, self.state)
        copied.answers, copied.written, copied.memo = self.answers, self.written, self.memo
        copied.asked_pre_filters, copied.asked_pre_scores = self.asked_pre_filters, self.asked_pre_scores
        copied.skipped_scores, copied.suspects = self.skipped_scores, self.suspects
        return copied

    def is_current(self, node_version: int, size: int) -> bool:
        """Whether they are about the nodes as they are now."""
        return self.node_version == node_version and len(self.mask) == size


Shapes = WeakValueDictionary[bytes, SharedAnswers]
"""Answers by shape. They live as long as a class that uses them."""


def shape(pod_class: PodClass) -> bytes | None:
    """What pods of different sizes have in common. None for a pod with extended resources: devices may stand behind
    them, and then more plugins read requests."""
    if pod_class.requests.scalar:
        return None
    spec = pod_class.spec
    bare = msgspec.structs.replace(
        spec,
        containers=_without_resources(spec.containers),
        init_containers=_without_resources(spec.init_containers),
        resources=None,
        overhead={},
    )
    return _encode((pod_class.namespace, bare))


def _without_resources(containers: Sequence[api.Container]) -> tuple[api.Container, ...]:
    return tuple(msgspec.structs.replace(each, resources=_NO_RESOURCES) for each in containers)


def derived_by(plugins: Collection[Any], memo: Mapping[Hashable, object]) -> dict[Hashable, object]:
    """The entries of a class's memo that belong to some plugins. A key is the plugin or a tuple that begins with it."""
    return {key: value for key, value in memo.items() if (key[0] if isinstance(key, tuple) else key) in plugins}
