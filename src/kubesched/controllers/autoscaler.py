"""HorizontalPodAutoscalers: set the replicas of workloads by what their pods use, as annotations say."""

from __future__ import annotations

from kubesched.api.selectors import Selector
from kubesched.apiserver.meta import timestamp
from kubesched.apiserver.storage.store import StoreEvent
from kubesched.base.types import JSON
from kubesched.controllers.autoscaler_metrics import MetricError, Recommendation, recommend
from kubesched.controllers.ownership import selector_of
from kubesched.controllers.scaling_rules import ScalingHistory, ScalingRules, Verdict
from kubesched.reconcile.access import AUTOSCALERS, CONTROLLERS, DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS
from kubesched.reconcile.cache import is_news
from kubesched.reconcile.conditions import set_condition
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.events import reference
from kubesched.reconcile.loop import Controller
from kubesched.reconcile.usage import PodUsage, UsageReader

SYNC_SECONDS = 15.0
_TARGETS = {
    "Deployment": DEPLOYMENTS,
    "ReplicaSet": REPLICA_SETS,
    "ReplicationController": CONTROLLERS,
    "StatefulSet": STATEFUL_SETS,
}
_GOT_SCALE: Verdict = (
    "True",
    "SucceededGetScale",
    "the HPA controller was able to get the target's current scale",
)
_DISABLED: Verdict = (
    "False",
    "ScalingDisabled",
    "scaling is disabled since the replica count of the target is zero",
)


class AutoscalerController(Controller):
    """Looks at every autoscaler each fifteen seconds, and at once when it changes."""

    name = "horizontal-pod-autoscaler"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context.loop)
        self._context = context
        self._access = context.access
        self._usage = UsageReader(context.access, self._report)
        self._histories: dict[str, ScalingHistory] = {}
        shelf = self._access.store.shelf(AUTOSCALERS)
        shelf.observers.append(self._on_autoscaler)
        for key in shelf.sorted_keys():
            self.enqueue(key)

    def _on_autoscaler(self, event: StoreEvent) -> None:
        if is_news(event, self._access):
            self.enqueue(event.record.key)

    def sync(self, key: str) -> None:
        autoscaler = self._access.get(AUTOSCALERS, key)
        if autoscaler is None:
            self._histories.pop(key, None)
            return
        self.enqueue(key, SYNC_SECONDS)
        _Evaluation(self, autoscaler).run()

    def history(self, autoscaler: JSON) -> ScalingHistory:
        metadata = autoscaler["metadata"]
        return self._histories.setdefault(f"{metadata['namespace']}/{metadata['name']}", ScalingHistory())

    def target(self, autoscaler: JSON) -> tuple[str, str, JSON] | None:
        """Where the scaled workload is stored, its key and the workload; None if there is none."""
        named = autoscaler["spec"]["scaleTargetRef"]
        storage = _TARGETS.get(named["kind"])
        key = f"{autoscaler['metadata']['namespace']}/{named['name']}"
        found = self._access.get(storage, key) if storage else None
        return None if storage is None or found is None else (storage, key, found)

    def pods(self, namespace: str, selector: Selector) -> tuple[list[PodUsage], int]:
        """The usage of the running pods that a workload selects, and the number of pods that do not run yet."""
        chosen = [
            pod
            for pod in self._context.pods_by_namespace.get(namespace)
            if pod.is_active and selector.matches(pod.metadata.labels)
        ]
        names = {pod.metadata.name for pod in chosen if pod.status.phase == "Running"}
        running = [each for each in self._usage.read(namespace) if each.pod["metadata"]["name"] in names]
        return running, len(chosen) - len(running)

    def rescale(self, storage: str, key: str, replicas: int) -> None:
        self._access.rescale(storage, key, replicas)

    def now(self) -> float:
        return self._access.clock.now()

    def _report(self, workload: JSON, problem: str) -> None:
        self._context.events.record(self.name, reference(workload), "Warning", "InvalidAnnotation", problem)

    def record(self, autoscaler: JSON, kind: str, reason: str, message: str) -> None:
        self._context.events.record(self.name, reference(autoscaler), kind, reason, message)

    def write(self, autoscaler: JSON, status: JSON, conditions: dict[str, Verdict]) -> None:
        """Write the status, with conditions in upstream's order."""
        metadata, now = autoscaler["metadata"], self._access.now()

        def edit(obj: JSON) -> None:
            known = (obj.get("status") or {}).get("conditions") or []
            for kind, (value, reason, message) in conditions.items():
                known = set_condition(known, {"type": kind, "status": value, "reason": reason, "message": message}, now)
            obj["status"] = {**(obj.get("status") or {}), **status, "conditions": known}

        self._access.edit_status(AUTOSCALERS, f"{metadata['namespace']}/{metadata['name']}", edit, metadata["uid"])


