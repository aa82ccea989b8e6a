"""Jobs as gangs: with WorkloadWithJob an eligible Job gets a Workload and a PodGroup, and its pods join the group."""

from __future__ import annotations

from typing import Any

import pytest
from tests.controllers.world import World, template, world

from kubesched.apiserver.wire.status import StatusError
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.features import Features
from kubesched.base.types import JSON
from kubesched.controllers.job_groups import group_name
from kubesched.embedded import ClusterSettings
from kubesched.kubelet.nodes import NodeSettings
from kubesched.reconcile.access import JOBS, POD_GROUPS, PODS, WORKLOADS

ON = Features(generic_workload=True, gang_scheduling=True, workload_with_job=True)


def _settings(features: Features = ON, cpu: str = "4") -> ClusterSettings:
    return ClusterSettings(seed=1, features=features, node=NodeSettings(cpu=cpu))


def _job(count: int = 3, **more: Any) -> JSON:
    spec = {"restartPolicy": "Never", "annotations": {"kubesched.io/run-time": "1h"}, **more.pop("pod", {})}
    shape = {"parallelism": count, "completions": count, "completionMode": "Indexed"}
    return {"template": template("job", **spec), **shape, **more}


def _only(w: World, storage: str) -> JSON:
    (name,) = w.names(storage)
    return w.get(storage, name)


@virtual_time
async def test_an_indexed_job_is_a_gang(clock: VirtualClock) -> None:
    """Workload and PodGroup have upstream's names, owners and contents, and every pod is in the group."""
    async with world(clock, settings=_settings()) as w:
        job = w.create(JOBS, "train", _job())
        await w.until(lambda: len(w.running(app="job")) == 3)
        workload, group = _only(w, WORKLOADS), _only(w, POD_GROUPS)
        names = {"workloadName": workload["metadata"]["name"], "podGroupTemplateName": "train-pgt-0"}
        policy = {"gang": {"minCount": 3}}
        assert workload["spec"] == {
            "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "train"},
            "podGroupTemplates": [{"name": "train-pgt-0", "schedulingPolicy": policy}],
        }
        assert group["metadata"]["name"] == group_name(names["workloadName"], "train-pgt-0")
        assert (group["spec"]["podGroupTemplateRef"], group["spec"]["schedulingPolicy"]) == (
            {"workload": names},
            policy,
        )
        owners = [(each["kind"], each["uid"], each.get("controller")) for each in group["metadata"]["ownerReferences"]]
        uids = job["metadata"]["uid"], workload["metadata"]["uid"]
        assert owners == [("Job", uids[0], True), ("Workload", uids[1], None)]
        for pod in w.pods(app="job"):
            assert pod["spec"]["schedulingGroup"] == {"podGroupName": group["metadata"]["name"]}
            assert [each["kind"] for each in pod["metadata"]["ownerReferences"]] == ["Job", "PodGroup"]
        assert "WorkloadCreated" in w.reasons("train")


@virtual_time
async def test_a_job_that_does_not_fit_whole_does_not_start(clock: VirtualClock) -> None:
    """No pod of the gang runs while one of them has no node; when there is room, all run."""
    async with world(clock, nodes=2, settings=_settings(cpu="1")) as w:
        one = [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "900m"}}}]
        w.create(JOBS, "train", _job(3, pod={"containers": one}))
        await clock.sleep(30)
        assert w.nodes_of(app="job") == ["", "", ""]
        w.cluster.kubelets.nodes.create("more")
        await w.until(lambda: len(w.running(app="job")) == 3)


@pytest.mark.parametrize(
    "spec",
    [
        _job(1),
        _job(completionMode="NonIndexed"),
        _job(completions=4),
        _job(pod={"schedulingGroup": {"podGroupName": "mine"}}),
    ],
    ids=["single", "not indexed", "not all at once", "with a group"],
)
@virtual_time
async def test_other_jobs_are_no_gangs(clock: VirtualClock, spec: JSON) -> None:
    """A Job of any other shape gets no Workload."""
    async with world(clock, settings=_settings()) as w:
        w.create(JOBS, "train", spec)
        await w.until(lambda: bool(w.pods(app="job")))
        assert w.names(WORKLOADS) == w.names(POD_GROUPS) == []


@virtual_time
async def test_a_workload_of_another_owner_is_left_alone(clock: VirtualClock) -> None:
    """If somebody else has made a Workload for the Job, its pods are scheduled one by one."""
    async with world(clock, settings=_settings()) as w:
        policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        reference = {"apiGroup": "batch", "kind": "Job", "name": "train"}
        w.create(WORKLOADS, "mine", {"controllerRef": reference, "podGroupTemplates": [{"name": "t", **policy}]})
        w.create(JOBS, "train", _job())
        await w.until(lambda: len(w.running(app="job")) == 3)
        assert (w.names(WORKLOADS), w.names(POD_GROUPS)) == (["mine"], [])


@virtual_time
async def test_off(clock: VirtualClock) -> None:
    """Without the gate no Job is a gang."""
    async with world(clock, settings=_settings(Features())) as w:
        w.create(JOBS, "train", _job())
        await w.until(lambda: len(w.running(app="job")) == 3)
        assert w.names(WORKLOADS) == []


@virtual_time
async def test_everything_goes_with_the_job(clock: VirtualClock) -> None:
    """Deleting the Job deletes Workload and pods; the group's finalizer holds it until the pods are gone."""
    async with world(clock, settings=_settings()) as w:
        w.create(JOBS, "train", _job())
        await w.until(lambda: len(w.running(app="job")) == 3)
        w.delete(JOBS, "train")
        await w.until(lambda: not any(map(w.names, (JOBS, WORKLOADS, POD_GROUPS, PODS))))


@virtual_time
async def test_a_group_in_use_is_protected(clock: VirtualClock) -> None:
    """A deleted group stays until its last pod has ended."""
    async with world(clock, settings=_settings()) as w:
        w.create(POD_GROUPS, "g", {"schedulingPolicy": {"basic": {}}})
        pod = template("member", restartPolicy="Never", schedulingGroup={"podGroupName": "g"})
        w.create(PODS, "p", pod["spec"], annotations={"kubesched.io/run-time": "20s"})
        await w.until(lambda: w.get(PODS, "p")["status"]["phase"] == "Running")
        w.delete(POD_GROUPS, "g")
        await clock.sleep(5)
        assert w.get(POD_GROUPS, "g")["metadata"]["finalizers"] == ["scheduling.k8s.io/podgroup-protection"]
        await w.until(lambda: not w.names(POD_GROUPS))
        assert w.get(PODS, "p")["status"]["phase"] == "Succeeded"


@virtual_time
async def test_the_parallelism_of_a_gang_is_fixed(clock: VirtualClock) -> None:
    """A Job whose pods are a gang cannot get another parallelism."""
    async with world(clock, settings=_settings()) as w:
        w.create(JOBS, "train", _job())
        await w.until(lambda: len(w.running(app="job")) == 3)
        with pytest.raises(
            StatusError, match="cannot change parallelism for a Job referencing gang-scheduled PodGroup"
        ):
            w.edit(JOBS, "train", parallelism=2)


def test_names_are_upstreams() -> None:
    """The name of a group has the hash that upstream computes, and too long parts are cut as upstream does."""
    assert group_name("w", "t") == "w-t-56b6fd67c8"
    long = group_name("w" * 250, "t" * 250)
    assert (len(long), long.count("w"), long.count("t")) == (253, 121, 120)
    assert group_name("w", "t" * 300).startswith("w-" + "t" * 240 + "-")
