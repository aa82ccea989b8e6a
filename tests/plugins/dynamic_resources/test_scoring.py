"""Scores that devices decide: how good the chosen alternative is, and how full of devices a node is."""

from __future__ import annotations

from msgspec.structs import replace
from tests.builders import cluster, node, pod
from tests.harness import default_engine, schedule
from tests.plugins.dynamic_resources.support import claim, device, device_class, exactly, first_of, resource_slice

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.engine.engine import Engine


def test_a_better_alternative_scores_higher() -> None:
    """A node that has the first alternative is preferred to one that has only the second."""
    wanted = first_of("r", exactly("two", 2), exactly("one", 1))
    made = cluster(
        node("a"),
        node("b"),
        device_class(),
        resource_slice("a", device("d0"), node="a"),
        resource_slice("b", device("d0"), device("d1"), node="b"),
        claim("c", wanted),
    )
    decision = schedule(default_engine(made), pod("p", resource_claims=["c"]), record=True)
    assert decision.node == "b"
    assert decision.scores is not None
    scores = {name: each["DynamicResources"] for name, each, _ in decision.scores.by_node()}
    assert scores == {"a": 7 * 100 // 8 * 2, "b": 200}


def test_a_pod_without_claims_is_not_scored() -> None:
    """The plugin does not score pods without claims."""
    decision = schedule(default_engine(cluster(node("a"), node("b"))), pod("p"), record=True)
    assert decision.scores is not None
    assert "DynamicResources" not in decision.scores.plugins


def test_extended_resources_are_scored_by_devices() -> None:
    """A strategy that fills nodes counts allocated devices where no device plugin provides the resource."""
    resources = [{"name": "example.com/gpu", "weight": 1}]
    args = {"scoringStrategy": {"type": "MostAllocated", "resources": resources}}
    result = {"request": "r", "driver": "gpu.example.com", "pool": "b", "device": "d0"}
    taken = claim("t", exactly(), status={"allocation": {"devices": {"results": [result]}}})
    made = cluster(
        node("a"),
        node("b"),
        device_class("gpu", extendedResourceName="example.com/gpu"),
        *(resource_slice(name, *(device(f"d{n}") for n in range(4)), node=name) for name in "ab"),
        taken,
    )
    engine = default_engine(made, config={"pluginConfig": [{"name": "NodeResourcesFit", "args": args}]})
    wanted = pod("p", requests={"example.com/gpu": "1"})
    assert fit_scores(engine, wanted) == {"a": 25, "b": 50}
    made.set(replace(taken, status=dra.ResourceClaimStatus()))
    assert fit_scores(engine, replace(wanted, metadata=api.ObjectMeta(name="q", namespace="default", uid="q"))) == {
        "a": 25,
        "b": 25,
    }


def fit_scores(engine: Engine, wanted: api.Pod) -> dict[str, int]:
    decision = schedule(engine, wanted, record=True)
    assert decision.scores is not None
    return {name: each["NodeResourcesFit"] for name, each, _ in decision.scores.by_node()}
