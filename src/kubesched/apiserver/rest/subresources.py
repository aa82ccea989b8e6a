"""Subresources with their own logic: bindings, evictions, scales."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kubesched.apiserver.kinds.registry import ApiResource
from kubesched.apiserver.meta import parse_timestamp, timestamp
from kubesched.apiserver.printing.table import NONE, labels_text, selector_text
from kubesched.apiserver.rest.deletion import DeleteOptions, Deleter
from kubesched.apiserver.rest.writer import NO_PRECONDITIONS, Preconditions, Writer
from kubesched.apiserver.storage.store import Record
from kubesched.apiserver.validation.problems import Problems
from kubesched.apiserver.validation.workloads import selects
from kubesched.apiserver.wire.status import Cause, StatusError, bad_request, conflict, invalid
from kubesched.base.types import JSON

_BUDGETS = "policy/poddisruptionbudgets"
_DISRUPTION_TIMEOUT = 120.0
_RETRY_SECONDS = 10
_SCHEDULED = {"type": "PodScheduled", "status": "True"}
_EVICTED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}
Admit = Callable[[JSON], None]
"""Refuses the body of a request that breaks the rule of a policy."""


class PodSubresources:
    """Binds and evicts pods."""

    def __init__(self, writer: Writer, deleter: Deleter, pods: ApiResource) -> None:
        self._writer = writer
        self._deleter = deleter
        self._pods = pods

    # --- binding ------------------------------------------------------------------------------------------------------

    def bind(
        self, namespace: str, name: str, binding: JSON, *, dry_run: bool = False, admit: Admit | None = None
    ) -> None:
        """Assign a pending pod to a node, if the policies `admit` it."""
        target = binding.get("target") or {}
        self._check_target(name, target)
        if admit is not None:
            admit(binding)
        record = self._writer.find(self._pods, namespace, name)
        pod = record.load()
        meta = binding.get("metadata") or {}
        Preconditions(meta.get("uid") or "", meta.get("resourceVersion") or "").check(self._pods, pod)
        if why := why_not_bindable(pod):
            raise conflict("pods/binding", "", name, why)
        self._assign(pod, target["name"], meta)
        self._writer.put(self._pods, record, pod, dry_run=dry_run)

    def _check_target(self, name: str, target: JSON) -> None:
        problems = Problems()
        if target.get("kind") not in (None, "", "Node"):
            problems.unsupported("target.kind", target["kind"], ("Node", "<empty>"))
        if not target.get("name"):
            problems.required("target.name")
        if problems.found:
            raise invalid("Binding", "", name, problems.found)

    def _assign(self, pod: JSON, node: str, meta: JSON) -> None:
        pod["spec"]["nodeName"] = node
        given = {"annotations": meta.get("annotations"), "labels": meta.get("labels")}
        if labels := self._writer.admission.topology_labels(node):
            given["labels"] = {**(given["labels"] or {}), **labels}
        for part, added in given.items():
            if added:
                pod["metadata"][part] = {**(pod["metadata"].get(part) or {}), **added}
        status = pod.setdefault("status", {})
        status.pop("nominatedNodeName", None)
        _set_condition(status, _SCHEDULED, timestamp(self._writer.clock.now()))

    # --- eviction -----------------------------------------------------------------------------------------------------

    def evict(self, namespace: str, name: str, options: DeleteOptions) -> None:
        """Delete a pod unless that breaks a disruption budget. As upstream, policies about deletions do not see it."""
        record = self._writer.find(self._pods, namespace, name)
        pod = record.load()
        options.preconditions.check(self._pods, pod)
        if not _may_ignore_budgets(pod):
            self._consult_budgets(namespace, pod, options.dry_run)
        if not options.dry_run:
            self._mark_evicted(record, pod)
            options = replace(options, preconditions=NO_PRECONDITIONS)  # they held for the pod without the mark
        self._deleter.delete(self._pods, namespace, name, options, admit=False)

    def _mark_evicted(self, record: Record, pod: JSON) -> None:
        """Set the condition that says why a pod ends, which the failure policies of Jobs can ignore."""
        _set_condition(pod.setdefault("status", {}), _EVICTED, timestamp(self._writer.clock.now()))
        self._writer.put(self._pods, record, pod)

    def _consult_budgets(self, namespace: str, pod: JSON, dry_run: bool) -> None:
        labels = pod["metadata"].get("labels") or {}
        budgets = [
            (record, budget)
            for record in self._writer.store.records(_BUDGETS, namespace)
            if (budget := record.load()) and selects((budget.get("spec") or {}).get("selector") or {}, labels)
        ]
        if len(budgets) > 1:
            raise StatusError(
                500,
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            )
        for record, budget in budgets:
            if not _unhealthy_may_be_evicted(pod, budget):
                self._take_disruption(record, budget, pod["metadata"]["name"], dry_run)

    def _take_disruption(self, record: Record, budget: JSON, pod_name: str, dry_run: bool) -> None:
        status = budget.setdefault("status", {})
        name = budget["metadata"]["name"]
        if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
            raise _too_many(f"The disruption budget {name} is still being processed by the server.", _RETRY_SECONDS)
        allowed = status.get("disruptionsAllowed", 0)
        if allowed < 0:
            raise conflict("poddisruptionbudgets", "policy", name, "pdb disruptions allowed is negative")
        if allowed == 0:
            raise _too_many(
                f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods and has"
                f" {status.get('currentHealthy', 0)} currently"
            )
        status["disruptionsAllowed"] = allowed - 1
        now = self._writer.clock.now()
        disrupted = {
            pod: time
            for pod, time in (status.get("disruptedPods") or {}).items()
            if parse_timestamp(time) + _DISRUPTION_TIMEOUT > now
        }
        status["disruptedPods"] = {**disrupted, pod_name: timestamp(now)}
        if not dry_run:
            self._writer.store.put(_BUDGETS, record.key, budget)


def _set_condition(status: JSON, condition: JSON, now: str) -> None:
    """Set a condition, in the place of an earlier one of its type."""
    conditions = status.get("conditions") or []
    new = {"lastProbeTime": None, "lastTransitionTime": now, **condition}
    for index, known in enumerate(conditions):
        if known.get("type") == new["type"]:
            conditions[index] = new
            break
    else:
        conditions.append(new)
    status["conditions"] = conditions


def why_not_bindable(pod: JSON) -> str:
    """Why a pod cannot be bound, in upstream's words; empty if it can."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    if "deletionTimestamp" in pod["metadata"]:
        return f"pod {name} is being deleted, cannot be assigned to a host"
    if spec.get("nodeName"):
        return f'pod {name} is already assigned to node "{spec["nodeName"]}"'
    if spec.get("schedulingGates"):
        return f"pod {name} has non-empty .spec.schedulingGates"
    return ""


