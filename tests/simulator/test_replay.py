"""Replays of recordings that have workloads and no pods, as simkube writes them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from kubesched.cli.main import main
from kubesched.simulator import simulate
from kubesched.simulator.replay import replay_of
from kubesched.simulator.report import Agreement
from kubesched.simulator.run import run
from kubesched.simulator.settings import ReplayMode

CLUSTER = """
{apiVersion: v1, kind: Node, metadata: {name: n1}}
---
apiVersion: v1
kind: Pod
metadata: {name: old, namespace: default, uid: u, resourceVersion: "1"}
spec: {nodeName: n1, containers: [{name: m, image: x}]}
"""


def deployment(replicas: int) -> dict[str, Any]:
    """A Deployment as it was applied."""
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "m", "image": "x"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    meta = {"name": "web", "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


def test_controllers_make_the_pods_of_a_trace_without_pods(tmp_path: Path) -> None:
    """Applied, scaled down and watched until the end; nodes come from another file, which may have pods."""
    events = [
        {"ts": 100, "applied_objs": [], "deleted_objs": []},
        {"ts": 160, "applied_objs": [deployment(3)], "deleted_objs": []},
        {"ts": 220, "applied_objs": [deployment(1)], "deleted_objs": []},
        {"ts": 280, "applied_objs": [], "deleted_objs": []},
    ]
    trace = {"version": 2, "config": {}, "events": events, "index": {}, "pod_lifecycles": {}}
    (tmp_path / "t.sktrace").write_bytes(msgspec.msgpack.encode(trace))
    (tmp_path / "n.yaml").write_text(CLUSTER)
    arguments = ["simulate", "--from", str(tmp_path / "t.sktrace"), "--from", str(tmp_path / "n.yaml"), "-o", "json"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    created = [each["time"] for each in report["timeline"] if each["what"] == "created" and each["kind"] == "Pod"]
    assert [round(each) for each in created] == [0, 60, 60, 60]
    deleted = [each["time"] for each in report["timeline"] if each["what"] == "deleted" and each["kind"] == "Pod"]
    assert [120 <= each < 125 for each in deleted] == [True, True]
    assert report["virtualSeconds"] == 180


def test_pods_of_their_own_in_a_trace_without_decisions(tmp_path: Path) -> None:
    """They are scheduled and run as long as they ran; JSON that was made from the trace is read, too."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"}}
    pod |= {"spec": {"containers": [{"name": "m", "image": "x"}], "restartPolicy": "Never"}}
    trace: dict[str, Any] = {
        "version": 2,
        "config": {"trackedObjects": {"v1.Pod": {"trackLifecycle": True, "skipOwned": True}}},
        "events": [
            {"ts": 100, "applied_objs": [], "deleted_objs": []},
            {"ts": 110, "applied_objs": [pod], "deleted_objs": []},
            {"ts": 200, "applied_objs": [], "deleted_objs": []},
        ],
        "index": {},
    }
    nodes = tmp_path / "n.yaml"
    nodes.write_text(CLUSTER)
    lives = {("v1.Pod", "a/p"): {7: [{"Finished": [110, 122]}]}}
    (tmp_path / "t.sktrace").write_bytes(msgspec.msgpack.encode({**trace, "pod_lifecycles": lives}))
    (tmp_path / "t.json").write_text(json.dumps({**trace, "pod_lifecycles": {}}))
    for file, phases in (("t.sktrace", ["created", "bound", "running", "succeeded"]), ("t.json", ["created", "bound"])):
        report = run(replay_of(tmp_path / file, nodes))
        happened = [(each.what, round(each.time)) for each in report.timeline if each.name == "a/p"]
        assert [what for what, _ in happened][: len(phases)] == phases
        assert report.agreement is None
        if "succeeded" in phases:
            assert dict(happened)["succeeded"] == 10 + 12


def test_a_trace_whose_changes_are_all_at_its_start(tmp_path: Path) -> None:
    """Time passes all the same, so that pods are scheduled."""
    gone = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "gone", "namespace": "default"}}
    events = [{"ts": 100, "applied_objs": [deployment(2)], "deleted_objs": [gone]}]
    trace = {"version": 2, "config": {}, "events": events, "index": {}, "pod_lifecycles": {}}
    (tmp_path / "t.sktrace").write_bytes(msgspec.msgpack.encode(trace))
    (tmp_path / "n.yaml").write_text(CLUSTER)
    report = run(replay_of(tmp_path / "t.sktrace", tmp_path / "n.yaml"))
    assert (len(report.placements), report.pending) == (3, [])


