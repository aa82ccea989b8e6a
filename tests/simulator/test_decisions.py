"""A scheduler records what its decisions depend on, and a replay makes every one of them again."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner
from tests.scheduler.world import Lines
from tests.simulator.test_comparison import PACKED

from kubesched.api import objects as api
from kubesched.base.clocks import VirtualClock, run_virtual, virtual_time
from kubesched.base.features import DEFAULT_FEATURES
from kubesched.base.log import SILENT
from kubesched.cli.simulate import command
from kubesched.client.faults import Faults
from kubesched.client.protocol import ApiError
from kubesched.config.load import default
from kubesched.plugins import in_tree_registry
from kubesched.scheduler.journal import Journal
from kubesched.scheduler.tasks import Tasks
from kubesched.simulator import ScenarioClient, node, pod, simulate
from kubesched.simulator.cluster import SimulatedCluster
from kubesched.simulator.settings import ClusterOptions
from kubesched.snapshots.journal_file import JournalFile
from kubesched.snapshots.recording import RecordingWriter

NODES, ROUNDS = 8, 14
Act = Callable[[ScenarioClient, Random], Awaitable[None]]
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


def workload(name: str, number: int, seconds: int, **spec: Any) -> dict[str, Any]:
    """A Job whose pods run for so many seconds."""
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": spec.pop("cpu")}}}
    labels, annotations = {"app": name}, {"kubesched.io/run-time": f"{seconds}s"}
    template = {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {"containers": [container], "restartPolicy": "Never", **spec},
    }
    body = {"parallelism": number, "completions": number, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": body}


def claim(name: str) -> dict[str, Any]:
    """A claim that is bound when its first pod is scheduled."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


async def act(client: ScenarioClient, random: Random) -> None:
    """Pods that end, that are deleted, that wait, that preempt, that have volumes; nodes that come and go."""
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    await client.create(high)
    for number in range(NODES):
        await client.create(node(f"n{number}", cpu="4", labels={"zone": f"z{number % 2}"}))
    spread = {**SPREAD, "labelSelector": {"matchLabels": {"app": "spread"}}}
    await client.create(workload("spread", 8, 40, cpu="500m", topologySpreadConstraints=[spread]))
    for number in range(ROUNDS):
        cpu = random.choice(("500m", "1", "2", "3"))
        await client.create(workload(f"job{number}", random.randint(1, 6), random.randint(1, 20), cpu=cpu))
        if number % 5 == 0:
            await client.create(workload(f"urgent{number}", 2, 9, cpu="3", priorityClassName="high"))
            await client.create(claim(f"data{number}"))
            volume = api.Volume("data", persistent_volume_claim=api.PersistentVolumeClaimVolumeSource(f"data{number}"))
            await client.create(pod(f"keeper{number}", cpu="100m", volumes=[volume]))
        if number % 7 == 3:
            await client.patch("Node", f"n{number % NODES}", {"spec": {"unschedulable": number % 2 == 1}})
        if number == 8:
            await client.delete("Node", "n7")
            await client.create(node("n9", cpu="4", labels={"zone": "z1"}))
        if number == 12:
            await client.delete("Pod", "keeper5")
        await client.sleep(random.uniform(0.0, 3.0))
    await client.create(pod("giant", cpu="64"))  # is tried again and again, and never fits
    await client.sleep(15)


async def crowd(client: ScenarioClient, random: Random) -> None:
    """Full nodes, and more and more urgent pods, which often choose the same victims."""
    for value in range(4):
        meta = {"name": f"level{value}"}
        level = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, "value": value}
        await client.create(level)
    for number in range(NODES):
        await client.create(node(f"n{number}", cpu="4", labels={"zone": f"z{number % 2}"}))
    for number in range(50):
        cpu, seconds = random.choice(("1", "2", "3")), random.randint(3, 30)
        urgent = {"cpu": cpu, "priorityClassName": f"level{min(number // 12, 3)}"}
        await client.create(workload(f"job{number}", random.randint(2, 5), seconds, **urgent))
        await client.sleep(random.uniform(0.0, 1.5))


