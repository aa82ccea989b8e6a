"""The load-aware plugins and their sources, with the cases of upstream's tables."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from aiohttp import web
from tests.contrib.support import only_scorer, scores

from kubesched import Handle, Node
from kubesched.base.clocks import SystemClock
from kubesched.base.features import DEFAULT_FEATURES
from kubesched.base.log import SILENT
from kubesched.cluster.state import ClusterState
from kubesched.config import dump
from kubesched.config.load import load
from kubesched.contrib.beta import beta_cdf, shape_of
from kubesched.contrib.load_sources import LoadMetric, LoadSource, MeasuredNode, MetricProvider, NodeLoads
from kubesched.contrib.load_variation_risk_balancing import risk_scores
from kubesched.contrib.low_risk_over_commitment import limit_risk, within_requests
from kubesched.contrib.node_load import simulated
from kubesched.contrib.peaks import Peaks, PeaksArgs, PowerModel
from kubesched.framework.handle import Services
from kubesched.plugins import in_tree_registry
from kubesched.snapshots.journal_file import JournalFile
from kubesched.testing import ConfigError, VirtualCluster, container, node, pod

MIB = 1 << 20


def loaded(load: str, name: str = "n1", cpu: str = "1", **more: Any) -> Node:
    """A node with a simulated load."""
    return node(name, cpu=cpu, memory="1Gi", annotations={"kubesched.io/node-load": load} if load else {}, **more)


def score_of(cluster: VirtualCluster, plugin: str, *nodes: Node, args: Any = None, **wanted: Any) -> int:
    """The score of the first node for a pod, among others."""
    cluster.configure(only_scorer(plugin, args))
    cluster.add(*nodes, node("spare", cpu="4", memory="4Gi"))
    return scores(cluster.schedule(pod("p", **wanted)), plugin)[nodes[0].name]


@pytest.mark.parametrize(
    ("load", "wanted", "expected"),
    [
        ("cpu=0", {}, 40),
        ("cpu=50", {}, 33),
        ("cpu=30", {"requests": {"cpu": "1"}}, 0),
        ("cpu=10", {"limits": {"cpu": "300m"}}, 100),
        ("cpu=10", {"requests": {"cpu": "100m"}}, 78),
        ("memory=50", {}, 0),
        ("", {}, 0),
    ],
)
def test_packing_to_a_target(cluster: VirtualCluster, load: str, wanted: dict[str, Any], expected: int) -> None:
    """Limits count as they are, requests one and a half times; beyond the target of 40% scores fall; a node without
    measurements gets 0."""
    args = {"defaultRequests": {"cpu": "0"}}
    assert score_of(cluster, "TargetLoadPacking", loaded(load), args=args, **wanted) == expected


def test_pods_that_were_just_placed_are_counted(cluster: VirtualCluster) -> None:
    """Measurements do not have them yet; a minute later they do."""
    cluster.configure(only_scorer("TargetLoadPacking"))
    cluster.add(loaded("cpu=0"), node("spare", cpu="4"))
    cluster.start()
    cluster.add(pod("there", node="n1", limits={"cpu": "400m"}))
    before = scores(cluster.schedule(pod("p", limits={"cpu": "0"})), "TargetLoadPacking")["n1"]
    cluster.advance(120)
    after = scores(cluster.schedule(pod("q", limits={"cpu": "0"})), "TargetLoadPacking")["n1"]
    assert (before, after) == (100, 40)


def test_pods_stay_counted_while_nothing_newer_is_measured(cluster: VirtualCluster) -> None:
    """The last measurements are used as long as the source fails, and they do not have the pods placed since."""
    cluster.api.create(MeasuredNode(metadata=node("n1").metadata, usage={"cpu": "0"}))
    cluster.configure(only_scorer("TargetLoadPacking"))
    cluster.add(loaded(""), node("spare", cpu="4"))
    cluster.advance(2)
    cluster.api.fail("list", times=100, when=lambda call: call.args == (MeasuredNode,))
    cluster.add(pod("there", node="n1", limits={"cpu": "400m"}))
    cluster.advance(600)
    assert scores(cluster.schedule(pod("p", limits={"cpu": "0"})), "TargetLoadPacking")["n1"] == 100
    cluster.api.heal()
    cluster.advance(120)
    assert scores(cluster.schedule(pod("q", limits={"cpu": "0"})), "TargetLoadPacking")["n1"] == 40


@pytest.mark.parametrize(
    ("load", "wanted", "expected"),
    [
        ("cpu=50", {}, 75),
        ("cpu=100", {}, 50),
        ("cpu=30:16", {"cpu": "200m", "memory": 256 * MIB}, 67),
        ("cpu=40:16,memory=50:10", {"cpu": "100m", "memory": 512 * MIB}, 45),
        ("cpu=80:20,memory=25:15", {"cpu": "100m", "memory": 512 * MIB}, 45),
        ("", {}, 0),
    ],
)
def test_balancing_the_risk_of_variation(
    cluster: VirtualCluster, load: str, wanted: dict[str, Any], expected: int
) -> None:
    """Mean and deviation count half each; of CPU and memory the worse one decides."""
    assert score_of(cluster, "LoadVariationRiskBalancing", loaded(load), **wanted) == expected


@pytest.mark.parametrize(
    ("whole", "mean", "deviation", "margin", "sensitivity", "expected"),
    [
        (100, 40, 36, 1, 1, 57),
        (0, 40, 36, 1, 2, 0),
        (100, -40, 36, 1, 2, 65),
        (100, 200, 36, 1, 2, 20),
        (100, 40, -36, 1, 2, 75),
        (100, 40, 120, 1, 2, 25),
        (100, 40, 36, -1, 1, 75),
        (100, 40, 36, 1, -1, 57),
        (100, 40, 36, 1, 0, 75),
        (1000, 28, 16, 1, 1, 78),  # 77.5, but for the last bit
    ],
)
def test_scores_of_a_risk(
    whole: int, mean: float, deviation: float, margin: float, sensitivity: float, expected: int
) -> None:
    """Values out of range count as the nearest one in it. The pod requests 10."""
    columns = [np.array([float(each)]) for each in (mean, deviation)]
    found = risk_scores(np.array([whole]), 10, columns[0], columns[1], margin, sensitivity)
    assert int(np.floor(found[0] + 0.5)) == expected


@pytest.mark.parametrize(
    ("whole", "request_", "limit", "before", "limit_before", "mean", "expected"),
    [
        (4000, 2000, 3000, 1000, 2000, 80, 0.5),
        (4096, 2048, 6144, 0, 0, 25, 0.25),
        (4000, 4000, 5000, 3000, 4000, 80, 1.0),
        (4096, 1024, 7168, 512, 6144, 25, 0.75),
    ],
)
def test_risks_of_overcommitment(
    whole: int, request_: int, limit: int, before: int, limit_before: int, mean: float, expected: float
) -> None:
    """Limits beyond the node and a load beyond the requests count half each; the load does not vary."""
    used = within_requests(np.array([[whole], [before], [limit_before], [mean], [0]], dtype=np.float64), 5**0.5)
    risk = 0.5 * limit_risk(np.array([whole]), np.array([request_]), np.array([limit])) + 0.5 * (1 - used)
    assert float(risk[0]) == pytest.approx(expected)


def test_overcommitment_follows_pods_nodes_and_loads(cluster: VirtualCluster) -> None:
    """Scores that were kept are computed again for the nodes whose pods or loads have changed, and for new nodes."""
    cluster.configure(only_scorer("LowRiskOverCommitment"))
    asked = pod("p", requests={"cpu": "1"}, limits={"cpu": "3"})
    cluster.add(*(pod(f"old-{n}", node=f"n{n}", requests={"cpu": "2"}, limits={"cpu": "4"}) for n in (1, 2, 3)))
    cluster.add(*(loaded(f"cpu={20 * n}:{5 * n},memory=20:3", f"n{n}", cpu="4") for n in (1, 2, 3)))

    def found() -> dict[str, int]:
        return scores(cluster.schedule(asked), "LowRiskOverCommitment")

    seen = [found(), found()]
    assert seen[0] == seen[1]
    cluster.add(pod("big", node="n1", requests={"cpu": "1"}, limits={"cpu": "9"}))
    seen.append(found())
    assert {name for name in seen[1] if seen[1][name] != seen[2][name]} == {"n1"}
    cluster.add(loaded("cpu=95:2,memory=20:3", "n4", cpu="4"), loaded("cpu=20:5,memory=20:3", "n3", cpu="4"))
    seen.append(found())
    assert seen[3] == {**seen[2], "n3": seen[1]["n1"], "n4": 100}


def test_overcommitment_as_a_score(cluster: VirtualCluster) -> None:
    """A node whose pods may use more than it has scores lower; best-effort pods score nothing."""
    cluster.configure(only_scorer("LowRiskOverCommitment"))
    steady = "cpu=20:0,memory=20:0"
    cluster.add(loaded(steady, cpu="4"), loaded(steady, "n2", cpu="4"), loaded("cpu=90:5,memory=20", "n3", cpu="4"))
    cluster.add(*(pod(f"{n}", node=n, requests={"cpu": "1"}, limits={"cpu": "2"}) for n in ("n1", "n3")))
    cluster.add(pod("big", node="n2", requests={"cpu": "1"}, limits={"cpu": "9"}))
    found = scores(cluster.schedule(pod("p", requests={"cpu": "100m"})), "LowRiskOverCommitment")
    assert found["n1"] == 100
    assert 50 < found["n2"] < 75  # 5.1 of 8 CPUs beyond requests are not there
    assert 50 <= found["n3"] < 53  # almost certainly more than it requests
    assert set(scores(cluster.schedule(pod("q")), "LowRiskOverCommitment").values()) == {0}


def test_a_distribution_of_loads() -> None:
    """Against values of the beta distribution that are known."""
    x, a, b = (np.array(each, dtype=np.float64) for each in ([0.5, 0, 1, 0.25, 0.9], [2, 2, 2, 1, 5], [2, 2, 2, 1, 1]))
    assert beta_cdf(x, a, b) == pytest.approx([0.5, 0, 1, 0.25, 0.9**5])
    mean, deviation = np.array([0.3, 0.5]), np.array([0.1, 0.001])
    a, b = shape_of(mean, deviation)
    assert a / (a + b) == pytest.approx(mean)
    assert beta_cdf(np.array([0.3, 0.51]), a, b) == pytest.approx([0.5261, 1.0], abs=1e-4)


POWER = {"k0": 471.74, "k1": -91.5, "k2": -0.0719}


def test_the_growth_of_power(cluster: VirtualCluster) -> None:
    """The busy node's power grows less, since its model is flat there; one without a model does not grow at all."""
    cluster.configure(only_scorer("Peaks", {"nodePowerModel": {"n1": POWER, "n2": POWER}}))
    cluster.add(loaded("cpu=10", cpu="4"), loaded("cpu=60", "n2", cpu="4"), loaded("cpu=10", "n3", cpu="4"))
    cluster.add(loaded("cpu=100", "full", cpu="4"), loaded("", "new", cpu="4"))
    found = scores(cluster.schedule(pod("p", cpu="1")), "Peaks")
    assert found["n1"] == 0
    assert 95 < found["n2"] < 100
    assert (found["n3"], found["full"], found["new"]) == (100, 100, 100)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [([0, 100], [100, 0]), ([0, 0], [0, 0]), ([100, 100], [100, 100]), ([0, 29, 100], [100, 71, 0])],
)
def test_normalised_growth(raw: list[int], expected: list[int]) -> None:
    """The least growth is the best; without any growth all scores stay 0."""
    plugin = Peaks(PeaksArgs(NodePowerModel={}, node_power_model={"n1": POWER}), Handle(ClusterState(), Random(0)))  # type: ignore[dict-item]
    assert plugin.normalize(None, None, np.array(raw)).tolist() == expected  # type: ignore[arg-type]