KWOK = """\
apiVersion: v1
kind: Node
metadata:
  annotations:
    kwok.x-k8s.io/node: fake
  creationTimestamp: $(time-offset-nanosecond -7043219000)
  name: node-000000
  uid: 5a1e8f44-0001-4000-8000-000000000001
spec: {}
status:
  allocatable: {cpu: "32", memory: 256Gi, pods: "110"}
  conditions:
  - lastHeartbeatTime: $(time-offset-nanosecond -1043219000)
    lastTransitionTime: $(time-offset-nanosecond -7043219000)
    status: "True"
    type: Ready
---
apiVersion: action.kwok.x-k8s.io/v1alpha1
durationNanosecond: 1500000000
kind: ResourcePatch
method: create
resource: {resource: pods, version: v1}
target: {name: pod-0, namespace: default}
template:
  apiVersion: v1
  kind: Pod
  metadata:
    creationTimestamp: $(time-offset-nanosecond 956781000)
    name: pod-0
    namespace: default
    uid: 5a1e8f44-0001-4000-8000-000000000002
  spec:
    containers: [{image: fake, name: main, resources: {requests: {cpu: "1"}}}]
    schedulerName: default-scheduler
  status: {phase: Pending, qosClass: Burstable}
---
apiVersion: action.kwok.x-k8s.io/v1alpha1
durationNanosecond: 1600000000
kind: ResourcePatch
method: patch
resource: {resource: pods, version: v1}
target: {name: pod-0, namespace: default}
template:
  spec: {nodeName: node-000000}
  status:
    $setElementOrder/conditions:
    - type: PodScheduled
    conditions:
    - lastTransitionTime: $(time-offset-nanosecond 956781000)
      status: "True"
      type: PodScheduled
---
apiVersion: action.kwok.x-k8s.io/v1alpha1
durationNanosecond: 2700000000
kind: ResourcePatch
method: patch
resource: {resource: pods, version: v1}
target: {name: pod-0, namespace: default}
template:
  status:
    $setElementOrder/conditions:
    - type: Ready
    - type: PodScheduled
    conditions:
    - lastTransitionTime: $(time-offset-nanosecond 1956781000)
      status: "True"
      type: Ready
    phase: Running
    startTime: $(time-offset-nanosecond 1956781000)
"""


def test_kwok_writes_times_as_offsets(tmp_path: Path) -> None:
    """In kwok's files all times are offsets from the start of a replay: pods have real times and the recorded node."""
    file = tmp_path / "recording.yaml"
    file.write_text(KWOK)
    arrivals = replay_of(file)
    arrivals.replay = ReplayMode.ARRIVALS
    recorded, decided = run(replay_of(file)), run(arrivals)
    assert decided.agreement == Agreement(1, [])
    assert not [each for report in (recorded, decided) for each in report.timeline if each.what == "note"]
    (pod,) = (body for each in recorded.objects if (body := json.loads(each))["kind"] == "Pod")
    assert pod["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert pod["status"] == {
        "conditions": [
            {"lastTransitionTime": "2026-01-01T00:00:01Z", "status": "True", "type": "Ready"},
            {"lastTransitionTime": "2026-01-01T00:00:00Z", "status": "True", "type": "PodScheduled"},
        ],
        "phase": "Running",
        "qosClass": "Burstable",
        "startTime": "2026-01-01T00:00:01Z",
    }


def test_kwok_compresses_by_the_name(tmp_path: Path) -> None:
    """Whatever a file is called, its content decides what it is. kwok's default is a database of etcd."""
    for name in ("recording.yaml.gz", "recording"):
        (tmp_path / name).write_bytes(gzip.compress(KWOK.encode()))
        result = CliRunner().invoke(main, ["simulate", str(tmp_path / name), "--arrivals"])
        assert "1 of 1 pod went where the recording has them" in result.stdout, result.output
    (tmp_path / "snapshot.db").write_bytes(bytes(16) + bytes.fromhex("edda0ced") + bytes(100))
    result = CliRunner().invoke(main, ["simulate", str(tmp_path / "snapshot.db")])
    assert result.exit_code == 1
    assert "kwokctl snapshot save --format k8s writes what can be read here" in result.stderr


def test_objects_that_a_replay_cannot_create_are_named(tmp_path: Path) -> None:
    """A node called n is a node called false in YAML; without a word about it, all pods are pending for no reason."""
    patch = {
        "apiVersion": "action.kwok.x-k8s.io/v1alpha1",
        "kind": "ResourcePatch",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "target": {"name": "p", "namespace": "default"},
        "durationNanosecond": 10**9,
        "method": "create",
        "template": {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {"containers": [{"name": "m", "image": "x"}]},
        },
    }
    file = tmp_path / "record.yaml"
    file.write_text("apiVersion: v1\nkind: Node\nmetadata: {name: n}\n---\n" + yaml.safe_dump(patch))
    result = CliRunner().invoke(main, ["simulate", str(file), "-o", "json"])
    assert result.exit_code == 0, result.output
    notes = [each["text"] for each in json.loads(result.stdout)["timeline"] if each["what"] == "note"]
    assert [each.partition(":")[0] for each in notes] == ["not created"]
    assert "metadata.name" in notes[0]


