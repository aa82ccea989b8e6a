"""Plugins that look at a node's name, cordon, taints, labels, ports and images, and the small ones of the queue."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.builders import affinity, cluster, container, host_port, node, node_term, pod, taint, toleration
from tests.harness import filtered, hint, make, scored

from kubesched.api import objects as api
from kubesched.cluster.view import Nodes
from kubesched.config.args import NodeAffinityArgs
from kubesched.framework.events import Action, Hint, Resource
from kubesched.framework.handle import Services
from kubesched.framework.state import CycleState
from kubesched.framework.status import SKIP, Code
from kubesched.plugins.default_binder import DefaultBinder
from kubesched.plugins.image_locality import ImageLocality
from kubesched.plugins.node_affinity import CONFLICT, NodeAffinity
from kubesched.plugins.node_name import NodeName
from kubesched.plugins.node_ports import NodePorts
from kubesched.plugins.node_unschedulable import NodeUnschedulable
from kubesched.plugins.priority_sort import PrioritySort
from kubesched.plugins.scheduling_gates import SchedulingGates
from kubesched.plugins.taint_toleration import TaintToleration

QUEUE, SKIPPED = Hint.QUEUE, Hint.SKIP
UNRESOLVABLE = "UnschedulableAndUnresolvable"
MIB = 2**20


# --- PrioritySort, SchedulingGates, DefaultBinder ---------------------------------------------------------------------


def test_pods_of_higher_priority_come_first() -> None:
    """A pod's place in the queue follows from its priority; none counts as zero."""
    plugin = make(PrioritySort, cluster())
    pods = [pod("none"), pod("low", priority=-5), pod("high", priority=10)]
    assert [each.name for each in sorted(pods, key=plugin.sort_key)] == ["high", "none", "low"]


def test_gates_keep_a_pod_out() -> None:
    """All remaining gates are named as Go prints a list."""
    plugin = make(SchedulingGates, cluster())
    assert plugin.pre_enqueue(pod()) is None
    status = plugin.pre_enqueue(pod(gates=["quota", "storage"]))
    assert status is not None
    assert (status.code, status.message) == (
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        "waiting for scheduling gates: [quota storage]",
    )


def test_hints_of_scheduling_gates() -> None:
    """Only the pod's own gates matter, and only their removal."""
    plugin, gone = make(SchedulingGates, cluster()), Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    mine = pod("p", gates=["g"])
    assert hint(plugin, Resource.POD, gone, mine, mine, pod("p")) is QUEUE
    assert hint(plugin, Resource.POD, gone, mine, pod("q", gates=["g"]), pod("q")) is SKIPPED
    assert hint(plugin, Resource.POD, Action.UPDATE_POD_LABEL, mine, mine, mine) is None
    assert hint(plugin, Resource.NODE, Action.ADD, mine, None, node("a")) is None


class Client:
    """Takes bindings, or refuses them."""

    def __init__(self, refusal: str = "") -> None:
        self.refusal = refusal
        self.bound: list[tuple[str, str]] = []

    async def bind(self, pod: api.Pod, node_name: str) -> None:
        if self.refusal:
            raise RuntimeError(self.refusal)
        self.bound.append((pod.key, node_name))


def test_binding() -> None:
    """The binder hands pod and node to the client, and a refusal is a status and no exception."""
    made = cluster(node("a"))
    info = made.classes.info(pod("p"))
    client = Client()
    plugin = make(DefaultBinder, made, services=Services(client=client))  # type: ignore[arg-type]  # all that it asks for
    assert asyncio.run(plugin.bind(CycleState(info.pod_class), info.pod, "a")) is None
    assert client.bound == [("default/p", "a")]
    client.refusal = "conflict"
    status = asyncio.run(plugin.bind(CycleState(info.pod_class), info.pod, "a"))
    assert status is not None
    assert (status.code, status.message) == (Code.ERROR, "conflict")


# --- NodeName ---------------------------------------------------------------------------------------------------------


def test_node_name() -> None:
    """A pod that names its node goes to no other, one that names none anywhere."""
    made = cluster(node("a"), node("b"))
    plugin = make(NodeName, made)
    other = (UNRESOLVABLE, "node(s) didn't match the requested node name")
    assert filtered(plugin, made, pod()) == {"a": (), "b": ()}
    assert filtered(plugin, made, pod(node="b")) == {"a": other, "b": ()}
    assert filtered(plugin, made, pod(node="gone")) == {"a": other, "b": other}


