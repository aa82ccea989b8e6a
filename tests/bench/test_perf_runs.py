"""Workloads in scheduler_perf's format, run on an API server and a scheduler in this process."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubesched.bench.perf.executor import Collected
from kubesched.bench.perf.format import load_runs
from kubesched.bench.perf.throughput import Sampler, summarize
from kubesched.bench.perf_runs import IN_PROCESS, run_all, run_one

FILES = {
    "pod.yaml": """
apiVersion: v1
kind: Pod
metadata: {generateName: pod-, labels: {type: "%s"}}
spec:
  terminationGracePeriodSeconds: 0
  priority: %d
  containers: [{name: c, image: i, resources: {requests: {cpu: "%s"}}}]
""",
    "any.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 'any-{{.Index}}'}\n",
    "gate.yaml": """
apiVersion: v1
kind: Pod
metadata: {name: "gated-{{.Index}}", labels: {type: gated}}
spec:
  schedulingGates: [{name: wait}]
  containers: [{name: c, image: i}]
""",
    "ungate.yaml": """
apiVersion: v1
kind: Pod
metadata: {name: "gated-{{.Index}}", labels: {type: gated}}
spec:
  containers: [{name: c, image: i}]
""",
    "class.yaml": """
apiVersion: resource.k8s.io/v1beta2
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: 'device.driver == "d.example.com"'}}]}
""",
    "claim.yaml": """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: "claim-{{.Index}}"}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}
""",
    "claim-template.yaml": """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}}
""",
    "claiming.yaml": """
apiVersion: v1
kind: Pod
metadata: {generateName: claiming-}
spec:
  terminationGracePeriodSeconds: 0
  resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
  containers: [{name: c, image: i}]
""",
    "pv.yaml": """
apiVersion: v1
kind: PersistentVolume
spec:
  accessModes: [ReadOnlyMany]
  capacity: {storage: 1Gi}
  csi: {driver: disk.example.com}
  persistentVolumeReclaimPolicy: Retain
""",
    "pvc.yaml": """
apiVersion: v1
kind: PersistentVolumeClaim
spec: {accessModes: [ReadOnlyMany], resources: {requests: {storage: 1Gi}}}
""",
}
MEASURED = "{opcode: createPods, count: 4, collectMetrics: true, podTemplatePath: small.yaml}"


def prepare(folder: Path, *operations: str) -> Path:
    """A folder with one workload of these operations, and with templates."""
    for name, text in FILES.items():
        (folder / name).write_text(text)
    pod = FILES["pod.yaml"]
    (folder / "small.yaml").write_text(pod % ("small", 0, "100m"))
    (folder / "low.yaml").write_text(pod % ("low", 0, "900m"))
    (folder / "high.yaml").write_text(pod % ("high", 10, "3700m"))
    lines = "\n".join(f"  - {operation}" for operation in operations)
    text = f"- name: Case\n  workloadTemplate:\n{lines}\n  workloads: [{{name: one}}]\n"
    (folder / "performance-config.yaml").write_text(text)
    return folder


async def collected(folder: Path, *operations: str) -> list[Collected]:
    """What a workload of these operations measures."""
    (run,) = load_runs(prepare(folder, *operations))
    assert run.problem == ""
    return await run_one(run, IN_PROCESS, None, 20.0)


@pytest.mark.parametrize(
    "operations",
    [
        pytest.param(["{opcode: createNodes, count: 3}", MEASURED], id="plain"),
        pytest.param(
            [
                "{opcode: createNodes, count: 2}",
                "{opcode: createPods, count: 8, podTemplatePath: low.yaml}",
                "{opcode: createPods, count: 2, collectMetrics: true, podTemplatePath: high.yaml}",
            ],
            id="preemption",
        ),
        pytest.param(
            [
                "{opcode: createNodes, count: 2, labelNodePrepareStrategy: {labelKey: zone, labelValues: [a, b]}}",
                "{opcode: createNamespaces, prefix: set, count: 2}",
                "{opcode: createPodSets, count: 2, namespacePrefix: set,"
                " createPodsOp: {opcode: createPods, count: 2, podTemplatePath: small.yaml}}",
                "{opcode: createAny, templatePath: any.yaml, namespace: set-0, count: 2}",
                "{opcode: deletePods, namespace: set-0, deletePodsPerSecond: 100, skipWaitToCompletion: true}",
                "{opcode: churn, mode: recreate, number: 1, templatePaths: [small.yaml], intervalMilliseconds: 5}",
                "{opcode: sleep, duration: 20ms}",
                MEASURED,
            ],
            id="sets, churn, deletion",
        ),
        pytest.param(
            [
                "{opcode: createNodes, count: 2}",
                "{opcode: startCollectingMetrics, namespaces: [gates], labelSelector: {type: gated}}",
                "{opcode: createPods, count: 3, namespace: gates, podTemplatePath: gate.yaml,"
                " skipWaitToCompletion: true}",
                "{opcode: updateAny, templatePath: ungate.yaml, namespace: gates, count: 3, updatePerSecond: 100}",
                "{opcode: barrier, labelSelector: {type: gated}}",
                "{opcode: stopCollectingMetrics}",
            ],
            id="gates that go",
        ),
        pytest.param(
            [
                "{opcode: createNodes, count: 2, nodeAllocatableStrategy:"
                " {csiNodeAllocatable: {disk.example.com: {count: 5}}}}",
                "{opcode: createPods, count: 3, collectMetrics: true, podTemplatePath: small.yaml,"
                " persistentVolumeTemplatePath: pv.yaml, persistentVolumeClaimTemplatePath: pvc.yaml}",
            ],
            id="volumes",
        ),
        pytest.param(
            [
                "{opcode: createNodes, count: 2}",
                "{opcode: createResourceDriver, driverName: d.example.com, nodes: 'node-*', maxClaimsPerNode: 4}",
                "{opcode: createAny, templatePath: class.yaml}",
                "{opcode: createResourceClaims, templatePath: claim.yaml, namespace: init, count: 2}",
                "{opcode: allocResourceClaims, namespace: init}",
                "{opcode: createAny, templatePath: claim-template.yaml, namespace: test}",
                "{opcode: createPods, namespace: test, count: 2, steadyState: true, duration: 300ms,"
                " podTemplatePath: claiming.yaml, collectMetrics: true}",
            ],
            id="devices",
        ),
    ],
)
async def test_operations(tmp_path: Path, operations: list[str]) -> None:
    """Every operation does its part: the measured pods are scheduled."""
    (measured,) = await collected(tmp_path, *operations)
    assert measured.throughput["pods"] >= 2


async def test_a_failure_is_a_reason(tmp_path: Path) -> None:
    """A workload that fails is listed with the reason, and the others run."""
    bad = prepare(tmp_path, "{opcode: createAny, templatePath: any.yaml}", MEASURED)
    said: list[str] = []
    (result,) = await run_all(load_runs(bad), IN_PROCESS, None, 20.0, said.append)
    assert "a namespace is needed" in result["problem"]
    assert said == ["Case/one…"]


def test_samples_follow_scheduler_perf() -> None:
    """The first second with pods starts the clock; seconds without pods share the rate of the next."""
    sampler = Sampler()
    counts = [0, 0, 100, 300, 300, 300, 600]
    samples = [rate for second, count in enumerate(counts) for rate in sampler.take(float(second), count)]
    assert samples == [200.0, 100.0, 100.0, 100.0]
    summary = summarize(samples, 600, 6.0)
    assert (summary["average"], summary["perc50"], summary["perc99"]) == (125.0, 100.0, 200.0)
    assert summarize([], 5, 0.1)["samples"] == 0
