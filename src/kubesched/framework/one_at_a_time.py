"""The opposite of lifting: a vectorised plugin, called for one node at a time.

Benchmarks compare with it, and tests show that both forms of a plugin give the same results.
"""

from __future__ import annotations

from typing import Any

from kubesched.api import objects as api
from kubesched.cluster.view import NodeInfo, Nodes
from kubesched.framework.plugin import Plugin, Reads
from kubesched.framework.state import CycleState
from kubesched.framework.status import Status


def one_at_a_time(plugin: type[Plugin]) -> type[Plugin]:
    """A plugin class with the same name and results whose Filter and Score get one node per call."""
    vectorised: Any = plugin
    hidden = {"name": plugin.name, "reads": Reads.CLUSTER}

    def window(node: NodeInfo) -> Nodes:
        return Nodes(node.table, slice(node.row, node.row + 1))

    def filter_one(self: Any, state: CycleState, pod: api.Pod, node: NodeInfo) -> Status | None:
        verdicts = vectorised.filter_all(self, state, pod, window(node))
        code = 0 if verdicts is None else int(verdicts.codes[0])
        return verdicts.status_of(code) if code else None

    def score_one(self: Any, state: CycleState, pod: api.Pod, node: NodeInfo) -> int:
        scores = vectorised.score_all(self, state, pod, window(node))
        return scores if isinstance(scores, int) else int(scores[0])

    methods: dict[str, Any] = {}
    if hasattr(plugin, "filter_all"):
        methods |= {"filter": filter_one, "filter_all": _Missing()}
    if hasattr(plugin, "score_all"):
        methods |= {"score": score_one, "score_all": _Missing()}
    return type(plugin.__name__, (plugin,), {**hidden, **methods})


class _Missing:
    """Hides an inherited method from `hasattr`."""

    def __get__(self, instance: object, owner: type) -> object:
        raise AttributeError("hidden: this plugin answers for one node at a time")