def test_hints_of_node_name() -> None:
    """A new node may be the one; no update makes a node another."""
    plugin = make(NodeName, cluster())
    assert hint(plugin, Resource.NODE, Action.ADD, pod(node="b"), None, node("b")) is QUEUE
    assert hint(plugin, Resource.NODE, Action.UPDATE_NODE_LABEL, pod(node="b"), node("b"), node("b")) is None


# --- NodeUnschedulable ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tolerated", "passes"),
    [
        ([], False),
        (["node.kubernetes.io/unschedulable:NoSchedule"], True),
        (["node.kubernetes.io/unschedulable"], True),
        (["*"], True),
        (["node.kubernetes.io/unschedulable:NoExecute"], False),
        (["other:NoSchedule"], False),
    ],
)
def test_cordoned_nodes(tolerated: list[str], passes: bool) -> None:
    """A cordoned node takes only pods that tolerate the unschedulable taint, whether the node has it or not."""
    made = cluster(node("open"), node("cordoned", unschedulable=True))
    found = filtered(make(NodeUnschedulable, made), made, pod(tolerations=tolerated))
    assert found == {"open": (), "cordoned": () if passes else (UNRESOLVABLE, "node(s) were unschedulable")}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, node("a"), QUEUE),
        (None, node("a", unschedulable=True), SKIPPED),
        (node("a", unschedulable=True), node("a"), QUEUE),
        (node("a"), node("a"), SKIPPED),
        (node("a"), node("a", unschedulable=True), SKIPPED),
        (node("a", unschedulable=True), node("a", unschedulable=True), SKIPPED),
    ],
)
def test_hints_of_node_unschedulable(old: api.Node | None, new: api.Node, expected: Hint) -> None:
    """A node that is open now and was not, or was not there, may help."""
    action = Action.ADD if old is None else Action.UPDATE_NODE_TAINT
    assert hint(make(NodeUnschedulable, cluster()), Resource.NODE, action, pod(), old, new) is expected


def test_toleration_hints_of_node_unschedulable() -> None:
    """Of toleration changes only the pod's own, and only the right one."""
    plugin, changed = make(NodeUnschedulable, cluster()), Action.UPDATE_POD_TOLERATION
    right, wrong = ["node.kubernetes.io/unschedulable"], ["other"]
    assert hint(plugin, Resource.POD, changed, pod("p"), pod("p"), pod("p", tolerations=right)) is QUEUE
    assert hint(plugin, Resource.POD, changed, pod("p"), pod("p"), pod("p", tolerations=wrong)) is SKIPPED
    assert hint(plugin, Resource.POD, changed, pod("p"), pod("q"), pod("q", tolerations=right)) is SKIPPED
    assert hint(plugin, Resource.NODE, Action.UPDATE_NODE_LABEL, pod("p"), node("a"), node("a")) is None


# --- TaintToleration --------------------------------------------------------------------------------------------------

UNTOLERATED = (UNRESOLVABLE, "node(s) had untolerated taint(s)")


@pytest.mark.parametrize(
    ("taints", "tolerated", "passes"),
    [
        (["k=v:NoSchedule"], [], False),
        (["k=v:NoExecute"], [], False),
        (["k=v:PreferNoSchedule"], [], True),
        (["k=v:NoSchedule"], ["k=v:NoSchedule"], True),
        (["k=v:NoSchedule"], ["k=w:NoSchedule"], False),
        (["k=v:NoSchedule"], ["k"], True),
        (["k=v:NoSchedule"], ["k:NoExecute"], False),
        (["k=v:NoSchedule", "l:NoExecute"], ["k"], False),
        (["k=v:NoSchedule", "l:NoExecute"], ["k", "l"], True),
        (["k=v:NoSchedule"], ["*"], True),
    ],
)
def test_taints(taints: list[str], tolerated: list[str], passes: bool) -> None:
    """NoSchedule and NoExecute taints must all be tolerated."""
    made = cluster(node("plain"), node("tainted", taints=taints))
    found = filtered(make(TaintToleration, made), made, pod(tolerations=tolerated))
    assert found == {"plain": (), "tainted": () if passes else UNTOLERATED}


