"""A plugin that waits for objects of a custom kind, to be loaded by a scheduler in a process of its own."""

from __future__ import annotations

from kubesched import (
    Action,
    CycleState,
    EventHint,
    Hint,
    Nodes,
    Object,
    Plugin,
    Pod,
    Status,
    custom_kind,
    on,
    unresolvable,
)

Quota = custom_kind("quotas.v1.example.com")
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "quotas.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"kind": "Quota", "listKind": "QuotaList", "plural": "quotas", "singular": "quota"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"open": {"type": "boolean"}}},
                        },
                    }
                },
            }
        ],
    },
}


class WithinQuota(Plugin):
    """Holds pods back until their namespace's quota is open."""

    name = "WithinQuota"

    def events_to_register(self) -> list[EventHint]:
        return [on(Quota, Action.ADD | Action.UPDATE, self.after_quota)]

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        quota = self.handle.cluster.get(Quota, f"{pod.namespace}/quota")
        return None if quota is not None and quota.spec.get("open") else unresolvable("the quota is closed")

    def after_quota(self, pod: Pod, old: Object | None, new: Object | None) -> Hint:
        return Hint.QUEUE if new is not None and new.namespace == pod.namespace else Hint.SKIP
