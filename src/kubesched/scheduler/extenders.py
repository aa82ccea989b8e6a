"""All extenders of a scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kubesched.api import objects as api
from kubesched.framework.extender import Extender, Prioritized
from kubesched.scheduler.ports import MetricsSink


class ExtenderSet:
    """Implements `framework.extender.Extenders`."""

    def __init__(self, extenders: Sequence[Extender], metrics: MetricsSink) -> None:
        self._all = extenders
        self._metrics = metrics

    def interested(self, pod: api.Pod) -> list[Extender]:
        """The extenders to call for this pod, in order."""
        return [extender for extender in self._all if extender.is_interested(pod)]

    async def prioritize(
        self, extenders: Sequence[Extender], pod: api.Pod, nodes: Sequence[api.Node]
    ) -> list[Prioritized]:
        """Get the scores of all these extenders concurrently."""
        self._metrics.goroutines("prioritizing_extender", len(extenders))
        try:
            answers = await asyncio.gather(*(each.prioritize(pod, nodes) for each in extenders), return_exceptions=True)
        finally:
            self._metrics.goroutines("prioritizing_extender", -len(extenders))
        return list(zip(extenders, answers, strict=True))