def test_fewer_soft_taints_score_higher() -> None:
    """Untolerated PreferNoSchedule taints are counted, and the node with the fewest gets 100."""
    soft = [f"k{i}:PreferNoSchedule" for i in range(4)]
    made = cluster(node("none"), node("one", taints=soft[:1]), node("four", taints=[*soft, "hard:NoSchedule"]))
    plugin = make(TaintToleration, made)
    assert scored(plugin, made, pod(), normalized=False) == {"none": 0, "one": 1, "four": 4}
    assert scored(plugin, made, pod()) == {"none": 100, "one": 75, "four": 0}
    assert scored(plugin, made, pod(tolerations=["k0"])) == {"none": 100, "one": 100, "four": 0}


def test_hard_tolerations_do_not_soften() -> None:
    """A toleration of another effect does not count for soft taints; one of every effect does."""
    made = cluster(node("a", taints=["k:PreferNoSchedule"]), node("b"))
    plugin = make(TaintToleration, made)
    assert scored(plugin, made, pod(tolerations=["k:NoSchedule"])) == {"a": 0, "b": 100}
    assert scored(plugin, made, pod(tolerations=["k"])) == {"a": 100, "b": 100}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, node("a"), QUEUE),
        (None, node("a", taints=["k:NoSchedule"]), SKIPPED),
        (None, node("a", taints=["mine:NoSchedule"]), QUEUE),
        (node("a", taints=["k:NoSchedule"]), node("a"), QUEUE),
        (node("a", taints=["k:NoSchedule"]), node("a", taints=["l:NoSchedule"]), SKIPPED),
        (node("a"), node("a", taints=["k:PreferNoSchedule"]), SKIPPED),
        (node("a", taints=["mine:NoSchedule"]), node("a"), SKIPPED),
    ],
)
def test_hints_of_taint_toleration(old: api.Node | None, new: api.Node, expected: Hint) -> None:
    """A node that rejected the pod, or is new, and does not reject it now."""
    action = Action.ADD if old is None else Action.UPDATE_NODE_TAINT
    waiting = pod(tolerations=["mine"])
    assert hint(make(TaintToleration, cluster()), Resource.NODE, action, waiting, old, new) is expected


def test_toleration_hints_of_taint_toleration() -> None:
    """The pod's own new toleration may help, anybody else's not."""
    plugin, changed = make(TaintToleration, cluster()), Action.UPDATE_POD_TOLERATION
    assert hint(plugin, Resource.POD, changed, pod("p"), pod("p"), pod("p", tolerations=["k"])) is QUEUE
    assert hint(plugin, Resource.POD, changed, pod("p"), pod("q"), pod("q", tolerations=["k"])) is SKIPPED


def test_the_shorthands_for_taints() -> None:
    """The builders read taints and tolerations as kubectl writes them."""
    assert taint("k=v:NoSchedule") == api.Taint("k", "v", "NoSchedule")
    assert toleration("k:NoExecute") == api.Toleration("k", "Exists", "", "NoExecute")
    assert toleration("k=v") == api.Toleration("k", "Equal", "v", "")


# --- NodeAffinity -----------------------------------------------------------------------------------------------------

NOT_POD = (UNRESOLVABLE, "node(s) didn't match Pod's node affinity/selector")
NOT_ENFORCED = (UNRESOLVABLE, "node(s) didn't match scheduler-enforced node affinity")


@pytest.mark.parametrize(
    ("wants", "passing"),
    [
        ({}, "abc"),
        ({"node_selector": {"disk": "ssd"}}, "a"),
        ({"affinity": affinity(nodes=[node_term(("disk", "Exists"))])}, "ab"),
        ({"affinity": affinity(nodes=[node_term(("disk", "In", "hdd")), node_term(("size", "Gt", "5"))])}, "bc"),
        ({"affinity": affinity(nodes=[node_term(("disk", "NotIn", "ssd"))])}, "bc"),
        ({"affinity": affinity(nodes=[node_term(name="c"), node_term(name="a")])}, "ac"),
        ({"affinity": affinity(nodes=[])}, ""),
        ({"affinity": affinity(nodes=[node_term()])}, ""),
        ({"node_selector": {"disk": "ssd"}, "affinity": affinity(nodes=[node_term(("disk", "In", "hdd"))])}, ""),
        # A term that does not parse matches nothing; the others count.
        ({"affinity": affinity(nodes=[node_term(("disk", "Nonsense")), node_term(("disk", "In", "hdd"))])}, "b"),
    ],
)
def test_required_node_affinity(wants: dict[str, Any], passing: str) -> None:
    """The node selector and one of the terms must hold."""
    made = cluster(
        node("a", labels={"disk": "ssd"}), node("b", labels={"disk": "hdd"}), node("c", labels={"size": "9"})
    )
    found = filtered(make(NodeAffinity, made), made, pod(**wants))
    assert found == {name: () if name in passing else NOT_POD for name in "abc"}


