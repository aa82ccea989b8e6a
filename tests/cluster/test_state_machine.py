"""After any sequence of events, the cluster equals one built from the remaining objects."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace
from tests.builders import (
    HOSTNAME,
    ZONE,
    affinity,
    container,
    expression,
    host_port,
    namespace,
    node,
    pod,
    pod_term,
    selector,
)
from tests.cluster.content import content, counted, domains

from kubesched.api import objects as api
from kubesched.api.selectors import label_selector
from kubesched.cluster.counters import Eligible, RowCounter
from kubesched.cluster.counts import PodCounts
from kubesched.cluster.pods import PodClasses
from kubesched.cluster.state import ClusterState
from kubesched.cluster.table import Mask, NodeTable
from kubesched.cluster.terms import AffinityTerm, affinity_terms
from kubesched.cluster.view import Nodes

DISK = "disk"
LABELS = (HOSTNAME, ZONE, DISK)
NODES = st.sampled_from(["n1", "n2", "n3", "n4", "n5"])
NAMESPACES = st.sampled_from(["blue", "red"])

node_specs = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["2", "4"]),
        "zone": st.sampled_from(["a", "b", ""]),
        "labels": st.sampled_from([{DISK: "ssd"}, {DISK: "hdd"}, {HOSTNAME: "shared"}]),
        "taints": st.lists(st.sampled_from(["x:NoSchedule", "y=1:PreferNoSchedule"]), max_size=2, unique=True),
        "unschedulable": st.booleans(),
        "resources": st.dictionaries(
            st.sampled_from(["example.com/gpu", "example.com/fpga", "hugepages-2Mi", "ephemeral-storage"]),
            st.sampled_from(["0", "4", "8"]),
            max_size=2,
        ),
        "images": st.dictionaries(st.sampled_from(["web:1", "db:2"]), st.integers(1, 3), max_size=2),
    },
)

SELECTORS = [
    selector({"app": "web"}),
    selector(None, expression("app", "Exists")),
    selector(),
    selector(None, expression("app", "NotIn", "db")),
]
TEAMS = [selector({"team": "one"}), None, selector(), selector(None, expression("team", "DoesNotExist"))]
pod_terms = st.builds(
    pod_term,
    st.sampled_from(SELECTORS),
    st.sampled_from(LABELS),
    namespaces=st.lists(NAMESPACES, max_size=1),
    namespace_selector=st.sampled_from(TEAMS),
)
weighted = st.tuples(st.sampled_from([1, 50]), pod_terms)
affinities = st.builds(
    affinity,
    near=st.lists(pod_terms, max_size=1),
    away=st.lists(pod_terms, max_size=2),
    prefer_near=st.lists(weighted, max_size=2),
    prefer_away=st.lists(weighted, max_size=1),
)
PORTS = [80, host_port(80, "UDP"), host_port(80, "TCP", "10.0.0.1")]
claim = api.PersistentVolumeClaimVolumeSource("data")
volumes = st.sampled_from(
    [
        api.Volume(name="disk", gce_persistent_disk=api.GCEPersistentDiskVolumeSource(pd_name="disk")),
        api.Volume(name="claim", persistent_volume_claim=claim),
    ]
)
resizes = st.sampled_from(["1", "3"]).map(
    lambda cpu: api.ContainerStatus("main", api.ResourceRequirements({"cpu": cpu}))
)
templates = st.fixed_dictionaries(
    {},
    optional={
        "labels": st.sampled_from([{"app": "web"}, {"app": "db"}, {"app": "web", "tier": "front"}]),
        "cpu": st.sampled_from(["1", "2"]),
        "requests": st.dictionaries(
            st.sampled_from(["example.com/gpu", "example.com/new", "memory"]), st.sampled_from(["1", "2"]), max_size=2
        ),
        "host_ports": st.lists(st.sampled_from(PORTS), max_size=2),
        "init_containers": st.just([container("proxy", cpu="1", host_ports=[81], sidecar=True)]),
        "affinity": affinities,
        "priority": st.sampled_from([0, 10]),
        "volumes": st.lists(volumes, max_size=2),
    },
)
# Few names, so that they are reused; every new pod of a name has a new UID.
names = st.sampled_from(["p1", "p2", "p3", "p4", "p5", "p6"])


class SmallClasses(PodClasses):
    """Drops idle classes early."""

    RECENT = 3


class SmallTable(NodeTable):
    """Drops label values and taints of former nodes early."""

    SPARE = -8


class FewCounts(PodCounts):
    """Drops counters and idle terms early."""

    MOST_COUNTERS = 4


class SmallCluster(ClusterState):
    """Drops counters and idle terms early, and starts with room for two nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes = SmallTable(capacity=2)
        self.counts = FewCounts(self.nodes, self.objects)
        self.classes = SmallClasses()


