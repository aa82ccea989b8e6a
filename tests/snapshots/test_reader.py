"""Every format that people have is read by one function, recognised by its content."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kubesched.base.annotations import RUN_TIME
from kubesched.library.cluster import Cluster
from kubesched.snapshots.contents import Contents, Event
from kubesched.snapshots.reader import ManifestError, Reader, load
from kubesched.snapshots.recording import RecordingWriter

NODE: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
POD: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p1", "namespace": "a"}, "spec": {}}


def read(data: bytes | str, path: Path) -> Contents:
    """What a file with this content has."""
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return load(path)


def names(contents: Contents) -> list[tuple[str, str]]:
    """Kind and name of the objects at the start."""
    return [(each.kind, each.key[3]) for each in contents.items]


def test_a_compressed_list(tmp_path: Path) -> None:
    """gzip is recognised by its first bytes, whatever the name, and a file that was cut off gives what it has."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [NODE, POD]}).encode()
    assert names(read(gzip.compress(text), tmp_path / "x")) == [("Node", "n1"), ("Pod", "p1")]
    with pytest.raises(ManifestError, match="cannot be decompressed"):
        read(b"\x1f\x8bnothing", tmp_path / "x")


def test_the_export_of_kube_scheduler_simulator(tmp_path: Path) -> None:
    """Objects without kinds under the names of the export, and the scheduler's configuration."""
    tree = {
        "pods": [{"metadata": {"name": "p1", "namespace": "default"}, "spec": {}}],
        "nodes": [{"metadata": {"name": "n1"}}],
        "pvs": [],
        "pvcs": None,
        "storageClasses": [{"metadata": {"name": "fast"}, "provisioner": "x"}],
        "priorityClasses": [],
        "namespaces": [{"metadata": {"name": "default"}}],
        "schedulerConfig": {"profiles": [{"schedulerName": "mine"}]},
    }
    for text in (json.dumps(tree), yaml.safe_dump(tree)):
        found = read(text, tmp_path / "export")
        kinds = [("Namespace", "default"), ("StorageClass", "fast"), ("Node", "n1"), ("Pod", "p1")]
        assert names(found) == kinds
        assert found.config == {"profiles": [{"schedulerName": "mine"}]}
    with pytest.raises(ManifestError, match=r"pods\[0\]: expected an object, got 1"):
        read(json.dumps({"pods": [1]}), tmp_path / "export")


def test_an_export_of_an_older_kube_scheduler_simulator(tmp_path: Path) -> None:
    """It lists every plugin by name; those that are gone are left out, with their arguments."""
    enabled = [{"name": "NodeResourcesFit"}, {"name": "EBSLimits"}]
    profile = {"plugins": {"filter": {"enabled": enabled}}, "pluginConfig": [{"name": "EBSLimits", "args": {}}]}
    found = read(json.dumps({"pods": [], "schedulerConfig": {"profiles": [profile]}}), tmp_path / "export")
    assert found.config == {
        "profiles": [{"plugins": {"filter": {"enabled": [{"name": "NodeResourcesFit"}]}}, "pluginConfig": []}]
    }


def test_what_was_there_before_a_record_of_kube_scheduler_simulator(tmp_path: Path) -> None:
    """Its lines have times of a zone, with nanoseconds, and objects are added when it has read their kind."""

    def line(time: str, obj: dict[str, Any], created: str) -> str:
        obj = {**obj, "metadata": {**obj["metadata"], "creationTimestamp": created}}
        return json.dumps({"time": time, "event": "Add", "resource": obj}) + "\n"

    text = line("2026-01-01T09:00:00.123456789+09:00", NODE, "2025-12-31T00:00:00Z")
    text += line("2026-01-01T09:00:00.35+09:00", POD, "2025-12-31T23:59:00Z")
    text += line("2026-01-01T09:00:02.123456789+09:00", {**POD, "metadata": {"name": "new"}}, "2026-01-01T00:00:02Z")
    found = read(text, tmp_path / "record.jsonl")
    assert names(found) == [("Node", "n1"), ("Pod", "p1")]
    assert [(round(each.seconds, 3), each.item.key[3]) for each in found.changes] == [(2.0, "new")]


def test_the_record_of_kube_scheduler_simulator(tmp_path: Path) -> None:
    """JSON lines with times; a deletion has only the name."""
    lines = [
        {"time": "2026-01-01T00:00:00Z", "event": "Add", "resource": NODE},
        {"time": "2026-01-01T00:00:02.5Z", "event": "Add", "resource": POD},
        {"time": "2026-01-01T00:00:04Z", "event": "Update", "resource": {**POD, "spec": {"nodeName": "n1"}}},
        {"time": "2026-01-01T00:00:09Z", "event": "Delete", "resource": {k: POD[k] for k in POD if k != "spec"}},
    ]
    found = read("\n".join(map(json.dumps, lines)) + "\n", tmp_path / "record.jsonl")
    assert names(found) == [("Node", "n1")]
    assert [(each.seconds, each.event) for each in found.changes] == [
        (2.5, Event.ADD),
        (4.0, Event.UPDATE),
        (9.0, Event.DELETE),
    ]
    assert [len(found.at(moment)) for moment in (0, 2.5, 9)] == [1, 2, 1]
    with pytest.raises(ManifestError, match=r"event 'Fly' is not known; the events are Add, Update, Delete"):
        read(json.dumps({**lines[0], "event": "Fly"}), tmp_path / "record.jsonl")


