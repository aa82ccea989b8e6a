"""Objects with mistakes in them: refused or handled as upstream does, named with field and value; others unharmed."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.builders import (
    ZONE,
    affinity,
    budget,
    cluster,
    expression,
    node,
    node_term,
    pod,
    pod_term,
    replica_set,
    selector,
    spread,
)
from tests.cluster.content import content
from tests.harness import default_engine, feasible, schedule

from kubesched.api import objects as api
from kubesched.cluster.state import ClusterState
from kubesched.engine.outcome import Outcome

WEB = {"app": "web"}
BAD = selector(None, expression("app", "In"))
NONSENSE = selector(None, expression("app", "Resembles", "web"))


def small() -> ClusterState:
    """Two nodes in two zones, and a pod."""
    return cluster(node("a", zone="x", cpu="2"), node("b", zone="y", cpu="4"), pod("w", node="a", labels=WEB, cpu="1"))


def unaffected(made: ClusterState) -> bool:
    """Whether an ordinary pod is placed as ever."""
    decision = schedule(default_engine(made), pod("ordinary", cpu="1", labels=WEB))
    return decision.node == "b" and feasible(decision) == {"a", "b"}


# --- quantities -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resource", "value", "shown"), [("cpu", "4 cores", '"4 cores"'), ("memory", "1Gb", '"1Gb"'), ("pods", "", '""')]
)
def test_a_node_with_a_malformed_quantity_is_refused(resource: str, value: str, shown: str) -> None:
    """Decoding names node, field and value; a struct made in code is refused with the same words."""
    raw = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "bad"},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"} | {resource: value}},
    }
    problem = rf'Node bad: status.allocatable\["{resource}"\]: quantity {shown} is malformed'
    with pytest.raises(api.InvalidObject, match=problem):
        api.decode(raw)
    made = small()
    before = content(made)
    with pytest.raises(api.InvalidObject, match=problem):
        made.set(node("bad", **{resource: value}))  # type: ignore[arg-type]  # that is the point
    assert content(made) == before
    assert unaffected(made)


def test_a_known_node_keeps_its_last_good_state() -> None:
    """A bad update is refused whole: not even what is right in it is taken."""
    made = small()
    before = content(made)
    with pytest.raises(api.InvalidObject, match="Node a"):
        made.set(node("a", zone="z", cpu="two", unschedulable=True))
    assert content(made) == before
    made.set(node("a", zone="z", cpu="2"))
    assert made.nodes.node(0).labels[ZONE] == "z"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"cpu": "-1"}, r'spec.containers\[0\].resources.requests\["cpu"\]'),
        ({"requests": {"example.com/gpu": -1}}, r'spec.containers\[0\].resources.requests\["example.com/gpu"\]'),
        ({"overhead": {"memory": "-1Gi"}}, r'spec.overhead\["memory"\]'),
        ({"pod_requests": {"cpu": "-500m"}}, r'spec.resources.requests\["cpu"\]'),
    ],
)
def test_a_negative_request_is_refused(fields: dict[str, Any], field: str) -> None:
    """No pod gives a node more than it has: the pod is refused with field and value, running or not."""
    made = small()
    before = content(made)
    problem = rf"Pod default/bad: {field}: quantity .* is negative; a request must be zero or more"
    with pytest.raises(api.InvalidObject, match=problem):
        made.set(pod("bad", node="a", **fields))
    with pytest.raises(api.InvalidObject, match=problem):
        made.classes.info(pod("bad", **fields))
    assert content(made) == before
    assert unaffected(made)


def test_a_malformed_request_is_refused() -> None:
    """A request that is no quantity is named with its value."""
    made = small()
    problem = r'Pod default/bad: spec.containers\[0\].resources.requests\["memory"\]: quantity "lots" is malformed'
    with pytest.raises(api.InvalidObject, match=problem):
        made.set(pod("bad", node="a", memory="lots"))
    assert unaffected(made)


# --- selectors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [BAD, NONSENSE, selector({"bad key!": "x"}), selector({"app": "bad value!"})])
@pytest.mark.parametrize("place", ["near", "away", "prefer_near", "prefer_away"])
def test_a_pod_with_an_invalid_affinity_selector_waits(place: str, bad: api.LabelSelector) -> None:
    """It is unschedulable, as upstream has it, with the mistake in the message; others are placed as ever."""
    made = small()
    term = (5, pod_term(bad)) if place.startswith("prefer") else pod_term(bad)
    decision = schedule(default_engine(made), pod("bad", affinity=affinity(**{place: [term]})))  # type: ignore[arg-type]
    assert decision.outcome is Outcome.UNSCHEDULABLE
    assert decision.message.startswith("0/2 nodes are available: parsing pod: ")
    assert unaffected(made)


@pytest.mark.parametrize("soft", [False, True])
def test_a_pod_with_an_invalid_spread_selector_fails(soft: bool) -> None:
    """Its attempt ends in an error that names the constraint's mistake; others are placed as ever."""
    made = small()
    decision = schedule(default_engine(made), pod("bad", labels=WEB, spread=[spread(BAD, soft=soft)]))
    assert decision.outcome is Outcome.ERROR
    assert decision.plugin == "PodTopologySpread"
    assert "values set can't be empty" in decision.message
    assert unaffected(made)


