"""What an API server says about itself: the service `kubernetes`, its lease, and since when it tracks old tokens."""

from __future__ import annotations

import socket
from base64 import b32encode
from datetime import UTC, datetime
from hashlib import sha256

from kubesched.base.types import JSON
from kubesched.reconcile.access import CONFIG_MAPS, LEASES
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.loop import Controller

RENEW_SECONDS = 10.0
_LEASE_SECONDS = 3600
_NAMESPACE = "kube-system"
_TRACKING = "kube-apiserver-legacy-service-account-token-tracking"


class ControlPlaneController(Controller):
    """Restores these objects and renews the lease every ten seconds, as upstream."""

    name = "control-plane"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context.loop)
        self._access = context.access
        self._host = socket.gethostname()
        digest = b32encode(sha256(self._host.encode()).digest()[:16]).decode()
        self._lease_name = f"apiserver-{digest.rstrip('=').lower()}"
        self._holder = f"{self._lease_name}_{self._access.names.uid()}"
        self.enqueue("")

    def sync(self, key: str) -> None:
        now = datetime.fromtimestamp(self._access.clock.now(), UTC)
        self._access.api.bootstrap.restore_service()
        self._renew(now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
        if self._access.store.get(CONFIG_MAPS, f"{_NAMESPACE}/{_TRACKING}") is None:
            data = {"since": now.strftime("%Y-%m-%d")}
            self._access.create(CONFIG_MAPS, {"metadata": {"name": _TRACKING, "namespace": _NAMESPACE}, "data": data})
        self.enqueue("", RENEW_SECONDS)

    def _renew(self, now: str) -> None:
        key = f"{_NAMESPACE}/{self._lease_name}"
        spec: JSON = {"holderIdentity": self._holder, "leaseDurationSeconds": _LEASE_SECONDS, "renewTime": now}
        found = self._access.get(LEASES, key)
        if found is not None:
            self._access.put(LEASES, key, {**found, "spec": spec})
            return
        labels = {"apiserver.kubernetes.io/identity": "kube-apiserver", "kubernetes.io/hostname": self._host}
        metadata = {"name": self._lease_name, "namespace": _NAMESPACE, "labels": labels}
        self._access.create(LEASES, {"metadata": metadata, "spec": spec})
