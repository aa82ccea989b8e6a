"""The flags of `kubesched up`: its own for the cluster, and all of the daemon's."""

# ruff: noqa: RUF009 - `flag` declares a dataclass field, as dataclasses.field does
from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from kubesched.api.quantity import QuantityError, nanos
from kubesched.apiserver.validation.problems import Problems
from kubesched.apiserver.validation.selectors import check_labels
from kubesched.base.types import JSON
from kubesched.config.duration import Duration
from kubesched.daemon.flags.declarations import GlobalFlags, HistoryFlags, ServingFlags
from kubesched.daemon.flags.flag import Flag, FlagSection, flag
from kubesched.daemon.flags.options import Options
from kubesched.daemon.flags.value_types import BOOL, DURATION, INT, IP, PAIRS, PATHS, STRING, WORDS
from kubesched.kubelet.devices import DeviceTextError, parse_devices

INTRODUCTION = """\
Starts a whole Kubernetes cluster in this process, on loopback, in about a second: an API server for kubectl, the
controllers, the scheduler, and simulated nodes whose pods start, run and end without containers. It runs until Ctrl-C.
In another terminal:

  export KUBECONFIG=$HOME/.kube/kubesched.config
  kubectl get nodes
  kubectl create deployment web --image=nginx --replicas=3
  kubectl get pods -o wide

With a plugin of your own, a function or class in a file (docs/guides/plugins.md):

  kubesched up --plugin=rule.py --enable=my_rule
"""
DETAILS = """
--nodes creates nodes, and so does kubectl apply with a Node object. Pods that end, such as those of Jobs, run for
--pod-run-time or for the duration in their annotation kubesched.io/run-time (90s, 1h), and exit with the code in
kubesched.io/exit-code. kubectl annotate node NAME kubesched.io/kubelet=stopped simulates an unresponsive machine.
--devices='gpu.example.com=4' gives every node four GPUs for resource claims (docs/guides/devices.md).

A pod is scheduled by the profile named in its schedulerName. With a --config that has no profile default-scheduler,
pods without a schedulerName stay pending.

With --data-dir the cluster is kept for the next start; without it, everything is in memory.
"""
_MILLISECOND = 1_000_000
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def parse_taint(text: str) -> JSON:
    """Parse ``key=value:Effect`` or ``key:Effect``, as kubectl taint and the kubelet do. Raises ValueError."""
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    if not key or effect not in _EFFECTS:
        raise ValueError(f'"{text}" is not a taint; write key=value:Effect, with {", ".join(_EFFECTS)} as the effect')
    for problem in _label_problems({key: value}, f'"{text}"'):
        raise ValueError(problem)
    return {"key": key, "value": value, "effect": effect} if value else {"key": key, "effect": effect}


def _label_problems(labels: JSON, where: str) -> Iterator[str]:
    problems = Problems()
    check_labels(labels, where, problems)
    yield from (f"{cause.field}: {cause.message}" for cause in problems.found)


@dataclass
class ClusterFlags(FlagSection):
    title: ClassVar[str] = "Cluster"

    port: int = flag(
        INT,
        6443,
        "Port of the API server on 127.0.0.1. 0 means any free port. If the default is in use, a free one is chosen.",
    )
    write_kubeconfig: str = flag(
        STRING,
        "",
        "File for the administrator's kubeconfig. The default is ~/.kube/kubesched.config, or another file beside it "
        "if a running cluster uses that one.",
    )
    ui: bool = flag(BOOL, True, "Serve the web page (kubesched ui). It costs nothing until a browser opens it.")
    ui_port: int = flag(INT, 7070, "Port of the web page on 127.0.0.1. If it is in use, or 0, a free one is chosen.")
    data_dir: str = flag(STRING, "", "Folder to store the cluster in. Without it, everything is in memory.")
    from_: tuple[str, ...] = flag(
        PATHS,
        (),
        "Start with the objects in a file or folder: manifests, a snapshot, kubectl get -o json. Of a recording, its "
        "end. If there are nodes in it, --nodes adds more only if given. Can be repeated.",
        shorthand="f",
    )
    no_scheduler: bool = flag(BOOL, False, "Start no scheduler: pods wait for the one that you start yourself.")
    nodes: int = flag(INT, 3, "Number of nodes to start with, including those already in --data-dir.")
    node_cpu: str = flag(STRING, "4", "CPUs of a node that does not declare its own.")
    node_memory: str = flag(STRING, "8Gi", "Memory of a node that does not declare its own.")
    node_pods: int = flag(INT, 110, "Maximum pods on a node that does not declare its own.")
    node_labels: dict[str, str] = flag(PAIRS, {}, "Labels of the nodes that --nodes creates: disk=ssd,team=a")
    node_taints: tuple[str, ...] = flag(
        WORDS, (), "Taints of the nodes that --nodes creates: dedicated=batch:NoSchedule"
    )
    zones: int = flag(
        INT,
        0,
        "Number of zones to spread the nodes over. The nodes that --nodes creates get the labels "
        "topology.kubernetes.io/zone=zone-1, zone-2 and so on in turn.",
    )
    devices: str = flag(
        STRING,
        "",
        "Devices of every node: gpu.example.com=4:memory=80Gi:model=a100. A driver and its number of devices, then "
        "attributes and capacities after colons, with commas between drivers. The annotation kubesched.io/devices of a "
        "node takes precedence.",
    )
    node_name_format: str = flag(
        STRING,
        "node-{}",
        "Names of the nodes; {} is the number, {:02} the number with two digits: worker{:02}.local",
    )
    run_schedulers: bool = flag(
        BOOL,
        True,
        "Run schedulers that are deployed as pods, as processes of their own. A container counts if its command is "
        "kube-scheduler or kubesched run, or if its --config is in a mounted ConfigMap.",
    )
    simulator_port: int = flag(
        INT,
        0,
        "Port on 127.0.0.1 for clients of kube-scheduler-simulator, which uses 1212: its HTTP interface and the "
        "Kubernetes API, without authentication. Anybody on this machine can then change the cluster. 0 means none.",
    )
    simulator_origins: tuple[str, ...] = flag(
        WORDS, (), "Web pages that may use --simulator-port. That of kube-scheduler-simulator is http://localhost:3000."
    )
    pod_start_delay: Duration = flag(DURATION, Duration(500 * _MILLISECOND), "Time from binding to running.")
    pod_stop_delay: Duration = flag(DURATION, Duration(200 * _MILLISECOND), "Maximum time from deletion to removal.")
    pod_run_time: Duration = flag(DURATION, Duration.of(5), "How long pods that end run, if they have no annotation.")


