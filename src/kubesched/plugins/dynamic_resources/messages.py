"""Log lines about claims, with the context that upstream's have: extension point, pod and node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.base.log import Log
from kubesched.cluster.state import ClusterState
from kubesched.framework.status import Status
from kubesched.plugins.dynamic_resources.ledger import Ledger

DETAILS = 5
"""The verbosity of almost all of these lines."""


class PointLog:
    """Logs what happens to a pod at one extension point."""

    def __init__(self, log: Log, point: str, pod: api.Pod, node: str = "") -> None:
        self._log = log
        self.enabled = log.verbosity >= DETAILS
        self._context: dict[str, object] = {"logger": f"{point}.DynamicResources", "pod": pod}
        if node:
            self._context["node"] = node

    def __call__(self, message: str, level: int = DETAILS, **fields: object) -> None:
        self._log(level, message, **(self._context | fields))

    def on(self, node: str) -> PointLog:
        """The same about a node."""
        found = PointLog.__new__(PointLog)
        found._log, found.enabled, found._context = self._log, self.enabled, self._context | {"node": node}
        return found

    def claim(self, message: str, claim: dra.ResourceClaim, allocation: dra.AllocationResult | None) -> None:
        """Log something about a claim and an allocation."""
        if self.enabled:
            version = claim.metadata.resource_version
            self(message, claim=claim, uid=claim.uid, resourceVersion=version, allocation=allocation)

    def added(self, claim: dra.ResourceClaim, ledger: Ledger) -> None:
        """Log that an allocation is pending."""
        sharers = ledger.sharers(claim.uid)
        message = "Added in-flight claim" if sharers == 1 else "Added share for in-flight claim"
        self._in_flight(message, claim, sharers if sharers > 1 else 0)

    def dropped(self, claim: dra.ResourceClaim, ledger: Ledger, *, removed: bool) -> None:
        """Log that an allocation is no longer pending, or is so for fewer pods."""
        sharers = 0 if removed else ledger.sharers(claim.uid)
        if removed:
            self._in_flight("Removed in-flight claim", claim)
        elif sharers:
            message = "Claim is still shared by other pods, not removing in-flight claim"
            self._in_flight(message, claim, sharers)
        else:
            self._log(DETAILS, "Redundant remove of in-flight claim, not found", uid=claim.uid)

    def _in_flight(self, message: str, claim: dra.ResourceClaim, sharers: int = 0) -> None:
        shared = {"sharers": sharers} if sharers else {}
        self._log(DETAILS, message, claim=claim, uid=claim.uid, version=claim.metadata.resource_version, **shared)

    def assumed(self, claim: dra.ResourceClaim, *, known: bool) -> None:
        """Log that a claim is used as it was written."""
        version = claim.metadata.resource_version
        if known:
            self._log(DETAILS, "Assumed object", description="ResourceClaim", cacheKey=claim.key, version=version)
        message = "Claim stored in assume cache" if known else "Claim not stored in assume cache"
        self(message, claim=claim, uid=claim.uid, resourceVersion=version)

    def restored(self, claim: dra.ResourceClaim) -> None:
        """Log that a claim is used as the watch shows it."""
        self._log(DETAILS, "Restored object", description="ResourceClaim", cacheKey=claim.key)


class FilterLog:
    """What Filter logs about each node. It costs a line or more per node, so only at high verbosity."""

    def __init__(self, log: Log, pod: api.Pod, cluster: ClusterState) -> None:
        self._say = PointLog(log, "FilterWithNominatedPods.Filter", pod)
        slices = cluster.all(api.ResourceSlice)
        self._slices = Counter("" if each.spec.shared_counters else each.spec.node_name or "" for each in slices)

    def allocation(self, node: str, claims: int, pools: int, *, fits: bool, problem: str) -> None:
        """Log the search on a node."""
        say = self._say.on(node)
        say("Starting allocation", numClaims=claims, numSlicesForNode=self._slices[node] + self._slices[""])
        say("Gathered pool information", pools={"count": pools})
        say("Done with allocation", success=fits, err=problem or None)

    def rejected(self, node: str, status: Status, claims: Sequence[dra.ResourceClaim]) -> None:
        """Log why a node is rejected."""
        self._say.on(node)("pod unschedulable", resourceclaims=list(claims), reason=status.message)

    def unreachable(self, node: str, claim: dra.ResourceClaim) -> None:
        """Log that a claim's devices are on other nodes."""
        self._say.on(node)("allocation's node selector does not match", resourceclaim=claim)
