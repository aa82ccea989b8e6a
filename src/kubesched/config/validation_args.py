"""What the built-in plugins reject in their arguments.

kube-scheduler checks most of these when it reads the file and the rest when it builds the plugin; either way it does
not start. Here they are all checked together, before anything is built.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

from kubesched.api.names import label_key_errors
from kubesched.api.objects import TopologySpreadConstraint
from kubesched.api.selectors import SelectorError, preferred_terms, strict_node_selector
from kubesched.base.features import DEFAULT_FEATURES, Features
from kubesched.config.args import (
    Args,
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ScoringStrategy,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from kubesched.config.duration import Duration
from kubesched.config.errors import Problem, suggest

T = TypeVar("T")

WHEN_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")


def validate_args(args: Args, path: str, features: Features = DEFAULT_FEATURES) -> Iterator[Problem]:
    """Everything wrong with a built-in plugin's arguments, which the file has at ``path``."""
    match args:
        case DefaultPreemptionArgs():
            yield from _default_preemption(args, path)
        case DynamicResourcesArgs():
            yield from _dynamic_resources(args, path, features)
        case InterPodAffinityArgs():
            yield from in_range(f"{path}.hardPodAffinityWeight", args.hard_pod_affinity_weight, 0, 100)
        case NodeAffinityArgs():
            yield from _node_affinity(args, f"{path}.addedAffinity")
        case NodeResourcesBalancedAllocationArgs():
            yield from _balanced_allocation(args, f"{path}.resources")
        case NodeResourcesFitArgs():
            yield from _node_resources_fit(args, path)
        case PodTopologySpreadArgs():
            yield from _pod_topology_spread(args, path)
        case VolumeBindingArgs():
            yield from _volume_binding(args, path, features)


def in_range(path: str, value: int, low: int, high: int) -> Iterator[Problem]:
    if not low <= value <= high:
        yield Problem(path, f"not in valid range [{low}, {high}]", value)


def label_name(path: str, name: str) -> Iterator[Problem]:
    for error in label_key_errors(name):
        yield Problem(path, error, name)


def _default_preemption(args: DefaultPreemptionArgs, path: str) -> Iterator[Problem]:
    percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    yield from in_range(f"{path}.minCandidateNodesPercentage", percentage, 0, 100)
    if absolute < 0:
        yield Problem(f"{path}.minCandidateNodesAbsolute", "not in valid range [0, inf)", absolute)
    if percentage == absolute == 0:
        both = "minCandidateNodesPercentage", "minCandidateNodesAbsolute"
        for one, other in (both, both[::-1]):
            yield Problem(f"{path}.{one}", f"cannot be zero at the same time as {other}", 0)


def _dynamic_resources(args: DynamicResourcesArgs, path: str, features: Features) -> Iterator[Problem]:
    for_filter, for_binding = args.filter_timeout, args.binding_timeout
    if for_filter is not None and not features.dra_scheduler_filter_timeout:
        what = "needs the feature gate DRASchedulerFilterTimeout, which is off"
        yield Problem(f"{path}.filterTimeout", what, hint="remove it")
    elif for_filter is not None and for_filter < 0:
        yield Problem(f"{path}.filterTimeout", "must be zero or positive", str(for_filter))
    if for_binding is not None and not features.binding_conditions:
        what = "needs the feature gates DRADeviceBindingConditions and DRAResourceClaimDeviceStatus; one is off"
        yield Problem(f"{path}.bindingTimeout", what, hint="remove it")
    elif for_binding is not None and for_binding < Duration.of(1):
        yield Problem(f"{path}.bindingTimeout", "must be at least 1 second", str(for_binding))


def _node_affinity(args: NodeAffinityArgs, path: str) -> Iterator[Problem]:
    affinity = args.added_affinity
    if affinity is None:
        return
    if required := affinity.required_during_scheduling_ignored_during_execution:
        yield from _selects(strict_node_selector, required, f"{path}.requiredDuringSchedulingIgnoredDuringExecution")
    preferred = affinity.preferred_during_scheduling_ignored_during_execution
    yield from _selects(preferred_terms, preferred, f"{path}.preferredDuringSchedulingIgnoredDuringExecution")


def _selects(compile_: Callable[[T], object], selector: T, path: str) -> Iterator[Problem]:
    try:
        compile_(selector)
    except SelectorError as error:
        yield Problem(path, str(error))


