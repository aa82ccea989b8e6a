"""The public names: all there, loaded on first use, and of the types that plugins' authors rely on.

mypy reads this file with the rest of the tests. What it must refuse is marked with a `type: ignore`, and mypy refuses
such a mark where there is nothing to ignore.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import assert_type

import msgspec
import numpy as np
import numpy.typing as npt
import pytest

import kubesched
import kubesched.testing
from kubesched import (
    MAX_NODE_SCORE,
    SKIP,
    Action,
    ApiClient,
    Code,
    CycleState,
    Diagnosis,
    EventHint,
    Handle,
    Hint,
    Ints,
    Mask,
    Node,
    NodeInfo,
    Nodes,
    Object,
    Plugin,
    Pod,
    PodInfo,
    PostFilterResult,
    Quantity,
    Reads,
    Registry,
    Requests,
    Resource,
    Status,
    Verdicts,
    WaitingPod,
    default_normalize,
    error,
    milli,
    nanos,
    on,
    reject,
    scheduling_requests,
    unresolvable,
    unschedulable,
)
from kubesched.framework.contract import PARAMETERS
from kubesched.testing import Decision, VirtualCluster, container, node, pod

GUIDE = (Path(__file__).parents[2] / "docs/guides/plugins.md").read_text("utf-8")
INSIDE = {
    "table",
    "row",
    "rows",
    "row_numbers",
    "label",
    "label_column",
    "of_label",
    "of_rows",
    "on",
    "amounts",
    "at",
    "cells",
}
"""What windows and nodes have for plugins that come with kubesched, and may change."""


class Args(msgspec.Struct):
    key: str = "k"


@kubesched.filter
def plain(pod: Pod, node: NodeInfo) -> bool:
    return True


@kubesched.filter(name="Reasoned")
def reasoned(pod: Pod, node: NodeInfo, args: Args) -> str | Status | None:
    return args.key or None


@kubesched.score(weight=2, normalize="lowest")
def fraction(pod: Pod, node: NodeInfo) -> float:
    return 0.5


class Vectorised(Plugin):
    """The types of the view."""

    name = "Vectorised"
    reads = Reads.NODE

    def filter_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
        assert_type(nodes.names, list[str])
        assert_type(nodes.label_in("a", "b"), Mask)
        assert_type(nodes.has_taint("a"), Mask)
        assert_type(nodes.by_label("a", lambda value: len(value or "")), npt.NDArray[np.float64])
        return reject(nodes.has_label("a") & ~nodes.unschedulable, Status(Code.UNSCHEDULABLE, "no"))

    def score_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        assert_type(nodes.free("cpu"), Ints)
        return np.clip(nodes.free("cpu") // 100, 0, 100)


class Thorough(Plugin):
    """The types of every point of a class, and of what the handle gives."""

    name = "Thorough"

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        assert_type(handle.client, ApiClient)

    def events_to_register(self) -> list[EventHint]:
        return [on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL, self.helps, by_class=True)]

    def helps(self, pod: Pod, old: Object | None, new: Object | None) -> Hint:
        return Hint.QUEUE if isinstance(new, Node) and new.labels else Hint.SKIP

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return None

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | set[str] | None:
        assert_type(state.pod_class.requests, Requests)
        state.write("asks", assert_type(scheduling_requests(pod).milli_cpu, int))
        return None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        asks = assert_type(state.read("asks", int), int)
        free = node.allocatable.milli_cpu - node.requested.milli_cpu
        return unschedulable("Insufficient cpu") if asks > free else None

    def add_pod(self, state: CycleState, pod: Pod, info: PodInfo, row: int) -> None:
        assert_type(info.pod, Pod)

    def remove_pod(self, state: CycleState, pod: Pod, info: PodInfo, row: int) -> None:
        assert_type(self.handle.cluster.nodes.names[row], str)

    def post_filter(self, state: CycleState, pod: Pod, diagnosis: Diagnosis) -> tuple[PostFilterResult | None, Status]:
        return None, unschedulable("nothing to be done")

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        return SKIP if len(nodes) < 2 else None

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return node.allocatable["example.com/gpu"] + len(node.pods)

    def normalize(self, state: CycleState, pod: Pod, scores: Ints) -> Ints:
        return np.minimum(default_normalize(scores, reverse=True), MAX_NODE_SCORE)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status, float] | None:
        for waiting in self.handle.waiting_pods:
            assert_type(waiting, WaitingPod).allow(self.name)
        return None

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        found = assert_type(await self.handle.client.read(Node, node_name), Node)
        assert_type(await self.handle.client.list(Pod), Sequence[Pod])
        assert_type(await self.handle.client.merge_patch(Pod, pod.name, {}, pod.namespace), Pod)
        if found.spec.unschedulable:
            return unresolvable("it is cordoned") if found.labels else error("it is cordoned")
        self.handle.log(2, "There it is", node=found.name)
        self.handle.recorder(pod, "Normal", "Checked", "Checking", f"{found.name} is there")
        return None


def test_every_point_of_a_class() -> None:
    """What the annotations say is what is called."""
    with VirtualCluster() as cluster:
        cluster.use(Thorough)
        cluster.add(node("n1", cpu="1"), node("n2", cpu="2"))
        assert cluster.schedule(pod(containers=[container(cpu="1500m", limits={"memory": "1Gi"})])).node == "n2"
        assert cluster.schedule(pod("large", cpu="1")).node == "n1"
        assert "nothing to be done" in cluster.schedule(pod("more", cpu="1")).message
        assert cluster.events.of("large", "Checked") == ["n1 is there"]


def test_amounts() -> None:
    """As they are written, in numbers."""
    written: Quantity = "500m"
    assert milli(written) == 500
    assert (assert_type(milli("500m"), int), assert_type(nanos("0.5"), int)) == (500, 500_000_000)


def test_a_function_keeps_its_types() -> None:
    """What it returns is known to a type checker, and what it is called with is checked."""
    with VirtualCluster() as cluster:
        cluster.add(node("n1"))
        found = NodeInfo(cluster.scheduler.cluster.nodes, 0)
    assert_type(plain(pod(), found), bool)
    assert_type(reasoned(pod(), found, Args()), str | Status | None)
    assert_type(fraction(pod(), found), float)
    with pytest.raises(TypeError):
        plain(pod())  # type: ignore[call-arg]  # no node


def test_plugins_by_name() -> None:
    """A registry is a mapping."""
    assert assert_type(Registry([Thorough, plain])["Thorough"], type[Plugin]) is Thorough


def test_what_a_type_checker_refuses() -> None:
    """Answers that are none, and options that are none, are seen before anything runs."""

    @kubesched.score  # type: ignore[type-var]  # a text is no score
    def text(pod: Pod, node: NodeInfo) -> str:
        return "high"

    @kubesched.filter  # type: ignore[type-var]  # a list is no answer
    def listing(pod: Pod, node: NodeInfo) -> list[str]:
        return []

    kubesched.score(weight="2")  # type: ignore[call-overload]  # a weight is a number
    kubesched.score(normalize="best")  # type: ignore[call-overload]  # there is no such way


def test_the_cluster_has_types_too() -> None:
    """A decision and its parts."""
    with VirtualCluster() as cluster:
        cluster.use(plain)
        cluster.use(Vectorised)
        cluster.add(node("n1"), node("n2", labels={"a": "b"}))
        decision = assert_type(cluster.schedule(pod()), Decision)
        assert assert_type(decision.node, str) == "n1"
        assert assert_type(decision.rejections, dict[str, Status])["n2"].message == "no"
        assert_type(decision.node_scores, dict[str, dict[str, int]])
        assert_type(decision.explain(), str)


def test_the_library_has_types_too() -> None:
    """Clusters, decisions and what-ifs."""
    cluster = assert_type(kubesched.Cluster(node("n1"), node("n2")), kubesched.Cluster)
    decision = assert_type(cluster.schedule({"kind": "Pod", "apiVersion": "v1"}), kubesched.Decision)
    assert_type(decision.node, str)
    assert_type(decision.scores, dict[str, dict[str, int]])
    assert_type(decision.rejected, dict[str, Status])
    assert_type(cluster.how_many(pod()), int)
    assert_type(cluster.drain("n1"), kubesched.Placements)
    assert_type(cluster.drain("n1")[:1], kubesched.Placements)
    assert_type(cluster.compare(None, {}, [pod()]).changed, list[tuple[kubesched.Placement, kubesched.Placement]])
    with pytest.raises(TypeError):
        cluster.schedule(7)  # type: ignore[arg-type]  # a number is no pod


def test_every_name_is_there() -> None:
    """What type checkers see and what Python finds are the same names."""
    tree = ast.parse(Path(kubesched.__file__).read_text("utf-8"))
    checking = next(each for each in tree.body if isinstance(each, ast.If))
    seen = {each.names[0].name: each.module for each in checking.body if isinstance(each, ast.ImportFrom)}
    assert sorted(seen) == kubesched.__all__
    for name, module in seen.items():
        assert getattr(kubesched, name) is getattr(sys.modules[module or ""], name)
    assert set(kubesched.__all__) <= set(dir(kubesched))
    with pytest.raises(AttributeError, match="module 'kubesched' has no attribute 'filtr'"):
        kubesched.filtr  # type: ignore[attr-defined]  # noqa: B018  # read to see the error


def test_nothing_is_loaded_before_it_is_used() -> None:
    """`import kubesched` is quick: NumPy waits until a plugin is written."""
    check = "import sys, kubesched; assert 'numpy' not in sys.modules; kubesched.Plugin; assert 'numpy' in sys.modules"
    subprocess.run([sys.executable, "-c", check], check=True)


@pytest.mark.parametrize("module", [kubesched, kubesched.testing], ids=lambda module: module.__name__)
def test_every_name_is_in_the_guide(module: ModuleType) -> None:
    """The guide lists all public names, and none that does not exist."""
    _, heading, rest = GUIDE.partition(f"`from {module.__name__} import …`:")
    assert heading
    table = rest.strip().partition("\n\n")[0]
    listed = {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert listed == {name for name in getattr(module, "__all__", vars(module)) if _is_public(module, name)}


def _is_public(module: ModuleType, name: str) -> bool:
    return not name.startswith("_") and not isinstance(getattr(module, name), ModuleType)


def test_every_method_of_every_point_is_in_the_guide() -> None:
    """With its parameters, as they are checked when a plugin is loaded."""
    table = GUIDE.partition("## Extension points")[2].partition("## Events")[0]
    assert dict(re.findall(r"`(?:async )?(\w+)\(([\w, ]*)\)`", table)) == PARAMETERS


@pytest.mark.parametrize("kind", [Resource, Action])
def test_every_resource_and_every_action_is_in_the_guide(kind: type[Resource | Action]) -> None:
    """The tables of events name every member, and none that does not exist."""
    section = GUIDE.partition("## Events")[2].partition("## All names")[0]
    table = section.partition(f"| `{kind.__name__}.…` |")[2].partition("\n\n")[0]
    named = {name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    assert named == set(kind.__members__)


def test_every_column_of_a_window_and_every_part_of_a_node_is_in_the_guide() -> None:
    """The vectorised form needs no look at the source."""
    for kind in (Nodes, NodeInfo):
        names = {name for name in vars(kind) if not name.startswith("_")} - INSIDE
        assert not {name for name in names if not re.search(rf"`{name}\b", GUIDE)}