def test_a_node_without_a_power_model(cluster: VirtualCluster) -> None:
    """Upstream's sample has a placeholder in braces, which YAML reads as a name with nothing: the power never grows."""
    cluster.configure(only_scorer("Peaks", {"NodePowerModel": {"n1": POWER, "n2": None}}))
    cluster.add(loaded("cpu=10", cpu="4"), loaded("cpu=10", "n2", cpu="4"))
    assert scores(cluster.schedule(pod("p", cpu="1")), "Peaks") == {"n1": 0, "n2": 100}


def test_power_models_in_a_file(cluster: VirtualCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """NODE_POWER_MODEL names a file; without it and without arguments the scheduler does not start."""
    (tmp_path / "models.json").write_text(json.dumps({"n1": POWER}))
    monkeypatch.setenv("NODE_POWER_MODEL", str(tmp_path / "models.json"))
    assert PeaksArgs().models["n1"] == PowerModel(**POWER)
    monkeypatch.delenv("NODE_POWER_MODEL")
    cluster.configure(only_scorer("Peaks"))
    with pytest.raises(Exception, match="there is no power model; set nodePowerModel"):
        cluster.start()


def test_an_annotation_that_cannot_be_read() -> None:
    """Parts that are wrong are ignored."""
    assert simulated("cpu=10, disk=4,memory=x,memory=5:2") == [
        LoadMetric("CPU", "AVG", 10),
        LoadMetric("CPU", "STD", 0),
        LoadMetric("Memory", "AVG", 5),
        LoadMetric("Memory", "STD", 2),
    ]


def test_the_metrics_api(cluster: VirtualCluster) -> None:
    """By default loads come from the metrics API of the cluster, in the share of the node's capacity."""
    cluster.api.create(MeasuredNode(metadata=node("n1").metadata, usage={"cpu": "2", "memory": "512Mi"}))
    cluster.configure(only_scorer("LoadVariationRiskBalancing"))
    cluster.add(loaded("", cpu="4"), node("n2"))
    cluster.advance(2)
    assert scores(cluster.schedule(pod("p")), "LoadVariationRiskBalancing") == {"n1": 75, "n2": 0}


def test_usage_is_in_thousandths_of_a_cpu(cluster: VirtualCluster) -> None:
    """311 of 1150, as load-watcher rounds it: the score would be 87 for what is measured."""
    cluster.api.create(MeasuredNode(metadata=node("n1").metadata, usage={"cpu": "310200u"}))
    cluster.configure(only_scorer("LoadVariationRiskBalancing"))
    cluster.add(loaded("", cpu="1150m"), node("n2"))
    cluster.advance(2)
    assert scores(cluster.schedule(pod("p")), "LoadVariationRiskBalancing") == {"n1": 86, "n2": 0}


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"metricProvider": {"type": "Nagios"}}, "args.metricProvider.type: invalid enum value 'Nagios'"),
        ({"watcherAddress": "watcher:2020"}, "watcherAddress must begin with http:// or https://.* got 'watcher:2020'"),
        ({"metricProvider": {"type": "Prometheus", "address": "prometheus"}}, "address must begin with http:// .*9090"),
        ({"defaultRequestsMultiplier": "much"}, 'defaultRequestsMultiplier must be a number such as "1.5", got .much'),
        ({"targetUtilization": 101}, "targetUtilization must be at most 100"),
    ],
)
def test_wrong_arguments(cluster: VirtualCluster, args: dict[str, Any], message: str) -> None:
    """Each mistake is named."""
    cluster.configure(only_scorer("TargetLoadPacking", args))
    with pytest.raises(ConfigError, match=message):
        cluster.start()