def _balanced_allocation(args: NodeResourcesBalancedAllocationArgs, path: str) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, resource in enumerate(args.resources):
        if resource.name in seen:
            yield Problem(f"{path}[{index}].name", "repeated", resource.name)
        seen.add(resource.name)
        if resource.weight != 1:
            yield Problem(f"{path}[{index}].weight", "must be 1", resource.weight)


def _node_resources_fit(args: NodeResourcesFitArgs, path: str) -> Iterator[Problem]:
    for index, name in enumerate(args.ignored_resources):
        yield from label_name(f"{path}.ignoredResources[{index}]", name)
    for index, group in enumerate(args.ignored_resource_groups):
        where = f"{path}.ignoredResourceGroups[{index}]"
        if "/" in group:
            yield Problem(where, "resource group name can't contain '/'", group)
        yield from label_name(where, group)
    yield from _scoring_strategy(args.scoring_strategy, f"{path}.scoringStrategy")


def _scoring_strategy(strategy: ScoringStrategy, path: str) -> Iterator[Problem]:
    for index, resource in enumerate(strategy.resources):
        if not 0 < resource.weight <= 100:
            message = f"resource weight of {resource.name} not in valid range (0, 100]"
            yield Problem(f"{path}.resources[{index}].weight", message, resource.weight)
    ratio, where = strategy.requested_to_capacity_ratio, f"{path}.requestedToCapacityRatio"
    if strategy.type != "RequestedToCapacityRatio":
        if ratio is not None:
            yield Problem(where, "only allowed when type is RequestedToCapacityRatio", hint="remove it or set the type")
    elif ratio is None:
        yield Problem(where, "required when type is RequestedToCapacityRatio")
    else:
        yield from _shape(ratio.shape, f"{where}.shape")


def _shape(shape: Sequence[UtilizationShapePoint], path: str) -> Iterator[Problem]:
    if not shape:
        yield Problem(path, "at least one point must be specified")
    for index, (before, point) in enumerate(pairwise(shape), start=1):
        if before.utilization >= point.utilization:
            message = "values must be sorted in increasing order"
            yield Problem(f"{path}[{index}].utilization", message, point.utilization)
            break
    for index, point in enumerate(shape):
        yield from in_range(f"{path}[{index}].utilization", point.utilization, 0, 100)
        yield from in_range(f"{path}[{index}].score", point.score, 0, 10)


def _pod_topology_spread(args: PodTopologySpreadArgs, path: str) -> Iterator[Problem]:
    if args.defaulting_type == "System" and args.default_constraints:
        hint = "set it to List to use the constraints"
        yield Problem(f"{path}.defaultingType", "not possible when defaultConstraints are not empty", "System", hint)
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(args.default_constraints):
        where = f"{path}.defaultConstraints[{index}]"
        yield from _constraint(constraint, where)
        identity = (constraint.topology_key, constraint.when_unsatisfiable)
        if identity in seen:
            yield Problem(where, "repeats a topologyKey with the same whenUnsatisfiable", ", ".join(identity))
        seen.add(identity)


def _constraint(constraint: TopologySpreadConstraint, path: str) -> Iterator[Problem]:
    if constraint.max_skew <= 0:
        yield Problem(f"{path}.maxSkew", "not in valid range (0, inf)", constraint.max_skew)
    if not constraint.topology_key:
        yield Problem(f"{path}.topologyKey", "required, can not be empty")
    else:
        yield from label_name(f"{path}.topologyKey", constraint.topology_key)
    action = constraint.when_unsatisfiable
    if action not in WHEN_UNSATISFIABLE:
        message = f"must be one of {', '.join(WHEN_UNSATISFIABLE)}"
        yield Problem(f"{path}.whenUnsatisfiable", message, action, suggest(action, WHEN_UNSATISFIABLE))
    if constraint.label_selector is not None:
        message = "must not be given, as the selector is deduced for each pod"
        yield Problem(f"{path}.labelSelector", message, hint="remove it")


def _volume_binding(args: VolumeBindingArgs, path: str, features: Features) -> Iterator[Problem]:
    if args.bind_timeout_seconds < 0:
        yield Problem(f"{path}.bindTimeoutSeconds", "should not be a negative value", args.bind_timeout_seconds)
    if features.storage_capacity_scoring:
        yield from _shape(args.shape, f"{path}.shape")
    elif args.shape:
        yield Problem(f"{path}.shape", "needs the feature gate StorageCapacityScoring, which is off", hint="remove it")