def disturb(faults: Faults, random: Random) -> None:
    """Slow and broken watches, bindings that fail or whose response is lost."""
    faults.delay("watch_event", lambda: random.uniform(0, 0.4))
    faults.delay("bind", lambda: random.uniform(0, 1), answer=True)
    faults.delay("delete_pod", lambda: random.uniform(0, 0.5))
    faults.fail("bind", ApiError(500, "InternalError", "no"), probability=0.1)
    faults.fail("bind", OSError("no route"), probability=0.1, answer_lost=True)
    faults.fail("watch_event", ApiError(410, "Expired", "old"), probability=0.02)
    faults.fail("merge_patch", ApiError(409, "Conflict", "changed"), probability=0.2)


def record(path: Path, seed: int, *, faulty: bool = True, act: Act = act) -> None:
    """Record a busy minute of a cluster."""

    async def main(clock: VirtualClock) -> None:
        random = Random(seed)
        faults, config = Faults(random), default()
        file = JournalFile(path, config, DEFAULT_FEATURES, clock, SILENT)
        journal = Journal(file, clock, Random(seed))
        options = ClusterOptions()
        cluster = SimulatedCluster(clock, seed, options, config, in_tree_registry(), faults=faults, journal=journal)
        assert cluster.scheduler is not None
        file.is_synced = cluster.scheduler.synced.is_set
        await cluster.start()
        if faulty:
            disturb(faults, random)
        await act(ScenarioClient(cluster), random)
        await cluster.stop()
        file.close()

    run_virtual(main)


def lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a recording."""
    with gzip.open(path) as file:
        return [json.loads(line) for line in file]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording under faults."""
    path = tmp_path_factory.mktemp("decisions") / "minute.jsonl.gz"
    record(path, 1)
    return path


def test_the_recording_has_everything_that_matters(recorded: Path) -> None:
    """Placements, preemptions, retries, failed bindings, volumes: without them the tests below would mean little."""
    found = lines(recorded)
    decisions = [each["resource"] for each in found if each.get("event") == "Decision"]
    tries = Counter(each["uid"] for each in decisions)
    assert sum(bool(each["node"]) for each in decisions) > 40
    assert sum("nominated" in each for each in decisions) >= 2
    assert max(tries.values()) > 2
    responses = [each["resource"] for each in found if each.get("event") == "Call"]
    calls = Counter((each["call"], "error" in each) for each in responses)
    assert calls["bind", True] >= 2
    assert calls["merge_patch", False] >= 2
    assert calls["delete_pod", False] >= 2


@pytest.mark.parametrize(("seed", "faulty"), [(1, True), (2, False), (3, True)])
def test_every_decision_is_made_again(seed: int, faulty: bool, tmp_path: Path) -> None:
    """Whatever was late, broken or lost: the replay agrees in every field of every decision."""
    path = tmp_path / "minute.jsonl.gz"
    record(path, seed, faulty=faulty)
    report = simulate(path)
    assert report.error == ""
    assert report.decisions is not None
    assert report.decisions.differences == []
    assert report.decisions.same == sum(each.get("event") == "Decision" for each in lines(path))
    assert report.decisions.placed > 40
    assert report.passed