def prefiltered(plugin: NodeAffinity, each: api.Pod) -> object:
    made = plugin.handle.cluster
    info = made.classes.info(each)
    return plugin.pre_filter(CycleState(info.pod_class), info.pod, Nodes(made.nodes))


def test_terms_that_name_nodes_narrow_the_search() -> None:
    """If every term names nodes, only those are evaluated; contradictory names are a conflict."""
    plugin = make(NodeAffinity, cluster())
    named = api.NodeSelectorTerm(
        match_fields=(
            api.NodeSelectorRequirement("metadata.name", "In", ("a",)),
            api.NodeSelectorRequirement("metadata.name", "In", ("b",)),
        )
    )
    assert prefiltered(plugin, pod()) is SKIP
    assert prefiltered(plugin, pod(node_selector={"disk": "ssd"})) is None
    both = affinity(nodes=[node_term(("disk", "Exists"), name="a"), node_term(name="c")])
    assert prefiltered(plugin, pod(affinity=both)) == {"a", "c"}
    assert (
        prefiltered(plugin, pod(affinity=affinity(nodes=[node_term(name="a"), node_term(("disk", "Exists"))]))) is None
    )
    assert prefiltered(plugin, pod(affinity=affinity(nodes=[named]))) is CONFLICT
    assert prefiltered(plugin, pod(affinity=affinity(prefer_nodes=[(1, node_term(name="a"))]))) is SKIP


def test_affinity_from_the_configuration() -> None:
    """Nodes must also match the profile's added affinity, which is reported first."""
    added = api.NodeAffinity(
        api.NodeSelector((node_term(("disk", "Exists")),)),
        (api.PreferredSchedulingTerm(7, node_term(("disk", "In", "ssd"))),),
    )
    made = cluster(node("a", labels={"disk": "ssd"}), node("b", labels={"disk": "hdd"}), node("c"))
    plugin = make(NodeAffinity, made, NodeAffinityArgs(added_affinity=added))
    assert filtered(plugin, made, pod()) == {"a": (), "b": (), "c": NOT_ENFORCED}
    assert filtered(plugin, made, pod(node_selector={"disk": "ssd"})) == {"a": (), "b": NOT_POD, "c": NOT_ENFORCED}
    assert scored(plugin, made, pod(), normalized=False) == {"a": 7, "b": 0, "c": 0}


def test_preferred_node_affinity() -> None:
    """Weights of matching terms add up and are scaled by the highest; empty terms and weight 0 count for nothing."""
    made = cluster(node("a", labels={"disk": "ssd", "size": "9"}), node("b", labels={"disk": "ssd"}), node("c"))
    plugin = make(NodeAffinity, made)
    prefers = [
        (30, node_term(("disk", "In", "ssd"))),
        (20, node_term(("size", "Exists"))),
        (99, node_term()),
        (0, node_term(("nonsense", "Nonsense"))),
    ]
    each = pod(affinity=affinity(prefer_nodes=prefers))
    assert scored(plugin, made, each, normalized=False) == {"a": 50, "b": 30, "c": 0}
    assert scored(plugin, made, each) == {"a": 100, "b": 60, "c": 0}
    assert scored(plugin, made, pod()) is None


def test_a_bad_preference_is_an_error() -> None:
    """A preferred term that does not parse ends the attempt at PreScore, with upstream's message."""
    made = cluster(node("a"))
    plugin = make(NodeAffinity, made)
    info = made.classes.info(pod(affinity=affinity(prefer_nodes=[(1, node_term(("disk", "Nonsense")))])))
    status = plugin.pre_score(CycleState(info.pod_class), info.pod, Nodes(made.nodes))
    assert status is not None
    assert status.code is Code.ERROR
    assert 'Unsupported value: "Nonsense"' in status.message


