"""What PreBind writes: allocations, reservations, and the claim for extended resources; and the wait for devices."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.base.features import Features
from kubesched.base.log import ERROR
from kubesched.framework.handle import Handle
from kubesched.plugins.dynamic_resources.claims import (
    BindingFailed,
    has_binding_conditions,
    is_ready,
    is_reserved_for,
)
from kubesched.plugins.dynamic_resources.cycle import Cycle
from kubesched.plugins.dynamic_resources.extended import IN_MEMORY, Mapping
from kubesched.plugins.dynamic_resources.ledger import Ledger
from kubesched.plugins.dynamic_resources.messages import PointLog

TIMEOUT, FAILURE = "device binding timeout", "device binding failed"
RETRIES = 5
RETRY_SECONDS = 0.01
POLL_SECONDS = 5.0
CLAIM_POLL_SECONDS, CLAIM_POLL_MOST = 0.01, 1.0
"""Pauses between two looks at a claim, at first and at last."""
NEW_CLAIM_LIMIT = 120.0
"""How long to wait for the watch to show a claim that was just created, in seconds."""
LOST_ANSWER_LIMIT = 25.0
"""How long to ask for a claim after a write without an answer: long enough for an API server to restart."""

T = TypeVar("T")


class ClaimBindingError(Exception):
    """The pod's claims could not be made ready; the text is upstream's."""


class ClaimBinder:
    """Writes claims to the API server."""

    def __init__(
        self,
        handle: Handle,
        ledger: Ledger,
        features: Features,
        timeout: float,
        is_late: Callable[[dra.ResourceClaim], bool],
    ) -> None:
        self._handle = handle
        self._ledger = ledger
        self._conditions = features.binding_conditions
        self._of_groups = features.dra_workload_resource_claims
        self._timeout = timeout
        self._is_late = is_late

    async def bind(self, cycle: Cycle, pod: api.Pod, node_name: str) -> None:
        """Allocate and reserve all claims of a pod, then wait until their devices are ready."""
        for index in range(len(cycle.claims)):
            if self._must_reserve(cycle, index, pod):
                # Pods that share a claim are often bound at the same time.
                async with self._handle.client.one_at_a_time(cycle.claims[index].uid):
                    cycle.claims[index] = await self._bind_claim(cycle, index, pod, node_name)
        if cycle.node_allocatable:
            cycle.in_pod_status = True
            statuses = _json(cycle.node_allocatable)
            await self._write_node_allocatable(pod, statuses)
            say = PointLog(self._handle.log, "PreBind", pod, node_name)
            say("Patched pod status with NodeAllocatableResourceClaimStatuses", status=statuses)
        if self._conditions and any(map(has_binding_conditions, cycle.claims)):
            await self._wait(cycle, pod, node_name)

    # One claim

    def _must_reserve(self, cycle: Cycle, index: int, pod: api.Pod) -> bool:
        """Whether a claim is not reserved yet, or an earlier attempt is giving its reservation up.

        That attempt may have failed moments ago, so that the watch still shows the reservation.
        """
        claim = cycle.claims[index]
        if not is_reserved_for(claim, pod, of_groups=self._of_groups):
            return True
        return index < cycle.user_claims and self._ledger.is_released(claim.key, cycle.consumers[index].uid)

    async def _bind_claim(self, cycle: Cycle, index: int, pod: api.Pod, node_name: str) -> dra.ResourceClaim:
        claim, allocation = cycle.claims[index], cycle.allocations[index]
        special = index >= cycle.user_claims
        if special and allocation is None and not claim.spec.devices.requests:
            return claim  # a device plugin provides everything
        uid, written = claim.uid, False
        say = PointLog(self._handle.log, "PreBind", pod, node_name)
        say("preparing claim status update", claim=claim, allocation=allocation)
        try:
            if special and claim.name == IN_MEMORY:
                claim = cycle.claims[index] = await self._create(cycle, pod, node_name)
                written = True
            user = _reference(pod) if special else cycle.consumers[index]
            with self._ledger.reserving(claim.key, user.uid) as doubtful:
                claim = await self._retried(
                    self._ledger.newer(claim) or claim,
                    lambda newest: self._write(newest, allocation, pod, user, doubtful=doubtful),
                    say,
                )
            written = True
        except Exception as problem:
            found = None if allocation is None or _is_refused(problem) else await self._after_lost_answer(claim)
            if found is not None:
                claim, written = found, True
            raise
        finally:
            known = written and await self._assume(claim, special=special)
            if say.enabled and written:
                say.assumed(claim, known=known)
            if allocation is not None:
                removed = self._ledger.drop_pending(uid, force=known)
                cycle.allocations[index] = None
                if say.enabled:
                    say.dropped(claim, self._ledger, removed=removed)
                    say.claim("Removed claim from in-flight claims", claim, allocation)
        say("reserved", resourceclaim=claim)
        if special:
            await self._record_in_pod(cycle, claim, pod)
        return claim

    async def _assume(self, claim: dra.ResourceClaim, *, special: bool) -> bool:
        """Use the claim as it was written; the watch may take a while to show one that is new."""
        async for _ in self._poll(NEW_CLAIM_LIMIT if special else 0):
            if self._ledger.assume(claim):
                return True
        return False

    async def _after_lost_answer(self, claim: dra.ResourceClaim) -> dra.ResourceClaim | None:
        """A claim as the API server has it, after a write that failed but may have taken effect.

        Meanwhile the devices stay taken: otherwise another claim could be given them before the watch shows the write.
        """
        async for _ in self._poll(LOST_ANSWER_LIMIT):
            newer = self._ledger.newer(claim)
            if newer is not None and newer.status.allocation is not None:
                return newer
            try:
                return await self._handle.client.read(dra.ResourceClaim, claim.name, claim.namespace)
            except Exception as problem:
                if getattr(problem, "code", None) == 404:
                    break
        return None

    async def _poll(self, limit: float) -> AsyncIterator[None]:
        """Returns at once, then again after longer and longer pauses, until their sum reaches the limit."""
        waited, pause = 0.0, CLAIM_POLL_SECONDS
        yield
        while waited < limit:
            await self._handle.clock.sleep(pause)
            yield
            waited, pause = waited + pause, min(2 * pause, CLAIM_POLL_MOST)

    async def _write(
        self,
        claim: dra.ResourceClaim,
        allocation: dra.AllocationResult | None,
        pod: api.Pod,
        user: dra.ResourceClaimConsumerReference,
        *,
        doubtful: bool,
    ) -> dra.ResourceClaim:
        """Write an allocation and a reservation. If it is `doubtful`, its removal may be under way."""
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimBindingError(f"claim {claim.key} got deleted in the meantime")
        known = claim.status.allocation
        if allocation is not None and known is not None and known.devices.results == allocation.devices.results:
            # Another pod of the same group has written it.
            if is_reserved_for(claim, pod, of_groups=self._of_groups):
                return claim
            allocation = None
        if allocation is not None:
            if known is not None:
                raise ClaimBindingError(f"claim {claim.key} got allocated elsewhere in the meantime")
            if dra.FINALIZER not in claim.metadata.finalizers:
                finalizers = [*claim.metadata.finalizers, dra.FINALIZER]
                what = f"add finalizer to claim {claim.key}"
                claim = await _said(what, self._patch(claim, {"metadata": {"finalizers": finalizers}}))
        others = [each for each in claim.status.reserved_for if each.uid != user.uid]
        if doubtful and len(others) < len(claim.status.reserved_for):
            # The removal fails once the claim has a new version. To write what is there already would not give it one.
            what = f"renew reservation of claim {claim.key}"
            claim = await _said(what, self._patch(claim, {"status": {"reservedFor": _json(others) or None}}, "status"))
        status: dict[str, object] = {"reservedFor": [_json(each) for each in (*others, user)]}
        recorded = allocation if allocation is not None else claim.status.allocation
        if self._conditions:
            if recorded is None:
                raise ClaimBindingError(f"claim {claim.key} got deallocated elsewhere in the meantime")
            if recorded.allocation_timestamp is None:
                recorded = msgspec.structs.replace(recorded, allocation_timestamp=self._now())
                status["allocation"] = _json(recorded)
        if allocation is not None:
            status["allocation"] = _json(recorded)
        what = f"add {'allocation and ' if allocation is not None else ''}reservation to claim {claim.key}"
        return await _said(what, self._patch(claim, {"status": status}, "status"))

    def _now(self) -> str | None:
        clock = getattr(self._handle, "clock", None)
        return None if clock is None else datetime.fromtimestamp(clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    async def _patch(
        self, claim: dra.ResourceClaim, patch: dict[str, object], subresource: str = ""
    ) -> dra.ResourceClaim:
        """Change a claim, if it still has the version that we know."""
        meta = {"resourceVersion": claim.metadata.resource_version} if claim.metadata.resource_version else {}
        own = patch.get("metadata", {})
        assert isinstance(own, dict)
        body = {**patch, "metadata": {**own, **meta}}
        client = self._handle.client
        return await client.merge_patch(dra.ResourceClaim, claim.name, body, claim.namespace, subresource=subresource)

    async def _retried(
        self, claim: dra.ResourceClaim, write: Callable[[dra.ResourceClaim], Awaitable[T]], say: PointLog | None = None
    ) -> T:
        """Write a claim; if it has changed in the meantime, retry with its newest version.

        Often another pod of ours has just written it. Then there is no need to read it, and the retry does not count.
        """
        left = RETRIES
        while True:
            try:
                return await write(claim)
            except Exception as problem:
                known = self._ledger.newer(claim)
                left -= known is None
                if not _is_conflict(problem) or not left:
                    raise
            if say is not None:
                say("retrying update after conflict", claim=claim)
            if known is not None:
                claim = known
                continue
            await self._handle.clock.sleep(RETRY_SECONDS)
            what = f"get updated claim {claim.key} after conflict"
            claim = await _said(what, self._handle.client.read(dra.ResourceClaim, claim.name, claim.namespace))

    # The claim for extended resources

    async def _create(self, cycle: Cycle, pod: api.Pod, node_name: str) -> dra.ResourceClaim:
        if cycle.chosen is None:
            raise ClaimBindingError(f"extended resource claim not found for node {node_name}")
        say = PointLog(self._handle.log, "PreBind", pod, node_name)
        say("preparing to create claim for extended resources")
        claim = cycle.chosen.claims[-1]
        metadata = {
            "generateName": f"{pod.name}-extended-resources-",
            "namespace": pod.namespace,
            "annotations": claim.annotations,
            "ownerReferences": [_json(owner) for owner in claim.metadata.owner_references],
            # Upstream adds it by a second write.
            "finalizers": [dra.FINALIZER],
        }
        body = {"metadata": metadata, "spec": _json(claim.spec)}
        say("create claim for extended resources", resourceclaim=claim)
        what = f"create claim for extended resources {pod.namespace}/"
        try:
            made = await _said(what, self._handle.client.create_object(dra.ResourceClaim, body, pod.namespace))
        except BaseException:
            self._handle.claim_metrics.claim_created("failure")
            raise
        self._handle.claim_metrics.claim_created("success")
        say("created claim for extended resources", resourceclaim=made)
        return made

    async def _record_in_pod(self, cycle: Cycle, claim: dra.ResourceClaim, pod: api.Pod) -> None:
        mappings = () if cycle.chosen is None else cycle.chosen.mappings
        if not mappings:
            problem = f"no update of pod {pod.key} ExtendedResourceClaimStatus"
            raise ClaimBindingError(f"nil or empty request mappings, {problem}")
        status = {"requestMappings": list(map(_mapping, mappings)), "resourceClaimName": claim.name}
        patch = {"metadata": {"uid": pod.uid}, "status": {"extendedResourceClaimStatus": status}}
        what = f"update pod {pod.key} ExtendedResourceClaimStatus"
        await _said(what, self._handle.client.patch_pod_status(pod, patch))

    # Resources of the node that devices stand for

    async def _write_node_allocatable(self, pod: api.Pod, statuses: object) -> None:
        patch = {"metadata": {"uid": pod.uid}, "status": {"nodeAllocatableResourceClaimStatuses": statuses}}
        what = f"updating pod {pod.key} NodeAllocatableResourceClaimStatuses"
        await _said(what, self._handle.client.patch_pod_status(pod, patch))

    async def clear_node_allocatable(self, pod: api.Pod) -> None:
        """Remove what PreBind may have written, as the pod does not go to that node."""
        self._handle.log(5, "Clearing NodeAllocatableResourceClaimStatuses on Unreserve", pod=pod)
        try:
            await self._write_node_allocatable(pod, None)
            self._handle.log(5, "Cleared NodeAllocatableResourceClaimStatuses", pod=pod)
        except Exception as problem:
            message = "Failed to clear NodeAllocatableResourceClaimStatuses on Unreserve"
            self._handle.log(ERROR, message, pod=pod, err=problem)

    # Waiting for devices

    async def _wait(self, cycle: Cycle, pod: api.Pod, node_name: str) -> None:
        note = f"waiting for binding conditions for device on node {node_name}"
        self._handle.recorder(pod, "Normal", "BindingConditionsPending", "Scheduling", note)
        started = self._handle.clock.monotonic()
        status = "error"
        try:
            await self._until_ready(cycle, started + self._timeout)
            status = "success"
            devices = _awaited(cycle)
            PointLog(self._handle.log, "PreBind", pod, node_name)("BindingConditions is met", devices=devices)
        except ClaimBindingError as problem:
            text = str(problem)
            status = "timeout" if text.startswith(TIMEOUT) else "failure" if text.startswith(FAILURE) else "error"
            raise
        finally:
            self._measure(cycle, status, self._handle.clock.monotonic() - started)

    async def _until_ready(self, cycle: Cycle, deadline: float) -> None:
        while not self._all_ready(cycle):
            left = deadline - self._handle.clock.monotonic()
            if left <= 0:
                raise ClaimBindingError(f"{TIMEOUT}: context deadline exceeded")
            await self._handle.clock.sleep(min(POLL_SECONDS, left))

    def _measure(self, cycle: Cycle, status: str, seconds: float) -> None:
        profile, metrics = self._handle.profile_name, self._handle.claim_metrics
        for claim in cycle.claims:
            for result in claim.status.allocation.devices.results if claim.status.allocation is not None else ():
                metrics.device_awaited(profile, result.driver, status, seconds)
                if result.binding_conditions:
                    metrics.conditions_used(profile, result.driver, status)

    def _all_ready(self, cycle: Cycle) -> bool:
        for index, claim in enumerate(cycle.claims):
            newest = self._ledger.get(claim.key)
            if newest is None:
                raise ClaimBindingError(f'could not find ResourceClaim "{claim.key}"')
            cycle.claims[index] = newest
            try:
                if not is_ready(newest):
                    if self._is_late(newest):
                        raise ClaimBindingError(f"{TIMEOUT}: claim={newest.name}")
                    return False
            except BindingFailed as problem:
                raise ClaimBindingError(str(problem)) from problem
        return True

    # Undoing

    async def deallocate(self, claim: dra.ResourceClaim, pod: api.Pod) -> None:
        """Remove an allocation that no pod uses, so that other devices can be allocated."""
        self._handle.log(5, "Deallocation of ResourceClaim", pod=pod, resourceclaim=claim)
        status = {"allocation": None, "reservedFor": None, "devices": None}
        await self._logged("deallocation", claim, self._patch(claim, {"status": status}, "status"))

    async def unreserve(self, claim: dra.ResourceClaim, pod: api.Pod, group: api.PodGroup | None = None) -> None:
        """Remove a pod, or its group, from those that a claim is reserved for."""
        if group is None:
            self._handle.log(5, "unreserve", resourceclaim=claim, pod=pod)
        else:
            self._handle.log(5, "postfilter unreserved claim", resourceclaim=claim, pod=pod, podgroup=group)
        uid = pod.uid if group is None else group.uid

        async def remove(newest: dra.ResourceClaim) -> None:
            if not self._ledger.is_released(claim.key, uid):
                return  # the next attempt has reserved the claim again
            others = [_json(consumer) for consumer in newest.status.reserved_for if consumer.uid != uid]
            written = await self._patch(newest, {"status": {"reservedFor": others or None}}, "status")
            self._ledger.assume(written)
            self._ledger.settle(claim.key, uid)

        self._ledger.release(claim.key, uid)
        await self._logged("unreserve", claim, self._retried(self._ledger.get(claim.key) or claim, remove))

    async def delete(self, claim: dra.ResourceClaim) -> None:
        """Delete a claim for extended resources."""

        async def release(newest: dra.ResourceClaim) -> dra.ResourceClaim:
            kept = [each for each in newest.metadata.finalizers if each != dra.FINALIZER]
            return await self._patch(newest, {"metadata": {"finalizers": kept or None}})

        async def both() -> None:
            await self._retried(claim, release)
            self._handle.log(5, "Delete", resourceclaim=claim)
            await self._handle.client.delete_object(dra.ResourceClaim, claim.name, claim.namespace)

        await self._logged("delete", claim, both())

    async def _logged(self, what: str, claim: dra.ResourceClaim, write: Awaitable[object]) -> None:
        """Run a write in the background. A failure is logged; the next attempt tries again."""
        try:
            await write
        except Exception as problem:
            self._handle.log(ERROR, what, resourceclaim=claim, err=problem)


async def _said(what: str, write: Awaitable[T]) -> T:
    """Do something, and say what it was if it fails."""
    try:
        return await write
    except Exception as problem:
        if _is_conflict(problem):
            raise
        raise ClaimBindingError(f"{what}: {problem}") from problem


def _is_refused(problem: Exception) -> bool:
    """Whether a write has certainly not taken effect."""
    if isinstance(problem, ClaimBindingError):
        return problem.__cause__ is None or _is_refused(problem.__cause__)  # type: ignore[arg-type]  # see `_said`
    return 400 <= getattr(problem, "code", 0) < 500


def _is_conflict(problem: Exception) -> bool:
    return getattr(problem, "code", None) == 409 and getattr(problem, "reason", "") == "Conflict"


def _json(part: object) -> object:
    return msgspec.to_builtins(part)


def _reference(pod: api.Pod) -> dra.ResourceClaimConsumerReference:
    return dra.ResourceClaimConsumerReference("", "pods", pod.name, pod.uid)


def _mapping(mapping: Mapping) -> dict[str, str]:
    return {"containerName": mapping.container, "resourceName": mapping.resource, "requestName": mapping.request}


def _awaited(cycle: Cycle) -> str:
    """The devices that had to be made ready, as upstream's log has them."""
    results = [
        result
        for claim in cycle.claims
        if claim.status.allocation is not None
        for result in claim.status.allocation.devices.results
        if result.binding_conditions
    ]
    return "; ".join(f"<driver={each.driver}, pool={each.pool}> {each.device}" for each in results)
