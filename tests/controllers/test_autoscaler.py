"""HorizontalPodAutoscalers and the metrics API, with usage from annotations."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.controllers.world import World, template, workload, world

from kubesched.apiserver.http_server import ADMIN
from kubesched.apiserver.kinds.autoscalers import autoscaler_to_v1, autoscaler_to_v2
from kubesched.apiserver.printing.columns_policies import COLUMNS
from kubesched.apiserver.wire.request import ApiRequest
from kubesched.base.annotations import CPU_LOAD, CPU_USAGE, MEMORY_USAGE
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.types import JSON
from kubesched.controllers.autoscaler_metrics import MetricError, recommend
from kubesched.controllers.scaling_rules import ScalingHistory, ScalingRules
from kubesched.reconcile.access import AUTOSCALERS, DEPLOYMENTS, EVENTS, PODS
from kubesched.reconcile.usage import PodUsage, read_usage

REQUESTS = {"requests": {"cpu": "200m", "memory": "100Mi"}}
CONTAINER = {"name": "main", "image": "nginx", "resources": REQUESTS}
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def deploy(w: World, replicas: int = 1, **annotations: str) -> None:
    pod = template("web", containers=[CONTAINER], annotations=annotations)
    w.create(DEPLOYMENTS, "web", workload("web", replicas, pod=pod))


def autoscale(w: World, least: int = 1, most: int = 10, **spec: object) -> None:
    w.create(AUTOSCALERS, "web", {"scaleTargetRef": TARGET, "minReplicas": least, "maxReplicas": most, **spec})


def conditions(w: World) -> dict[str, tuple[str, str]]:
    status = w.get(AUTOSCALERS, "web")["status"]
    return {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}


def replicas(w: World) -> int:
    return int(w.get(DEPLOYMENTS, "web")["spec"]["replicas"])


async def read(w: World, path: str) -> JSON:
    w.api.authenticator.add_token("secret", ADMIN)
    answer = await w.api.handle(ApiRequest("GET", path, {}, {"authorization": "Bearer secret"}))
    assert answer.status == 200, answer.body
    found: JSON = json.loads(answer.body)
    return found


@virtual_time
async def test_a_shared_load_scales_up_and_down(clock: VirtualClock) -> None:
    """A load on the Deployment is shared: replicas grow until each pod is near its target, and shrink when it ends."""
    async with world(clock) as w:
        deploy(w)
        autoscale(w)  # 80 % of 200m
        await w.until(lambda: len(w.running(app="web")) == 1)
        w.access.edit(DEPLOYMENTS, "default/web", lambda obj: obj["metadata"].update(annotations={CPU_LOAD: "1"}))
        await w.until(lambda: len(w.running(app="web")) == 7, 600)
        await clock.advance(60)
        assert replicas(w) == 7  # 1000m / 7 is 71 % of 200m, within the tolerance of 80 %
        assert conditions(w)["ScalingActive"] == ("True", "ValidMetricFound")
        assert w.reasons("web").count("SuccessfulRescale") >= 1
        status = w.get(AUTOSCALERS, "web")["status"]
        assert status["currentMetrics"][0]["resource"]["current"]["averageUtilization"] == 71
        w.access.edit(DEPLOYMENTS, "default/web", lambda obj: obj["metadata"].update(annotations={}))
        await clock.advance(200)
        assert replicas(w) == 7
        assert conditions(w)["AbleToScale"] == ("True", "ScaleDownStabilized")
        await w.until(lambda: replicas(w) == 1, 300)


@virtual_time
async def test_replicas_that_it_sets_are_its_own(clock: VirtualClock) -> None:
    """Who applies other replicas than an autoscaler has set gets a conflict that names its manager."""

    async def apply(wanted: int) -> JSON:
        pod = template("web", containers=[CONTAINER])
        body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
        body["spec"] = workload("web", wanted, pod=pod)
        headers = {"authorization": "Bearer secret", "content-type": "application/apply-patch+yaml"}
        path = "/apis/apps/v1/namespaces/default/deployments/web"
        request = ApiRequest("PATCH", path, {"fieldManager": "me"}, headers, body=json.dumps(body).encode())
        found: JSON = json.loads((await w.api.handle(request)).body)
        return found

    async with world(clock) as w:
        w.api.authenticator.add_token("secret", ADMIN)
        assert "spec" in await apply(1)
        autoscale(w, least=3)
        await w.until(lambda: replicas(w) == 3)
        refused = await apply(1)
        manager = '"kube-controller-manager" with subresource "scale" using apps/v1'
        assert refused["message"] == f"Apply failed with 1 conflict: conflict with {manager}: .spec.replicas"
        revision: JSON = {"f:metadata": {"f:annotations": {"f:deployment.kubernetes.io/revision": {}}}}
        entries = w.get(DEPLOYMENTS, "web")["metadata"]["managedFields"]
        owners = {each.get("subresource"): (each["manager"], each["fieldsV1"]) for each in entries}
        assert owners["status"] == ("kube-controller-manager", revision)
        assert (owners[None][0], owners["scale"][0]) == ("me", "kube-controller-manager")


@virtual_time
async def test_bounds_and_targets_without_requests(clock: VirtualClock) -> None:
    """Replicas stay within their bounds; a utilization without requests and a missing target are reported."""
    async with world(clock) as w:
        autoscale(w, least=2, most=3)
        await w.until(lambda: conditions(w).get("AbleToScale") == ("False", "FailedGetScale"))
        deploy(w, 1, **{CPU_USAGE: "500%"})
        await w.until(lambda: replicas(w) == 3)
        await w.until(lambda: conditions(w).get("ScalingLimited") == ("True", "TooManyReplicas"))
        w.access.edit(DEPLOYMENTS, "default/web", lambda obj: obj["metadata"].update(annotations={CPU_LOAD: "80%"}))
        await w.until(lambda: "InvalidAnnotation" in w.reasons("web"))
        w.create(DEPLOYMENTS, "plain", workload("plain", 1))
        w.edit(AUTOSCALERS, "web", scaleTargetRef={**TARGET, "name": "plain"}, minReplicas=1)
        await w.until(lambda: conditions(w)["ScalingActive"] == ("False", "FailedGetResourceMetric"))
        assert {"FailedGetResourceMetric", "FailedComputeMetricsReplicas"} <= set(w.reasons("web"))
        start = (
            "invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: failed to"
        )
        assert any(each["message"].startswith(start) for each in w.access.list(EVENTS))


@virtual_time
async def test_a_metric_that_fails_beside_one_that_does_not(clock: VirtualClock) -> None:
    """Replicas grow and stay by the other one, but do not shrink, and events tell of the failure."""
    cpu = {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "100m"}}
    qps = {"metric": {"name": "qps"}, "target": {"type": "AverageValue", "averageValue": "10"}}
    async with world(clock) as w:
        deploy(w, 1)
        w.annotate(DEPLOYMENTS, "web", **{"kubesched__io_cpu-load": "300m"})
        autoscale(w, metrics=[{"type": "Resource", "resource": cpu}, {"type": "Pods", "pods": qps}])
        await w.until(lambda: replicas(w) == 3, 60)
        assert "FailedGetPodsMetric" in w.reasons("web")
        await clock.advance(60)
        assert conditions(w)["ScalingActive"] == ("True", "ValidMetricFound")
        w.annotate(DEPLOYMENTS, "web", **{"kubesched__io_cpu-load": "0"})
        await clock.advance(900)
        assert (replicas(w), conditions(w)["ScalingActive"]) == (3, ("False", "FailedGetPodsMetric"))


@virtual_time
async def test_metrics_of_pods_and_nodes(clock: VirtualClock) -> None:
    """The metrics API sums what annotations say, by container, pod and node; a wrong value becomes an event."""
    async with world(clock, nodes=1) as w:
        spec = {"containers": [CONTAINER, {"name": "side", "image": "nginx"}]}
        w.create(PODS, "one", spec, annotations={CPU_USAGE: "250m", MEMORY_USAGE: "50%"}, labels={"app": "one"})
        w.create(PODS, "two", spec, annotations={CPU_USAGE: "lots"})
        await w.until(lambda: len(w.running()) == 2)
        pods = await read(w, "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods")
        usage = {item["metadata"]["name"]: item["containers"] for item in pods["items"]}
        assert usage["one"] == [
            {"name": "main", "usage": {"cpu": "125m", "memory": "51200Ki"}},
            {"name": "side", "usage": {"cpu": "125m", "memory": "0Ki"}},
        ]
        assert usage["two"][0]["usage"] == {"cpu": "0m", "memory": "0Ki"}
        node = await read(w, "/apis/metrics.k8s.io/v1beta1/nodes/node-1")
        assert (node["kind"], node["usage"]) == ("NodeMetrics", {"cpu": "250m", "memory": "51200Ki"})
        assert "InvalidAnnotation" in w.reasons("two")


@virtual_time
async def test_a_wrong_load_is_told_to_who_reads_metrics(clock: VirtualClock) -> None:
    """Without an autoscaler too: kubectl top shows nothing, and an event on the workload says why."""
    async with world(clock, nodes=1) as w:
        deploy(w, 1)
        w.access.edit(DEPLOYMENTS, "default/web", lambda obj: obj["metadata"].update(annotations={CPU_LOAD: "-3"}))
        await w.until(lambda: len(w.running()) == 1)
        for _ in range(2):
            await read(w, "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods")
        assert w.reasons("web").count("InvalidAnnotation") == 1


def test_version_1_is_another_form_of_the_same_object() -> None:
    """An autoscaler written as v1 is read as v2, and what v1 cannot say survives in annotations."""
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 5}},
    }
    other = {
        "type": "Resource",
        "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1"}},
    }
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 1}}
    spec = {"maxReplicas": 3, "scaleTargetRef": TARGET, "metrics": [metric, other], "behavior": behavior}
    stored = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "a"},
        "spec": spec,
    }
    old = autoscaler_to_v1(stored)
    assert old["spec"] == {"maxReplicas": 3, "scaleTargetRef": TARGET, "targetCPUUtilizationPercentage": 5}
    again = autoscaler_to_v2(old)
    assert (again["spec"], again["metadata"]) == (spec, {"name": "a"})
    for form in (stored, old):
        cells = COLUMNS["autoscaling/horizontalpodautoscalers"].cells(form, 0.0)
        assert cells[:3] == ["a", "Deployment/web", cells[2]]
        assert str(cells[2]).startswith("cpu: <unknown>/5%")


@pytest.mark.parametrize("text", ["", "-1", "-5%", "much", "1.5%"])
def test_amounts_that_cannot_be_read(text: str) -> None:
    """Amounts and percentages are not negative."""
    with pytest.raises(ValueError, match="expected an amount"):
        read_usage(text)


def test_metrics_of_another_source_say_that_nothing_serves_them() -> None:
    """Custom and external metrics have no API here."""
    pod = PodUsage({"metadata": {"name": "a"}, "spec": {"containers": [CONTAINER]}, "status": {}}, {"main": {"cpu": 0}})
    with pytest.raises(MetricError, match="none is served in this cluster"):
        recommend({"type": "External", "external": {}}, 1, [pod], 0)


@given(st.integers(1, 50), st.integers(0, 500), st.integers(1, 60), st.sampled_from(["Max", "Min", "Disabled"]))
def test_scaling_rules_hold_their_bounds(current: int, wanted: int, value: int, select: str) -> None:
    """Whatever is recommended, the result is within the bounds and moves no further than the policies allow."""
    policies = [
        {"type": "Pods", "value": value, "periodSeconds": 15},
        {"type": "Percent", "value": value, "periodSeconds": 60},
    ]
    rule = {"selectPolicy": select, "policies": policies, "stabilizationWindowSeconds": 0}
    rules = ScalingRules.of({"maxReplicas": 60, "behavior": {"scaleUp": rule, "scaleDown": rule}})
    result, verdict = rules.limited(ScalingHistory(), 0.0, current, wanted)
    assert 1 <= result <= 60
    assert min(current, wanted) <= max(result, 1) <= max(current, wanted, 1)
    assert abs(result - current) <= max(value, -(-current * value // 100)) + 1
    assert (result == wanted) is (verdict[0] == "False")