SSD, HDD = node("a", labels={"disk": "ssd"}), node("a", labels={"disk": "hdd"})


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, SSD, QUEUE),
        (None, HDD, SKIPPED),
        (HDD, SSD, QUEUE),
        (SSD, SSD, SKIPPED),
        (SSD, HDD, SKIPPED),
    ],
)
def test_hints_of_node_affinity(old: api.Node | None, new: api.Node, expected: Hint) -> None:
    """A node that matches now and did not, or was not there."""
    action = Action.ADD if old is None else Action.UPDATE_NODE_LABEL
    waiting = pod(node_selector={"disk": "ssd"})
    assert hint(make(NodeAffinity, cluster()), Resource.NODE, action, waiting, old, new) is expected


def test_hints_of_enforced_affinity() -> None:
    """A node that the profile does not allow helps no pod."""
    added = api.NodeAffinity(api.NodeSelector((node_term(("disk", "In", "ssd")),)))
    plugin = make(NodeAffinity, cluster(), NodeAffinityArgs(added_affinity=added))
    assert hint(plugin, Resource.NODE, Action.ADD, pod(), None, HDD) is SKIPPED
    assert hint(plugin, Resource.NODE, Action.ADD, pod(), None, SSD) is QUEUE
    assert hint(plugin, Resource.NODE, Action.UPDATE_NODE_TAINT, pod(), HDD, SSD) is None


def test_hints_of_affinity_that_does_not_parse() -> None:
    """Upstream cannot decide and queues the pod; a term that does match decides as usual."""
    plugin = make(NodeAffinity, cluster())
    bad = pod(affinity=affinity(nodes=[node_term(("disk", "Nonsense"))]))
    assert hint(plugin, Resource.NODE, Action.ADD, bad, None, SSD) is QUEUE
    both = affinity(nodes=[node_term(("disk", "Nonsense")), node_term(("disk", "In", "ssd"))])
    assert hint(plugin, Resource.NODE, Action.UPDATE_NODE_LABEL, pod(affinity=both), SSD, SSD) is SKIPPED
    elsewhere = pod(node_selector={"disk": "nvme"}, affinity=affinity(nodes=[node_term(("disk", "Nonsense"))]))
    assert hint(plugin, Resource.NODE, Action.ADD, elsewhere, None, SSD) is SKIPPED


# --- NodePorts --------------------------------------------------------------------------------------------------------

TAKEN = ("Unschedulable", "node(s) didn't have free ports for the requested pod ports")


@pytest.mark.parametrize(
    ("taken", "wanted", "free"),
    [
        (80, 81, True),
        (80, 80, False),
        (host_port(80, "UDP"), 80, True),
        (host_port(80, "TCP", "10.0.0.1"), host_port(80, "TCP", "10.0.0.2"), True),
        (host_port(80, "TCP", "10.0.0.1"), host_port(80, "TCP", "10.0.0.1"), False),
        (host_port(80, "TCP", "10.0.0.1"), 80, False),
        (80, host_port(80, "TCP", "10.0.0.1"), False),
        (host_port(80, "TCP", "0.0.0.0"), host_port(80, "", "10.0.0.1"), False),
        (host_port(80, "SCTP", "10.0.0.1"), host_port(80, "TCP", "10.0.0.1"), True),
    ],
)
def test_ports(taken: int | api.ContainerPort, wanted: int | api.ContainerPort, free: bool) -> None:
    """A port is taken per protocol and address, and every address takes them all."""
    made = cluster(node("a"), node("b"), pod("there", node="a", host_ports=[taken]))
    found = filtered(make(NodePorts, made), made, pod(host_ports=[wanted]))
    assert found == {"a": () if free else TAKEN, "b": ()}


def test_a_pod_without_host_ports_is_not_looked_at() -> None:
    """Its Filter is skipped."""
    made = cluster(node("a"))
    info = made.classes.info(pod())
    assert make(NodePorts, made).pre_filter(CycleState(info.pod_class), info.pod, Nodes(made.nodes)) is SKIP