class Ask:
    """A count: of pods by a selector or by terms, optionally by domain and over some nodes."""

    def __init__(self, kind: str, where: str, picks: api.LabelSelector | api.PodAffinityTerm, key: str | None) -> None:
        self.kind = kind
        self.where = where
        self.picks = picks
        self.key = key

    def of(self, cluster: ClusterState) -> RowCounter:
        if isinstance(self.picks, api.LabelSelector):
            return cluster.counts.spread(self.where, label_selector(self.picks))
        return cluster.counts.affinity(self.terms())

    def terms(self) -> tuple[AffinityTerm, ...]:
        assert isinstance(self.picks, api.PodAffinityTerm)
        return affinity_terms(self.where, affinity(near=[self.picks])).required

    def answer(self, cluster: ClusterState) -> Any:
        counter = self.of(cluster)
        answer: list[Any] = [counted(cluster.nodes, counter)]
        if self.key is not None:
            answer += [domains(counter.by_domain(self.key)), domains(counter.by_domain(self.key, *on_disks(cluster)))]
        return answer

    def __repr__(self) -> str:
        return f"Ask({self.kind}, {self.where}, {self.picks}, {self.key})"


def on_disks(cluster: ClusterState) -> tuple[Eligible, str]:
    """Only nodes with a disk label and no taints count."""

    def eligible() -> Mask:
        nodes = Nodes(cluster.nodes)
        untainted: Mask = nodes.table.taint_set[nodes.rows] == 0
        return nodes.valid & nodes.has_label(DISK) & untainted

    return eligible, "on disks"


def read_status(each: api.Node) -> api.NodeStatus:
    """A node's status without the fields that scheduling ignores."""
    return replace(each.status, conditions=())


asks = st.one_of(
    st.builds(Ask, st.just("spread"), NAMESPACES, st.sampled_from(SELECTORS), st.sampled_from([*LABELS, None])),
    st.builds(Ask, st.just("affinity"), NAMESPACES, pod_terms, st.sampled_from([*LABELS, None])),
)