@pytest.mark.parametrize("seed", [7, 12, 20])
def test_tasks_that_go_on_late(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the event loop is busy, tasks start after further events: victims are removed and statuses written in
    another state than that of the decision. The replay does so at the same point."""
    path, random, spawn = tmp_path / "minute.jsonl.gz", Random(seed), Tasks.spawn

    def spawn_late(tasks: Tasks, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        async def late() -> None:
            await asyncio.sleep(random.choice((0.0, 0.1, 0.7)))
            await work

        return spawn(tasks, late())

    with monkeypatch.context() as busy:
        busy.setattr(Tasks, "spawn", spawn_late)
        record(path, seed, act=crowd)
    report = simulate(path)
    assert report.decisions is not None
    assert report.decisions.differences == []
    assert report.decisions.same == sum(each.get("event") == "Decision" for each in lines(path))


def changed(path: Path, edit: Callable[[dict[str, Any]], None]) -> Path:
    """A copy of a recording with other decisions."""
    copy = path.with_name("changed.jsonl.gz")
    with gzip.open(copy, "wb") as file:
        for line in lines(path):
            if line.get("event") == "Decision":
                edit(line["resource"])
            file.write(json.dumps(line).encode() + b"\n")
    return copy


def test_a_difference_is_found(recorded: Path) -> None:
    """A recorded node that is not the one that is chosen here is named, and the exit code says so."""
    seen: list[str] = []

    def edit(decision: dict[str, Any]) -> None:
        if decision["node"] and not seen:
            seen.append(decision["pod"])
            decision["feasible"] += 1

    done = CliRunner().invoke(command, [str(changed(recorded, edit))])
    assert done.exit_code == 1
    assert "first differences" in done.output
    assert seen[0] in done.output
    assert "failed: 1 decision not as recorded" in done.output
    good = CliRunner().invoke(command, [str(recorded), "-o", "junit"])
    assert good.exit_code == 0
    assert 'name="decides as recorded"' in good.output


def test_another_configuration_decides_otherwise(recorded: Path, tmp_path: Path) -> None:
    """A recorded node replaces another one that was chosen here, so that many later decisions can still be compared."""
    config = tmp_path / "packed.yaml"
    config.write_text(PACKED, "utf-8")
    report = simulate(recorded, config=config)
    assert report.decisions is not None
    assert not report.passed
    assert report.decisions.differences
    assert report.decisions.same > len(report.decisions.differences) / 4


def test_pods_that_wait_at_the_start(tmp_path: Path) -> None:
    """A scheduler that starts with pending pods decides about them before anything changes; that is compared too."""
    path = tmp_path / "minute.jsonl.gz"
    record(path, 2, faulty=False)
    header, *found = lines(path)
    first = next(index for index, line in enumerate(found) if line["event"] == "Attempt")
    existing = {}
    for line in found[:first]:
        meta = line["resource"]["metadata"]
        key = (line["resource"]["kind"], meta.get("namespace"), meta["name"])
        existing[key] = {**line, "time": header["time"], "event": "Add"}
    with gzip.open(path, "wb") as file:
        for line in (header, *existing.values(), *found[first:]):
            file.write(json.dumps(line).encode() + b"\n")
    report = simulate(path)
    assert report.decisions is not None
    assert report.decisions.differences == []
    assert report.decisions.same == sum(line["event"] == "Decision" for line in found)


def test_a_recording_that_was_cut_off(recorded: Path) -> None:
    """What was written before a crash can be replayed."""
    data = gzip.decompress(recorded.read_bytes())
    part = recorded.with_name("part.jsonl")
    part.write_bytes(data[: len(data) * 2 // 3])
    report = simulate(part)
    assert report.decisions is not None
    assert report.decisions.differences == []
    assert report.decisions.same > 50


def test_an_older_recording_is_renamed(recorded: Path, tmp_path: Path) -> None:
    """A scheduler that starts again does not overwrite what it has recorded."""
    path = tmp_path / "day.jsonl.gz"
    for text in (b"one", b"two"):
        path.write_bytes(text)
        run_virtual(lambda clock: _closed(path, clock))
    assert (tmp_path / "day.1.jsonl.gz").read_bytes() == b"one"
    assert (tmp_path / "day.3.jsonl.gz").exists() is False
    assert lines(path)[0]["kind"] == "Recording"


async def _closed(path: Path, clock: VirtualClock) -> None:
    JournalFile(path, default(), DEFAULT_FEATURES, clock, SILENT).close()


@virtual_time
async def test_a_recording_whose_end_cannot_be_written(
    clock: VirtualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full at the end is logged, and the process ends at once; nothing is queued from then on."""
    log = Lines()
    file = JournalFile(tmp_path / "day.jsonl.gz", default(), DEFAULT_FEATURES, clock, log)
    close = RecordingWriter.close

    def disk_full(writer: RecordingWriter) -> None:
        close(writer)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(RecordingWriter, "close", disk_full)
    file.close()
    assert not file._thread.is_alive()
    assert [message for _, message, _ in log] == ["The recording ends here: it cannot be written"]
    file.attempt({}, 0.0)
    assert file._lines.empty()


@virtual_time
async def test_a_pipe_keeps_its_name(clock: VirtualClock, tmp_path: Path) -> None:
    """Only files make way for a new recording."""
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        JournalFile(tmp_path / "pipe", default(), DEFAULT_FEATURES, clock, SILENT).close()
    finally:
        os.close(reader)
    assert [each.name for each in tmp_path.iterdir()] == ["pipe"]
