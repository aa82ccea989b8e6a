"""NoExecute taints of devices: evicts pods whose claims do not tolerate them, at once or after some time."""

from __future__ import annotations

from collections.abc import Iterator

from kubesched.api import devices as dra
from kubesched.api.objects import Part
from kubesched.api.taints import NO_EXECUTE
from kubesched.apiserver.meta import parse_timestamp
from kubesched.controllers.taint_eviction import evict
from kubesched.reconcile.access import DEVICE_CLAIMS, SLICES, TAINT_RULES
from kubesched.reconcile.cache import Cache, Index
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.events import pod_reference
from kubesched.reconcile.loop import Controller
from kubesched.reconcile.views import Pod, View

_EVENT = "DeviceTaintManagerEviction"
_REASON, _MESSAGE = "DeletionByDeviceTaintManager", "Device Taint manager: deleting due to NoExecute taint"

Taints = tuple[dra.DeviceTaint, ...]


class _Device(Part, frozen=True):
    name: str = ""
    taints: Taints = ()


class _SliceSpec(Part, frozen=True):
    driver: str = ""
    pool: dra.ResourcePool = dra.ResourcePool()
    devices: tuple[_Device, ...] = ()


class _Slice(View, frozen=True):
    spec: _SliceSpec = _SliceSpec()

    @property
    def evicting(self) -> dict[str, Taints]:
        """The taints of its devices that evict pods."""
        found: dict[str, Taints] = {}
        for device in self.spec.devices:
            if taints := tuple(taint for taint in device.taints if taint.effect == NO_EXECUTE):
                found[f"{self.spec.driver}/{self.spec.pool.name}/{device.name}"] = taints
        return found


class _Rule(View, frozen=True):
    spec: dra.DeviceTaintRuleSpec = dra.DeviceTaintRuleSpec()

    def taints(self, result: dra.DeviceRequestAllocationResult) -> bool:
        """Whether it adds an evicting taint to a device."""
        wanted = self.spec.device_selector or dra.DeviceTaintSelector()
        return self.spec.taint.effect == NO_EXECUTE and all(
            given is None or given == found
            for given, found in (
                (wanted.driver, result.driver),
                (wanted.pool, result.pool),
                (wanted.device, result.device),
            )
        )


class _Claim(View, frozen=True):
    status: dra.ResourceClaimStatus = dra.ResourceClaimStatus()

    @property
    def results(self) -> tuple[dra.DeviceRequestAllocationResult, ...]:
        return self.status.allocation.devices.results if self.status.allocation is not None else ()


