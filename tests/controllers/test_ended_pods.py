"""Pods that have ended are deleted if there are too many of them."""

from __future__ import annotations

from tests.controllers.world import world

from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.controllers.ended_pods import EndedPodCollector
from kubesched.embedded import ClusterSettings
from kubesched.reconcile.access import PODS

SPEC = {"containers": [{"name": "main", "image": "nginx:1.27"}], "restartPolicy": "Never"}


@virtual_time
async def test_the_newest_are_kept(clock: VirtualClock) -> None:
    """Of five pods that have ended, the three that were created first go. One that runs stays, however old it is."""
    async with world(clock, settings=ClusterSettings(seed=1, ended_pods=2)) as w:
        for name, run_time in (("old", "1h"), ("a", "30s"), ("b", "1s"), ("c", "1s"), ("d", "1s"), ("e", "1s")):
            w.create(PODS, name, SPEC, annotations={"kubesched.io/run-time": run_time})
            await clock.advance(2)
        await clock.advance(15)
        assert w.names(PODS) == ["a", "b", "c", "d", "e", "old"]
        await clock.advance(60)
        assert w.names(PODS) == ["d", "e", "old"]


@virtual_time
async def test_evicted_pods_go_first(clock: VirtualClock) -> None:
    """An evicted pod goes before older ones that ended by themselves."""
    async with world(clock, settings=ClusterSettings(seed=1, ended_pods=1)) as w:
        w.create(PODS, "first", SPEC, annotations={"kubesched.io/run-time": "10s"})
        await clock.advance(2)
        w.create(PODS, "second", SPEC, annotations={"kubesched.io/run-time": "1h"})
        await clock.advance(5)
        w.access.edit_status(PODS, "default/second", lambda pod: pod["status"].update(phase="Failed", reason="Evicted"))
        await clock.advance(60)
        assert w.names(PODS) == ["first"]


@virtual_time
async def test_those_of_an_earlier_run_count(clock: VirtualClock) -> None:
    """A cluster that starts with many more than are kept, for example from a data directory, deletes them too."""
    async with world(clock, settings=ClusterSettings(seed=1, ended_pods=0)) as w:
        for name in ("a", "b", "c", "d"):
            w.create(PODS, name, SPEC, annotations={"kubesched.io/run-time": "1s"})
            await clock.advance(2)
        await clock.advance(60)
        assert w.names(PODS) == ["a", "b", "c", "d"]
        EndedPodCollector(w.cluster.context, 1)
        await clock.advance(60)
        assert w.names(PODS) == ["d"]