def read(source: Callable[[str], LoadSource], answer: Callable[[web.Request], Any]) -> NodeLoads:
    """Read a source from a server that answers like this."""

    async def handler(request: web.Request) -> web.Response:
        return web.json_response(answer(request))

    async def run() -> NodeLoads:
        app = web.Application()
        app.router.add_get("/{path:.*}", handler)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        handle = Handle(ClusterState(), Random(0), services=Services(clock=SystemClock()))
        try:
            return await source(f"http://127.0.0.1:{port}").read(handle)
        finally:
            await runner.cleanup()

    return asyncio.run(run())


def test_a_load_watcher() -> None:
    """Its service is read at /watcher; unknown fields are ignored."""
    metrics = [{"name": "host.cpu", "type": "CPU", "operator": "AVG", "rollup": "15m", "value": 80.5}]
    body = {
        "timestamp": 1,
        "window": {"duration": "15m", "start": 0, "end": 900},
        "data": {"NodeMetricsMap": {"n1": {"metrics": metrics, "tags": {}}, "n2": {}}},
    }
    found = read(lambda url: LoadSource(f"{url}/"), lambda request: body if request.path == "/watcher" else {})
    assert found.end == 900
    assert found.nodes == {"n1": [LoadMetric("CPU", "AVG", 80.5)], "n2": []}


