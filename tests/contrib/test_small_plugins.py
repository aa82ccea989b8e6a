"""NodeResourcesAllocatable, QOSSort, PodState and NodeMetadata, with the cases of upstream's tables."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.contrib.support import only_scorer, scores, sorter

from kubesched import Node, Pod
from kubesched.contrib.go_time import RFC3339, parse_time
from kubesched.contrib.node_metadata import NodeMetadata
from kubesched.contrib.node_resources_allocatable import NodeResourcesAllocatable
from kubesched.contrib.pod_state import PodState
from kubesched.contrib.qos_sort import BEST_EFFORT, BURSTABLE, GUARANTEED, qos_class
from kubesched.testing import ConfigError, VirtualCluster, check_plugin, container, node, pod


def sized(*machines: tuple[str, str]) -> list[Node]:
    """Nodes with so much CPU and memory."""
    return [node(f"m{number}", cpu=cpu, memory=memory) for number, (cpu, memory) in enumerate(machines, 1)]


@pytest.mark.parametrize(
    ("machines", "args", "expected"),
    [
        ([("4", "10000"), ("4", "10000")], {"mode": "Least"}, [0, 0]),
        ([("4", "10000"), ("6", "10000")], {"mode": "Least"}, [100, 0]),
        ([("4", "10000"), ("6", "10000")], {"mode": "Most"}, [0, 100]),
        ([("4", "10000"), ("6", "10000")], {}, [100, 0]),
        ([("1", "1000Mi"), ("2", "2000Mi"), ("3", "3000Mi")], {"mode": "Least"}, [100, 50, 0]),
        ([("1", "1000Mi"), ("2", "2000Mi"), ("3", "3000Mi")], {"mode": "Most"}, [0, 50, 100]),
        ([("1", "2000"), ("1005m", "1000")], {"resources": [{"name": "cpu", "weight": 1 << 30}]}, [100, 0]),
        ([("1", "2000"), ("1005m", "1000")], {"mode": "Most", "resources": [{"name": "cpu", "weight": 1}]}, [0, 100]),
    ],
)
def test_nodes_by_size(
    cluster: VirtualCluster, machines: list[tuple[str, str]], args: dict[str, Any], expected: list[int]
) -> None:
    """The smallest node gets 100 with Least, the largest with Most; equal nodes get 0."""
    cluster.configure(only_scorer("NodeResourcesAllocatable", args))
    cluster.add(*sized(*machines), pod("there", node="m1"))
    assert list(scores(cluster.schedule(pod("p")), "NodeResourcesAllocatable").values()) == expected


@pytest.mark.parametrize("weight", [0, -1])
def test_a_resource_needs_a_positive_weight(cluster: VirtualCluster, weight: int) -> None:
    """The error names the field, the resource and the weight."""
    args = {"resources": [{"name": "memory", "weight": weight}]}
    cluster.configure(only_scorer("NodeResourcesAllocatable", args))
    with pytest.raises(ConfigError, match=f"resource weight of memory should be a positive value, got {weight}"):
        cluster.start()


def test_sorting_by_quality_of_service(cluster: VirtualCluster) -> None:
    """Priority comes first, then Guaranteed, Burstable and BestEffort, then the time in the queue."""
    cluster.configure(sorter("QOSSort"))
    cluster.start()
    limited = {"cpu": "1", "memory": "1Gi"}
    cluster.add(
        pod("best-effort"),
        pod("burstable", cpu="1"),
        pod("guaranteed", requests=limited, limits=limited),
        pod("burstable-2", memory="1Gi"),
        pod("important", priority=10),
    )
    cluster.add(node("n1"))
    cluster.advance(20)
    again = [each.pod.name for each in cluster.decisions][-5:]
    assert again == ["important", "guaranteed", "burstable", "burstable-2", "best-effort"]


def test_classes_of_service() -> None:
    """As the API server has them: every container limited in both resources, to what it requests."""
    both, half = {"cpu": "500m", "memory": "1Gi"}, {"cpu": "0.5", "memory": "1Gi"}
    assert qos_class(pod("p")) == BEST_EFFORT
    assert qos_class(pod("p", requests={"cpu": "0"})) == BEST_EFFORT
    assert qos_class(pod("p", requests=half, limits=both)) == GUARANTEED
    assert qos_class(pod("p", limits=both)) == GUARANTEED
    assert qos_class(pod("p", limits={"cpu": "1"})) == BURSTABLE
    assert qos_class(pod("p", containers=[container(limits=both), container(name="other")])) == BURSTABLE


def state_of(terminating: int, nominated: int, number: int) -> list[Pod | Node]:
    """A node with terminating pods, and pods that are nominated to it."""
    name = f"n{number}"
    going = [pod(f"{name}-t{each}", node=name, terminating=True) for each in range(terminating)]
    promised = [pod(f"{name}-p{each}", nominated=name, scheduler="other") for each in range(nominated)]
    return [node(name, cpu="64"), *going, *promised]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ([(6, 0), (3, 0), (0, 0)], [100, 50, 0]),
        ([(0, 2), (0, 1), (0, 0)], [0, 50, 100]),
        ([(5, 2), (3, 1)], [100, 0]),
        ([(5, 4), (3, 1)], [0, 100]),
        ([(5, 0), (3, 1), (2, 1), (0, 1)], [100, 50, 33, 0]),
    ],
)
def test_terminating_minus_nominated(
    cluster: VirtualCluster, nodes: list[tuple[int, int]], expected: list[int]
) -> None:
    """Terminating pods raise a node's score, nominated ones lower it."""
    cluster.configure(only_scorer("PodState"))
    for number, (terminating, nominated) in enumerate(nodes, 1):
        cluster.add(*state_of(terminating, nominated, number))
    state = cluster.scheduler.cluster
    for number, (_, nominated) in enumerate(nodes, 1):
        for each in range(nominated):
            state.nominate(state.classes.info(cluster.pod(f"n{number}-p{each}")), f"n{number}")
    assert list(scores(cluster.schedule(pod("p")), "PodState").values()) == expected


