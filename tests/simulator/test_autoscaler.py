"""Node groups: nodes come when pods need them, and go when they are empty, interrupted or broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubesched.simulator.cluster import SimulatedCluster
from kubesched.simulator.loading import load
from kubesched.simulator.measures import measure
from kubesched.simulator.report import Report
from kubesched.simulator.run import run
from kubesched.simulator.scenario import ScenarioFileError

EXAMPLE = Path(__file__).parents[2] / "examples" / "scenarios" / "autoscaling.yaml"
DEPLOYMENT = """
- create:
    apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web}
    spec:
      replicas: 3
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec: {containers: [{name: m, image: x, resources: {requests: {cpu: 2}}}]}
"""


def scenario(folder: Path, groups: str, duration: str, steps: str = DEPLOYMENT) -> Path:
    """A file with node groups and a Deployment of three pods with two CPUs each."""
    file = folder / "s.yaml"
    file.write_text(f"cluster: {{heartbeat: 0s, nodeGroups: [{groups}]}}\nduration: {duration}\nsteps:{steps}")
    return file


def result(path: Path, seed: int = 1) -> tuple[Report, dict[str, float]]:
    """Report and measures of a run."""
    clusters: list[SimulatedCluster] = []
    report = run(load(path), seed, clusters.append)
    assert report.error == ""
    return report, measure(report, clusters[0])


def test_a_burst_of_jobs_comes_and_goes() -> None:
    """Nodes join after their boot time, the cheapest ones, and go when they have been empty for long enough."""
    report, found = result(EXAMPLE)
    assert report.passed, report.expectations
    joined = [each for each in report.timeline if each.kind == "Node" and each.what == "created"]
    assert joined[0].name == "base-1"
    assert [each.time for each in joined[1:]] == [160.0] * len(joined[1:])
    assert len(joined) == 4
    assert 0.2 < found["cost"] < 0.5
    assert found["node_hours"] < 3.0
    assert found["nodes_used"] == 4  # three of them are gone at the end


def test_maximum_and_minimum(tmp_path: Path) -> None:
    """No more nodes than there may be, and never fewer than the minimum."""
    path = scenario(tmp_path, "{name: g, cpu: 2, minimum: 1, maximum: 2, idle: 1m, boot: 10s}", "20m")
    report, _ = result(path)
    assert sorted({each.node for each in report.placements}) == ["g-1", "g-2"]
    assert len(report.pending) == 1
    bare = scenario(tmp_path, "{name: g, cpu: 2, minimum: 2, idle: 1m}", "20m", " []")
    report, found = result(bare)
    assert [each.node for each in report.utilisation] == ["g-1", "g-2"]
    assert found["cost"] == pytest.approx(2 * 20 / 60)


@pytest.mark.parametrize("how", ["spot", "failure"])
def test_nodes_that_go_by_themselves_are_replaced(tmp_path: Path, how: str) -> None:
    """Their pods are created again by their controllers, on nodes that are ordered for them; the same seed, the same
    times."""
    path = scenario(tmp_path, f"{{name: g, cpu: 8, maximum: 5, boot: 10s, {how}: 20m}}", "8h")
    report, _ = result(path)
    went = [each.time for each in report.timeline if each.kind == "Node" and each.what == "deleted"]
    assert 8 < len(went) < 60
    assert len(report.placements) == 3
    assert [each.time for each in result(path)[0].timeline if each.what == "deleted" and each.kind == "Node"] == went
    assert went != [each.time for each in result(path, 2)[0].timeline if each.what == "deleted" and each.kind == "Node"]


def test_groups_that_make_no_sense(tmp_path: Path) -> None:
    """Problems name the field."""
    path = scenario(tmp_path, "{name: g, minimum: 3, maximum: 2, boot: -1s}, {name: g, cpu: x}", "1m")
    with pytest.raises(ScenarioFileError) as caught:
        load(path)
    text = str(caught.value)
    for part in ("nodeGroups[0].minimum", "nodeGroups[0].boot", "nodeGroups[1].cpu", "two groups have the same name"):
        assert part in text


WAVE = """
- {at: %s, count: %d, create: {apiVersion: v1, kind: Pod, metadata: {name: "%s{i}", annotations: {
    kubesched.io/run-time: 20m}}, spec: {restartPolicy: Never, containers: [
    {name: m, image: x, resources: {requests: {cpu: 2}}}]}}}
"""


def test_nodes_that_are_on_their_way_count(tmp_path: Path) -> None:
    """Two pods need a node each. The second comes while the first one's node boots: one more is ordered, not two."""
    steps = WAVE % ("0s", 1, "a") + WAVE % ("25s", 1, "b") + WAVE % ("45s", 1, "c")
    report, _ = result(scenario(tmp_path, "{name: g, cpu: 2, boot: 2m, idle: 1m}", "10m", steps))
    assert [each.time for each in report.timeline if each.kind == "Node" and each.what == "created"] == [130, 150, 170]
    assert len(report.placements) == 3


def test_a_node_of_the_scenario_may_have_the_name(tmp_path: Path) -> None:
    """The group takes the next name."""
    steps = "\n- {create: {apiVersion: v1, kind: Node, metadata: {name: g-1}}}" + WAVE % ("1s", 3, "a")
    report, _ = result(scenario(tmp_path, "{name: g, cpu: 2, boot: 1m}", "10m", steps))
    assert sorted({each.node for each in report.placements}) == ["g-1", "g-2"]


def test_other_processes_remove_the_same_nodes(tmp_path: Path) -> None:
    """Which of many empty nodes stay is not up to the order of a set, which differs between processes."""
    path = scenario(tmp_path, "{name: g, cpu: 2, minimum: 0, idle: 1m, boot: 10s}", "40m", WAVE % ("0s", 12, "a"))
    report, _ = result(path)
    went = [each.name for each in report.timeline if each.kind == "Node" and each.what == "deleted"]
    assert went == [f"g-{number}" for number in range(1, 13)]