def test_a_running_pod_with_invalid_selectors_harms_nobody() -> None:
    """It counts on its node and its terms count for nothing."""
    made = small()
    made.set(pod("odd", node="a", affinity=affinity(away=[pod_term(BAD)], prefer_away=[(9, pod_term(NONSENSE))])))
    made.set(pod("odd too", node="a", spread=[spread(BAD)]))
    assert unaffected(made)


def test_invalid_node_affinity_matches_nothing() -> None:
    """A bad required term excludes nodes, a bad preferred one fails the attempt; a good term beside it counts."""
    made = small()
    engine = default_engine(made)
    bad, good = node_term((ZONE, "Resembles", "x")), node_term((ZONE, "In", "x"))
    refused = schedule(engine, pod("p", affinity=affinity(nodes=[bad])))
    assert refused.message.startswith("0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector.")
    assert schedule(engine, pod("q", affinity=affinity(nodes=[bad, good]))).node == "a"
    failed = schedule(engine, pod("r", affinity=affinity(prefer_nodes=[(1, bad)])))
    assert failed.outcome is Outcome.ERROR
    assert 'Unsupported value: "Resembles"' in failed.message
    assert unaffected(made)


def test_other_objects_with_invalid_selectors_are_passed_over() -> None:
    """A disruption budget or a replica set with such a selector protects and owns nobody."""
    made = small()
    made.set(budget("bad", BAD))
    made.set(replica_set("bad", BAD))
    assert unaffected(made)
    vip = schedule(default_engine(made), pod("vip", cpu="2", priority=9, node_selector={ZONE: "x"}))
    assert vip.post_filter is not None
    assert [victim.pod.name for victim in vip.post_filter.victims] == ["w"]


# --- what is not there ------------------------------------------------------------------------------------------------


def test_a_topology_key_that_nobody_has() -> None:
    """Hard spreading and affinity find no domain, anti-affinity has nobody to avoid, preferences change nothing."""
    made = small()
    engine = default_engine(made)
    hard = schedule(engine, pod("p", labels=WEB, spread=[spread(WEB, "rack")]))
    assert hard.message.startswith(
        "0/2 nodes are available: 2 node(s) didn't match pod topology spread constraints (missing required label)."
    )
    near = schedule(engine, pod("q", affinity=affinity(near=[pod_term(WEB, "rack")])))
    assert near.message.startswith("0/2 nodes are available: 2 node(s) didn't match pod affinity rules.")
    assert schedule(engine, pod("r", affinity=affinity(away=[pod_term(WEB, "rack")]))).node == "b"
    soft = pod("s", labels=WEB, spread=[spread(WEB, "rack", soft=True)])
    assert feasible(schedule(engine, soft)) == {"a", "b"}
    assert unaffected(made)


def test_a_claim_that_does_not_exist() -> None:
    """The pod waits, the claim is named, others are placed as ever; when the claim comes, so does its own message."""
    made = small()
    engine = default_engine(made)
    decision = schedule(engine, pod("p", claims=["data"]))
    assert decision.outcome is Outcome.UNSCHEDULABLE
    assert decision.message.startswith('0/2 nodes are available: persistentvolumeclaim "data" not found.')
    assert unaffected(made)
    made.set(pod("running", node="a", claims=["data"]))
    assert unaffected(made)


def test_a_node_that_does_not_exist() -> None:
    """A pod on an unknown node, or nominated to one, is nobody's problem."""
    made = small()
    made.set(pod("lost", node="nowhere", cpu="9", host_ports=[80], labels=WEB))
    made.set(pod("hopeful", nominated="nowhere", cpu="9", priority=100))
    assert unaffected(made)
    assert schedule(default_engine(made), pod("p", host_ports=[80], nominated="nowhere")).node == "b"


def test_a_scheduler_that_does_not_exist() -> None:
    """A priority, class or scheduler name that nobody knows changes nothing about where a pod fits."""
    made = small()
    assert schedule(default_engine(made), pod("p", scheduler="unheard-of", priority=-(2**31))).node == "b"


