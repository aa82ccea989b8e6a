"""Cached results equal those of a new engine."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.builders import (
    HOSTNAME,
    ZONE,
    affinity,
    budget,
    cluster,
    host_port,
    namespace,
    node,
    node_term,
    pod,
    pod_term,
    selector,
    service,
    spread,
)
from tests.harness import default_engine, schedule

from kubesched.api import objects as api
from kubesched.cluster.state import ClusterState
from kubesched.cluster.table import Ints
from kubesched.cluster.view import NodeInfo, Nodes
from kubesched.engine.decision import NO_NODES, Decision
from kubesched.engine.outcome import Outcome
from kubesched.engine.tie_breaking import Best
from kubesched.framework.adapters import FilterPlugin
from kubesched.framework.plugin import Plugin, Reads, Verdicts, default_normalize, reject
from kubesched.framework.runtime import Framework
from kubesched.framework.state import CycleState
from kubesched.framework.status import Status, unschedulable

WEB = {"app": "web"}
TEMPLATES: dict[str, dict[str, Any]] = {
    "plain": {"cpu": "1"},
    "best effort": {},
    "gpu": {"requests": {"example.com/gpu": 1}, "cpu": "500m"},
    "port": {"host_ports": [80]},
    "port on an address": {"host_ports": [host_port(80, "TCP", "10.0.0.1")], "cpu": "1"},
    "image": {"image": "web:1", "cpu": "1"},
    "on ssd": {"node_selector": {"disk": "ssd"}},
    "by name": {"affinity": affinity(nodes=[node_term(name="n1"), node_term(name="n3")])},
    "prefers ssd": {"affinity": affinity(prefer_nodes=[(10, node_term(("disk", "In", "ssd")))]), "cpu": "1"},
    "tolerant": {"tolerations": ["*"], "cpu": "1"},
    "spread": {"labels": WEB, "spread": [spread(WEB, ZONE)], "cpu": "500m"},
    "spread softly": {"labels": WEB, "spread": [spread(WEB, ZONE, soft=True), spread(WEB, HOSTNAME, soft=True)]},
    "served": {"labels": {"svc": "yes"}, "cpu": "500m"},
    "alone": {"labels": WEB, "affinity": affinity(away=[pod_term(WEB, HOSTNAME)])},
    "together": {"labels": WEB, "affinity": affinity(near=[pod_term(WEB, ZONE)])},
    "likes teams": {"affinity": affinity(prefer_near=[(5, pod_term(WEB, ZONE, namespace_selector={"team": "one"}))])},
    "important": {"cpu": "3", "priority": 100},
    "important port": {"host_ports": [80], "priority": 100},
    "important and spread": {"labels": WEB, "spread": [spread(WEB, ZONE)], "cpu": "3", "priority": 100},
}
NODES = st.sampled_from(["n1", "n2", "n3", "n4"])
NAMESPACES = st.sampled_from(["default", "other"])
node_specs = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["2", "4"]),
        "pods": st.sampled_from([2, 110]),
        "zone": st.sampled_from(["a", "b"]),
        "labels": st.sampled_from([{"disk": "ssd"}, {"disk": "hdd"}]),
        "taints": st.lists(st.sampled_from(["x:NoSchedule", "y:PreferNoSchedule"]), max_size=2, unique=True),
        "unschedulable": st.just(True),
        "resources": st.just({"example.com/gpu": 2}),
        "images": st.just({"web:1": 500 * 2**20}),
    },
)


class Crowded(Plugin):
    """Declares that it reads pods: rejects nodes with three pods of a kind and prefers empty ones."""

    name = "Crowded"
    reads = Reads.PODS

    def filter_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        return reject(nodes.pod_count >= 3, unschedulable("crowded"))

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints | int:
        counts = nodes.pod_count
        return np.minimum(counts * 10, 100) if counts.any() else 0


class Emptiest(Plugin):
    """Declares that it reads pods, and normalises."""

    name = "Emptiest"
    reads = Reads.PODS

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints | int:
        return nodes.pod_count

    def normalize(self, state: CycleState, pod: api.Pod, scores: Ints) -> Ints:
        return default_normalize(scores, reverse=True)


class Noted(Plugin):
    """Declares that it reads nodes, and passes state between extension points, with per-node methods too."""

    name = "Noted"
    reads = Reads.NODE

    def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | None:
        state.write("Noted", len(pod.labels))
        return None

    def filter(self, state: CycleState, pod: api.Pod, node: NodeInfo) -> Status | None:
        return unschedulable("not noted") if state.read("Noted", int) > 5 else None

    def pre_score(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | None:
        state.write("Noted again", state.read("Noted", int))
        return None

    def score(self, state: CycleState, pod: api.Pod, node: NodeInfo) -> int:
        return state.read("Noted again", int)


class InPlace(Plugin):
    """Computes in place on a column of the table."""

    name = "InPlace"

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints | int:
        free = nodes.allocatable("cpu")
        free -= nodes.requested("cpu")
        return np.minimum(free, 100)


class Share(Plugin):
    """Declares that it reads pods, and normalises: the part of the node's pods that is in use, as a fraction."""

    name = "Share"
    reads = Reads.PODS

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints | int:
        counts = nodes.pod_count
        return counts / 10 if counts.any() else self.empty(len(nodes))  # type: ignore[return-value]  # as plugins may

    def empty(self, nodes: int) -> Ints | int:
        return np.zeros(nodes, dtype=np.int64)

    def normalize(self, state: CycleState, pod: api.Pod, scores: Ints) -> Ints:
        return np.rint(scores * 100).astype(np.int64)


