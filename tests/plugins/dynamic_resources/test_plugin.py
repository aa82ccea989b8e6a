"""The plugin at its points: what it says before, at and after Filter, and which events wake pods."""

from __future__ import annotations

import threading
from functools import cache
from itertools import count
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from tests.builders import cluster, node, pod
from tests.harness import default_engine, filtered, make, schedule
from tests.plugins.dynamic_resources.support import claim, device, device_class, every, exactly, resource_slice

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.features import Features
from kubesched.cel import parser
from kubesched.cluster.state import ClusterState
from kubesched.config.args import DynamicResourcesArgs
from kubesched.config.duration import Duration
from kubesched.engine.outcome import Outcome
from kubesched.framework.events import Hint
from kubesched.framework.handle import Handle, Services
from kubesched.plugins.dynamic_resources import DynamicResources, selectors
from kubesched.plugins.dynamic_resources.devices import Devices

NO = "UnschedulableAndUnresolvable"


def allocation(name: str, node_name: str, device_name: str = "d") -> dict[str, Any]:
    """The status of a claim with a device on one node."""
    result = {"request": "r", "driver": "gpu.example.com", "pool": name, "device": device_name}
    field = {"key": "metadata.name", "operator": "In", "values": [node_name]}
    selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"allocation": {"devices": {"results": [result]}, "nodeSelector": selector}}


def test_a_pod_without_claims_is_left_alone() -> None:
    """No claims, nothing to filter."""
    made = cluster(node("a"))
    assert schedule(default_engine(made), pod("p")).node == "a"


def test_an_allocated_claim_ties_the_pod_to_its_node() -> None:
    """A pod goes where its allocated devices are."""
    made = cluster(node("a"), node("b"), claim("c", exactly(), status=allocation("a", "a")))
    plugin = make(DynamicResources, made)
    found = filtered(plugin, made, pod("p", resource_claims=["c"]))
    assert found == {"a": (), "b": (NO, "resourceclaim not available on the node")}


def test_claims_of_templates_must_be_the_pods_own() -> None:
    """A claim from a template is used only by the pod that it was made for, and only once it has a name."""
    made = cluster(node("a"), device_class(), claim("made", exactly()))
    plugin = make(DynamicResources, made)
    reference = api.PodResourceClaim("gpu", resource_claim_template_name="template")
    plain = pod("p")
    wanted = replace(plain, spec=replace(plain.spec, resource_claims=(reference,)))
    waiting = plugin.pre_enqueue(wanted)
    assert waiting is not None
    assert waiting.reasons == ('pod "default/p": ResourceClaim not created yet',)
    named = replace(wanted, status=api.PodStatus(resource_claim_statuses=(api.PodResourceClaimStatus("gpu", "made"),)))
    foreign = plugin.pre_enqueue(named)
    assert foreign is not None
    assert foreign.reasons == ("ResourceClaim default/made was not created for Pod default/p (Pod is not owner)",)
    none = replace(wanted, status=api.PodStatus(resource_claim_statuses=(api.PodResourceClaimStatus("gpu"),)))
    assert plugin.pre_enqueue(none) is None


