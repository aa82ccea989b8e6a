"""The status of ElasticQuotas (CapacityScheduling): what the running pods of their namespace request."""

from __future__ import annotations

from collections.abc import Mapping

from kubesched.api.quantity import Quantity, nanos, plus
from kubesched.base.types import JSON
from kubesched.reconcile.access import PODS
from kubesched.reconcile.cache import Cache, Index
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.events import reference
from kubesched.reconcile.loop import Controller
from kubesched.reconcile.views import Pod, View

QUOTAS = "scheduling.x-k8s.io/elasticquotas"
Amounts = dict[str, Quantity]


class ElasticQuotaController(Controller):
    """Maintains `status.used`. Of several quotas in a namespace, the first by name counts."""

    name = "elastic-quota-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context.loop)
        self._context = context
        self._access = context.access
        self._all = Cache(self._access.store.shelf(QUOTAS), View)
        self._quotas: Index[View] = self._all.index(lambda quota: (quota.metadata.namespace,))
        self._all.watch(self._on_quota)

    def _on_quota(self, old: View | None, new: View | None) -> None:
        changed = new or old
        self._context.pods.watch_changes(self._on_pod)
        if changed is not None:
            self.enqueue(changed.metadata.namespace)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        if self._all.objects and _is_running(old) != _is_running(new):
            changed = new or old
            namespace = "" if changed is None else changed.metadata.namespace
            if self._quotas.size(namespace):
                self.enqueue_one_of(namespace, self._context.pods_by_namespace.size(namespace))

    def sync(self, namespace: str) -> None:
        quotas = sorted(quota.key for quota in self._quotas.get(namespace))
        if not quotas:
            return
        running = [pod.key for pod in self._context.pods_by_namespace.get(namespace) if _is_running(pod)]
        pods = [pod for key in running if (pod := self._access.get(PODS, key)) is not None]
        changed: list[JSON] = []

        def edit(quota: JSON) -> None:
            before = quota["status"].get("used")
            _update(quota, pods)
            if quota["status"]["used"] != before:
                changed.append(quota)

        self._access.edit_status(QUOTAS, quotas[0], edit)
        for quota in changed:
            text = f"Elastic Quota {quotas[0]} synced successfully"
            self._context.events.record("ElasticQuotaController", reference(quota), "Normal", "Synced", text)


def _is_running(pod: Pod | None) -> bool:
    return pod is not None and pod.status.phase == "Running"


def _update(quota: JSON, pods: list[JSON]) -> None:
    spec = quota.get("spec") or {}
    used: Amounts = dict.fromkeys([*(spec.get("min") or {}), *(spec.get("max") or {})], "0")
    for pod in pods:
        _add(used, requested(pod))
    quota["status"]["used"] = used


def requested(pod: JSON) -> Amounts:
    """All containers together, or the largest init container if that is more. Upstream does not count overhead."""
    total: Amounts = {}
    for container in pod["spec"].get("containers") or ():
        _add(total, _requests(container))
    for container in pod["spec"].get("initContainers") or ():
        for name, amount in _requests(container).items():
            if nanos(amount) > nanos(total.get(name, "0")):
                total[name] = amount
    return total


def _requests(container: JSON) -> Mapping[str, Quantity]:
    found: Mapping[str, Quantity] = (container.get("resources") or {}).get("requests") or {}
    return found


def _add(total: Amounts, more: Mapping[str, Quantity]) -> None:
    for name, amount in more.items():
        total[name] = plus(total.get(name, "0"), amount)