class ShareOrOne(Share):
    """The same with one number for all nodes that are empty."""

    name = "ShareOrOne"

    def empty(self, nodes: int) -> Ints | int:
        return 0


@pytest.mark.parametrize("plugin", [Share, ShareOrOne])
@pytest.mark.parametrize("at_once", [1, 2])
def test_fractions_may_follow_whole_numbers(plugin: type[Plugin], at_once: int) -> None:
    """Scores that were whole when they were first cached keep their fractions later, after one change or several."""
    made = cluster(*(node(f"n{number}", cpu="100") for number in range(3)))
    engine = default_engine(made, plugin)
    for number in range(6):
        new = schedule(default_engine(made, plugin), pod(f"p{number}"))
        decision = schedule(engine, pod(f"p{number}"))
        assert summary(decision, made) == summary(new, made) | {"node": decision.node}
        for each in range(at_once):
            made.set(pod(f"on-{number}-{each}", node=f"n{(number + each) % 3}"))


def test_a_plugin_cannot_change_the_table() -> None:
    """A plugin that computes in place on a column fails its attempt by name, and the nodes keep what they have."""
    made = cluster(node("n1", cpu=4), node("n2", cpu=4), pod("p", node="n1", cpu=1))
    decision = schedule(default_engine(made, InPlace), pod("web", cpu=1))
    assert 'running Score plugin "InPlace": ValueError: ' in decision.message
    assert Nodes(made.nodes).allocatable("cpu").tolist() == [4000, 4000]


def summary(decision: Decision, cluster: ClusterState) -> dict[str, Any]:
    """Everything in a decision, by name."""
    names = cluster.nodes.names
    said: dict[str, Any] = {
        "outcome": decision.outcome,
        "node": decision.node,
        "message": decision.message,
        "feasible": _named(decision.feasible_rows, names),
        "best": _named(decision.best_rows, names),
    }
    if decision.scores is not None:
        said["scores"] = {name: (scores, total) for name, scores, total in decision.scores.by_node()}
    if decision.diagnosis is not None:
        said["rejected"] = {
            names[row]: status for status, rows in decision.diagnosis.statuses() for row in rows.tolist()
        }
        said["plugins"] = decision.diagnosis.unschedulable_plugins
    if decision.post_filter is not None:
        said["nominated"] = decision.post_filter.nominated_node_name
        said["victims"] = [victim.pod.uid for victim in decision.post_filter.victims]
    return said


