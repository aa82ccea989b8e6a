"""Taints of devices: which pods are evicted, and when."""

from __future__ import annotations

from typing import Any

from tests.controllers.world import World, world

from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.types import JSON
from kubesched.embedded import ClusterSettings
from kubesched.kubelet.nodes import NodeSettings
from kubesched.reconcile.access import DEVICE_CLAIMS, PODS, SLICES, TAINT_RULES

GPU = ClusterSettings(seed=1, node=NodeSettings(devices="gpu.example.com=1"))


async def _user(w: World, tolerations: list[JSON]) -> None:
    """Start a pod that uses a device."""
    exactly = {"deviceClassName": "gpu.example.com", "tolerations": tolerations}
    w.create(DEVICE_CLAIMS, "mine", {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}})
    spec: dict[str, Any] = {"containers": [{"name": "main", "image": "busybox"}]}
    w.create(PODS, "user", {**spec, "resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}]})
    await w.until(lambda: bool(w.running()))


def _taint(w: World, effect: str = "NoExecute") -> None:
    (name,) = w.names(SLICES)
    taints = [{"key": "broken", "effect": effect}] if effect else []
    w.access.edit(SLICES, name, lambda obj: obj["spec"]["devices"][0].update(taints=taints))


@virtual_time
async def test_a_tainted_device_evicts_its_pod(clock: VirtualClock) -> None:
    """A pod without a toleration gets the condition and upstream's event, and is deleted."""
    async with world(clock, nodes=1, settings=GPU) as w:
        await _user(w, [])
        _taint(w, "NoSchedule")
        await clock.sleep(5)
        assert len(w.running()) == 1
        _taint(w)
        await clock.settle()
        conditions = {each["type"]: each for each in w.get(PODS, "user")["status"]["conditions"]}
        assert conditions["DisruptionTarget"]["reason"] == "DeletionByDeviceTaintManager"
        assert "DeviceTaintManagerEviction" in w.reasons("user")
        await w.until(lambda: not w.names(PODS))


@virtual_time
async def test_tolerated_taints(clock: VirtualClock) -> None:
    """A toleration without seconds counts for ever."""
    async with world(clock, nodes=1, settings=GPU) as w:
        await _user(w, [{"key": "broken", "operator": "Exists", "effect": "NoExecute"}])
        _taint(w)
        await clock.sleep(60)
        assert len(w.running()) == 1


@virtual_time
async def test_toleration_seconds(clock: VirtualClock) -> None:
    """A pod stays for its toleration seconds; if the taint goes before, the eviction is cancelled."""
    async with world(clock, nodes=1, settings=GPU) as w:
        await _user(w, [{"key": "broken", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}])
        _taint(w)
        await clock.sleep(20)
        _taint(w, "")
        await clock.sleep(60)
        assert len(w.running()) == 1
        assert w.reasons("user")[-1] == "DeviceTaintManagerEviction"
        _taint(w)
        await clock.sleep(29)
        assert len(w.running()) == 1
        await w.until(lambda: not w.names(PODS), timeout=5)


@virtual_time
async def test_a_rule_taints_devices(clock: VirtualClock) -> None:
    """A rule evicts pods from the devices that it selects, and from no others."""
    async with world(clock, nodes=1, settings=GPU) as w:
        await _user(w, [])
        taint = {"key": "broken", "effect": "NoExecute"}
        w.create(TAINT_RULES, "other", {"deviceSelector": {"device": "gpu-9"}, "taint": taint})
        await clock.sleep(5)
        assert len(w.running()) == 1
        w.create(TAINT_RULES, "this", {"deviceSelector": {"driver": "gpu.example.com"}, "taint": taint})
        await w.until(lambda: not w.names(PODS))
