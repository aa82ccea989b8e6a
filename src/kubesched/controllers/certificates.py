"""Signs approved certificate requests of clients, so that their owners can log in with the certificates."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence

from kubesched.apiserver.admission.certificate_requests import CERTIFICATE_REQUESTS, CLIENT_SIGNER
from kubesched.apiserver.storage.store import StoreEvent
from kubesched.base.types import JSON
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.loop import Controller

SignRequest = Callable[[bytes, int], bytes]
"""Makes a client's certificate for a request, both as PEM, that is valid for some seconds."""
_YEAR = 365 * 24 * 3600
_CLIENT = "client auth"
_ALLOWED = (_CLIENT, "digital signature", "key encipherment")


class CertificateController(Controller):
    """Writes the certificate, or why there is none, into the status of an approved request."""

    name = "certificate-controller"

    def __init__(self, context: ControllerContext, sign: SignRequest) -> None:
        super().__init__(context.loop)
        self._access = context.access
        self._sign = sign
        shelf = self._access.store.shelf(CERTIFICATE_REQUESTS)
        shelf.observers.append(self._on_event)
        for key in shelf.sorted_keys():
            self.enqueue(key)

    def _on_event(self, event: StoreEvent) -> None:
        self.enqueue(event.record.key)

    def sync(self, key: str) -> None:
        found = self._access.get(CERTIFICATE_REQUESTS, key)
        if found is not None and found["spec"]["signerName"] == CLIENT_SIGNER and _is_to_be_signed(found):
            self._access.edit_status(CERTIFICATE_REQUESTS, key, self._answer)

    def _answer(self, obj: JSON) -> None:
        spec, status = obj["spec"], obj["status"]
        if problem := _usage_problem(spec.get("usages") or []):
            reason = {"reason": "SignerValidationFailure", "message": problem}
            now = {"lastUpdateTime": self._access.now(), "lastTransitionTime": self._access.now()}
            failed = {"type": "Failed", "status": "True", **reason, **now}
            status["conditions"] = [*status["conditions"], failed]
            return
        seconds = min(spec.get("expirationSeconds") or _YEAR, _YEAR)
        certificate = self._sign(base64.b64decode(spec["request"]), seconds)
        status["certificate"] = base64.b64encode(certificate).decode()


def _is_to_be_signed(obj: JSON) -> bool:
    status = obj.get("status") or {}
    conditions = {each["type"] for each in status.get("conditions") or []}
    return "Approved" in conditions and "Failed" not in conditions and not status.get("certificate")


def _usage_problem(usages: Sequence[str]) -> str:
    for usage in usages:
        if usage not in _ALLOWED:
            return f"invalid usage for client certificate: {usage}"
    return "" if _CLIENT in usages else f"missing required usage for client certificate: {_CLIENT}"