# --- a recorded scheduler is followed ------------------------------------------------------------------------------


def moment(seconds: float) -> str:
    return f"2026-01-01T00:00:{seconds:09.6f}Z"


class Recording:
    """Lines of a recording of two nodes."""

    def __init__(self) -> None:
        self.version = 0
        self.lines: list[dict[str, Any]] = [{"kind": "Recording", "time": moment(0)}]
        for name in ("n1", "n2"):
            self.node(0, name, event="Add")

    def add(self, seconds: float, event: str, kind: str, meta: dict[str, Any], version: int = 0, **rest: Any) -> None:
        """A line. Without a version it was written after everything before it."""
        self.version = version or self.version + 10
        meta = {"uid": meta["name"], "resourceVersion": str(self.version), **meta}
        resource = {"apiVersion": "v1", "kind": kind, "metadata": meta, **rest}
        self.lines.append({"time": moment(seconds), "event": event, "resource": resource})

    def node(self, seconds: float, name: str, event: str = "Update", version: int = 0, **has: Any) -> None:
        status = {
            "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
            **has,
        }
        self.add(seconds, event, "Node", {"name": name}, version, spec={}, status=status)

    def pod(self, seconds: float, name: str, node: str = "", event: str = "Add") -> None:
        requests = {"requests": {"cpu": "400m", "memory": "1600Mi"}}
        spec: dict[str, Any] = {"containers": [{"name": "m", "image": "x", "resources": requests}]}
        spec |= {"schedulerName": "default-scheduler"} | ({"nodeName": node} if node else {})
        meta = {"name": name, "namespace": "default"}
        self.add(seconds, event, "Pod", meta, spec=spec, status={"phase": "Pending"})

    def bound(self, seconds: float, name: str, node: str) -> None:
        self.pod(seconds, name, node, event="Update")

    def moved(self, folder: Path) -> list[tuple[str, str, str]]:
        """Pods that do not go where they went."""
        file = folder / "r.jsonl"
        file.write_text("".join(json.dumps(each) + "\n" for each in self.lines))
        report = simulate(file, arrivals=True)
        assert report.agreement is not None
        return list(report.agreement.moved)


IMAGE = [{"names": ["x:latest"], "sizeBytes": 400_000_000}]
"""Large enough that a pod prefers a node that has it to one with a little more room."""


def test_nodes_have_images_when_they_had_them(tmp_path: Path) -> None:
    """A kubelet that was slow to report an image is not overtaken by the replay's, nor is one that was fast."""
    slow = Recording()
    slow.pod(1, "a")
    slow.bound(1.1, "a", "n1")
    slow.pod(5, "b")
    slow.bound(5.1, "b", "n2")
    slow.node(6, "n1", images=IMAGE)
    assert slow.moved(tmp_path) == []
    fast = Recording()
    fast.pod(1, "a")
    fast.bound(1.1, "a", "n1")
    fast.node(1.2, "n1", images=IMAGE)
    fast.pod(1.3, "b")
    fast.bound(1.4, "b", "n1")
    assert fast.moved(tmp_path) == []


def test_a_pod_arrives_in_the_first_moment_in_which_it_goes_where_it_went(tmp_path: Path) -> None:
    """What was written between a pod's arrival and its binding was seen by the recorded scheduler, or was not."""
    for second in ("n1", "n2"):
        recording = Recording()
        recording.pod(1, "a")
        recording.bound(1.1, "a", "n1")
        recording.pod(2, "b")
        recording.node(2.05, "n1", images=IMAGE)
        recording.bound(2.1, "b", second)
        assert recording.moved(tmp_path) == []


def test_changes_come_in_the_order_in_which_they_were_written(tmp_path: Path) -> None:
    """The watch of nodes was behind that of pods: the image was there before the second pod was bound."""
    recording = Recording()
    recording.pod(1, "a")
    recording.bound(1.1, "a", "n1")
    recording.pod(2, "b")
    recording.bound(2.1, "b", "n1")
    recording.node(2.15, "n1", version=recording.version - 5, images=IMAGE)
    assert recording.moved(tmp_path) == []