def test_a_pod_that_is_gone_no_longer_counts(cluster: VirtualCluster) -> None:
    """Once the terminating pod is deleted the nodes are equal again."""
    cluster.configure(only_scorer("PodState"))
    cluster.add(*state_of(1, 0, 1), node("n2"))
    assert scores(cluster.schedule(pod("p")), "PodState") == {"n1": 100, "n2": 0}
    cluster.remove(cluster.pod("n1-t0"))
    assert scores(cluster.schedule(pod("q")), "PodState") == {"n1": 0, "n2": 0}


def metadata(strategy: str, source: str = "Label", kind: str = "Number", **more: str) -> dict[str, str]:
    """Arguments of NodeMetadata."""
    return {
        "metadataKey": "key",
        "metadataSource": source,
        "metadataType": kind,
        "scoringStrategy": strategy,
        **more,
    }


@pytest.mark.parametrize(
    ("args", "values", "expected"),
    [
        (metadata("Highest"), ["10", "100", "50"], [1, 100, 45]),
        (metadata("Lowest"), ["100", "10", "50"], [1, 100, 56]),
        (metadata("Highest"), [None, "100", None], [0, 1, 0]),
        (metadata("Highest"), [None, None], [0, 0]),
        (metadata("Highest"), ["50", "50", "50"], [1, 1, 1]),
        (metadata("Lowest", "Annotation"), ["200", "100", "150", None], [1, 100, 50, 0]),
        (metadata("Highest"), ["ten", "1_0", "nan", "7"], [0, 0, 0, 1]),
        (metadata("Highest"), ["1e400", "5", "9e300", "-9e300"], [0, 50, 100, 1]),
        (
            metadata("Newest", "Annotation", "Timestamp"),
            ["2026-01-01T00:00:00Z", "2026-01-03T01:00:00+01:00", "2026-01-02T00:00:00.5Z", "yesterday"],
            [1, 100, 50, 0],
        ),
        (
            metadata("Oldest", "Label", "Timestamp", timestampFormat="2006-01-02"),
            ["2026-01-01", "2026-01-03", "2026-01-02"],
            [100, 1, 50],
        ),
    ],
)
def test_nodes_by_metadata(
    cluster: VirtualCluster, args: dict[str, str], values: list[str | None], expected: list[int]
) -> None:
    """The best value gets 100 and the worst 1, alone or equal ones too; 0 is for nodes without a readable value."""
    cluster.configure(only_scorer("NodeMetadata", args))
    where = "labels" if args["metadataSource"] == "Label" else "annotations"
    for number, value in enumerate(values, 1):
        given: dict[str, Any] = {where: {} if value is None else {"key": value}}
        cluster.add(node(f"n{number}", **given))
    assert list(scores(cluster.schedule(pod("p")), "NodeMetadata").values()) == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metadataKey": ""}, "metadataKey cannot be empty"),
        ({"metadataSource": "Elsewhere"}, r"args.metadataSource: invalid enum value 'Elsewhere'"),
        ({"metadataType": "Text"}, r"args.metadataType: invalid enum value 'Text'"),
        ({"scoringStrategy": "Newest"}, "scoringStrategy must be Highest or Lowest for metadataType Number"),
    ],
)
def test_wrong_arguments_of_node_metadata(cluster: VirtualCluster, change: dict[str, str], message: str) -> None:
    """Each mistake is named."""
    cluster.configure(only_scorer("NodeMetadata", metadata("Highest") | change))
    with pytest.raises(ConfigError, match=message):
        cluster.start()


def test_node_metadata_needs_arguments(cluster: VirtualCluster) -> None:
    """Without pluginConfig the error says what to add."""
    cluster.configure(only_scorer("NodeMetadata"))
    with pytest.raises(ConfigError, match="NodeMetadata cannot do without arguments"):
        cluster.start()


@given(st.datetimes(min_value=datetime(1971, 1, 1)))
def test_times_in_layouts_of_go(moment: datetime) -> None:
    """RFC 3339, and a layout with names of months, are read as Go reads them."""
    moment = moment.replace(microsecond=0)
    seconds = (moment - datetime(1970, 1, 1)).total_seconds()
    assert parse_time(moment.isoformat() + "Z", RFC3339) == seconds
    assert parse_time(moment.strftime("%d %b %y %H:%M:%S"), "02 Jan 06 15:04:05") % 86400 == seconds % 86400


def test_the_contract() -> None:
    """Deterministic, a row judged by itself, and `reads` keeps its promise."""
    check_plugin(NodeResourcesAllocatable)
    check_plugin(NodeMetadata, args=metadata("Highest"), labels={"key": ["1", "20", "x"]})
    check_plugin(PodState)
