"""A session of `kubesched up` is recorded and replayed: with the same decisions, at any speed, from Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_up import Up, eventually

import kubesched
from kubesched.client.protocol import ApiError
from kubesched.simulator import simulate
from kubesched.simulator.replay import STEP_SECONDS

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PODS = "/api/v1/namespaces/default/pods"


def workload(name: str, replicas: int, cpu: str, run_time: str = "", **spec: Any) -> dict[str, Any]:
    """A Deployment, or with a run time a Job."""
    labels = {"app": name}
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}
    template: dict[str, Any] = {"metadata": {"labels": labels}, "spec": {"containers": [container], **spec}}
    if not run_time:
        body = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": body}
    template["metadata"]["annotations"] = {"kubesched.io/run-time": run_time}
    template["spec"]["restartPolicy"] = "Never"
    body = {"parallelism": replicas, "completions": replicas, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": body}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A recording of a busy minute, shortened, and the snapshot of its end."""
    folder = tmp_path_factory.mktemp("recorded")
    recording, taken = folder / "r.jsonl.gz", folder / "s.json.gz"
    up = Up(folder, "--nodes=6", "--ui=false", "--record=own.jsonl.gz")
    try:
        with kubesched.record(recording, kubeconfig=up.kubeconfig) as going:
            act(up)
            kubesched.snapshot(taken, kubeconfig=up.kubeconfig)
        assert going.lines > 60
        going.stop()  # a second time changes nothing
        up.process.terminate()
        up.process.wait()
    finally:
        up.process.kill()
        up.process.wait()
    return recording, taken


def act(up: Up) -> None:
    """Deployments, Jobs that end, a cordon, a scale-down, and pods that push others away."""

    def seen(running: int, ended: int) -> bool:
        phases = [each["status"]["phase"] for each in up.call("GET", PODS)["items"]]
        return (phases.count("Running"), phases.count("Succeeded")) == (running, ended)

    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    up.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", high)
    up.call("POST", DEPLOYMENTS, workload("web", 8, "900m"))
    up.call("POST", "/apis/batch/v1/namespaces/default/jobs", workload("job", 4, "700m", "2s"))
    # They run long enough that none ends in the middle of a decision, which would see that or not.
    eventually(lambda: seen(8, 4))
    up.call("POST", DEPLOYMENTS, workload("wide", 5, "2"))
    eventually(lambda: seen(13, 4))
    up.call("POST", DEPLOYMENTS, workload("urgent", 3, "2500m", priorityClassName="high"))
    eventually(
        lambda: (
            sum(
                each["status"]["phase"] == "Running"
                for each in up.call("GET", f"{PODS}?labelSelector=app%3Durgent")["items"]
            )
            == 3
        )
    )


def test_the_decisions_are_the_recorded_ones(recorded: tuple[Path, Path]) -> None:
    """Pods arrive as they did, and go where they went, those that preempt others too; all in data frames."""
    report = simulate(recorded[0], arrivals=True)
    assert report.error == ""
    assert report.agreement is not None
    assert report.agreement.moved == []
    assert report.agreement.same >= 20
    frame = report.to_frame()
    assert list(frame.columns) == ["pod", "node", "phase", "bound after", "reason"]
    assert len(frame) == len(report.placements) + len(report.pending)
    assert set(report.timeline_frame()["what"]) >= {"created", "bound", "running", "succeeded", "deleted"}
    assert len(report.nodes_frame()) == 6
    assert report.usage_frame()["cpu"].max() > 0.3
    assert "pods bound" in str(report)


def test_the_schedulers_own_recording_repeats_every_decision(recorded: tuple[Path, Path]) -> None:
    """What the scheduler wrote itself has every attempt, and each one ends as it ended."""
    report = simulate(recorded[0].with_name("own.jsonl.gz"))
    assert report.error == ""
    assert report.decisions is not None
    assert report.decisions.differences == []
    assert report.decisions.placed >= 20
    assert report.passed


def test_everything_is_replayed_at_a_speed(recorded: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Real time passes as the speed says, in short steps, and what happens does not depend on it."""
    slept: list[float] = []
    monkeypatch.setattr("kubesched.simulator.replay.time.sleep", slept.append)
    fast = simulate(recorded[0])
    assert slept == []
    slow = simulate(recorded[0], speed=2)
    assert slow.digest == fast.digest
    assert sum(slept) == pytest.approx(slow.virtual_seconds / 2, abs=0.01)
    assert max(slept) <= STEP_SECONDS + 1e-9


def test_a_snapshot_from_python(recorded: tuple[Path, Path]) -> None:
    """The file has the end of the session; as a cluster it answers questions."""
    cluster = kubesched.Cluster.load(recorded[1])
    assert len(cluster.nodes) == 6
    assert len(cluster.pods) >= 18  # one that was pushed away may not be created again yet
    assert cluster.capacity(workload("more", 1, "500m")).total > 0


def test_errors_are_raised_in_the_callers_thread(tmp_path: Path) -> None:
    """A kubeconfig that is not there, and a server that is not."""
    with pytest.raises(FileNotFoundError):
        kubesched.snapshot(kubeconfig=tmp_path / "none")
    text = (
        "{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: c}}],"
        " clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]}"
    )
    (tmp_path / "config").write_text(text)
    with pytest.raises((OSError, ApiError)):
        kubesched.snapshot(kubeconfig=tmp_path / "config")