@dataclass
class LocalServingFlags(ServingFlags):
    """The daemon's serving flags, with loopback as the default: a test cluster should not be reachable from outside."""

    bind_address: str = flag(IP, "127.0.0.1", "Address to listen on. 0.0.0.0 and :: mean all, IPv4 and IPv6.")
    secure_port: int = flag(
        INT,
        10259,
        "HTTPS port for health, metrics and debugging. If the default is in use, a free one is chosen. 0 turns it off.",
    )


@dataclass
class LocalHistoryFlags(HistoryFlags):
    """The daemon's history flags. Here attempts are kept by default: a local cluster is there to be looked at."""

    decision_history: int = flag(
        INT, 10_000, "Attempts to keep in memory and to serve under /debug/scheduling/, with the queue. 0 keeps none."
    )


@dataclass
class LocalGlobalFlags(GlobalFlags):
    """The daemon's global flags, with a short help and a long one."""

    help: bool = flag(BOOL, False, "Show the flags of the cluster.", shorthand="h")
    help_all: bool = flag(BOOL, False, "Show all flags, with those of the scheduler.")


@dataclass
class UpOptions(Options):
    """The options of `up`."""

    cluster: ClusterFlags = field(default_factory=ClusterFlags)
    history: HistoryFlags = field(default_factory=LocalHistoryFlags)
    serving: ServingFlags = field(default_factory=LocalServingFlags)
    globals: LocalGlobalFlags = field(default_factory=LocalGlobalFlags)
    taken: dict[str, int] = field(default_factory=dict)
    """Default ports that other programs have, by flag: free ones are used instead."""

    def sections(self) -> Iterator[FlagSection]:
        yield self.cluster
        yield from (section for section in super().sections() if section is not self.cluster)

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        cluster = self.cluster
        if not 0 <= cluster.port <= 65535:
            yield f"--port {cluster.port} must be between 0 and 65535"
        if not 0 <= cluster.simulator_port <= 65535:
            yield f"--simulator-port {cluster.simulator_port} must be between 0 and 65535"
        if not 0 <= cluster.ui_port <= 65535:
            yield f"--ui-port {cluster.ui_port} must be between 0 and 65535"
        if not 0 <= cluster.nodes <= 100_000:
            yield f"--nodes {cluster.nodes} must be between 0 and 100000"
        if cluster.node_pods < 0:
            yield f"--node-pods {cluster.node_pods} must not be negative"
        if cluster.zones < 0:
            yield f"--zones {cluster.zones} must not be negative"
        yield from self._label_problems()
        yield from self._taint_problems()
        yield from self._quantity_problems()
        yield from self._device_problems()
        yield from self._delay_problems()
        yield from self._name_problems()

    def _quantity_problems(self) -> Iterator[str]:
        for name, text in (("node-cpu", self.cluster.node_cpu), ("node-memory", self.cluster.node_memory)):
            try:
                if nanos(text) < 0:
                    yield f'--{name} "{text}" must not be negative'
            except QuantityError:
                yield f'--{name} "{text}" is not a quantity; write it as 4, 500m or 8Gi'

    def _label_problems(self) -> Iterator[str]:
        yield from _label_problems(self.cluster.node_labels, "--node-labels")

    def _taint_problems(self) -> Iterator[str]:
        for text in self.cluster.node_taints:
            try:
                parse_taint(text)
            except ValueError as error:
                yield f"--node-taints: {error}"

    def _device_problems(self) -> Iterator[str]:
        try:
            parse_devices(self.cluster.devices)
        except DeviceTextError as error:
            yield f"--devices: {error}"

    def _delay_problems(self) -> Iterator[str]:
        for name in ("pod-start-delay", "pod-stop-delay", "pod-run-time"):
            delay: Duration = getattr(self.cluster, name.replace("-", "_"))
            if delay.seconds < 0:
                yield f"--{name} {delay} must not be negative"

    def _name_problems(self) -> Iterator[str]:
        text = self.cluster.node_name_format
        try:
            if re.search(r"[0-9]{4}", text.partition("{")[2]):
                raise ValueError(text)  # a width that would fill the memory; a name has 253 characters at most
            first, second = text.format(1), text.format(2)
        except (AttributeError, IndexError, KeyError, ValueError):
            yield f'--node-name-format "{text}" is not a format; write it as node-{{}} or worker{{:02}}.home.local'
            return
        if first == second and self.cluster.nodes > 1:
            yield f'--node-name-format "{text}" has no {{}} for the number: all nodes would have the same name'
        if not _NAME.fullmatch(first):
            yield f'--node-name-format: "{first}" is not a valid node name; use lower case letters, digits, - and .'

    # --- flags without effect -----------------------------------------------------------------------------------------

    def _no_effect(self, section: FlagSection, each: Flag) -> str:
        if each.name in ("master", "kubeconfig"):
            return "the scheduler always uses the cluster that is started here"
        return super()._no_effect(section, each)