def test_sidecars_hold_their_ports() -> None:
    """A port of a restartable init container is taken; of an ordinary init container it is not."""
    side = container("side", host_ports=[80], sidecar=True)
    init = container("init", host_ports=[81])
    made = cluster(node("a"), pod("there", node="a", init_containers=[side, init]))
    plugin = make(NodePorts, made)
    assert filtered(plugin, made, pod(host_ports=[80])) == {"a": TAKEN}
    assert filtered(plugin, made, pod(host_ports=[81])) == {"a": ()}


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        (pod("q", node="a", host_ports=[80]), QUEUE),
        (pod("q", nominated="a", host_ports=[80]), QUEUE),
        (pod("q", host_ports=[80]), SKIPPED),
        (pod("q", node="a", host_ports=[81]), SKIPPED),
        (pod("q", node="a"), SKIPPED),
        (pod("q", node="a", host_ports=[host_port(80, "TCP", "10.0.0.1")]), QUEUE),
        (pod("q", node="a", host_ports=[host_port(80, "UDP")]), SKIPPED),
    ],
)
def test_hints_of_node_ports(gone: api.Pod, expected: Hint) -> None:
    """A pod that leaves a node, or gives up its claim to one, frees its ports."""
    plugin = make(NodePorts, cluster())
    assert hint(plugin, Resource.ASSIGNED_POD, Action.DELETE, pod(host_ports=[80]), gone) is expected


def test_a_new_node_has_free_ports() -> None:
    """Any new node may help, no change of one does."""
    plugin = make(NodePorts, cluster())
    assert hint(plugin, Resource.NODE, Action.ADD, pod(host_ports=[80]), None, node("a")) is QUEUE
    assert hint(plugin, Resource.NODE, Action.UPDATE_NODE_LABEL, pod(host_ports=[80]), node("a"), node("a")) is None


# --- ImageLocality ----------------------------------------------------------------------------------------------------


def test_images_count_by_size_and_spread() -> None:
    """An image is worth its size times the share of nodes that have it, between 23 and 1000 MiB a container."""
    made = cluster(
        node("both", images={"big:1": 500 * MIB, "huge:1": 4000 * MIB}), node("one", images={"big:1": 1}), node("none")
    )
    plugin = make(ImageLocality, made)
    shared = 100 * (int(500 * MIB * (2 / 3)) - 23 * MIB) // (977 * MIB)
    assert scored(plugin, made, pod(image="big:1")) == {"both": shared, "one": shared, "none": 0}
    assert scored(plugin, made, pod(image="huge:1")) == {"both": 100, "one": 0, "none": 0}
    assert scored(plugin, made, pod(image="unknown")) == {"both": 0, "one": 0, "none": 0}


def test_small_images_count_for_nothing() -> None:
    """Below 23 MiB in all a node gets no points."""
    made = cluster(node("a", images={"small:1": 22 * MIB}), node("b"))
    assert scored(make(ImageLocality, made), made, pod(image="small:1")) == {"a": 0, "b": 0}


def test_all_containers_and_image_volumes_count() -> None:
    """Init containers and image volumes bring points, while containers of both kinds raise what full marks take."""
    made = cluster(node("a", images={"web:1": 600 * MIB, "init:1": 300 * MIB, "data:1": 100 * MIB}))
    plugin = make(ImageLocality, made)
    both = {"containers": [container(image="web:1")], "init_containers": [container("init", image="init:1")]}
    data = api.Volume(name="data", image=api.ImageVolumeSource("data:1"))
    assert scored(plugin, made, pod(**both)) == {"a": 100 * (900 - 23) // (2000 - 23)}  # type: ignore[arg-type]
    with_volume = pod(**both, volumes=[data])  # type: ignore[arg-type]
    assert scored(plugin, made, with_volume) == {"a": 100 * (1000 - 23) // (2000 - 23)}


@pytest.mark.parametrize(
    ("image", "reported"),
    [
        ("web", "web:latest"),
        ("registry:5000/web", "registry:5000/web:latest"),
        ("registry:5000/web:1", "registry:5000/web:1"),
        ("web@sha256:12", "web@sha256:12"),
    ],
)
def test_image_names(image: str, reported: str) -> None:
    """Without a tag an image is the latest; a colon before the last slash belongs to the registry."""
    made = cluster(node("a", images={reported: 2000 * MIB}))
    assert scored(make(ImageLocality, made), made, pod(image=image)) == {"a": 100}
