"""What must hold of the volume plugins in any cluster."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.builders import cluster
from tests.plugins.volumes import reference
from tests.plugins.volumes.storage import Harness
from tests.plugins.volumes.worlds import objects, pods, worlds

from kubesched.api import objects as api
from kubesched.cluster.view import Nodes
from kubesched.config.args import VolumeBindingArgs
from kubesched.framework.plugin import Plugin
from kubesched.framework.status import Code, Status
from kubesched.plugins.node_volume_limits import NodeVolumeLimits
from kubesched.plugins.volume_binding import VolumeBinding
from kubesched.plugins.volume_binding.plugin import Reservation
from kubesched.plugins.volume_restrictions import VolumeRestrictions
from kubesched.plugins.volume_zone import VolumeZone

ALL: list[type[Plugin]] = [VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone]

Answer = Status | dict[str, Status] | None


def ask(plugin: type[Plugin], *given_objects: api.Object) -> Harness:
    return Harness(plugin, cluster(*given_objects), VolumeBindingArgs())


def answer(case: Harness, incoming: api.Pod) -> Answer:
    """A plugin's verdicts on a pod: PreFilter's status if it has one, else Filter's."""
    state = case.state(incoming)
    status = case.pre_filter(incoming, state)
    return status if status is not None else case.filter(incoming, state=state)


@pytest.mark.parametrize("plugin", ALL)
@given(world=worlds(), incoming=pods(running=False), data=st.data())
def test_a_node_is_judged_the_same_alone_in_company_and_in_the_whole_table(
    plugin: type[Plugin], world: list[api.Object], incoming: api.Pod, data: st.DataObject
) -> None:
    """The verdicts for a window are a part of the verdicts for all nodes."""
    case = ask(plugin, *world)
    if case.pre_filter(incoming) is not None:
        return
    table = case.cluster.nodes
    whole = case.filter(incoming)
    rows = data.draw(st.lists(st.integers(0, table.size - 1), unique=True))
    for window in (Nodes(table, np.array(rows, dtype=np.int64)), *(Nodes(table, slice(r, r + 1)) for r in rows)):
        names = set(window.names)
        assert case.filter(incoming, window) == {n: status for n, status in whole.items() if n in names}


@pytest.mark.parametrize("plugin", ALL)
@given(world=worlds(), changes=st.lists(st.tuples(objects, st.booleans()), max_size=8), incoming=pods(running=False))
def test_what_is_remembered_never_shows(
    plugin: type[Plugin],
    world: list[api.Object],
    changes: list[tuple[api.Object, bool]],
    incoming: api.Pod,
) -> None:
    """After any changes, a plugin that saw them gives the same verdicts as a new one."""
    old_hand = ask(plugin, *world)
    answer(old_hand, incoming)
    for obj, stays in changes:
        if stays:
            old_hand.cluster.set(obj)
        else:
            old_hand.cluster.remove(obj)
        newcomer = Harness(plugin, old_hand.cluster, VolumeBindingArgs())
        assert answer(old_hand, incoming) == answer(newcomer, incoming)


@given(world=worlds(), incoming=pods(running=False))
def test_volume_binding_follows_the_plain_rules(world: list[api.Object], incoming: api.Pod) -> None:
    """All nodes at once gives what one node at a time gives."""
    case = ask(VolumeBinding, *world)
    assume(case.pre_filter(incoming) is None)
    found = case.reasons(incoming)
    for info in Nodes(case.cluster.nodes):
        assert found.get(info.name, ()) == reference.bindings(case.cluster, incoming, info.node)


@given(world=worlds(), incoming=pods(running=False))
def test_node_volume_limits_follows_the_plain_rules(world: list[api.Object], incoming: api.Pod) -> None:
    """Counting as pods come and go gives what counting them all gives."""
    case = ask(NodeVolumeLimits, *world)
    assume(case.pre_filter(incoming) is None)
    found = case.filter(incoming)
    assume(all(status.code is Code.UNSCHEDULABLE for status in found.values()))
    for info in Nodes(case.cluster.nodes):
        assert (info.name in found) == reference.exceeds(case.cluster, incoming, info.node)


@given(world=worlds(), incoming=st.lists(pods(running=False), min_size=2, max_size=4))
def test_no_volume_is_promised_twice(world: list[api.Object], incoming: list[api.Pod]) -> None:
    """However many pods are placed before the API server confirms any, every volume goes to one claim."""
    case = ask(VolumeBinding, *world)
    owner: dict[str, str] = {}
    for each in incoming:
        state = case.state(each)
        if case.pre_filter(each, state) is not None:
            continue
        refused = case.filter(each, state=state)
        feasible = [info.name for info in Nodes(case.cluster.nodes) if info.name not in refused]
        if not feasible:
            continue
        case.plugin.reserve(state, each, feasible[0])
        bindings = state.read("VolumeBinding", Reservation).bindings
        if len({binding.claim.name for binding in bindings}) < len(bindings):
            continue  # a claim in two volumes of the pod is matched twice, as upstream does
        for binding in bindings:
            assert owner.setdefault(binding.volume.name, binding.claim.name) == binding.claim.name
