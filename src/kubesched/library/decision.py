"""A decision about one pod: where it goes and why, or why it goes nowhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kubesched.api import objects as api
from kubesched.engine.decision import Decision as Attempt
from kubesched.framework.status import Status
from kubesched.library.tables import Row, as_frame, as_html

Place = Callable[[bool], None]
"""Puts the pod on its node; with True, evicts the victims first."""


class Decision:
    """Where a pod goes, with every plugin's score and every rejection.

    A decision is a record: it stays as it is when the cluster changes. Only `place` changes the cluster.
    """

    def __init__(self, attempt: Attempt, place: Place) -> None:
        self.pod: api.Pod = attempt.pod
        """The pod, as the API server would have stored it."""
        self.node: str = attempt.node
        """The node; empty if there is none."""
        self.message: str = attempt.message
        """Why there is no node, in kube-scheduler's words."""
        self.scores: dict[str, dict[str, int]] = attempt.node_scores
        """For every node that fits, each plugin's weighted score. Empty if only one node fits: it is not scored."""
        self.rejected: dict[str, Status] = attempt.rejections
        """For every node that does not fit, the status of the plugin that rejected it: `plugin`, `message`, `code`."""
        room = attempt.post_filter
        self.nominated_node: str = "" if room is None or self.node else room.nominated_node_name
        """The node where preemption would make room; empty if it would not help."""
        self.victims: list[api.Pod] = [info.pod for info in room.victims] if room and self.nominated_node else []
        """The pods that preemption would evict there."""
        self._text = attempt.explain()
        self._place = place

    @property
    def totals(self) -> dict[str, int]:
        """For every scored node, the sum of its scores."""
        return {node: sum(plugins.values()) for node, plugins in self.scores.items()}

    def place(self, *, evict: bool = False) -> None:
        """Put the pod on its node in the cluster that decided.

        With `evict` and a nominated node, the victims are removed and the pod is placed there. Raises ValueError if
        there is no node, or if the cluster has changed since the decision.
        """
        self._place(evict)

    def explain(self) -> str:
        """The decision in words, as `print` shows it."""
        return self._text

    def to_dict(self) -> dict[str, Any]:
        """The decision as a dict that can be written as JSON."""
        return {
            "pod": self.pod.key,
            "node": self.node,
            "message": self.message,
            "scores": {node: dict(plugins) for node, plugins in self.scores.items()},
            "rejected": {
                node: {"plugin": status.plugin, "code": status.code.upstream, "message": status.message}
                for node, status in self.rejected.items()
            },
            "nominated_node": self.nominated_node,
            "victims": [each.key for each in self.victims],
        }

    def to_frame(self) -> Any:
        """A data frame with a row per node: total, each plugin's score, and who rejected it and why."""
        return as_frame(self._rows())

    def _rows(self) -> list[Row]:
        plugins = list(dict.fromkeys(plugin for scores in self.scores.values() for plugin in scores))
        totals = self.totals
        fitting = sorted(self.scores, key=lambda node: (node != self.node, -totals[node], node))
        rows = [self._row(node, totals[node], self.scores[node], plugins, None) for node in fitting]
        if self.node and self.node not in self.scores:
            rows.append(self._row(self.node, None, {}, plugins, None))
        return rows + [self._row(node, None, {}, plugins, self.rejected[node]) for node in sorted(self.rejected)]

    def _row(self, node: str, total: int | None, scores: dict[str, int], plugins: list[str], why: Status | None) -> Row:
        return {
            "node": node,
            "chosen": node == self.node,
            "total": total,
            **{plugin: scores.get(plugin) for plugin in plugins},
            "rejected by": None if why is None else why.plugin,
            "reason": None if why is None else why.message,
        }

    def _repr_html_(self) -> str:
        return as_html(f"{self._headline()}\n{self.message}", self._rows())

    def _headline(self) -> str:
        return f"{self.pod.key} goes to {self.node}" if self.node else f"{self.pod.key} goes to no node"

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<Decision: {self._headline()}>"
