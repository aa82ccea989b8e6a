"""A plugin's result for a node is the same for a window of all nodes, of some, or of that one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import (
    HOSTNAME,
    ZONE,
    affinity,
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
from tests.harness import default_engine

from kubesched.api import objects as api
from kubesched.cluster.state import ClusterState
from kubesched.cluster.view import Nodes
from kubesched.framework.runtime import Framework
from kubesched.framework.state import CycleState
from kubesched.framework.status import Status
from kubesched.plugins import IN_TREE

WEB = {"app": "web"}
GIB = 2**30

nodes = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "cpu": st.sampled_from(["0", "1", "4"]),
            "memory": st.sampled_from(["0", "1Gi", "16Gi"]),
            "pods": st.sampled_from([1, 110]),
            "zone": st.sampled_from(["a", "b", ""]),
            "labels": st.sampled_from([{"disk": "ssd"}, {"disk": "hdd", "size": "7"}, {"size": "20"}]),
            "taints": st.lists(st.sampled_from(["x:NoSchedule", "y:PreferNoSchedule", "z=1:NoExecute"]), unique=True),
            "unschedulable": st.booleans(),
            "resources": st.dictionaries(
                st.sampled_from(["example.com/gpu", "hugepages-2Mi", "ephemeral-storage"]), st.sampled_from([0, 2, 8])
            ),
            "images": st.dictionaries(
                st.sampled_from(["web:1", "db:latest"]), st.sampled_from([GIB // 4, GIB, 8 * GIB])
            ),
        },
    ),
    min_size=1,
    max_size=6,
)
terms = st.builds(
    pod_term,
    st.sampled_from([selector(WEB), selector()]),
    st.sampled_from([ZONE, HOSTNAME, "disk", "nobody"]),
    namespace_selector=st.sampled_from([None, selector({"team": "one"})]),
)
weighted = st.tuples(st.integers(1, 100), terms)
node_terms = st.sampled_from(
    [
        node_term(("disk", "In", "ssd")),
        node_term(("size", "Gt", "10")),
        node_term(("disk", "Exists"), name="n1"),
        node_term(name="n2"),
        node_term(("nobody", "DoesNotExist")),
    ]
)
affinities = st.builds(
    affinity,
    nodes=st.none() | st.lists(node_terms, max_size=2),
    prefer_nodes=st.lists(st.tuples(st.integers(1, 100), node_terms), max_size=2),
    near=st.lists(terms, max_size=1),
    away=st.lists(terms, max_size=1),
    prefer_near=st.lists(weighted, max_size=1),
    prefer_away=st.lists(weighted, max_size=1),
)
spreads = st.builds(
    spread,
    st.sampled_from([selector(WEB), selector(), None]),
    st.sampled_from([ZONE, HOSTNAME, "disk", "nobody"]),
    skew=st.integers(1, 3),
    soft=st.booleans(),
    min_domains=st.none() | st.integers(1, 4),
    affinity_policy=st.sampled_from([None, "Ignore", "Honor"]),
    taints_policy=st.sampled_from([None, "Ignore", "Honor"]),
)
disk = api.Volume(name="disk", gce_persistent_disk=api.GCEPersistentDiskVolumeSource(pd_name="disk"))
pods = st.fixed_dictionaries(
    {},
    optional={
        "labels": st.sampled_from([WEB, {"app": "db"}, {**WEB, "svc": "yes"}]),
        "cpu": st.sampled_from(["500m", "1", "3"]),
        "memory": st.sampled_from(["1Gi", "4Gi"]),
        "requests": st.dictionaries(
            st.sampled_from(["example.com/gpu", "hugepages-2Mi", "ephemeral-storage", "example.com/nobody"]),
            st.sampled_from([0, 1]),
            max_size=2,
        ),
        "image": st.sampled_from(["web:1", "db", "other"]),
        "host_ports": st.lists(
            st.sampled_from([80, host_port(80, "UDP"), host_port(80, "TCP", "10.0.0.1")]), max_size=2
        ),
        "node_selector": st.just({"disk": "ssd"}),
        "affinity": affinities,
        "tolerations": st.lists(st.sampled_from(["x", "z=1:NoExecute", "*"]), max_size=2),
        "spread": st.lists(spreads, max_size=2),
        "volumes": st.lists(st.just(disk), max_size=1),
        "claims": st.lists(st.sampled_from(["bound", "waiting"]), max_size=1),
    },
)
guests = st.lists(st.tuples(st.integers(0, 7), pods, st.booleans()), max_size=8)


def storage() -> list[api.Object]:
    """A claim bound to a volume in one zone, and one that waits for its first consumer."""
    in_zone = api.VolumeNodeAffinity(api.NodeSelector((node_term((ZONE, "In", "a")),)))
    meta = api.ObjectMeta
    return [
        api.StorageClass(
            metadata=meta(name="late"), provisioner="csi.example.com", volume_binding_mode="WaitForFirstConsumer"
        ),
        api.PersistentVolume(
            metadata=meta(name="pv"),
            spec=api.PersistentVolumeSpec(
                capacity={"storage": "1Gi"},
                access_modes=("ReadWriteOnce",),
                node_affinity=in_zone,
                csi=api.CSIPersistentVolumeSource("csi.example.com", "handle"),
                claim_ref=api.ObjectReference(namespace="default", name="bound", uid="default.bound"),
            ),
        ),
        api.PersistentVolumeClaim(
            metadata=meta(
                name="bound",
                namespace="default",
                uid="default.bound",
                annotations={"pv.kubernetes.io/bind-completed": "yes"},
            ),
            spec=api.PersistentVolumeClaimSpec(volume_name="pv", access_modes=("ReadWriteOnce",)),
            status=api.PersistentVolumeClaimStatus(phase="Bound"),
        ),
        api.PersistentVolumeClaim(
            metadata=meta(name="waiting", namespace="default", uid="default.waiting"),
            spec=api.PersistentVolumeClaimSpec(
                storage_class_name="late",
                access_modes=("ReadWriteOnce",),
                resources=api.VolumeResourceRequirements({"storage": "1Gi"}),
            ),
        ),
    ]


def build(specs: list[dict[str, Any]], others: list[tuple[int, dict[str, Any], bool]]) -> ClusterState:
    """Nodes, pods on them (and on nodes that are not there), a service and some storage."""
    made = cluster(namespace("default", labels={"team": "one"}), service("svc", {"svc": "yes"}), *storage())
    for number, spec in enumerate(specs):
        made.set(node(f"n{number}", **spec))
    for number, (place, fields, leaving) in enumerate(others):
        made.set(pod(f"p{number}", node=f"n{place}", terminating=leaving, **fields))
    return made


def prepared(framework: Framework, info: Any, whole: Nodes) -> CycleState | None:
    """The cycle after PreFilter; None if that rejects the pod."""
    state = CycleState(info.pod_class)
    for plugin in framework.pre_filter:
        answer = plugin.pre_filter(state, info.pod, whole)
        if isinstance(answer, Status):
            if answer.is_skip:
                state.skip_filter.add(plugin.name)
            elif not answer.is_success:
                return None
    return state


Windows = list[Nodes]
picks = st.lists(st.lists(st.integers(0, 9), unique=True, max_size=5), max_size=3)


def windows(made: ClusterState, chosen: list[list[int]]) -> Windows:
    """Every row by itself, as a slice and as a number, and some sets of rows in any order."""
    table = made.nodes
    singles = [Nodes(table, slice(row, row + 1)) for row in range(table.size)]
    singles += [Nodes(table, np.array([row])) for row in range(table.size)]
    subsets = [[row for row in rows if row < table.size] for rows in chosen]
    return singles + [Nodes(table, np.array(rows, dtype=np.int64)) for rows in subsets]


@given(specs=nodes, others=guests, fields=pods, chosen=picks)
def test_filters(
    specs: list[dict[str, Any]],
    others: list[tuple[int, dict[str, Any], bool]],
    fields: dict[str, Any],
    chosen: list[list[int]],
) -> None:
    """A Filter's codes and statuses for a window are those for the whole table."""
    made = build(specs, others)
    framework = default_engine(made).framework
    info = made.classes.info(pod("asked", **fields))
    whole = Nodes(made.nodes)
    state = prepared(framework, info, whole)
    if state is None:
        return
    for plugin in framework.active_filters(state):
        answer = plugin.filter_all(state, info.pod, whole)
        said = [() if answer is None or not code else answer.status_of(int(code)) for code in _codes(answer, whole)]
        for window in windows(made, chosen):
            part = plugin.filter_all(state, info.pod, window)
            for row, code in zip(window.row_numbers(), _codes(part, window), strict=True):
                if made.nodes.valid[row]:
                    status = part.status_of(int(code)) if part is not None and code else ()
                    assert status == said[row], (plugin.name, row, window.row_numbers())


