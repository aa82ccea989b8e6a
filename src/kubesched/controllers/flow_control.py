"""Flow schemas and priority levels: upstream's default ones, and whether a schema's level exists.

Nothing limits requests by them here; they are what a user of a new cluster finds. Deleted ones come back, as upstream.
"""

from __future__ import annotations

from kubesched.apiserver.storage.store import StoreEvent
from kubesched.base.types import JSON
from kubesched.reconcile.conditions import set_condition
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.loop import Controller

FLOW_SCHEMAS = "flowcontrol.apiserver.k8s.io/flowschemas"
PRIORITY_LEVELS = "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations"
_ANNOTATIONS = {"apf.kubernetes.io/autoupdate-spec": "true"}
_ANY_PATH = {"nonResourceURLs": ["*"], "verbs": ["*"]}
_NODES, _MASTERS = "group system:nodes", "group system:masters"
_MANAGER, _SCHEDULER = "user system:kube-controller-manager", "user system:kube-scheduler"
_SYSTEM_ACCOUNTS = "account kube-system:*"
_EVERYBODY = ("group system:unauthenticated", "group system:authenticated")


def _resources(groups: str, resources: str, verbs: str, *, cluster: bool = False) -> JSON:
    rule: JSON = {
        "apiGroups": [groups],
        "namespaces": ["*"],
        "resources": resources.split(),
        "verbs": verbs.split(),
    }
    return {**rule, "clusterScope": True} if cluster else rule


def _subject(text: str) -> JSON:
    kind, _, name = text.partition(" ")
    if kind == "account":
        namespace, _, account = name.partition(":")
        return {"kind": "ServiceAccount", "serviceAccount": {"namespace": namespace, "name": account}}
    return {"kind": kind.capitalize(), kind: {"name": name}}


def _schema(precedence: int, level: str, by: str, subjects: tuple[str, ...], rules: JSON | None = None) -> JSON:
    everything = {
        "nonResourceRules": [_ANY_PATH],
        "resourceRules": [_resources("*", "*", "*", cluster=True)],
    }
    spec: JSON = {
        "matchingPrecedence": precedence,
        "priorityLevelConfiguration": {"name": level},
        "rules": [{**(rules or everything), "subjects": [_subject(each) for each in subjects]}],
    }
    return {**spec, "distinguisherMethod": {"type": by}} if by else spec


def _limited(shares: int, lendable: int, queues: int = 0, hand_size: int = 6) -> JSON:
    response: JSON = {"type": "Reject"}
    if queues:
        queuing = {"handSize": hand_size, "queueLengthLimit": 50, "queues": queues}
        response = {"type": "Queue", "queuing": queuing}
    limited = {"lendablePercent": lendable, "limitResponse": response, "nominalConcurrencyShares": shares}
    return {"type": "Limited", "limited": limited}


_PROBES = {"nonResourceRules": [{"nonResourceURLs": ["/healthz", "/readyz", "/livez"], "verbs": ["get"]}]}
_ELECTION = {"resourceRules": [_resources("coordination.k8s.io", "leases", "get create update")]}
_NODE_WORK = {
    "resourceRules": [
        _resources("", "nodes nodes/status", "*", cluster=True),
        _resources("coordination.k8s.io", "leases", "*"),
    ]
}
SCHEMAS: dict[str, JSON] = {
    "exempt": _schema(1, "exempt", "", (_MASTERS,)),
    "probes": _schema(2, "exempt", "", _EVERYBODY, _PROBES),
    "system-leader-election": _schema(
        100, "leader-election", "ByUser", (_MANAGER, _SCHEDULER, _SYSTEM_ACCOUNTS), _ELECTION
    ),
    "system-node-high": _schema(400, "node-high", "ByUser", (_NODES,), _NODE_WORK),
    "system-nodes": _schema(500, "system", "ByUser", (_NODES,)),
    "kube-controller-manager": _schema(800, "workload-high", "ByNamespace", (_MANAGER,)),
    "kube-scheduler": _schema(800, "workload-high", "ByNamespace", (_SCHEDULER,)),
    "kube-system-service-accounts": _schema(900, "workload-high", "ByNamespace", (_SYSTEM_ACCOUNTS,)),
    "service-accounts": _schema(9000, "workload-low", "ByUser", ("group system:serviceaccounts",)),
    "global-default": _schema(9900, "global-default", "ByUser", _EVERYBODY),
    "catch-all": _schema(10000, "catch-all", "ByUser", _EVERYBODY),
}
LEVELS: dict[str, JSON] = {
    "exempt": {"type": "Exempt", "exempt": {"lendablePercent": 0, "nominalConcurrencyShares": 0}},
    "leader-election": _limited(10, 0, 16, 4),
    "node-high": _limited(40, 25, 64),
    "system": _limited(30, 33, 64),
    "workload-high": _limited(40, 50, 128),
    "workload-low": _limited(100, 90, 128),
    "global-default": _limited(20, 50, 128),
    "catch-all": _limited(5, 0),
}


class FlowControlController(Controller):
    """Keeps the default objects, and the condition Dangling of every flow schema."""

    name = "priority-and-fairness-config-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context.loop)
        self._access = context.access
        for storage in (FLOW_SCHEMAS, PRIORITY_LEVELS):
            self._access.store.shelf(storage).observers.append(self._on_event)
        self.enqueue("")

    def _on_event(self, _event: StoreEvent) -> None:
        if not self._access.writing_status:
            self.enqueue("")

    def sync(self, key: str) -> None:
        for storage, defaults in ((PRIORITY_LEVELS, LEVELS), (FLOW_SCHEMAS, SCHEMAS)):
            for name, spec in defaults.items():
                if self._access.store.get(storage, name) is None:
                    body = {"metadata": {"name": name, "annotations": dict(_ANNOTATIONS)}, "spec": spec}
                    self._access.create(storage, body)
        for name in tuple(self._access.store.shelf(FLOW_SCHEMAS).sorted_keys()):
            self._access.edit_status(FLOW_SCHEMAS, name, self._set_dangling)

    def _set_dangling(self, schema: JSON) -> None:
        level = schema["spec"]["priorityLevelConfiguration"]["name"]
        exists = self._access.store.get(PRIORITY_LEVELS, level) is not None
        condition = {
            "type": "Dangling",
            "status": "False" if exists else "True",
            "reason": "Found" if exists else "NotFound",
            "message": f'This FlowSchema references the PriorityLevelConfiguration object named "{level}" '
            + ("and it exists" if exists else "but there is no such object"),
        }
        conditions = schema["status"].get("conditions") or []
        schema["status"]["conditions"] = set_condition(conditions, condition, self._access.now())
