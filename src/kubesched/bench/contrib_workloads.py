"""What the benchmarks of contrib plugins need: a configuration that enables the plugin, and objects for it to read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from kubesched.api import objects as api
from kubesched.base.annotations import NODE_LOAD
from kubesched.bench.workloads import BenchWorkload, make_node
from kubesched.cluster.pods import PodInfo
from kubesched.config.load import load
from kubesched.config.types import API_VERSION, KIND, KubeSchedulerConfiguration
from kubesched.contrib.app_groups import AppGroup, NetworkTopology
from kubesched.contrib.elastic_quotas import ElasticQuota
from kubesched.contrib.gangs import Gang
from kubesched.contrib.numa_reports import NodeResourceTopology
from kubesched.engine.engine import Engine
from kubesched.framework.registry import Registry
from kubesched.queue.ordering import queue_order
from kubesched.queue.pods import QueuedPodInfo

SORTING = ("Coscheduling", "QOSSort", "TopologicalSort")
PREEMPTING = ("CapacityScheduling", "PreemptionToleration")
METADATA = {
    "metadataKey": "cost",
    "metadataSource": "Annotation",
    "metadataType": "Number",
    "scoringStrategy": "Lowest",
}
POWER = {f"node-{index:05d}": {"k0": 100, "k1": 20 + index % 7, "k2": 0.01} for index in range(5000)}
ARGS: dict[str, dict[str, Any]] = {"NodeMetadata": METADATA, "Peaks": {"nodePowerModel": POWER}}


def configuration(name: str, registry: Registry) -> KubeSchedulerConfiguration:
    """A configuration with a plugin at all its points, in the place of the default one where there is only one."""
    enabled = {"enabled": [{"name": name}]}
    plugins: dict[str, Any] = {"multiPoint": enabled}
    for point, names in (("queueSort", SORTING), ("postFilter", PREEMPTING)):
        if name in names:
            plugins[point] = enabled | {"disabled": [{"name": "*"}]}
    config = [{"name": name, "args": ARGS[name]}] if name in ARGS else []
    profile = {"plugins": plugins, "pluginConfig": config}
    tree: dict[str, object] = {"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]}
    return load(tree, points=registry.points, args_types=registry.args_types).config


def contrib_objects(workload: BenchWorkload) -> Iterator[api.Object]:
    """Objects that the plugin reads, and nodes with loads, costs and places."""
    for index in range(workload.nodes):
        made = make_node(index, workload.node_cpu)
        load = f"cpu={index % 60}:{index % 13},memory={index % 50}:{index % 7}"
        annotations = {NODE_LOAD: load, "cost": str(index % 100)}
        labels = {**made.labels, "topology.kubernetes.io/region": f"region-{index % 2}"}
        metadata = msgspec.structs.replace(made.metadata, annotations=annotations, labels=labels)
        yield msgspec.structs.replace(made, metadata=metadata)
    match workload.name:
        case "Coscheduling":
            for number in range(workload.measured // 100):
                yield _object(Gang, f"gang-{number}", spec={"minMember": 1})
        case "CapacityScheduling":
            for number in range(20):
                spec = {"min": {"cpu": "100000", "memory": "100Ti"}}
                yield _object(ElasticQuota, "quota", "default" if not number else f"team-{number}", spec=spec)
        case "NodeResourceTopologyMatch":
            yield from map(_topology, range(workload.nodes))
        case "NetworkOverhead" | "TopologicalSort":
            yield from _application()


def _object(kind: type[api.Object], name: str, namespace: str = "default", **body: Any) -> api.Object:
    return msgspec.convert({"metadata": {"name": name, "namespace": namespace}, **body}, kind)


def _topology(index: int) -> api.Object:
    resources = [{"name": "cpu", "available": "16"}, {"name": "memory", "available": "32Gi"}]
    zones = [{"name": f"node-{number}", "type": "Node", "resources": resources} for number in range(2)]
    policies = ["SingleNUMANodeContainerLevel"]
    return _object(NodeResourceTopology, f"node-{index:05d}", "", topologyPolicies=policies, zones=zones)


def _application() -> Iterator[api.Object]:
    origins = [
        {"origin": f"region-{a}", "costList": [{"destination": f"region-{1 - a}", "networkCost": 20}]} for a in (0, 1)
    ]
    topologies = [{"topologyKey": "topology.kubernetes.io/region", "originList": origins}]
    weights = [{"name": "UserDefined", "topologyList": topologies}]
    yield _object(NetworkTopology, "nt-default", spec={"weights": weights})
    needs = [{"workload": {"selector": "database"}, "maxNetworkCost": 50}]
    workloads = [
        {"workload": {"selector": "frontend"}, "dependencies": needs},
        {"workload": {"selector": "database"}},
    ]
    yield _object(AppGroup, "shop", spec={"workloads": workloads})


def in_order(engine: Engine, pods: list[PodInfo]) -> list[PodInfo]:
    """The pods in the order of the profile's queue."""
    order = queue_order(engine.framework.points["queueSort"][0])
    queued = [QueuedPodInfo(info, float(number)) for number, info in enumerate(pods)]
    return [each.info for each in sorted(queued, key=order)]