# --- anything at all --------------------------------------------------------------------------------------------------

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "odd",
        "namespace": "default",
        "uid": "odd",
        "labels": {"app": "web"},
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}
        ],
    },
    "spec": {
        "nodeName": "a",
        "schedulerName": "default-scheduler",
        "priority": 5,
        "nodeSelector": {"topology.kubernetes.io/zone": "x"},
        "tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 3,
                        "preference": {"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["3"]}]},
                    }
                ],
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
                ],
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 10,
                        "podAffinityTerm": {
                            "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
                            "namespaceSelector": {"matchLabels": {"team": "one"}},
                            "topologyKey": "topology.kubernetes.io/zone",
                        },
                    }
                ],
            },
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "minDomains": 2,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "web"}},
            }
        ],
        "containers": [
            {
                "name": "main",
                "image": "web:1",
                "resources": {"requests": {"cpu": "100m", "memory": "1Gi", "example.com/gpu": "1"}},
                "ports": [{"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1", "protocol": "TCP"}],
            }
        ],
        "initContainers": [{"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}],
        "overhead": {"cpu": "10m"},
        "volumes": [
            {"name": "d", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "g", "gcePersistentDisk": {"pdName": "disk"}},
        ],
    },
    "status": {
        "phase": "Running",
        "startTime": "2026-01-01T00:00:00Z",
        "containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": "200m"}}}],
    },
}
NODE: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "odd", "labels": {"topology.kubernetes.io/zone": "z", "kubernetes.io/hostname": "odd"}},
    "spec": {"unschedulable": True, "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
    "status": {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10", "example.com/gpu": "2"},
        "images": [{"names": ["web:1", "web:latest"], "sizeBytes": 1000000000}],
    },
}
JUNK = [
    None,
    "",
    "x",
    " ",
    -1,
    0,
    2**31,
    1.5,
    True,
    [],
    {},
    ["x"],
    [None],
    {"a": 1},
    {"a": None},
    "-5",
    "1e99",
    "9Ei",
    "\x00",
]
Way = tuple[str | int, ...]


def ways(value: Any, way: Way = ()) -> Iterator[Way]:
    """The way to every value inside, containers included, but what says which object it is."""
    if way and way[-1] not in ("apiVersion", "kind", "uid"):
        yield way
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from ways(value[key], (*way, key))


def damaged(raw: dict[str, Any], way: Way, junk: Any) -> dict[str, Any]:
    copy = deepcopy(raw)
    place: Any = copy
    for step in way[:-1]:
        place = place[step]
    place[way[-1]] = junk
    return copy


def refused(made: ClusterState, raw: dict[str, Any]) -> api.InvalidObject | None:
    """Give an object to a cluster; a refusal leaves the cluster as it was."""
    before = content(made)
    try:
        taken = api.decode(raw)
        if isinstance(taken, api.Pod):
            made.classes.info(taken)
        made.set(taken)
    except api.InvalidObject as refusal:
        assert content(made) == before
        return refusal
    return None


@given(way=st.sampled_from(list(ways(POD))), junk=st.sampled_from(JUNK), bound=st.booleans())
@example(way=("spec", "topologySpreadConstraints", 0, "maxSkew"), junk=0, bound=False)
@example(way=("spec", "topologySpreadConstraints", 0, "minDomains"), junk=-1, bound=False)
@example(way=("spec", "containers"), junk=[], bound=False)
def test_no_pod_brings_the_scheduler_down(way: Way, junk: Any, bound: bool) -> None:
    """Whatever is in a field of a pod: it is refused by name, or it is scheduled or not; others never notice."""
    raw = damaged(POD, way, junk)
    made = small()
    if not bound and isinstance(raw.get("spec"), dict):
        raw["spec"].pop("nodeName", None)
    refusal = refused(made, raw)
    if refusal is None:
        decision = schedule(default_engine(made), api.decode_as(api.Pod, raw))
        assert decision.outcome is not Outcome.ERROR or decision.message
    else:
        assert (refusal.kind, bool(refusal.field)) == ("Pod", True)
    plain = schedule(default_engine(made), pod("ordinary", cpu="1"))
    assert plain.outcome is Outcome.SCHEDULED


@given(way=st.sampled_from(list(ways(NODE))), junk=st.sampled_from(JUNK))
def test_no_node_brings_the_scheduler_down(way: Way, junk: Any) -> None:
    """Whatever is in a field of a node: it is refused by name, or it takes part; pods are placed all the same."""
    made = small()
    refusal = refused(made, damaged(NODE, way, junk))
    assert refusal is None or (refusal.kind, bool(refusal.field)) == ("Node", True)
    decision = schedule(default_engine(made), pod("ordinary", cpu="1", image="web:1", labels=WEB))
    assert decision.outcome is Outcome.SCHEDULED


def test_refusals_name_what_was_wrong() -> None:
    """Object, field and value are in the message, wherever the mistake is."""
    cases = [
        (
            POD,
            ("spec", "containers", 0, "ports", 0, "hostPort"),
            "http",
            "Pod default/odd: spec.containers[0].ports[0].hostPort",
        ),
        (POD, ("metadata", "labels", "app"), 7, 'Pod default/odd: metadata.labels["app"]'),
        (POD, ("spec", "tolerations"), "all", "Pod default/odd: spec.tolerations"),
        (NODE, ("status", "images", 0, "sizeBytes"), "big", "Node odd: status.images[0].sizeBytes"),
        (NODE, ("spec", "unschedulable"), "yes", "Node odd: spec.unschedulable"),
    ]
    for raw, way, junk, expected in cases:
        with pytest.raises(api.InvalidObject) as caught:
            api.decode(damaged(raw, way, junk))
        message = str(caught.value)
        assert message.startswith(expected)
        assert str(junk) in message