def _may_ignore_budgets(pod: JSON) -> bool:
    """Budgets do not apply to a pod that has ended, has not started or is terminating."""
    phase = (pod.get("status") or {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or "deletionTimestamp" in pod["metadata"]


def _unhealthy_may_be_evicted(pod: JSON, budget: JSON) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    if any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions):
        return False
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status") or {}
    healthy = status.get("currentHealthy", 0)
    return bool(healthy > 0 and healthy >= status.get("desiredHealthy", 0))


def _too_many(why: str, retry_after: int = 0) -> StatusError:
    return StatusError(
        429,
        "Cannot evict pod as it would violate the pod's disruption budget.",
        causes=(Cause("DisruptionBudget", why),),
        retry_after=retry_after,
    )


# --- scale ------------------------------------------------------------------------------------------------------------


def scale_of(obj: JSON, paths: JSON | None = None) -> JSON:
    """The Scale of an object. `paths` has the paths of a custom resource's replicas."""
    meta, spec, status = obj["metadata"], obj.get("spec") or {}, obj.get("status") or {}
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    replicas = _value_at(obj, paths["specReplicasPath"]) if paths else spec.get("replicas", 0)
    current = _value_at(obj, paths["statusReplicasPath"]) if paths else status.get("replicas", 0)
    scale: JSON = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: meta[key] for key in kept if key in meta},
        "spec": {"replicas": replicas or 0},
        "status": {"replicas": current or 0},
    }
    selector = _scale_selector(obj, spec, paths)
    if selector:
        scale["status"]["selector"] = selector
    return scale


def _scale_selector(obj: JSON, spec: JSON, paths: JSON | None) -> str:
    if paths:
        where = paths.get("labelSelectorPath")
        return str(_value_at(obj, where) or "") if where else ""
    selector = spec.get("selector")
    text = labels_text(selector) if obj.get("kind") == "ReplicationController" else selector_text(selector)
    return "" if text == NONE else text


def _value_at(obj: JSON, path: str) -> Any:
    value: Any = obj
    for part in path.split("."):
        if part:
            value = value.get(part) if isinstance(value, dict) else None
    return value


def set_scale(obj: JSON, scale: JSON, paths: JSON | None = None) -> JSON:
    """Set the replicas of an object from a Scale."""
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    if not isinstance(replicas, int) or replicas < 0:
        problems = Problems()
        problems.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid("Scale", "autoscaling", obj["metadata"]["name"], problems.found)
    version = (scale.get("metadata") or {}).get("resourceVersion")
    if version:
        obj["metadata"]["resourceVersion"] = version
    *parents, last = [part for part in (paths or {}).get("specReplicasPath", ".spec.replicas").split(".") if part]
    part = obj
    for name in parents:
        part = part.setdefault(name, {})
        if not isinstance(part, dict):
            raise bad_request(f"{name} is not an object")
    part[last] = replicas
    return obj