def test_a_decision_that_differs_in_every_moment_is_a_difference(tmp_path: Path) -> None:
    """The replay does not make up moments."""
    recording = Recording()
    recording.pod(1, "a")
    recording.bound(1.1, "a", "n1")
    recording.pod(2, "b")
    recording.bound(2.1, "b", "n1")
    recording.node(2.5, "n1", images=IMAGE)
    assert recording.moved(tmp_path) == [("default/b", "n1", "n2")]


def test_pods_have_started_when_they_started(tmp_path: Path) -> None:
    """Preemption takes the victim that started last, by the second, and the replay's kubelets are slower or faster."""
    recording = Recording()
    spec: dict[str, Any] = {"containers": [{"name": "m", "image": "x", "resources": {"requests": {"cpu": "6"}}}]}
    spec["schedulerName"] = "default-scheduler"

    def change(seconds: float, event: str, name: str, node: str = "", priority: int = 0, **status: Any) -> None:
        body = {**spec, "priority": priority, **({"nodeName": node} if node else {})}
        meta = {"name": name, "namespace": "default"}
        recording.add(seconds, event, "Pod", meta, spec=body, status={"phase": "Pending", **status})

    for name, node, bound, started in (("a", "n1", 1.4, 4), ("b", "n2", 2.4, 3)):
        change(bound - 0.1, "Add", name)
        change(bound, "Update", name, node)
        change(started + 0.5, "Update", name, node, phase="Running", startTime=f"2026-01-01T00:00:0{started}Z")
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    change(6, "Add", "urgent", priority=9)
    change(6.1, "Update", "urgent", priority=9, conditions=[unschedulable], nominatedNodeName="n1")
    target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    change(6.2, "Update", "a", "n1", phase="Running", startTime="2026-01-01T00:00:04Z", conditions=[target])
    recording.lines.append(
        {
            "time": moment(6.4),
            "event": "Delete",
            "resource": {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "a", "namespace": "default", "uid": "a"},
            },
        }
    )
    change(8, "Update", "urgent", "n1", priority=9)
    assert recording.moved(tmp_path) == []


@pytest.mark.parametrize("meta", [{}, {"uid": "u"}])
def test_pods_are_known_by_name_where_a_recording_has_no_uids_that_can_be_kept(
    tmp_path: Path, meta: dict[str, str]
) -> None:
    """A pod written by hand gets a new UID here. It is followed to its node all the same, and counted as there."""
    for name in ("n1", "n2"):
        recording = Recording()
        recording.pod(1, "a")
        recording.bound(1.1, "a", name)
        for each in recording.lines[3:]:
            each["resource"]["metadata"] = {"name": "a", "namespace": "default", **meta}
        assert recording.moved(tmp_path) == []


@pytest.mark.parametrize("tool", ["kube-scheduler-simulator", "kwok"])
def test_a_recorded_victim_without_its_state_at_the_end_is_not_deleted_here(tmp_path: Path, tool: str) -> None:
    """Both tools write only the name of an object that is deleted. The scheduler here may not preempt it."""
    meta = {"name": "victim", "namespace": "default", "uid": "v", "creationTimestamp": moment(1)[:19] + "Z"}
    spec: dict[str, Any] = {"containers": [{"name": "m", "image": "x"}], "schedulerName": "default-scheduler"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": "Pending"}}
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    bound = {"spec": {**spec, "nodeName": "n1"}, "status": {"phase": "Running", "conditions": [condition]}}
    gone = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "victim", "namespace": "default"}}
    if tool == "kwok":
        file = tmp_path / "r.yaml"
        target = {"resource": {"version": "v1", "resource": "pods"}, "target": gone["metadata"]}
        changes = [
            {"durationNanosecond": 10**9, "method": "create", "template": pod},
            {"durationNanosecond": 2 * 10**9, "method": "patch", "template": bound},
            {"durationNanosecond": 9 * 10**9, "method": "delete"},
        ]
        head = {"apiVersion": "action.kwok.x-k8s.io/v1alpha1", "kind": "ResourcePatch", **target}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
        file.write_text(yaml.safe_dump_all([node, *({**head, **each} for each in changes)]))
    else:
        file = tmp_path / "r.jsonl"
        recording = Recording()
        recording.lines = [
            *recording.lines[1:2],
            {"time": moment(1), "event": "Add", "resource": pod},
            {"time": moment(2), "event": "Update", "resource": {**pod, **bound}},
            {"time": moment(9), "event": "Delete", "resource": gone},
        ]
        file.write_text("".join(json.dumps(each) + "\n" for each in recording.lines))
    report = simulate(file, arrivals=True)
    assert [each.node for each in report.placements] == ["n1"]
