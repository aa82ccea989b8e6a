"""Questions about the cluster, answered one after the other in a thread, so that the page stays live meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from kubesched.api import objects as api
from kubesched.api.quantity import nanos
from kubesched.base.types import JSON
from kubesched.explain.amounts import requested
from kubesched.explain.document import GROUPS
from kubesched.explain.explainer import Explainer
from kubesched.explain.places import node_report
from kubesched.explain.report import Overview, PodReport, as_data
from kubesched.explain.rules.resources import with_requests
from kubesched.explain.standing import Queued, State
from kubesched.framework.registry import PluginSource
from kubesched.history.reader import LoggedAttempt
from kubesched.library.cluster import Cluster
from kubesched.library.configuration import Config
from kubesched.library.recorded import attempts, recorded_pending, report_of
from kubesched.web.decisions import head_of, of_logged, of_report
from kubesched.web.model import ClusterModel, Key

T = TypeVar("T")
MOST_PENDING = 500
"""Pending pods that the page lists."""


class Questions:
    """Keeps a cluster in step with the model, and asks it."""

    def __init__(self, model: ClusterModel, cluster: Cluster, decisions: list[Path] | None = None) -> None:
        """`cluster` must be empty: it gets the objects of the model. `decisions` are files of recorded attempts."""
        self._model = model
        self.cluster = cluster
        self.decisions = decisions or []
        self.queue: Mapping[str, Queued] = {}
        """What a running scheduler says of its queue, by the pod's UID."""
        self.tries: Mapping[str, int] = {}
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="explain")
        self._overview: tuple[int, float, JSON] | None = None

    def close(self) -> None:
        """Stop the thread after the current question."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def ask(self, work: Callable[[], T]) -> T:
        """Do some work in the thread, on the cluster as it is now."""
        changes = self._model.take_changes()
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._work, changes, work)

    def _work(self, changes: Mapping[Key, tuple[api.Object, bool]], work: Callable[[], T]) -> T:
        self.cluster.add(*(obj for obj, there in changes.values() if there))
        for obj in (obj for obj, there in changes.values() if not there):
            with suppress(ValueError):  # it came and went between two questions
                self.cluster.remove(obj)
        return work()

    def _explainer(self) -> Explainer:
        return self.cluster.explainer(now=time.time(), tries=self.tries, queue=self.queue)

    async def reconfigure(self, config: Config, plugins: Sequence[PluginSource]) -> None:
        """Decide under another configuration from now on."""

        def work() -> None:
            self.cluster = self.cluster.reconfigured(config, plugins)

        await self.ask(work)
        self._overview = None

    # --- pending pods -------------------------------------------------------------------------------------------------

    async def pending(self) -> JSON:
        """All pending pods by cause, with what would help. The answer is kept until something changes.

        Ages in it are those of the moment when it was made, `secondsOld` ago.
        """
        version = self._model.version
        if self._overview is None or self._overview[0] != version:
            self._overview = version, time.monotonic(), await self.ask(self._pending)
        _, made, answer = self._overview
        return {**answer, "secondsOld": time.monotonic() - made}

    def _pending(self) -> JSON:
        if self.decisions and not self.cluster.nodes:
            return _grouped(recorded_pending(self.decisions, time.time()))
        return _grouped(self._explainer().pending())

    # --- one pod ------------------------------------------------------------------------------------------------------

    async def decision(self, key: str, requests: Mapping[str, str] | None = None) -> JSON:
        """The decision about a pod on the cluster as it is, perhaps with other requests. Raises LookupError."""
        return await self.ask(lambda: self._decision(key, requests or {}))

    def _decision(self, key: str, requests: Mapping[str, str]) -> JSON:
        explainer = self._explainer()
        pod = explainer.find(key)
        if requests:
            pod = with_requests(pod, {name: _units(name, amount) for name, amount in requests.items()})
        report: PodReport = explainer.pod(pod, fixes=not requests)
        engine = explainer.engines.get(pod.scheduler_name)
        filters = [each.name for each in engine.framework.filters] if engine is not None else []
        table, info = explainer.cluster.nodes, explainer.cluster.classes.info(pod)
        wanted = {"cpu": 0, "memory": 0, **requested(info.pod_class.node_requests)}
        del wanted["pods"]
        largest = {name: int(table.allocatable[table.column_of(name)].max(initial=0)) for name in wanted}
        return {**of_report(report, filters), "requests": wanted, "largest": largest}

    async def logged(self, key: str) -> list[LoggedAttempt]:
        """The attempts of a pod in the decision files, the newest first."""
        return await asyncio.to_thread(attempts, self.decisions, key) if self.decisions else []

    async def logged_decision(self, key: str, number: int) -> JSON:
        """One of them in columns. Raises LookupError."""
        found = await self.logged(key)
        if not 0 <= number < len(found):
            raise LookupError(f"no attempt {number} of pod {key} is recorded")
        return {**of_logged(report_of(found[number])), "time": found[number].time}

    # --- one node -----------------------------------------------------------------------------------------------------

    async def node(self, name: str) -> JSON:
        """Who is on a node, where they would go today, and what still fits. Raises LookupError."""
        return await self.ask(lambda: as_data("NodeExplanation", node_report(self._explainer(), name)))


def _grouped(overview: Overview) -> JSON:
    groups = [
        {
            "cause": cause,
            "title": GROUPS.get(cause, cause),
            "count": len(pods),
            "pods": [_row(each) for each in pods[:MOST_PENDING]],
        }
        for cause, pods in overview.groups().items()
    ]
    return {"nodes": overview.nodes, "count": len(overview.pods), "groups": groups}


def _row(report: PodReport) -> JSON:
    head = head_of(report)
    wanted = ("pod", "state", "headline", "ageSeconds", "tries", "blockedBy", "said", "message", "suggestions")
    near = report.closest.node if report.closest is not None and report.state is State.PENDING else ""
    found = {name: head[name] for name in (*wanted, "evaluated")}
    return {**found, "closest": near, "nominatedNode": report.nominated_node}


def _units(resource: str, amount: str) -> int:
    """An amount in the scheduler's units. Raises QuantityError, a ValueError."""
    return -(-nanos(amount) // (10**6 if resource == "cpu" else 10**9))