def test_the_record_of_kwok(tmp_path: Path) -> None:
    """Objects, then patches: a patch is applied to the object as it was then. Custom kinds are ignored."""

    def change(method: str, seconds: float, template: object = None, resource: str = "pods") -> dict[str, Any]:
        return {
            "apiVersion": "action.kwok.x-k8s.io/v1alpha1",
            "kind": "ResourcePatch",
            "resource": {"version": "v1", "resource": resource},
            "target": {"name": "p1", "namespace": "a"},
            "durationNanosecond": round(seconds * 1e9),
            "method": method,
            **({} if template is None else {"template": template}),
        }

    container = {"name": "c", "image": "one"}
    documents = [
        NODE,
        change("create", 1, {**POD, "spec": {"containers": [container]}}),
        change("patch", 2, {"spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "two"}]}}),
        change("patch", 3, {"status": {"phase": "Running"}}),
        change("create", 3, {}, resource="widgets"),
        change("delete", 4),
    ]
    found = read(yaml.safe_dump_all(documents), tmp_path / "kwok.yaml")
    assert names(found) == [("Node", "n1")]
    (pod,) = (each for each in found.at(3) if each.kind == "Pod")
    assert pod.body()["spec"] == {"nodeName": "n1", "containers": [{"name": "c", "image": "two"}]}
    assert pod.body()["status"] == {"phase": "Running"}
    assert names(Contents(found.at())) == [("Node", "n1")]
    assert found.seconds == 4.0
    for wrong, problem in (
        (change("fly", 1), "method must be create, patch or delete"),
        (change("create", 1, ["x"]), "must be objects"),
        (change("create", 1, {"metadata": ["x"]}), "must be objects"),
        (change("patch", 1) | {"resource": ["pods"]}, "must be objects"),
        (change("create", 1) | {"durationNanosecond": 10**19}, "more than a hundred years"),
    ):
        with pytest.raises(ManifestError, match=problem):
            read(yaml.safe_dump(wrong), tmp_path / "kwok.yaml")


def test_the_snapshot_of_kwok(tmp_path: Path) -> None:
    """Its objects have no versions, yet they were read from a cluster: a Deployment has the pods that are there."""
    meta = {"namespace": "a", "creationTimestamp": "$(time-offset-nanosecond -3000000001)"}
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u1", "controller": True}
    pod = {"containers": [{"name": "c", "image": "one"}]}
    documents = [
        NODE,
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {**meta, "name": "web", "uid": "u1"},
            "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": {"spec": pod}},
        },
        {**POD, "metadata": {**meta, "name": "web-1", "uid": "u2", "ownerReferences": [owner]}, "spec": pod},
    ]
    (tmp_path / "kwok.yaml").write_text(yaml.safe_dump_all(documents))
    cluster = Cluster.load(tmp_path / "kwok.yaml")
    assert [(each.name, each.metadata.creation_timestamp) for each in cluster.pods] == [
        ("web-1", "2025-12-31T23:59:56Z")
    ]


def test_the_trace_of_simkube(tmp_path: Path) -> None:
    """msgpack with tuples as keys: objects at their times, and pods that run as long as the owner's pods did."""
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "a"},
        "spec": {"template": {}},
    }
    lives = {("batch/v1.Job", "a/j"): {1234: [{"Finished": [10, 40]}, {"Finished": [10, 20]}, {"Running": 5}, "Empty"]}}
    trace = {
        "version": 2,
        "config": {},
        "events": [
            {"ts": 1_700_000_000, "applied_objs": [NODE], "deleted_objs": []},
            {"ts": 1_700_000_060, "applied_objs": [job], "deleted_objs": [NODE]},
        ],
        "index": {},
        "pod_lifecycles": lives,
    }
    found = read(msgspec.msgpack.encode(trace), tmp_path / "trace.sktrace")
    assert names(found) == [("Node", "n1")]
    assert [(each.seconds, each.event, each.item.kind) for each in found.changes] == [
        (60.0, Event.ADD, "Job"),
        (60.0, Event.DELETE, "Node"),
    ]
    body = found.changes[0].item.body()
    assert body["spec"]["template"]["metadata"]["annotations"] == {RUN_TIME: "20s"}
    assert found.started == 1_700_000_000
    with pytest.raises(ManifestError, match="not a simkube trace"):
        read(b"\x81applied_objs", tmp_path / "trace.sktrace")
    first = {"ts": 0, "applied_objs": []}
    wrong: tuple[list[Any], ...] = (
        [{"ts": 1, "applied_objs": [None]}],
        [{"ts": 1, "applied_objs": 5}],
        [{"applied_objs": []}],
        ["x"],
        [first, {"ts": 1e300}],
        [first, {"ts": float("nan")}],
    )
    for events in wrong:
        with pytest.raises(ManifestError, match="not a simkube trace"):
            read(msgspec.msgpack.encode({"events": events, "x": "applied_objs"}), tmp_path / "trace.sktrace")
    for life in (5, [{"Finished": [0, float("inf")]}], [{"Finished": [1e308, -1e308]}]):
        odd = trace | {"pod_lifecycles": {("batch/v1.Job", "a/j"): {1: life}}}
        spec = read(msgspec.msgpack.encode(odd), tmp_path / "trace.sktrace").changes[0].item.body()["spec"]
        assert spec == {"template": {}}