class DeviceTaintEvictionController(Controller):
    """Deletes pods that use devices whose taints their claims do not tolerate."""

    name = "device-taint-eviction-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context.loop)
        self._context = context
        store = context.access.store
        self._tainted: dict[str, dict[str, Taints]] = {}
        """The evicting taints of devices, by the slices that list them."""
        self._planned: set[str] = set()
        """UIDs of pods that will be evicted when their time is up."""
        self._rules = Cache(store.shelf(TAINT_RULES), _Rule)
        self._claims = Cache(store.shelf(DEVICE_CLAIMS), _Claim)
        self._by_device: Index[_Claim] = self._claims.index(lambda claim: list(map(_id, claim.results)))
        self._users: Index[Pod] = context.pods.index(_claims_of)
        self._claims.watch(self._on_claim)
        context.pods.watch(self._on_pod, status=False)
        Cache(store.shelf(SLICES), _Slice).watch(self._on_slice)
        self._rules.watch(self._on_rule)

    # --- what needs work ----------------------------------------------------------------------------------------------

    def _on_slice(self, old: _Slice | None, new: _Slice | None) -> None:
        known = new or old
        assert known is not None
        before = old.evicting if old is not None else {}
        after = new.evicting if new is not None else {}
        # Of a dictionary, not of a set, so that runs are reproducible.
        for device in {**before, **after}:
            if before.get(device) == after.get(device):
                continue
            self._note(device, known.key, after.get(device))
            for claim in self._by_device.get(device):
                self._enqueue_users(claim)

    def _note(self, device: str, slice_key: str, taints: Taints | None) -> None:
        known = self._tainted.setdefault(device, {})
        if taints:
            known[slice_key] = taints
        else:
            known.pop(slice_key, None)
        if not known:
            del self._tainted[device]

    def _on_rule(self, old: _Rule | None, new: _Rule | None) -> None:
        if old is not None and new is not None and old.spec == new.spec:
            return
        rules = [rule for rule in (old, new) if rule is not None]
        for claim in self._claims.objects.values():
            if any(rule.taints(result) for rule in rules for result in claim.results):
                self._enqueue_users(claim)

    def _on_claim(self, _old: _Claim | None, new: _Claim | None) -> None:
        if new is not None and any(next(self._taints(result), None) for result in new.results):
            self._enqueue_users(new)

    def _enqueue_users(self, claim: _Claim) -> None:
        for pod in self._users.get(claim.key):
            self.enqueue(pod.key)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            assert old is not None
            self._planned.discard(old.metadata.uid)
        elif (
            (self._tainted or self._rules.objects)
            and new.spec.resource_claims
            and (old is None or not old.spec.node_name)
        ):
            self.enqueue(new.key)

    # --- pods ---------------------------------------------------------------------------------------------------------

    def sync(self, key: str) -> None:
        pod = self._context.pods.get(key)
        if pod is None or pod.metadata.being_deleted or pod.has_ended or not pod.spec.node_name:
            return
        uid, due = pod.metadata.uid, min(self._due(pod), default=None)
        if due is None:
            if uid in self._planned:
                self._planned.discard(uid)
                self._record(pod, "Cancelling deletion")
            return
        left = due - self._context.access.clock.now()
        if left > 0:
            self._planned.add(uid)
            self.enqueue(key, left)
        else:
            self._planned.discard(uid)
            self._record(pod, "Marking for deletion")
            evict(self._context, pod, _REASON, _MESSAGE)

    def _record(self, pod: Pod, text: str) -> None:
        self._context.events.record(self.name, pod_reference(pod), "Normal", _EVENT, text)

    def _due(self, pod: Pod) -> Iterator[float]:
        """Yield when each of the taints on a pod's devices evicts it."""
        for key in _claims_of(pod):
            claim = self._claims.get(key)
            if claim is None or not any(user.uid == pod.metadata.uid for user in claim.status.reserved_for):
                continue
            for result in claim.results:
                for taint in self._taints(result):
                    if (seconds := _tolerated_seconds(result.tolerations, taint)) is not None:
                        yield parse_timestamp(taint.time_added or "") + seconds

    def _taints(self, result: dra.DeviceRequestAllocationResult) -> Iterator[dra.DeviceTaint]:
        """Yield the evicting taints of a device, its own and those that rules add."""
        for taints in self._tainted.get(_id(result), {}).values():
            yield from taints
        for rule in self._rules.objects.values():
            if rule.taints(result):
                yield rule.spec.taint


def _id(result: dra.DeviceRequestAllocationResult) -> str:
    return f"{result.driver}/{result.pool}/{result.device}"


def _claims_of(pod: Pod) -> list[str]:
    """Return the claims in a pod's spec. Upstream ignores the one made for extended resources."""
    names = (pod.device_claim(claim) for claim in pod.spec.resource_claims)
    return [f"{pod.metadata.namespace}/{name}" for name in names if name]


def _tolerated_seconds(tolerations: tuple[dra.DeviceToleration, ...], taint: dra.DeviceTaint) -> int | None:
    """Return how long a taint is tolerated, 0 for not at all, and None for ever."""
    limits = [each.toleration_seconds for each in tolerations if each.effect == NO_EXECUTE and _tolerates(each, taint)]
    if None in limits:
        return None
    return max(0, min((limit for limit in limits if limit is not None), default=0))


def _tolerates(toleration: dra.DeviceToleration, taint: dra.DeviceTaint) -> bool:
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or (toleration.operator in ("", "Equal") and toleration.value == taint.value)
