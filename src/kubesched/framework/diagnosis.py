"""Why a pod fits nowhere: what messages, preemption and requeueing are made from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from kubesched.cluster.table import Ints, Mask, NodeTable
from kubesched.framework.status import Code, Status
from kubesched.framework.verdicts import Rejections, fit_message


class Diagnosis:
    """The statuses of the nodes that were filtered, and one status for all others."""

    def __init__(
        self,
        table: NodeTable,
        *,
        looked_at: Mask | None = None,
        rejections: Rejections | None = None,
        others: Status | None = None,
        pre_filter: Status | None = None,
        plugins: frozenset[str] = frozenset(),
        nodes: int | None = None,
    ) -> None:
        """`nodes` is the number of nodes there are to choose from; by default all."""
        self.table = table
        self.nodes = table.valid_count if nodes is None else nodes
        self.pre_filter = pre_filter
        """PreFilter's rejection of the pod as a whole, if that is what happened."""
        self._looked_at = looked_at if looked_at is not None else np.zeros(table.size, dtype=np.bool_)
        self._rejections = rejections
        self._others = others
        self._narrowed_by = plugins
        self._groups: list[tuple[Status, Ints]] | None = None

    @property
    def evaluated(self) -> int:
        """How many nodes were filtered: none if PreFilter rejected the pod, few if it narrowed the nodes."""
        return int(np.count_nonzero(self._looked_at))

    def freeze(self) -> None:
        """Copy what the cluster and the cached answers will change."""
        self._looked_at = self._looked_at.copy()
        self._rejections = None if self._rejections is None else self._rejections.copy()

    @property
    def looked_at(self) -> Mask:
        """The rows that were filtered."""
        return self._looked_at

    @property
    def rejections(self) -> Rejections | None:
        """The plugins' verdicts; None if PreFilter rejected the pod."""
        return self._rejections

    def statuses(self) -> Sequence[tuple[Status, Ints]]:
        """The distinct statuses of filtered nodes, each with its rows. Preemption, the message and the queue all ask
        for them."""
        if self._groups is None:
            self._groups = [] if self._rejections is None else list(self._rejections.groups(self._looked_at))
        return self._groups

    def status_of(self, row: int) -> Status | None:
        """A node's status."""
        if self._rejections is not None and self._looked_at[row]:
            return self._rejections.status(row)
        return self._others

    def code_of(self, node_name: str) -> Code:
        """The code of a node. One that was not filtered is unresolvable, unless PreFilter gave another status."""
        row = self.table.row_of.get(node_name)
        status = self.status_of(row) if row is not None else self._others
        return Code.UNSCHEDULABLE_AND_UNRESOLVABLE if status is None else status.code

    def rows_with(self, code: Code) -> Ints:
        """The rows whose status has this code."""
        found = [rows for status, rows in self.statuses() if status.code is code]
        if self._others is not None and self._others.code is code:
            found.append(np.flatnonzero(self.table.valid[: self.table.size] & ~self._looked_at))
        return np.sort(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)

    @property
    def unschedulable_plugins(self) -> set[str]:
        """The plugins that rejected the pod somewhere."""
        names = {status.plugin for status, _ in self.statuses() if status.code is not Code.PENDING}
        if self.pre_filter is not None:
            names.add(self.pre_filter.plugin)
        return {name for name in names | self._narrowed_by if name}

    @property
    def pending_plugins(self) -> set[str]:
        """The plugins that wait for something. Once it has come, the pod need not back off."""
        return {status.plugin for status, _ in self.statuses() if status.code is Code.PENDING and status.plugin}

    def reasons(self) -> Counter[str]:
        """How many nodes have each reason."""
        counts: Counter[str] = Counter()
        seen = 0
        for status, rows in self.statuses():
            seen += len(rows)
            for reason in status.reasons:
                counts[reason] += len(rows)
        if self._others is not None and seen < self.nodes:
            for reason in self._others.reasons:
                counts[reason] += self.nodes - seen
        return counts

    def message(self, post_filter: str = "") -> str:
        """The FailedScheduling message, word for word as kube-scheduler has it, with what PostFilter said."""
        if self.pre_filter is not None and self.pre_filter.message:
            text = f"0/{self.nodes} nodes are available: {self.pre_filter.message}."
        else:
            text = fit_message(self.nodes, self.reasons())
        return f"{text} {post_filter}" if post_filter else text
