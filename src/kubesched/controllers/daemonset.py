"""DaemonSets: one pod for every eligible node. Node affinity makes the scheduler place it there."""

from __future__ import annotations

from kubesched.api import objects as api
from kubesched.api.decoding import InvalidObject, decode_as
from kubesched.api.selectors import RequiredNodeAffinity, SelectorError, required_node_affinity
from kubesched.api.taints import untolerated
from kubesched.base.types import JSON
from kubesched.controllers.ownership import claimed_pods, create_pod, delete_pod, pod_from, selector_of
from kubesched.controllers.replicaset import available_in
from kubesched.controllers.revisions import HASH_LABEL, Revisions
from kubesched.controllers.rollout import resolve
from kubesched.reconcile.access import DAEMON_SETS
from kubesched.reconcile.cache import is_news
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.events import reference
from kubesched.reconcile.loop import Controller
from kubesched.reconcile.views import Node, Owner, Pod

# The tolerations that upstream adds to every pod of a DaemonSet.
TOLERATIONS: tuple[JSON, ...] = (
    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/disk-pressure", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/pid-pressure", "operator": "Exists", "effect": "NoSchedule"},
    {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
)
_HOST_NETWORK = {"key": "node.kubernetes.io/network-unavailable", "operator": "Exists", "effect": "NoSchedule"}
_NAME_FIELD = "metadata.name"


