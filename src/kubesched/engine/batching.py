"""Opportunistic batching: a pod equal to the one before it tries the next best node of that one's scores.

That is kube-scheduler's gate OpportunisticBatching (KEP-5598). Equal pods have equal *signatures*, which plugins make
from the parts of a pod that they read. A hint is given only if the last node has no room for another such pod;
otherwise that node would have to be scored again. Cached answers make all this no faster here, but which node is
chosen, how many nodes are evaluated and what the metrics count follow kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.pods import PodClass
from kubesched.cluster.table import Ints
from kubesched.cluster.view import Nodes
from kubesched.engine.cache import CachedAnswers
from kubesched.engine.decision import BatchReport, Decision
from kubesched.framework.errors import described
from kubesched.framework.plugin import is_built_in
from kubesched.framework.runtime import Framework
from kubesched.framework.status import Status

MAX_AGE: Final = 0.5
"""Seconds after which scores are too old to choose by."""
_SIGNED_POINTS: Final = ("preFilter", "filter", "preScore", "score")
_encode: Final = msgspec.json.Encoder(order="deterministic", enc_hook=repr).encode


@dataclass(slots=True)
class Batch:
    """The scores of the last pod that was scored."""

    signature: bytes
    totals: Ints
    """A total per row of the node table; -1 where the pod does not fit, and where an equal pod was sent."""
    names: Sequence[str]
    """The nodes of these rows, since a row may get another node."""
    created: float
    """When the attempt started that made it. One time per attempt, so that a replay knows it."""

    @property
    def left(self) -> int:
        return int(np.count_nonzero(self.totals >= 0))


class Batching:
    """The batch of one profile."""

    def __init__(self, framework: Framework, choose: Callable[[Ints], int], *, extenders: bool) -> None:
        self._framework = framework
        self._choose = choose
        self._table = framework.cluster.nodes
        plugins = {plugin.name: plugin for point in _SIGNED_POINTS for plugin in framework.points.get(point, ())}
        self.unsupported = [name for name, plugin in plugins.items() if not hasattr(plugin, "sign")]
        """Plugins that cannot sign, so that nothing is batched."""
        self.extenders = extenders
        self._signers: list[Any] = list(plugins.values())
        self._signers_are_built_in = all(is_built_in(type(plugin)) for plugin in self._signers)
        self._batch: Batch | None = None
        self._last_cycle = 0
        self._last_node = ""

    @property
    def enabled(self) -> bool:
        """Whether pods can have signatures at all."""
        return not self.extenders and not self.unsupported

    def begin(self, decision: Decision) -> None:
        """Sign a pod that is about to be scheduled."""
        report = decision.batch = BatchReport()
        if self.enabled:
            found = self._signature(decision, report)
            if isinstance(found, bytes):
                report.signature = found
            else:
                report.refusal = found
        decision.end_point("Sign")

    def _signature(self, decision: Decision, report: BatchReport) -> bytes | tuple[str, str]:
        """The pod's signature; or the plugin that cannot sign it, and why. Our own plugins do not read labels to find
        that out, so that pods that differ in nothing else share it."""
        pod_class = decision.info.pod_class
        # Device classes decide whether extended resources can be signed.
        key = (self, self._framework.cluster.version(api.DeviceClass))
        refused = self._refusals_of(pod_class).get((key, "refusal"))
        if refused is not None:
            return refused  # type: ignore[no-any-return]  # stored below
        found = pod_class.remember(key, self._sign, decision.pod, report)
        if isinstance(found, tuple) and found[0]:
            self._refusals_of(pod_class)[key, "refusal"] = found
        return found

    def _refusals_of(self, pod_class: PodClass) -> dict[Hashable, Any]:
        return (pod_class.without_labels if self._signers_are_built_in else pod_class).memo

    def _sign(self, pod: api.Pod, report: BatchReport) -> bytes | tuple[str, str]:
        """The pod's signature; or the plugin that cannot sign it, and why."""
        parts: dict[str, object] = {"v1.Pod.Spec.SchedulerName": pod.spec.scheduler_name}
        for plugin in self._signers:
            try:
                answer: Mapping[str, object] | Status | None = plugin.sign(pod)
                if isinstance(answer, Status):
                    return plugin.name, answer.message
                parts |= answer or {}
            except KeyboardInterrupt:
                raise
            except BaseException as problem:
                report.failed_signer, report.sign_error = plugin.name, described(problem)
                return "", ""
        return _encode(parts)

    # After PreFilter

    def hint(self, decision: Decision, cached: CachedAnswers) -> int | None:
        """The row to try first."""
        report = decision.batch
        if report is None:
            return None
        started = decision.now()
        flush = self._unusable(decision, cached) if self._batch is not None and self._batch.left else ""
        row = None
        if flush is None and self._batch is not None:
            row = self._choose(np.flatnonzero(self._batch.totals == self._batch.totals.max()))
            self._batch.totals[row] = -1
            report.hint = self._batch.names[row]
            fields = {"pod": decision.pod, "hint": report.hint, "remainingNodes": self._batch.left}
            report.lines.append((3, "OpportunisticBatch provided node hint", fields))
            row = self._table.row_of.get(report.hint)
        else:
            if flush:
                self._flush(report, flush)
            report.results.append("no_hint")
            report.lines.append((4, "OpportunisticBatch no node hint available for pod", {"pod": decision.pod}))
        report.hint_seconds = decision.now() - started
        return row

    def _unusable(self, decision: Decision, cached: CachedAnswers) -> str | None:
        """Why the batch is no use for this pod; None if it is."""
        batch = self._batch
        assert batch is not None
        if decision.cycle != self._last_cycle + 1:
            return "pod_skipped"
        if decision.batch is None or decision.batch.signature != batch.signature:
            return "pod_incompatible"
        if decision.started > batch.created + MAX_AGE:
            return "expired"
        row = self._table.row_of.get(self._last_node)
        if row is None or not self._table.valid[row]:
            return "node_missing"
        return None if self._is_full(row, decision, cached) else "node_not_full"

    def _is_full(self, row: int, decision: Decision, cached: CachedAnswers) -> bool:
        if not cached.mask[row]:
            return True
        window = Nodes(self._table, slice(row, row + 1))
        status = self._framework.run_filters(decision.state, decision.pod, window).status(0)
        return status is not None and status.is_rejected

    # After the decision

    def store(self, decision: Decision) -> None:
        """Keep the scores for the next pod, if a node was chosen by them."""
        report = decision.batch
        if report is None:
            return
        started = decision.now()
        self._last_cycle, self._last_node = decision.cycle, decision.chosen
        fields: dict[str, object] = {"hintedNode": report.hint, "chosenNode": decision.chosen}
        report.lines.append((4, "OpportunisticBatch set cycle state", fields))
        if report.hint == decision.chosen:
            report.results.append("hint_used")
            fields = {"chosenNode": decision.chosen}
            report.lines.append((4, "OpportunisticBatch skipping set state because hint was provided", fields))
        else:
            self._replace(decision, report)
        report.store_seconds = decision.now() - started

    def _replace(self, decision: Decision, report: BatchReport) -> None:
        if report.hint:
            report.results.append("hint_not_used")
            fields: dict[str, object] = {"hint": report.hint, "chosen": decision.chosen}
            report.lines.append((4, "OpportunisticBatch hint not used", fields))
        self._batch = self._new_batch(decision, report)
        if self._batch is None:
            self._flush(report, "pod_not_batchable" if decision.feasible > 1 else "empty_list")
        else:
            report.lines.append((4, "OpportunisticBatch set batch information", {"nodes": decision.feasible - 1}))

    def _flush(self, report: BatchReport, reason: str) -> None:
        report.flushes.append(reason)
        report.lines.append((4, "OpportunisticBatch found unusable state", {"reason": reason}))

    def _new_batch(self, decision: Decision, report: BatchReport) -> Batch | None:
        totals = report.totals
        if report.signature is None or totals is None:
            return None
        totals[self._table.row_of[decision.chosen]] = -1
        return Batch(report.signature, totals, list(self._table.names), decision.started)

    def obstacles(self) -> Iterator[tuple[str, dict[str, object]]]:
        """kube-scheduler's log lines about a profile whose pods cannot have signatures."""
        profile = self._framework.profile_name
        if self.extenders:
            yield "Disabling signatures for profile because it has extenders configured.", {"profile": profile}
        if not self.enabled:
            fields: dict[str, object] = {"profile": profile, "plugins": self.unsupported}
            yield "Disabling signatures for profile because plugins do not support it.", fields
