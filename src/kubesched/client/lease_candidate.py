"""A LeaseCandidate: with the gate CoordinatedLeaderElection, the control plane chooses the leader among these.

The candidate says which version it has, and answers pings by renewing itself. kube-scheduler watches its object; here
it is read as often as the lease, which is within the five seconds that a ping may take.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from kubesched.base.clock import Clock
from kubesched.base.log import ERROR, SILENT, Log
from kubesched.base.types import JSON
from kubesched.client.endpoints import Endpoint
from kubesched.client.http import HttpClient
from kubesched.client.protocol import ApiError

CANDIDATES: Final = Endpoint("coordination.k8s.io/v1beta1", "leasecandidates")
NAMESPACE: Final = "kube-system"
STRATEGY: Final = "OldestEmulationVersion"
RENEWAL: Final = 300.0
"""Seconds after which a candidate renews itself without a ping."""


class LeaseCandidate:
    """Keeps one candidate's object up to date. `run` it as a task."""

    def __init__(
        self,
        client: HttpClient,
        identity: str,
        version: str,
        clock: Clock,
        *,
        lease: str = "kube-scheduler",
        log: Log = SILENT,
    ) -> None:
        self._log = log
        self._client = client
        self._identity = identity
        self._version = version
        self._clock = clock
        self._lease = lease
        self._renewed = float("-inf")

    async def run(self, period: float) -> None:
        """Create the object, and renew it when it is due, until cancelled."""
        while True:
            try:
                await self.ensure()
            except (ApiError, OSError) as error:
                self._log(ERROR, "Ensuring lease failed", err=error)
            await self._clock.sleep(period)

    async def ensure(self) -> None:
        """Create the object if it is missing, renew it if it was pinged or is old."""
        path = CANDIDATES.path(NAMESPACE, self._identity)
        try:
            found = await self._client.get(path)
        except ApiError as error:
            if error.code != 404:
                raise
            self._log(2, "Creating lease candidate")
            await self._client.post(CANDIDATES.path(NAMESPACE), self._new())
            self._log(2, "Created lease candidate")
            self._renewed = self._clock.monotonic()
            return
        spec: JSON = found.get("spec") or {}
        pinged = str(spec.get("pingTime") or "") > str(spec.get("renewTime") or "")  # dates of one form
        if pinged or self._clock.monotonic() - self._renewed >= RENEWAL:
            self._log(2, "Lease candidate exists. Renewing.")
            await self._client.put(path, {**found, "spec": {**spec, "renewTime": self._date()}})
            self._renewed = self._clock.monotonic()

    def _new(self) -> JSON:
        return {
            "apiVersion": CANDIDATES.group_version,
            "kind": "LeaseCandidate",
            "metadata": {"name": self._identity, "namespace": NAMESPACE},
            "spec": {
                "leaseName": self._lease,
                "binaryVersion": self._version,
                "emulationVersion": self._version,
                "strategy": STRATEGY,
                "renewTime": self._date(),
            },
        }

    def _date(self) -> str:
        moment = datetime.fromtimestamp(self._clock.now(), UTC)
        return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