def _codes(answer: Any, window: Nodes) -> list[int]:
    if answer is None:
        return [0] * len(window)
    assert len(answer.codes) == len(window)
    return [int(code) for code in answer.codes]


@given(specs=nodes, others=guests, fields=pods, chosen=picks)
def test_scores(
    specs: list[dict[str, Any]],
    others: list[tuple[int, dict[str, Any], bool]],
    fields: dict[str, Any],
    chosen: list[list[int]],
) -> None:
    """A Score for a window is that part of the score for the whole table."""
    made = build(specs, others)
    framework = default_engine(made).framework
    info = made.classes.info(pod("asked", **fields))
    whole = Nodes(made.nodes)
    state = prepared(framework, info, whole)
    if state is None:
        return
    framework.run_filters(state, info.pod, whole)  # VolumeBinding stores there what it scores
    skipped = {p.name for p in framework.pre_score if not framework.ask_pre_score(p, state, info.pod, whole)}
    for plugin in framework.scores:
        if plugin.name in skipped:
            continue
        scores = _scores(plugin.score_all(state, info.pod, whole), whole)
        for window in windows(made, chosen):
            part = _scores(plugin.score_all(state, info.pod, window), window)
            for row, score in zip(window.row_numbers(), part, strict=True):
                if made.nodes.valid[row]:
                    assert score == scores[row], (plugin.name, row, window.row_numbers())


def _scores(answer: Any, window: Nodes) -> list[int]:
    if isinstance(answer, int):
        return [answer] * len(window)
    assert len(answer) == len(window)
    assert answer.dtype == np.int64
    return [int(score) for score in answer]


@pytest.mark.parametrize("point", ["filter", "score"])
def test_every_plugin_is_in_the_profile_under_test(point: str) -> None:
    """The properties above are about all built-in plugins that filter or score."""
    framework = default_engine(cluster()).framework
    tested = {p.name for p in (framework.filters if point == "filter" else framework.scores)}
    methods = {"filter": ("filter", "filter_all"), "score": ("score", "score_all")}[point]
    assert tested == {plugin.name for plugin in IN_TREE if any(hasattr(plugin, method) for method in methods)}