def test_prometheus() -> None:
    """Mean and deviation of both resources over a quarter of an hour, with the token; ratios become percent."""
    asked: list[tuple[str, str]] = []

    def answer(request: web.Request) -> Any:
        asked.append((request.query["query"], request.headers.get("Authorization", "")))
        sample = {"metric": {"instance": "n1"}, "value": [1.0, "0.25"]}
        return {"status": "success", "data": {"resultType": "vector", "result": [sample]}}

    provider = {"type": "Prometheus", "token": "secret"}
    found = read(lambda url: LoadSource("", MetricProvider(address=url, **provider)), answer)  # type: ignore[arg-type]
    assert asked[0] == ("avg_over_time(instance:node_cpu:ratio[15m])", "Bearer secret")
    assert [each[0].partition("(")[0] for each in asked] == ["avg_over_time"] * 2 + ["stddev_over_time"] * 2
    assert {(each.type, each.operator) for each in found.nodes["n1"]} == {
        (kind, operator) for kind in ("CPU", "Memory") for operator in ("AVG", "STD")
    }
    assert {each.value for each in found.nodes["n1"]} == {25.0}


@pytest.mark.parametrize(
    ("args", "advice"),
    [
        ({"watcherAddress": "http://"}, "check that a load-watcher serves"),
        ({"metricProvider": {"type": "SignalFx"}}, "run a load-watcher that reads SignalFx"),
    ],
)
def test_a_source_that_fails_is_logged_once(cluster: VirtualCluster, args: dict[str, Any], advice: str) -> None:
    """The log says what to do, and the plugin goes on without measurements."""
    cluster.configure(only_scorer("LoadVariationRiskBalancing", args))
    cluster.add(loaded("cpu=50"), node("n2"))
    cluster.advance(120)
    assert scores(cluster.schedule(pod("p")), "LoadVariationRiskBalancing") == {"n1": 75, "n2": 0}
    (line,) = (str(line) for line in cluster.log if "Unable to update metrics" in str(line))
    assert advice in line


def test_containers_are_summed(cluster: VirtualCluster) -> None:
    """Two containers, of which one has a limit and one a request."""
    containers = [container(limits={"cpu": "100m"}), container("b", requests={"cpu": "100m"})]
    assert score_of(cluster, "TargetLoadPacking", loaded("cpu=0"), containers=containers) == 78


def test_a_token_is_not_shown(tmp_path: Path) -> None:
    """The log of the configuration and recordings hide it; the configuration itself keeps it."""
    registry = in_tree_registry()
    provider = {"metricProvider": {"type": "Prometheus", "token": "hunter2"}}
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    tree = {**head, **only_scorer("TargetLoadPacking", provider)}
    config = load(tree, points=registry.points, args_types=registry.args_types).config
    assert "hunter2" in dump.to_yaml(config)
    assert "hunter2" not in dump.to_yaml(dump.without_secrets(config))
    JournalFile(tmp_path / "day.jsonl", config, DEFAULT_FEATURES, SystemClock(), SILENT).close()
    text = (tmp_path / "day.jsonl").read_text()
    assert "TargetLoadPacking" in text
    assert "hunter2" not in text