class DaemonSetController(Controller):
    """Keeps one pod on every eligible node."""

    name = "daemonset-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context.loop)
        self._context = context
        self._access = context.access
        self._revisions = Revisions(context.access)
        shelf = self._access.store.shelf(DAEMON_SETS)
        shelf.observers.append(lambda event: self.enqueue(event.record.key) if is_news(event, self._access) else None)
        for key in shelf.sorted_keys():
            self.enqueue(key)
        context.owned_pods.watch("DaemonSet", self._on_pod)
        context.nodes.watch(self._on_node)

    def _on_pod(self, owner: Owner, pod: Pod, _relabelled: bool) -> None:
        self.enqueue_one_of(f"{pod.metadata.namespace}/{owner.name}", len(self._context.nodes.objects))

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        if old is not None and new is not None:
            same_labels = old.metadata.labels == new.metadata.labels
            if same_labels and old.spec == new.spec and old.readiness == new.readiness:
                return
        for key in tuple(self._access.store.shelf(DAEMON_SETS).sorted_keys()):
            self.enqueue_one_of(key, len(self._context.nodes.objects))

    def sync(self, key: str) -> None:
        owner = self._access.get(DAEMON_SETS, key)
        if owner is None:
            return
        pods = claimed_pods(self._context, owner, selector_of(owner))
        meta = self._revisions.current(owner)["metadata"]
        # A user may have removed the label. The hash is the end of the name, too.
        revision: str = (meta.get("labels") or {}).get(HASH_LABEL) or meta["name"].rpartition("-")[2]
        placement = _Placement(owner)
        by_node: dict[str, list[Pod]] = {}
        for pod in pods:
            by_node.setdefault(_node_of(pod), []).append(pod)
        if "deletionTimestamp" not in owner["metadata"]:
            self._manage(owner, placement, by_node, revision)
            self._update(owner, placement, revision)
        self._write_status(key, owner, placement, revision)

    # --- pods ---------------------------------------------------------------------------------------------------------

    def _manage(self, owner: JSON, placement: _Placement, by_node: dict[str, list[Pod]], revision: str) -> None:
        about = reference(owner)
        for name, node in tuple(self._context.nodes.objects.items()):
            pods = by_node.pop(name, [])
            alive = [pod for pod in pods if not pod.metadata.being_deleted]
            for pod in [pod for pod in alive if pod.has_ended]:
                delete_pod(self._context, self.name, pod, about)
                alive.remove(pod)
            if placement.may_run(node) and not pods:
                self._create(owner, name, revision)
            surplus = alive[1:] if placement.may_stay(node) else alive
            for pod in surplus:
                delete_pod(self._context, self.name, pod, about)
        for pods in by_node.values():
            # Their node is gone, or they were never meant for one.
            for pod in pods:
                if not pod.metadata.being_deleted:
                    delete_pod(self._context, self.name, pod, about)

    def _create(self, owner: JSON, node: str, revision: str) -> None:
        pod = pod_from(owner["spec"]["template"], owner, generateName=f"{owner['metadata']['name']}-")
        pod["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), HASH_LABEL: revision}
        affinity = pod["spec"].setdefault("affinity", {})
        terms = {"matchFields": [{"key": _NAME_FIELD, "operator": "In", "values": [node]}]}
        affinity["nodeAffinity"] = {
            **(affinity.get("nodeAffinity") or {}),
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [terms]},
        }
        extra = (*TOLERATIONS, _HOST_NETWORK) if pod["spec"].get("hostNetwork") else TOLERATIONS
        given = pod["spec"].get("tolerations") or []
        pod["spec"]["tolerations"] = [*given, *(dict(each) for each in extra if each not in given)]
        create_pod(self._context, self.name, owner, pod, reference(owner))

    def _update(self, owner: JSON, placement: _Placement, revision: str) -> None:
        """Replace pods of an earlier template, as many at a time as may be unavailable."""
        strategy = owner["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        wanted = sum(placement.may_run(node) for node in self._context.nodes.objects.values())
        allowed = (strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1)
        spare = max(1, resolve(allowed, wanted, round_up=True))
        pods = self._context.pods_by_owner.get(owner["metadata"]["uid"])
        up = [pod for pod in pods if pod.is_ready and not pod.metadata.being_deleted]
        spare -= max(0, wanted - len(up))
        old = [
            pod for pod in pods if pod.metadata.labels.get(HASH_LABEL) != revision and not pod.metadata.being_deleted
        ]
        for pod in sorted(old, key=lambda pod: pod.is_ready):
            if pod.is_ready:
                spare -= 1
                if spare < 0:
                    return
            delete_pod(self._context, self.name, pod, reference(owner))

    # --- status -------------------------------------------------------------------------------------------------------

    def _write_status(self, key: str, owner: JSON, placement: _Placement, revision: str) -> None:
        nodes = self._context.nodes.objects
        wanted = {name for name, node in nodes.items() if placement.may_run(node)}
        alive = [pod for pod in self._context.pods_by_owner.get(owner["metadata"]["uid"]) if pod.is_active]
        placed = [pod for pod in alive if _node_of(pod) in wanted]
        ready = [pod for pod in placed if pod.is_ready]
        waits = available_in(self._context, ready, owner["spec"].get("minReadySeconds", 0))
        if waiting := [seconds for _, seconds in waits if seconds > 0]:
            self.enqueue(key, min(waiting))
        available = sum(seconds <= 0 for _, seconds in waits)
        updated = sum(pod.metadata.labels.get(HASH_LABEL) == revision for pod in placed)
        misplaced = {_node_of(pod) for pod in alive if _node_of(pod) in nodes} - wanted

        def edit(obj: JSON) -> None:
            some = {
                "updatedNumberScheduled": updated,
                "numberAvailable": available,
                "numberUnavailable": len(wanted) - available,
            }
            obj["status"] = {
                "currentNumberScheduled": len({_node_of(pod) for pod in placed}),
                "numberMisscheduled": len(misplaced),
                "desiredNumberScheduled": len(wanted),
                "numberReady": len(ready),
                "observedGeneration": obj["metadata"].get("generation", 0),
                **{field: count for field, count in some.items() if count},
            }

        self._access.edit_status(DAEMON_SETS, key, edit, owner["metadata"]["uid"])


class _Placement:
    """Decides on which nodes the pods of a template may run."""

    def __init__(self, owner: JSON) -> None:
        template = owner["spec"]["template"]
        self._affinity: RequiredNodeAffinity | None = None
        self._name = (template.get("spec") or {}).get("nodeName", "")
        self._tolerations: tuple[api.Toleration, ...] = ()
        try:
            pod = decode_as(api.Pod, {"metadata": {"name": "template"}, "spec": template.get("spec") or {}})
            self._affinity = required_node_affinity(pod)
            extra = tuple(decode_as(api.Toleration, each) for each in TOLERATIONS)
            self._tolerations = (*pod.spec.tolerations, *extra)
        except (InvalidObject, SelectorError):
            # Pods of an invalid template run nowhere.
            self._name = "\0"

    def _selects(self, node: Node) -> bool:
        if self._name and self._name != node.metadata.name:
            return False
        return self._affinity is None or self._affinity.matches(node.metadata.labels, node.metadata.name)

    def may_run(self, node: Node) -> bool:
        return self._selects(node) and untolerated(node.spec.taints, self._tolerations) is None

    def may_stay(self, node: Node) -> bool:
        return self._selects(node) and untolerated(node.spec.taints, self._tolerations, ("NoExecute",)) is None


def _node_of(pod: Pod) -> str:
    """Return the node that a pod runs on or is meant for."""
    return pod.spec.node_name or pod.spec.pinned_node