def test_our_own_recording(tmp_path: Path) -> None:
    """What is written is read again, also if the end is missing."""
    path, clock = tmp_path / "r.jsonl.gz", iter((100.0, 107.5, 110.0))
    writer = RecordingWriter(path, lambda: next(clock))
    writer.initial(NODE)
    writer.change(Event.ADD, POD)
    writer.close()
    found = load(path)
    assert (names(found), found.started, found.seconds) == ([("Node", "n1")], 100.0, 10.0)
    assert [(each.seconds, each.item.body()) for each in found.changes] == [(7.5, POD)]
    text = gzip.decompress(path.read_bytes())
    cut = read(text[:-20], tmp_path / "cut.jsonl")
    assert (len(cut.items), len(cut.changes)) == (1, 1)


def test_times_without_a_zone_and_at_the_end_of_time(tmp_path: Path) -> None:
    """The former cannot be compared with others, and after the latter there is no time."""
    first = {"time": "2026-01-01T00:00:00Z", "event": "Add", "resource": NODE}
    lines = [first, first | {"time": "2026-01-01T00:00:00"}, first]
    with pytest.raises(ManifestError, match=r"line 2: .*timezone"):
        read("\n".join(map(json.dumps, lines)), tmp_path / "record.jsonl")
    for created in ("2025-01-01T00:00:00", "9999-12-31T23:59:59Z"):
        late = {**POD, "metadata": {**POD["metadata"], "creationTimestamp": created}}
        lines = [first, {"time": "2026-01-01T00:00:09Z", "event": "Add", "resource": late}]
        assert len(read("\n".join(map(json.dumps, lines)), tmp_path / "record.jsonl").changes) == 1


def test_memory_that_is_not_there_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small compressed file may need more than there is."""

    def decompressed(_: bytes) -> tuple[bytes, bool]:
        raise MemoryError

    monkeypatch.setattr("kubesched.snapshots.reader.decompressed", decompressed)
    with pytest.raises(ManifestError, match="not enough memory"):
        read("{}", tmp_path / "bomb.json")


def test_a_folder_with_what_stands_beside_manifests(tmp_path: Path) -> None:
    """Kustomizations and values are no objects; several formats in one folder are."""
    (tmp_path / "kustomization.yaml").write_text("resources: [a.yaml]")
    (tmp_path / "values.yaml").write_text("replicas: 3")
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(NODE))
    (tmp_path / "b.json").write_text(json.dumps(POD))
    assert names(load(tmp_path)) == [("Node", "n1"), ("Pod", "p1")]


def test_kinds_of_any_name_are_kept(tmp_path: Path) -> None:
    """A custom kind may end in List, and no kind is an error."""
    custom = {"apiVersion": "example.com/v1", "kind": "BlockList", "metadata": {"name": "b"}}
    assert names(read(json.dumps(custom), tmp_path / "x.json")) == [("BlockList", "b")]
    assert names(read(yaml.safe_dump(custom), tmp_path / "x.yaml")) == [("BlockList", "b")]


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_garbage_is_a_problem_and_never_a_crash(data: bytes) -> None:
    """Whatever a file has, reading it ends with objects or with messages."""
    reader = Reader()
    reader.read_text(data, "file")
    reader.read_text(gzip.compress(data), "file")
    assert all(each.startswith("file") for each in reader.problems)


def test_files_that_were_cut_off_are_named_as_such(tmp_path: Path) -> None:
    """The error is about JSON, not about the YAML that it might have been, and a compressed file says so too."""
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [NODE, POD]}).encode()
    with pytest.raises(ManifestError, match="x: not valid JSON: Input data was truncated"):
        read(text[:60], tmp_path / "x")
    with pytest.raises(ManifestError, match="x: the compressed file is cut off"):
        read(gzip.compress(text)[:-9], tmp_path / "x")
    assert names(read("{apiVersion: v1, kind: Node, metadata: {name: n1}}", tmp_path / "x")) == [("Node", "n1")]