def test_a_claim_that_is_going_is_not_used() -> None:
    """A claim that is being deleted keeps its pod waiting."""
    made = cluster(node("a"), claim("c", exactly(), metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    status = make(DynamicResources, made).pre_enqueue(pod("p", resource_claims=["c"]))
    assert status is not None
    assert status.reasons == ('resourceclaim "c" is being deleted',)


def test_a_missing_class_keeps_the_pod_waiting() -> None:
    """Without its device class a request cannot be served anywhere."""
    made = cluster(node("a"), claim("c", exactly()))
    decision = schedule(default_engine(made), pod("p", resource_claims=["c"]))
    assert decision.message.startswith("0/1 nodes are available: request r: device class gpu does not exist.")


def test_an_error_names_claim_pool_and_device() -> None:
    """What is wrong with a claim fails the attempt, in upstream's words."""
    made = cluster(node("a"), device_class(), resource_slice("s", device("d"), node="a", count=2), claim("c", every()))
    decision = schedule(default_engine(made), pod("p", resource_claims=["c"]))
    assert decision.outcome is Outcome.ERROR
    assert decision.message == (
        'running "DynamicResources" filter plugin: claim default/c, request r: asks for all devices, but resource pool '
        "gpu.example.com/a is currently being updated"
    )


def test_a_selector_that_fails_names_its_class() -> None:
    """A selector of a class that reads what a device lacks fails the attempt."""
    broken = device_class("gpu", 'device.attributes["gpu.example.com"].model == "a"')
    made = cluster(node("a"), broken, resource_slice("s", device("d"), node="a"), claim("c", exactly()))
    decision = schedule(default_engine(made), pod("p", resource_claims=["c"]))
    assert decision.outcome is Outcome.ERROR
    assert "class gpu: selector #0: CEL runtime error: no such key: model" in decision.message


def test_a_claim_being_written_is_waited_for() -> None:
    """A claim that another pod's attempt is allocating cannot be allocated a second time."""
    made = cluster(node("a"), device_class(), resource_slice("s", device("d"), node="a"), claim("c", exactly()))
    engine = default_engine(made)
    first = schedule(engine, pod("p", resource_claims=["c"]))
    assert engine.place(first)
    second = schedule(engine, pod("q", resource_claims=["c"]))
    assert "resource claim default/c is in the process of being allocated" in second.message
    engine.take_back(first)
    assert schedule(engine, pod("q", resource_claims=["c"])).node == "a"


def test_which_claim_events_wake_a_pod() -> None:
    """A pod waits for its own claims, and for devices that others give back."""
    mine, other = claim("c", exactly()), claim("other", exactly())
    made = cluster(node("a"), mine, other)
    plugin = make(DynamicResources, made)
    waiting = pod("p", resource_claims=["c"])
    taken = replace(other, status=api.decode_as(dra.ResourceClaimStatus, allocation("a", "a")))
    changed = replace(mine, metadata=replace(mine.metadata, labels={"a": "b"}))
    hints = plugin._hints.after_claim_change
    assert hints(waiting, None, mine) is Hint.QUEUE
    assert hints(waiting, mine, changed) is Hint.SKIP
    assert hints(waiting, None, other) is Hint.SKIP
    assert hints(waiting, other, taken) is Hint.SKIP
    assert hints(waiting, taken, other) is Hint.QUEUE
    made.remove(mine)
    assert hints(waiting, taken, other) is Hint.SKIP


@virtual_time
async def test_a_search_that_takes_too_long_fails_the_attempt(clock: VirtualClock) -> None:
    """Past the filter timeout the search stops, and the error names the node."""
    made = cluster(node("a"), device_class())
    parts = [
        device(f"d{n}", attributes={"n": n}, consumesCounters=[{"counterSet": "s", "counters": {"c": {"value": "3"}}}])
        for n in range(30)
    ]
    counters = [{"name": "s", "counters": {"c": {"value": str(3 * 9 + 2)}}}]
    made.set(resource_slice("counters", pool="a", count=2, sharedCounters=counters))
    made.set(resource_slice("devices", *parts, node="a", count=2))
    made.set(claim("c", exactly("r", 10)))

    reads = count(1.0)
    clock.monotonic = lambda: next(reads)  # each look at the clock takes a second
    handle = Handle(made, Random(0), services=Services(clock=clock))
    plugin = DynamicResources(DynamicResourcesArgs(filter_timeout=Duration.of(1)), handle)
    found = filtered(plugin, made, pod("p", resource_claims=["c"]))
    assert found == {"a": ("Error", "node a: timed out trying to allocate devices")}


def test_the_grammar_of_selectors_is_built_before_the_first_selector(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first device class has the CEL parser built in a thread: the first claim does not block the loop for it."""
    monkeypatch.setattr(parser, "_build", cache(parser._build.__wrapped__))
    state = ClusterState()
    state.share(Devices)
    state.set(device_class("gpu"))
    for thread in threading.enumerate():
        if thread.name == "CEL grammar":
            thread.join(30)
    assert parser._build.cache_info().currsize == 1


def test_a_process_that_ends_waits_for_the_grammar(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread in the middle of C++ that Python abandons at its end aborts the process, and its exit code is lost."""
    end = threading.Event()
    monkeypatch.setattr(selectors, "_prepare", lambda: end.wait(30))
    before = set(threading.enumerate())
    selectors.prepare_in_background()
    (thread,) = set(threading.enumerate()) - before
    end.set()
    thread.join(30)
    assert not thread.daemon


@pytest.mark.parametrize("gate", [True, False])
@virtual_time
async def test_the_filter_timeout_has_a_gate(clock: VirtualClock, gate: bool) -> None:
    """With dra_scheduler_filter_timeout off, a search is not watched, whatever the arguments say."""
    made = ClusterState(Features(dra_scheduler_filter_timeout=gate))
    handle = Handle(made, Random(0), services=Services(clock=clock))
    plugin = DynamicResources(DynamicResourcesArgs(filter_timeout=Duration.of(1)), handle)
    assert (plugin._context.timer(0) is not None) is gate