class ClusterMachine(RuleBasedStateMachine):
    """Events from an API server and a scheduler, checked against a plain record of the resulting objects."""

    @initialize(
        small=st.booleans(),
        templates=st.lists(templates, min_size=1, max_size=3),
        asks=st.lists(asks, min_size=1, max_size=5),
    )
    def start(self, small: bool, templates: list[dict[str, Any]], asks: list[Ask]) -> None:
        self.small = small
        self.templates = st.sampled_from(templates)
        self.asks = st.sampled_from(asks)
        self.cluster = self.empty()
        self.nodes: dict[str, api.Node] = {}
        self.pods: dict[str, api.Pod] = {}
        self.assumed: dict[str, tuple[api.Pod, str]] = {}
        self.namespaces: dict[str, api.Namespace] = {}
        self.image_sizes: dict[str, int] = {}
        self.asked: dict[Ask, None] = {}
        self.born = 0

    def empty(self) -> ClusterState:
        return SmallCluster() if self.small else ClusterState()

    # Nodes

    @rule(name=NODES, spec=node_specs)
    def set_node(self, name: str, spec: dict[str, Any]) -> None:
        self.take_node(node(name, **spec))

    @precondition(lambda self: self.nodes)
    @rule(data=st.data(), spec=node_specs, part=st.sampled_from(["metadata", "spec", "status", "heartbeat"]))
    def change_node(self, data: st.DataObject, spec: dict[str, Any], part: str) -> None:
        """Change one aspect of a node, or only fields that scheduling ignores."""
        old = data.draw(st.sampled_from(list(self.nodes.values())))
        if part == "heartbeat":
            status = replace(old.status, conditions=(api.NodeCondition("Ready", str(self.born)),))
            self.take_node(replace(old, status=status))
        else:
            self.take_node(replace(old, **{part: getattr(node(old.name, **spec), part)}))

    @precondition(lambda self: self.nodes)
    @rule(data=st.data())
    def remove_node(self, data: st.DataObject) -> None:
        old = self.nodes.pop(data.draw(st.sampled_from(sorted(self.nodes))))
        self.cluster.remove(old)
        self.drop_images(old)

    def take_node(self, new: api.Node) -> None:
        """Record the node. An image's size is that given by its first node; an updated node counts as new."""
        old = self.nodes.get(new.name)
        self.nodes[new.name] = new
        self.cluster.set(new)
        if old is not None:
            if (old.labels, old.spec, read_status(old)) == (new.labels, new.spec, read_status(new)):
                return
            self.drop_images(old)
        for image in new.status.images:
            for name in image.names:
                self.image_sizes.setdefault(name, image.size_bytes)

    def drop_images(self, old: api.Node) -> None:
        others = {i.names[0] for n in self.nodes.values() if n.name != old.name for i in n.status.images}
        for image in old.status.images:
            if image.names[0] not in others:
                del self.image_sizes[image.names[0]]

    # Pods

    @rule(data=st.data(), name=names, where=NAMESPACES, place=NODES, how=st.sampled_from(["on", "to", "pending"]))
    def create_pod(self, data: st.DataObject, name: str, where: str, place: str, how: str) -> None:
        """Create a pod: bound, nominated, or neither."""
        self.born += 1
        target: dict[str, Any] = {"on": {"node": place}, "to": {"nominated": place}, "pending": {}}[how]
        self.take_pod(pod(name, namespace=where, uid=f"uid-{self.born}", **self.content(data), **target))

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), place=NODES)
    def change_pod(self, data: st.DataObject, place: str) -> None:
        """Change a pod's labels or spec, or bind, move, nominate, delete or end it."""
        old = data.draw(st.sampled_from(list(self.pods.values())))
        meta, spec, status = old.metadata, old.spec, old.status
        what = data.draw(st.sampled_from(["labels", "spec", "node", "nominated", "terminating", "finished", "started"]))
        if what == "labels":
            meta = replace(meta, labels=pod(**self.content(data)).labels)
        elif what == "spec":
            new = pod(**self.content(data))
            spec = replace(new.spec, node_name=spec.node_name)
            status = replace(status, container_statuses=new.status.container_statuses)
        elif what == "node":
            spec = replace(spec, node_name=place)
        elif what == "nominated":
            status = replace(status, nominated_node_name=data.draw(st.sampled_from(["", place])))
        elif what == "terminating":
            meta = replace(meta, deletion_timestamp="2026-01-01T00:00:00Z")
        elif what == "finished":
            status = replace(status, phase=data.draw(st.sampled_from(["Succeeded", "Failed"])))
        else:
            status = replace(status, start_time=f"2026-01-01T00:00:{self.born % 60:02}Z")
        self.take_pod(api.Pod(metadata=meta, spec=spec, status=status))

    def content(self, data: st.DataObject) -> dict[str, Any]:
        """One of a few templates, like pods of a deployment; perhaps during a resize."""
        return {**data.draw(self.templates), "statuses": data.draw(st.lists(resizes, max_size=1))}

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def delete_pod(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        self.cluster.remove(self.pods.pop(uid))
        self.assumed.pop(uid, None)

    def waiting(self) -> list[api.Pod]:
        return [p for p in self.pods.values() if not p.node_name and not p.is_terminal and p.uid not in self.assumed]

    @precondition(lambda self: self.waiting())
    @rule(data=st.data(), place=NODES)
    def assume(self, data: st.DataObject, place: str) -> None:
        """The scheduler assumes a pod on a node, which may have been deleted."""
        chosen = data.draw(st.sampled_from(self.waiting()))
        self.cluster.assume(self.cluster.classes.info(chosen), place)
        self.assumed[chosen.uid] = (chosen, place)

    @precondition(lambda self: self.assumed)
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        """The binding failed: the pod is unknown until the scheduler or an event names it again."""
        uid = data.draw(st.sampled_from(sorted(self.assumed)))
        self.cluster.forget(uid)
        del self.assumed[uid], self.pods[uid]

    @precondition(lambda self: self.assumed)
    @rule(data=st.data(), elsewhere=st.none() | NODES, phase=st.sampled_from(["", "Running", "Failed"]))
    def confirm(self, data: st.DataObject, elsewhere: str | None, phase: str) -> None:
        """The API server reports the node of an assumed pod, which takes precedence."""
        uid = data.draw(st.sampled_from(sorted(self.assumed)))
        old = self.pods[uid]
        spec = replace(old.spec, node_name=elsewhere or self.assumed[uid][1])
        self.take_pod(replace(old, spec=spec, status=replace(old.status, phase=phase)))

    def take_pod(self, new: api.Pod) -> None:
        self.cluster.set(new)
        self.pods[new.uid] = new
        if new.node_name:
            self.assumed.pop(new.uid, None)

    # Namespaces

    @rule(name=NAMESPACES, labels=st.sampled_from([{}, {"team": "one"}, {"team": "two"}]))
    def set_namespace(self, name: str, labels: dict[str, str]) -> None:
        self.namespaces[name] = namespace(name, labels=labels)
        self.cluster.set(self.namespaces[name])

    @precondition(lambda self: self.namespaces)
    @rule(data=st.data())
    def remove_namespace(self, data: st.DataObject) -> None:
        self.cluster.remove(self.namespaces.pop(data.draw(st.sampled_from(sorted(self.namespaces)))))

    # Counters

    @rule(data=st.data())
    def count(self, data: st.DataObject) -> None:
        """Request a count, which is updated from now on."""
        ask = data.draw(self.asks)
        self.asked[ask] = None
        ask.answer(self.cluster)

    # Invariants

    def rebuilt(self) -> ClusterState:
        fresh = self.empty()
        for obj in (*self.namespaces.values(), *self.nodes.values()):
            fresh.set(obj)
        for uid, each in self.pods.items():
            if uid not in self.assumed:
                fresh.set(each)
        for each, place in self.assumed.values():
            fresh.assume(fresh.classes.info(each), place)
        return fresh

    @invariant()
    def equals_a_rebuild(self) -> None:
        fresh = self.rebuilt()
        assert content(self.cluster, LABELS) == content(fresh, LABELS)
        for ask in self.asked:
            assert ask.answer(self.cluster) == ask.answer(fresh), ask

    @invariant()
    def images_have_the_size_first_reported(self) -> None:
        sizes = {name: state.size for name, state in self.cluster.nodes.images.items()}
        assert sizes == self.image_sizes


TestClusterMachine = ClusterMachine.TestCase
TestClusterMachine.settings = settings(max_examples=settings().max_examples * 2, stateful_step_count=60)
