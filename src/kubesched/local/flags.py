"""The flags of `kubesched up`: those about the cluster, and all of the daemon's."""

# ruff: noqa: RUF009 - `flag` makes a field of a dataclass, as dataclasses.field does
from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from kubesched.api.quantity import QuantityError, nanos
from kubesched.config.duration import Duration
from kubesched.daemon.flags.flag import Flag, FlagSection, flag
from kubesched.daemon.flags.options import Options
from kubesched.daemon.flags.sections import ServingFlags
from kubesched.daemon.flags.value_types import DURATION, INT, IP, STRING

INTRODUCTION = """\
Starts a whole Kubernetes cluster in this process, on loopback, in about a second: an API server that kubectl takes for
real, the controllers, simulated nodes whose pods start, run and end without any container, and the scheduler. It stays
until Ctrl-C. In another terminal:

  export KUBECONFIG=$HOME/.kube/kubesched.config
  kubectl get nodes
  kubectl create deployment web --image=nginx --replicas=3
  kubectl get pods -o wide

With a rule of your own, a function or class in a file (docs/guides/plugins.md):

  kubesched up --plugin=rule.py --enable=my_rule

Nodes are what --nodes makes, or what you create: kubectl apply of a Node object is enough. A pod that ends runs for
--pod-run-time, or as long as its annotation kubesched.io/run-time says (90s, 1h), and ends with the code in
kubesched.io/exit-code. kubectl annotate node NAME kubesched.io/kubelet=stopped makes a machine fall silent.

Pods are scheduled by the profile that they name in schedulerName. With a --config that has no profile
default-scheduler, those that name none stay pending.

Without --data-dir everything is gone when it ends; with it, the next start finds what was there.
"""
_MILLISECOND = 1_000_000
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@dataclass
class ClusterFlags(FlagSection):
    title: ClassVar[str] = "Cluster"

    port: int = flag(INT, 6443, "Port of the API server on 127.0.0.1. 0 takes a free one.")
    write_kubeconfig: str = flag(
        STRING,
        "",
        "File to write the administrator's kubeconfig to, by default ~/.kube/kubesched.config, or one beside it while "
        "another cluster runs that wrote it.",
    )
    data_dir: str = flag(STRING, "", "Folder to keep the cluster in. Without it everything is in memory.")
    nodes: int = flag(INT, 3, "Nodes to begin with; those that a data directory has already count.")
    node_cpu: str = flag(STRING, "4", "CPUs of a node that does not say how many it has.")
    node_memory: str = flag(STRING, "8Gi", "Memory of such a node.")
    node_pods: int = flag(INT, 110, "Most pods on such a node.")
    node_name_format: str = flag(
        STRING,
        "node-{}",
        "Names of the nodes; {} is the number, {:02} the number in two digits: worker{:02}.local",
    )
    pod_start_delay: Duration = flag(DURATION, Duration(500 * _MILLISECOND), "From binding to running.")
    pod_stop_delay: Duration = flag(DURATION, Duration(200 * _MILLISECOND), "From deletion to being gone, at most.")
    pod_run_time: Duration = flag(DURATION, Duration.of(5), "How long pods run that end and do not say when.")


@dataclass
class LocalServingFlags(ServingFlags):
    """As the daemon serves, but for nobody else's eyes: a cluster to try things on belongs on loopback."""

    bind_address: str = flag(IP, "127.0.0.1", "Address to listen on. 0.0.0.0 and :: mean all, IPv4 and IPv6.")


@dataclass
class UpOptions(Options):
    """The options of `up`."""

    cluster: ClusterFlags = field(default_factory=ClusterFlags)
    serving: ServingFlags = field(default_factory=LocalServingFlags)

    def sections(self) -> Iterator[FlagSection]:
        yield self.cluster
        yield from (section for section in super().sections() if section is not self.cluster)

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        cluster = self.cluster
        if not 0 <= cluster.port <= 65535:
            yield f"--port {cluster.port} must be between 0 and 65535"
        if not 0 <= cluster.nodes <= 100_000:
            yield f"--nodes {cluster.nodes} must be between 0 and 100000"
        if cluster.node_pods < 0:
            yield f"--node-pods {cluster.node_pods} must not be negative"
        yield from self._quantity_problems()
        yield from self._delay_problems()
        yield from self._name_problems()

    def _quantity_problems(self) -> Iterator[str]:
        for name, text in (("node-cpu", self.cluster.node_cpu), ("node-memory", self.cluster.node_memory)):
            try:
                if nanos(text) < 0:
                    yield f'--{name} "{text}" must not be negative'
            except QuantityError:
                yield f'--{name} "{text}" is no quantity; write it as 4, 500m or 8Gi'

    def _delay_problems(self) -> Iterator[str]:
        for name in ("pod-start-delay", "pod-stop-delay", "pod-run-time"):
            delay: Duration = getattr(self.cluster, name.replace("-", "_"))
            if delay.seconds < 0:
                yield f"--{name} {delay} must not be negative"

    def _name_problems(self) -> Iterator[str]:
        text = self.cluster.node_name_format
        try:
            first, second = text.format(1), text.format(2)
        except (IndexError, KeyError, ValueError):
            yield f'--node-name-format "{text}" is no format; write it as node-{{}} or worker{{:02}}.home.local'
            return
        if first == second and self.cluster.nodes > 1:
            yield f'--node-name-format "{text}" has no {{}} for the number: all nodes would have one name'
        if not _NAME.fullmatch(first):
            yield f'--node-name-format: "{first}" cannot be the name of a node: lower case letters, digits, - and .'

    # --- what is accepted and changes nothing -------------------------------------------------------------------------

    def _no_effect(self, section: FlagSection, each: Flag) -> str:
        if each.name in ("master", "kubeconfig"):
            return "the scheduler works on the cluster that is started here"
        return super()._no_effect(section, each)
