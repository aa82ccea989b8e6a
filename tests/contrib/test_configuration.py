"""The contrib plugins are known by name, cost nothing until they are used, and take upstream's configuration files."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from kubesched import Plugin, Pod
from kubesched.config.load import load
from kubesched.framework.registry import CONTRIB
from kubesched.plugins import OFFERED, in_tree_registry

OTHERS = """
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: "REPLACE_ME_WITH_KUBE_CONFIG_PATH"}
"""

NETWORK_AWARE = """
- schedulerName: network-aware-scheduler
  plugins:
    multiPoint:
      enabled: [{name: NetworkOverhead, weight: 5}]
      disabled: [{name: NodeResourcesFit}]
    queueSort: {enabled: [{name: TopologicalSort}], disabled: [{name: "*"}]}
  pluginConfig:
  - name: TopologicalSort
    args: {namespaces: [default]}
  - name: NetworkOverhead
    args: {namespaces: [default], weightsName: UserDefined, networkTopologyName: net-topology-test}
"""

SAMPLES: dict[str, tuple[str, str]] = {
    "Coscheduling": (
        "v1",
        """
- schedulerName: default-scheduler
  plugins:
    multiPoint: {enabled: [{name: Coscheduling}]}
    queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: "*"}]}
  pluginConfig:
  - name: Coscheduling
    args: {apiVersion: kubescheduler.config.k8s.io/v1, kind: CoschedulingArgs, permitWaitingTimeSeconds: 10}
""",
    ),
    "NodeResourcesAllocatable": (
        "v1",
        """
- schedulerName: default-scheduler
  plugins:
    score: {enabled: [{name: NodeResourcesAllocatable}], disabled: [{name: "*"}]}
  pluginConfig:
  - name: NodeResourcesAllocatable
    args: {mode: Least, resources: [{name: cpu, weight: 1000000}, {name: memory, weight: 1}]}
""",
    ),
    "PodState": ("v1", "[{schedulerName: default-scheduler, plugins: {score: {enabled: [{name: PodState}]}}}]"),
    "CapacityScheduling": (
        "v1",
        """
- schedulerName: default-scheduler
  plugins:
    multiPoint: {enabled: [{name: CapacityScheduling}]}
    postFilter: {enabled: [{name: CapacityScheduling}], disabled: [{name: "*"}]}
""",
    ),
    "PreemptionToleration": (
        "v1",
        """
- schedulerName: default-scheduler
  plugins:
    postFilter: {enabled: [{name: PreemptionToleration}], disabled: [{name: DefaultPreemption}]}
  pluginConfig:
  - name: PreemptionToleration
    args: {minCandidateNodesPercentage: 10, minCandidateNodesAbsolute: 100}
""",
    ),
    "TargetLoadPacking": (
        "v1beta3",
        """
- schedulerName: trimaran
  plugins:
    score:
      disabled: [{name: NodeResourcesBalancedAllocation}, {name: NodeResourcesLeastAllocated}]
      enabled: [{name: TargetLoadPacking}]
  pluginConfig:
  - name: TargetLoadPacking
    args:
      defaultRequestsMultiplier: "1"
      targetUtilization: 40
      metricProvider: {type: Prometheus, address: "http://replace_me_with_prometheus_server:9090"}
""",
    ),
    "LoadVariationRiskBalancing": (
        "v1",
        """
- schedulerName: trimaran
  plugins: {score: {enabled: [{name: LoadVariationRiskBalancing}]}}
  pluginConfig:
  - name: LoadVariationRiskBalancing
    args:
      metricProvider: {type: Prometheus, address: "http://prometheus-k8s.monitoring.svc.cluster.local:9090"}
      safeVarianceMargin: 1
      safeVarianceSensitivity: 2
""",
    ),
    "LowRiskOverCommitment": (
        "v1",
        """
- schedulerName: trimaran
  plugins: {preScore: {enabled: [{name: LowRiskOverCommitment}]}, score: {enabled: [{name: LowRiskOverCommitment}]}}
  pluginConfig:
  - name: LowRiskOverCommitment
    args:
      smoothingWindowSize: 5
      riskLimitWeights: {cpu: 0.5, memory: 0.5}
      metricProvider: {type: Prometheus, address: "http://prometheus-k8s:9090", insecureSkipVerify: true}
""",
    ),
    "Peaks": (
        "v1",
        """
