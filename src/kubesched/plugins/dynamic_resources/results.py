"""Allocation results: a search's solution written out with the names of one node's pools and devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.api.selectors import NAME_FIELD
from kubesched.base.features import Features
from kubesched.plugins.dynamic_resources.inventory import NodeView
from kubesched.plugins.dynamic_resources.requests import AllocationError, CompiledClaim
from kubesched.plugins.dynamic_resources.search import Pick, Solution

FROM_CLASS = "FromClass"
FROM_CLAIM = "FromClaim"


def allocations(
    claims: Sequence[CompiledClaim],
    solution: Solution,
    view: NodeView,
    node_name: str,
    features: Features,
    new_share: Callable[[], str],
) -> list[dra.AllocationResult]:
    """The allocation of each claim on a node that sees these pools."""
    written = zip(claims, solution.picks, solution.alternatives, strict=True)
    return [
        dra.AllocationResult(
            devices=dra.DeviceAllocationResult(
                results=tuple(_result(pick, view, features, new_share) for pick in picks),
                config=tuple(_configs(claim, alternatives)),
            ),
            node_selector=_node_selector(picks, view, node_name),
        )
        for claim, picks, alternatives in written
    ]


def _device(pick: Pick, view: NodeView) -> tuple[dra.ResourceSlice, dra.Device]:
    return view.pools[pick.pool].devices[pick.device]


def _result(
    pick: Pick, view: NodeView, features: Features, new_share: Callable[[], str]
) -> dra.DeviceRequestAllocationResult:
    driver, pool = view.pools[pick.pool].pool
    _, device = _device(pick, view)
    return dra.DeviceRequestAllocationResult(
        request=pick.sub.full_name,
        driver=driver,
        pool=pool,
        device=device.name,
        admin_access=True if pick.sub.admin else None,
        tolerations=pick.sub.tolerations,
        binding_conditions=device.binding_conditions if features.binding_conditions else (),
        binding_failure_conditions=device.binding_failure_conditions if features.binding_conditions else (),
        share_id=None if pick.taken is None else new_share(),
        consumed_capacity={} if pick.taken is None else {name: each.text for name, each in pick.taken.items()},
    )


def _configs(claim: CompiledClaim, alternatives: Sequence[int]) -> list[dra.DeviceAllocationConfiguration]:
    """The configuration of each class once, with the requests that it is for, then the claim's own."""
    subs = [request.alternatives[chosen] for request, chosen in zip(claim.requests, alternatives, strict=True)]
    classes = {sub.device_class.name: sub.device_class for sub in subs}
    configs = [
        dra.DeviceAllocationConfiguration(
            source=FROM_CLASS,
            requests=tuple(sub.full_name for sub in subs if sub.device_class is device_class),
            opaque=config.opaque,
        )
        for device_class in classes.values()
        for config in device_class.spec.config
    ]
    for config in claim.config:
        # As upstream, a configuration for two requests is listed twice.
        named = [sub for sub in subs if sub.base_name in config.requests or sub.full_name in config.requests]
        times = len(named) if config.requests else 1
        own = dra.DeviceAllocationConfiguration(source=FROM_CLAIM, requests=config.requests, opaque=config.opaque)
        configs += [own] * times
    return configs


def _node_selector(picks: Sequence[Pick], view: NodeView, node_name: str) -> api.NodeSelector | None:
    """The nodes from which all devices can be reached; None for every node."""
    fields: list[api.NodeSelectorRequirement] = []
    labels: list[api.NodeSelectorRequirement] = []
    for pick in picks:
        each, device = _device(pick, view)
        place = device if each.spec.per_device_node_selection else each.spec
        if place.node_name is not None or device.binds_to_node:
            return _only(node_name)
        if place.node_selector is None:
            continue
        terms = place.node_selector.node_selector_terms
        if len(terms) > 1:
            raise AllocationError(f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms")
        for term in terms:
            _add_new(fields, term.match_fields)
            _add_new(labels, term.match_expressions)
    if not fields and not labels:
        return None
    return api.NodeSelector((api.NodeSelectorTerm(match_expressions=tuple(labels), match_fields=tuple(fields)),))


def _only(node_name: str) -> api.NodeSelector:
    named = api.NodeSelectorRequirement(key=NAME_FIELD, operator="In", values=(node_name,))
    return api.NodeSelector((api.NodeSelectorTerm(match_fields=(named,)),))


def _add_new(known: list[api.NodeSelectorRequirement], more: Sequence[api.NodeSelectorRequirement]) -> None:
    for requirement in more:
        same = (each for each in known if (each.key, each.operator) == (requirement.key, requirement.operator))
        if all(set(each.values) != set(requirement.values) for each in same):
            known.append(requirement)
