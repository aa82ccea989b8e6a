"""Status of the kinds of scheduler-plugins: PodGroups and ElasticQuotas."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.controllers.world import World, world

from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.types import JSON
from kubesched.contrib.crds import DEFINITIONS
from kubesched.controllers.elastic_quotas import QUOTAS
from kubesched.controllers.gangs import GANGS
from kubesched.reconcile.access import EVENTS, JOBS, PODS

LABEL = "scheduling.x-k8s.io/pod-group"


@asynccontextmanager
async def defined(clock: VirtualClock) -> AsyncIterator[World]:
    """A cluster with three nodes and the custom resources."""
    async with world(clock) as running:
        for definition in DEFINITIONS:
            running.api.bootstrap.define(definition)
        yield running


def container(**requests: str) -> JSON:
    """A container."""
    return {"name": "c", "image": "i", "resources": {"requests": requests}}


def status(cluster: World, storage: str, name: str) -> JSON:
    """The status of an object."""
    found: JSON = cluster.get(storage, name).get("status") or {}
    return found


@virtual_time
async def test_a_group_from_pending_to_finished(clock: VirtualClock) -> None:
    """The phase follows the pods: too few, waiting for nodes, running, ended. A finished group stays so."""
    async with defined(clock) as cluster:
        cluster.create(GANGS, "gang", {"minMember": 2})
        await clock.advance(1)
        assert status(cluster, GANGS, "gang") == {"phase": "Pending"}
        large = {"containers": [container(cpu="9000")], "restartPolicy": "Never"}
        cluster.create(PODS, "waits", large, labels={LABEL: "gang"})
        cluster.create(PODS, "waits-too", large, labels={LABEL: "gang"})
        await clock.advance(1)
        assert status(cluster, GANGS, "gang") == {"phase": "Scheduling"}
        for name in ("waits", "waits-too"):
            cluster.delete(PODS, name, grace=0)
        await clock.advance(1)
        assert status(cluster, GANGS, "gang")["phase"] == "Pending"
        template = {
            "metadata": {"labels": {LABEL: "gang"}, "annotations": {"kubesched.io/run-time": "60s"}},
            "spec": {"containers": [container(cpu="1")], "restartPolicy": "Never"},
        }
        cluster.create(JOBS, "train", {"completions": 2, "parallelism": 2, "template": template})
        await clock.advance(20)
        owner = {"occupiedBy": "default/train"}
        assert status(cluster, GANGS, "gang") == {**owner, "phase": "Running", "running": 2}
        await clock.advance(120)
        assert status(cluster, GANGS, "gang") == {**owner, "phase": "Finished", "succeeded": 2}
        cluster.delete(JOBS, "train")
        await clock.advance(20)
        assert status(cluster, GANGS, "gang")["phase"] == "Finished"


@virtual_time
async def test_a_group_that_fails(clock: VirtualClock) -> None:
    """One failed pod among enough that have started makes the group fail."""
    async with defined(clock) as cluster:
        cluster.create(GANGS, "gang", {"minMember": 2})
        for name, code in (("good", "0"), ("bad", "1")):
            annotations = {"kubesched.io/run-time": "10s", "kubesched.io/exit-code": code}
            spec = {"containers": [container(cpu="1")], "restartPolicy": "Never"}
            cluster.create(PODS, name, spec, labels={LABEL: "gang"}, annotations=annotations)
        await clock.advance(60)
        found = status(cluster, GANGS, "gang")
        assert (found["phase"], found["succeeded"], found["failed"]) == ("Failed", 1, 1)


@virtual_time
async def test_what_a_quota_uses(clock: VirtualClock) -> None:
    """Requests of running pods, a larger init container included, in the form of the first; zero for the rest."""
    async with defined(clock) as cluster:
        cluster.create(
            QUOTAS, "quota", {"min": {"cpu": "4"}, "max": {"cpu": "8", "memory": "8Gi", "example.com/gpu": "2"}}
        )
        await clock.advance(1)
        assert status(cluster, QUOTAS, "quota") == {"used": {"cpu": "0", "memory": "0", "example.com/gpu": "0"}}
        init = [{**container(cpu="1500m"), "name": "init"}]
        cluster.create(PODS, "a", {"containers": [container(cpu="1", memory="1Gi")], "initContainers": init})
        cluster.create(PODS, "b", {"containers": [container(cpu="250m", memory="512Mi")]})
        cluster.create(PODS, "waits", {"containers": [container(cpu="9000")]})
        await clock.advance(30)
        used = status(cluster, QUOTAS, "quota")["used"]
        assert used == {"cpu": "1750m", "memory": "1536Mi", "example.com/gpu": "0"}
        (told,) = {each["message"] for each in cluster.access.list(EVENTS) if each["reason"] == "Synced"}
        assert told == "Elastic Quota default/quota synced successfully"
        cluster.delete(PODS, "a", grace=0)
        await clock.advance(5)
        assert status(cluster, QUOTAS, "quota")["used"] == {"cpu": "250m", "memory": "512Mi", "example.com/gpu": "0"}