- schedulerName: Peaks
  plugins:
    preScore: {disabled: [{name: "*"}]}
    score: {enabled: [{name: Peaks}], disabled: [{name: "*"}]}
  pluginConfig:
  - name: Peaks
    args:
      WatcherAddress: http://127.0.0.1:2020
      NodePowerModel: {node-1: {k0: 471.7412504314313, k1: -91.50493019588365, k2: -0.07186049052516228}}
""",
    ),
    "NodeResourceTopologyMatch": (
        "v1beta3",
        """
- schedulerName: topo-aware-scheduler
  plugins:
    preFilter: {enabled: [{name: NodeResourceTopologyMatch}]}
    filter: {enabled: [{name: NodeResourceTopologyMatch}]}
    score: {enabled: [{name: NodeResourceTopologyMatch}]}
  pluginConfig:
  - name: NodeResourceTopologyMatch
    args:
      scoringStrategy: {type: LeastAllocated}
""",
    ),
    "NetworkOverhead": ("v1", NETWORK_AWARE),
    "TopologicalSort": ("v1", NETWORK_AWARE),
    "QOSSort": (
        "v1beta3",
        """
- schedulerName: default-scheduler
  plugins: {queueSort: {enabled: [{name: QOSSort}], disabled: [{name: "*"}]}}
""",
    ),
    "NodeMetadata": (
        "v1",
        """
- schedulerName: stable-nodes-scheduler
  plugins: {score: {enabled: [{name: NodeMetadata, weight: 2}]}}
  pluginConfig:
  - name: NodeMetadata
    args:
      metadataKey: node.example.com/created-at
      metadataSource: Label
      metadataType: Timestamp
      scoringStrategy: Oldest
      timestampFormat: "2006-01-02"
""",
    ),
}
"""Configurations in the shape of upstream's sample files: the API version, and the profiles."""


def loaded(name: str) -> Any:
    """The profile of a sample."""
    version, profiles = SAMPLES[name]
    indented = profiles if profiles.startswith("[") else profiles.replace("\n", "\n  ")
    head = f"apiVersion: kubescheduler.config.k8s.io/{version}\nkind: KubeSchedulerConfiguration"
    registry = in_tree_registry()
    return load(
        f"{head}{OTHERS}profiles: {indented}", points=registry.points, args_types=registry.args_types
    ).config.profiles[0]


@pytest.mark.parametrize("name", OFFERED)
def test_upstreams_sample_files_load(name: str) -> None:
    """The plugin is enabled, and its arguments are of its own type."""
    profile = loaded(name)
    assert name in profile.plugins.names()
    kind = in_tree_registry()[name].args_type
    assert kind is None or isinstance(profile.args_of(name), kind)
    assert kind is None or kind.__name__ == f"{name}Args"


def test_a_value_of_a_sample_arrives() -> None:
    """What the file says counts, the rest has upstream's defaults."""
    args = loaded("Coscheduling").args_of("Coscheduling")
    assert (args.permit_waiting_time_seconds, args.pod_group_backoff_seconds) == (10, 0)
    assert args.pod_group_reject_percentage == 10


def test_nothing_is_imported_until_it_is_named() -> None:
    """A scheduler without these plugins starts without their code."""
    program = (
        "import sys; from kubesched.plugins import in_tree_registry as r; from kubesched.config.load import load\n"
        "r = r(); load({'apiVersion': 'kubescheduler.config.k8s.io/v1', 'kind': 'KubeSchedulerConfiguration'},"
        " points=r.points, args_types=r.args_types)\n"
        "assert 'Coscheduling' in r and len(r) == len(list(r))\n"
        "assert not [m for m in sys.modules if m.startswith('kubesched.contrib')]\n"
        "assert r['Coscheduling'].name == 'Coscheduling' and 'kubesched.contrib.coscheduling' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_plugin_of_your_own_takes_the_name() -> None:
    """A plugin that was registered under that name is not replaced."""

    class Mine(Plugin):
        name = "QOSSort"

        def sort_key(self, pod: Pod) -> int:
            return 0

    registry = in_tree_registry()
    assert registry.origin("PodState").kind == CONTRIB
    registry.add(Mine)
    assert registry["QOSSort"] is Mine
    assert list(registry).count("QOSSort") == 1


@pytest.mark.parametrize("name", OFFERED)
def test_each_is_where_the_table_says(name: str) -> None:
    """The table's key is the plugin's name, and no plugin is called node by node."""
    plugin = in_tree_registry()[name]
    assert plugin.name == name
    assert not hasattr(plugin, "filter") or hasattr(plugin, "filter_all")
    assert not hasattr(plugin, "score") or hasattr(plugin, "score_all")