def _named(rows: Best | None, names: list[str]) -> list[str] | None:
    return None if rows is None else sorted(names[row] for row in rows.tolist())


def test_pods_that_differ_in_labels_share_answers() -> None:
    """Our own plugins read no labels of pods where answers are cached, so a StatefulSet's pods share them; a plugin of
    others may read labels, so with one of those they do not."""
    for plugins, calls in (((), 1), ((Crowded,), 3)):
        made = cluster(node("n1"), node("n2"))
        engine = default_engine(made, *plugins)
        for number in range(3):
            schedule(engine, pod(f"web-{number}", cpu="1", labels={"pod": f"web-{number}"}))
        assert len(engine.filtering._cached_classes) == calls


def test_pods_of_different_sizes_share_answers() -> None:
    """What plugins return that do not read requests is asked for once, and decisions are those of a new engine."""
    chance = Random(1)
    kinds: tuple[dict[str, Any], ...] = (
        {},
        TEMPLATES["on ssd"],
        TEMPLATES["prefers ssd"],
        TEMPLATES["image"],
        TEMPLATES["port"],
    )
    made = cluster(
        *(
            node(
                f"n{number}",
                cpu=chance.choice(["4", "8"]),
                labels={"disk": chance.choice(["ssd", "hdd"])},
                taints=chance.choice([[], ["x:NoSchedule"], ["y:PreferNoSchedule"]]),
                images={"web:1": 500 * 2**20} if number % 3 else {},
            )
            for number in range(12)
        )
    )
    engine = default_engine(made)
    for number in range(60):
        if number % 20 == 19:
            made.set(node(f"n{number % 12}", cpu="8", labels={"disk": "ssd"}, unschedulable=number == 39))
        spec = dict(chance.choice(kinds))
        size = chance.choice([None, f"{chance.randrange(50, 900)}m"])
        pending = pod(f"p{number}", **spec | ({} if size is None else {"cpu": size, "memory": "10Mi"}))
        mine, theirs = (
            summary(each.schedule(made.classes.info(pending), record=True), made)
            for each in (engine, default_engine(made))
        )
        assert {**mine, "node": ""} == {**theirs, "node": ""}
        made.assume(made.classes.info(pending), mine["node"])
    assert len(engine.filtering._shapes) <= len(kinds) < len(engine.filtering._cached_classes)


def test_pods_with_extended_resources_share_nothing() -> None:
    """Devices may stand behind extended resources, and then more plugins read requests."""
    made = cluster(node("n1", resources={"example.com/gpu": 2}), node("n2"))
    engine = default_engine(made)
    for count in (1, 2):
        decision = engine.schedule(made.classes.info(pod(f"p{count}", requests={"example.com/gpu": count})))
        assert decision.node == "n1"
    assert not len(engine.filtering._shapes)


