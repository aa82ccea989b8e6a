"""The status of ValidatingAdmissionPolicies: what their expressions get wrong about the kinds that they are for."""

from __future__ import annotations

from kubesched.apiserver.policies.type_checking import expression_warnings
from kubesched.apiserver.storage.store import StoreEvent
from kubesched.base.types import JSON
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.loop import Controller

POLICIES = "admissionregistration.k8s.io/validatingadmissionpolicies"


class PolicyStatusController(Controller):
    """Checks each new or changed policy once, as upstream."""

    name = "validatingadmissionpolicy-status"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context.loop)
        self._access = context.access
        shelf = self._access.store.shelf(POLICIES)
        shelf.observers.append(self._on_event)
        for key in shelf.sorted_keys():
            self.enqueue(key)

    def _on_event(self, event: StoreEvent) -> None:
        if not self._access.writing_status:
            self.enqueue(event.record.key)

    def sync(self, key: str) -> None:
        self._access.edit_status(POLICIES, key, self._check)

    def _check(self, policy: JSON) -> None:
        generation = policy["metadata"].get("generation", 0)
        if generation <= policy["status"].get("observedGeneration", 0):
            return
        api = self._access.api
        warnings = expression_warnings(policy, list(api.registry), api.custom.schema)
        checked = {"expressionWarnings": warnings} if warnings else {}
        policy["status"].update(observedGeneration=generation, typeChecking=checked)