class _Evaluation:
    """One look at one autoscaler."""

    def __init__(self, controller: AutoscalerController, autoscaler: JSON) -> None:
        self._controller = controller
        self._autoscaler = autoscaler
        self._spec = autoscaler["spec"]
        self._rules = ScalingRules.of(autoscaler["spec"])
        self._now = controller.now()
        self._history = controller.history(autoscaler)
        self._history.forget(self._now)
        self._conditions: dict[str, Verdict] = {}
        self._status: JSON = {}

    def run(self) -> None:
        found = self._controller.target(self._autoscaler)
        if found is None:
            named = self._spec["scaleTargetRef"]
            why = f"{named['kind']} {named['name']} was not found, or has no scale"
            self._fail(
                "AbleToScale",
                "FailedGetScale",
                f"the HPA controller was unable to get the target's current scale: {why}",
                why,
            )
            return
        storage, key, workload = found
        current = int(workload["spec"].get("replicas", 1))
        self._conditions["AbleToScale"] = _GOT_SCALE
        try:
            wanted, reason = self._decide(workload, current)
        except MetricError as error:
            self._status |= {"currentReplicas": current, "desiredReplicas": current}
            text = f"the HPA was unable to compute the replica count: {error}"
            self._conditions["ScalingActive"] = ("False", error.reason, text)
            self._controller.write(self._autoscaler, self._status, self._conditions)
            return
        if wanted != current:
            self._controller.rescale(storage, key, wanted)
            self._history.changes.append((self._now, wanted - current))
            self._controller.record(
                self._autoscaler, "Normal", "SuccessfulRescale", f"New size: {wanted}; reason: {reason}"
            )
            text = f"the HPA controller was able to update the target scale to {wanted}"
            self._conditions["AbleToScale"] = ("True", "SucceededRescale", text)
            self._status["lastScaleTime"] = timestamp(self._now)
        self._status |= {"currentReplicas": current, "desiredReplicas": wanted}
        self._controller.write(self._autoscaler, self._status, self._conditions)

    def _fail(self, condition: str, reason: str, message: str, why: str) -> None:
        self._conditions[condition] = ("False", reason, message)
        self._controller.record(self._autoscaler, "Warning", reason, why)
        self._controller.write(self._autoscaler, self._status, self._conditions)

    def _decide(self, workload: JSON, current: int) -> tuple[int, str]:
        """The replicas to have, and why. Raises `MetricError`."""
        if current == 0 and self._rules.least != 0:
            self._conditions["ScalingActive"] = _DISABLED
            return 0, ""
        if current > self._rules.most:
            return self._rules.most, "Current number of replicas above Spec.MaxReplicas"
        if current < self._rules.least:
            return self._rules.least, "Current number of replicas below Spec.MinReplicas"
        best = self._recommended(workload, current)
        wanted, self._conditions["AbleToScale"] = self._rules.stabilized(
            self._history, self._now, current, best.replicas
        )
        wanted, limited = self._rules.limited(self._history, self._now, current, wanted)
        self._conditions["ScalingLimited"] = limited
        return wanted, f"{best.name} above target" if wanted > current else "All metrics below target"

    def _unusable(self, bad: list[tuple[JSON, MetricError]]) -> MetricError:
        """The first error of the metrics, after an event that counts them."""
        metric, error = bad[0]
        counted = f"invalid metrics ({len(bad)} invalid out of {len(self._spec['metrics'])})"
        text = f"{counted}, first error is: failed to get {_value_of(metric)} metric value: {error}"
        self._controller.record(self._autoscaler, "Warning", "FailedComputeMetricsReplicas", text)
        return error

    def _recommended(self, workload: JSON, current: int) -> Recommendation:
        """The highest recommendation of all metrics. With one that fails, replicas may grow and stay but not shrink."""
        selector = selector_of(workload)
        running, starting = self._controller.pods(self._autoscaler["metadata"]["namespace"], selector or Selector())
        good: list[Recommendation] = []
        bad: list[tuple[JSON, MetricError]] = []
        for metric in self._spec.get("metrics") or ():
            try:
                good.append(recommend(metric, current, running, starting))
            except MetricError as error:
                bad.append((metric, error))
        best = max(good, key=lambda each: each.replicas, default=None)
        for _, failed in bad:
            self._controller.record(self._autoscaler, "Warning", failed.reason, str(failed))
        if best is None or (bad and best.replicas < current):
            raise self._unusable(bad) if bad else MetricError("InvalidMetricSourceType", "no metrics are given")
        text = f"the HPA was able to successfully calculate a replica count from {best.name}"
        self._conditions["ScalingActive"] = ("True", "ValidMetricFound", text)
        self._status["currentMetrics"] = [each.status for each in good]
        return best


def _value_of(metric: JSON) -> str:
    """What a metric measures, in the words of upstream's errors."""
    match metric.get("type"):
        case "Resource":
            return f"{metric['resource']['name']} resource"
        case "ContainerResource":
            return f"{metric['containerResource']['container']} container"
        case "External":
            return f"{metric['external']['metric']['name']} external"
        case other:
            return str(other).lower()