def test_a_changed_node_is_asked_about_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a change of one node, plugins are asked about its row; after a node has come, about all of them."""
    asked: list[int] = []
    ask = Framework.ask_filter

    def noted(self: Framework, plugin: FilterPlugin, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        asked.append(len(nodes) if plugin.name == "TaintToleration" else 0)
        return ask(self, plugin, state, pod, nodes)

    made = cluster(*(node(f"n{number}", cpu="4") for number in range(6)))
    engine = default_engine(made)
    classes: list[dict[str, Any]] = [{"cpu": "1"}, {"cpu": "2"}]
    for each in classes:
        schedule(engine, pod("p", **each))
    monkeypatch.setattr(Framework, "ask_filter", noted)
    made.set(node("n0", cpu="4", taints=["x:NoSchedule"]))
    for each in classes:
        assert summary(schedule(engine, pod("p", **each)), made) == summary(
            schedule(default_engine(made), pod("p", **each)), made
        )
    assert [size for size in asked if size] == [1, 6, 6]  # the new engines ask about all
    made.set(node("n6", cpu="4"))
    schedule(engine, pod("p", **classes[0]))
    assert [size for size in asked if size] == [1, 6, 6, 7]


class CacheMachine(RuleBasedStateMachine):
    """A changing cluster, compared between an engine with cached results and a new one."""

    @initialize(
        own=st.booleans(),
        known=st.lists(st.sampled_from(sorted(TEMPLATES)), min_size=1, max_size=3, unique=True),
        nodes=st.lists(node_specs, min_size=2, max_size=4),
    )
    def start(self, own: bool, known: list[str], nodes: list[dict[str, Any]]) -> None:
        self.plugins: tuple[type[Plugin], ...] = (Crowded, Emptiest, Noted) if own else ()
        self.templates = st.sampled_from(known)
        self.known = known
        self.cluster = ClusterState()
        self.engine = default_engine(self.cluster, *self.plugins)
        self.running: dict[str, api.Pod] = {}
        self.born = 0
        for number, spec in enumerate(nodes):
            self.cluster.set(node(f"n{number + 1}", **spec))

    def new(self, template: str, **fields: Any) -> api.Pod:
        self.born += 1
        return pod(f"p{self.born}", **TEMPLATES[template], **fields)

    @rule(name=NODES, spec=node_specs)
    def set_node(self, name: str, spec: dict[str, Any]) -> None:
        self.cluster.set(node(name, **spec))

    @rule(name=NODES)
    def remove_node(self, name: str) -> None:
        self.cluster.remove(node(name))

    @rule(data=st.data(), where=NAMESPACES, times=st.integers(1, 3))
    def schedule(self, data: st.DataObject, where: str, times: int) -> None:
        """Schedule several pods of one template in a row, which is the usual case."""
        template = data.draw(self.templates)
        for _ in range(times):
            decision = schedule(self.engine, self.new(template, namespace=where), record=data.draw(st.booleans()))
            if decision.node:
                self.cluster.assume(decision.info, decision.node)
                self.running[decision.pod.uid] = decision.pod

    @rule(data=st.data(), name=NODES, where=NAMESPACES, gone=st.booleans())
    def appear(self, data: st.DataObject, name: str, where: str, gone: bool) -> None:
        """Another scheduler places a pod on a node, known or not; the pod may be terminating."""
        each = self.new(data.draw(self.templates), node=name, namespace=where, terminating=gone)
        self.cluster.set(each)
        self.running[each.uid] = each

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.running)))
        self.cluster.remove(self.running.pop(uid))

    @rule(data=st.data(), name=NODES, priority=st.sampled_from([0, 100]))
    def nominate(self, data: st.DataObject, name: str, priority: int) -> None:
        each = pod("nominee", nominated=name, priority=priority, cpu="1", host_ports=[80], labels=WEB)
        self.cluster.set(each)

    @rule()
    def withdraw(self) -> None:
        self.cluster.remove(pod("nominee"))

    @rule(team=st.sampled_from(["one", "two"]), where=NAMESPACES)
    def label_namespace(self, team: str, where: str) -> None:
        self.cluster.set(namespace(where, labels={"team": team}))

    @rule(there=st.booleans())
    def serve(self, there: bool) -> None:
        """A service is added or deleted, which changes the default spreading of its pods."""
        (self.cluster.set if there else self.cluster.remove)(service("svc", {"svc": "yes"}))

    @rule(allowed=st.sampled_from([0, 1]))
    def protect(self, allowed: int) -> None:
        self.cluster.set(budget("pdb", selector(WEB), allowed=allowed))

    @invariant()
    def a_fresh_engine_agrees(self) -> None:
        fresh = default_engine(self.cluster, *self.plugins)
        for template in self.known:
            asked = pod("asked", **TEMPLATES[template])
            ours = summary(schedule(self.engine, asked), self.cluster)
            assert ours["outcome"] is not Outcome.ERROR or ours["message"] == NO_NODES, ours["message"]
            assert ours == summary(schedule(fresh, asked), self.cluster), template


TestCacheMachine = CacheMachine.TestCase
TestCacheMachine.settings = settings(max_examples=settings().max_examples, stateful_step_count=40)
