"""What a pod takes from its node, and what a node offers.

A pod's request is not the sum of its containers' requests. Init containers run one after another before the others, so
only the largest counts. Sidecars start among them and keep running. Overhead is added. Pod-level requests replace the
sum. A pod that is being resized in place holds the larger of what it has and what it requests. Upstream computes this
slightly differently for filtering, for scoring and for a node's accounting; all variants are here.

Amounts are added up exactly, in billionths (see `kubesched.api.quantity`), and rounded once, at the end.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

import msgspec

from kubesched.api.decoding import InvalidObject
from kubesched.api.names import label_key_errors
from kubesched.api.objects import Container, ContainerStatus, Node, Pod, ResourceList, ResourceRequirements
from kubesched.api.quantity import QuantityError, milli_of, nanos, value_of
from kubesched.base.features import DEFAULT_FEATURES, Features

CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"
PODS = "pods"

HUGEPAGES_PREFIX = "hugepages-"
ATTACHABLE_VOLUMES_PREFIX = "attachable-volumes-"
_NATIVE_NAMESPACE = "kubernetes.io/"
_QUOTA_PREFIX = "requests."

#: What scoring assumes for a container without requests: 100m of CPU and 200Mi of memory.
_DEFAULTS = {CPU: nanos("100m"), MEMORY: nanos("200Mi")}

Amounts = dict[str, int]


# --- names ------------------------------------------------------------------------------------------------------------


def is_prefixed_native(name: str) -> bool:
    """Whether the name is in Kubernetes' own domain."""
    return _NATIVE_NAMESPACE in name


def is_native(name: str) -> bool:
    """Whether the resource is one of Kubernetes' own, as every name without a domain is."""
    return "/" not in name or is_prefixed_native(name)


@lru_cache(maxsize=4096)
def is_extended(name: str) -> bool:
    """Whether the resource is an extended one, such as a device plugin's. It must also be a valid name as a quota."""
    if is_native(name) or name.startswith(_QUOTA_PREFIX):
        return False
    return not label_key_errors(_QUOTA_PREFIX + name)


def is_hugepage(name: str) -> bool:
    return name.startswith(HUGEPAGES_PREFIX)


def is_attachable_volume(name: str) -> bool:
    return name.startswith(ATTACHABLE_VOLUMES_PREFIX)


def is_scalar(name: str) -> bool:
    """Whether the scheduler tracks the resource, besides CPU, memory, ephemeral storage and the pod count."""
    return is_hugepage(name) or is_attachable_volume(name) or is_prefixed_native(name) or is_extended(name)


def is_pod_level(name: str) -> bool:
    """Whether the resource can be requested for a pod as a whole."""
    return name in (CPU, MEMORY) or is_hugepage(name)


# --- a pod's requests -------------------------------------------------------------------------------------------------


def pod_requests(
    pod: Pod,
    *,
    use_status: bool,
    non_zero: bool = False,
    pod_level: bool = True,
    by_claims: bool = False,
    features: Features = DEFAULT_FEATURES,
) -> Amounts:
    """What ``pod`` requests in all, per resource, in billionths.

    ``use_status`` counts what the kubelet has granted a running pod, which differs from the spec during a resize.
    ``non_zero`` assumes the scoring defaults for every container that requests no CPU or no memory. Pod-level requests
    replace the sum in either case, unless ``pod_level`` is false. ``by_claims`` adds the node's resources that its
    devices stand for.
    """
    defaults = _DEFAULTS if non_zero else {}
    return _checked(
        pod, use_status=use_status, defaults=defaults, pod_level=pod_level, by_claims=by_claims, features=features
    )


def _checked(
    pod: Pod, *, use_status: bool, defaults: Amounts, pod_level: bool, by_claims: bool, features: Features
) -> Amounts:
    try:
        return _pod_total(pod, use_status, defaults, pod_level, by_claims, features)
    except _Refused:
        raise _complaint(pod) from None


def _pod_total(
    pod: Pod, use_status: bool, defaults: Amounts, pod_level: bool, by_claims: bool, features: Features
) -> Amounts:
    statuses = _statuses(pod) if use_status else {}
    total = _containers_total(pod, statuses, defaults)
    for claim in pod.status.node_allocatable_resource_claim_statuses if by_claims else ():
        _add(total, _amounts(claim.resources))
    if pod_level and pod.spec.resources is not None:
        resized = use_status and features.in_place_pod_level_resources_vertical_scaling
        total.update(_pod_level(pod, pod.spec.resources, resized))
    if pod.spec.overhead:
        _add(total, _amounts(pod.spec.overhead))
    return total


def _containers_total(pod: Pod, statuses: Mapping[str, ContainerStatus], defaults: Amounts) -> Amounts:
    total: Amounts = {}
    for container in pod.spec.containers:
        _add(total, _container(pod, container, statuses, defaults))
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in pod.spec.init_containers:
        if container.restart_policy == "Always":
            requests = _container(pod, container, statuses, defaults)
            _add(total, requests)
            _add(sidecars, requests)
            _raise_to(starting, sidecars)
        else:
            # Only containers that keep running can be resized, so upstream reads no status here.
            requests = _container(pod, container, {}, defaults)
            _add(requests, sidecars)
            _raise_to(starting, requests)
    _raise_to(total, starting)
    return total


def _container(pod: Pod, container: Container, statuses: Mapping[str, ContainerStatus], defaults: Amounts) -> Amounts:
    spec = _amounts(container.resources.requests)
    status = statuses.get(container.name)
    if status is not None and status.resources is not None:
        spec = _effective(pod, spec, status.resources, status.allocated_resources)
    for name, amount in defaults.items():
        spec.setdefault(name, amount)
    return spec


def _effective(pod: Pod, spec: Amounts, actual: ResourceRequirements, allocated: ResourceList) -> Amounts:
    """What is held during a resize. A resize that the node can never grant no longer counts."""
    held: Amounts = {} if _resize_infeasible(pod) else spec
    _raise_to(held, _amounts(actual.requests))
    _raise_to(held, _amounts(allocated))
    return held


def _resize_infeasible(pod: Pod) -> bool:
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending":
            return condition.reason == "Infeasible"
    return False


def _pod_level(pod: Pod, resources: ResourceRequirements, use_status: bool) -> Amounts:
    spec = {name: amount for name, amount in _amounts(resources.requests).items() if is_pod_level(name)}
    if not use_status or pod.status.resources is None:
        return spec
    held = _effective(pod, dict(spec), pod.status.resources, pod.status.allocated_resources)
    return {name: held.get(name, 0) for name in spec}


def _statuses(pod: Pod) -> dict[str, ContainerStatus]:
    return {status.name: status for status in (*pod.status.container_statuses, *pod.status.init_container_statuses)}


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Amounts, floor: Amounts) -> None:
    for name, amount in floor.items():
        total[name] = max(total.get(name, amount), amount)


# --- invalid quantities ----------------------------------------------------------------------------------------------


class _Refused(Exception):  # noqa: N818 - never leaves this module
    """Some quantity is malformed or negative. Which one is determined later, so that counting stays cheap."""


def _amounts(quantities: ResourceList) -> Amounts:
    try:
        amounts = {name: nanos(quantity) for name, quantity in quantities.items()}
    except QuantityError:
        raise _Refused from None
    if min(amounts.values(), default=0) < 0:
        raise _Refused
    return amounts


def _complaint(pod: Pod) -> InvalidObject:
    for path, quantities in _quantities(pod):
        for name, quantity in quantities.items():
            problem = _problem(quantity)
            if problem:
                return InvalidObject(pod.kind, pod.key, f'{path}["{name}"]', problem)
    raise AssertionError("a refused pod has a bad quantity")


def _problem(quantity: str | int | float) -> str:
    try:
        if nanos(quantity) >= 0:
            return ""
    except QuantityError as error:
        return str(error)
    return f"quantity {msgspec.json.encode(quantity).decode()} is negative; a request must be zero or more"


def _quantities(pod: Pod) -> Iterator[tuple[str, ResourceList]]:
    """Every list of quantities that counting reads, with its path."""
    spec, status = pod.spec, pod.status
    yield from _container_quantities("spec.containers", spec.containers)
    yield from _container_quantities("spec.initContainers", spec.init_containers)
    for index, claim in enumerate(status.node_allocatable_resource_claim_statuses):
        yield f"status.nodeAllocatableResourceClaimStatuses[{index}].resources", claim.resources
    if spec.resources is not None:
        yield "spec.resources.requests", spec.resources.requests
    yield "spec.overhead", spec.overhead
    yield from _status_quantities("status.containerStatuses", status.container_statuses)
    yield from _status_quantities("status.initContainerStatuses", status.init_container_statuses)
    if status.resources is not None:
        yield "status.resources.requests", status.resources.requests
    yield "status.allocatedResources", status.allocated_resources


def _container_quantities(path: str, containers: Iterable[Container]) -> Iterator[tuple[str, ResourceList]]:
    for index, container in enumerate(containers):
        yield f"{path}[{index}].resources.requests", container.resources.requests


def _status_quantities(path: str, statuses: Iterable[ContainerStatus]) -> Iterator[tuple[str, ResourceList]]:
    for index, status in enumerate(statuses):
        if status.resources is not None:
            yield f"{path}[{index}].resources.requests", status.resources.requests
        yield f"{path}[{index}].allocatedResources", status.allocated_resources


# --- in the scheduler's units -----------------------------------------------------------------------------------------


class Requests(msgspec.Struct, frozen=True, gc=False):
    """A pod's requests in the units the scheduler counts in: thousandths of a CPU, bytes, pieces."""

    milli_cpu: int = 0
    memory: int = 0
    ephemeral_storage: int = 0
    scalar: dict[str, int] = {}
    nonzero_cpu: int = 0
    nonzero_memory: int = 0


class NodeResources(msgspec.Struct, frozen=True, gc=False):
    """What a node offers, in the same units, and how many pods it takes."""

    milli_cpu: int = 0
    memory: int = 0
    ephemeral_storage: int = 0
    pods: int = 0
    scalar: dict[str, int] = {}


def node_requests(pod: Pod, features: Features = DEFAULT_FEATURES) -> Requests:
    """What ``pod`` takes from its node, including resizes in progress.

    With pod-level requests the scoring defaults apply only to what neither the pod nor any container requests.
    """
    pod_level = features.pod_level_resources
    by_claims = features.dra_node_allocatable_resources
    exact = pod_requests(pod, use_status=True, pod_level=pod_level, by_claims=by_claims, features=features)
    defaults = _DEFAULTS
    if pod_level and _has_pod_level_requests(pod):
        defaults = {name: amount for name, amount in _DEFAULTS.items() if name not in exact}
    if not defaults:
        return _requests(exact, exact)
    assumed = _checked(
        pod, use_status=True, defaults=defaults, pod_level=pod_level, by_claims=by_claims, features=features
    )
    return _requests(exact, assumed)


def requests_with_claims(pod: Pod, features: Features) -> Requests:
    """What a node must have free for ``pod`` and for the node's resources that its devices stand for."""
    exact = pod_requests(pod, use_status=False, pod_level=features.pod_level_resources, by_claims=True)
    return _requests(exact, exact)


def scheduling_requests(pod: Pod, features: Features = DEFAULT_FEATURES) -> Requests:
    """What a node must have free for ``pod``, and what scoring assumes that it will use.

    This differs from `node_requests`: whether the pod fits does not depend on its status, and the score assumes the
    defaults for every container without requests, even next to pod-level requests.
    """
    pod_level = features.pod_level_resources
    fits = pod_requests(pod, use_status=False, pod_level=pod_level, features=features)
    scores = pod_requests(pod, use_status=True, non_zero=True, pod_level=pod_level, features=features)
    return _requests(fits, scores)


def _has_pod_level_requests(pod: Pod) -> bool:
    resources = pod.spec.resources
    return resources is not None and any(is_pod_level(name) for name in resources.requests)


def _requests(exact: Amounts, assumed: Amounts) -> Requests:
    return Requests(
        milli_cpu=milli_of(exact.get(CPU, 0)),
        memory=value_of(exact.get(MEMORY, 0)),
        ephemeral_storage=value_of(exact.get(EPHEMERAL_STORAGE, 0)),
        scalar=_scalars(exact),
        nonzero_cpu=milli_of(assumed.get(CPU, 0)),
        nonzero_memory=value_of(assumed.get(MEMORY, 0)),
    )


def _scalars(amounts: Amounts) -> dict[str, int]:
    return {name: value_of(amount) for name, amount in amounts.items() if is_scalar(name)}


def allocatable(node: Node) -> NodeResources:
    """What ``node`` offers. As upstream, any number is valid, even a negative one; malformed quantities are refused."""
    amounts: Amounts = {}
    for name, quantity in node.status.allocatable.items():
        try:
            amounts[name] = nanos(quantity)
        except QuantityError as error:
            raise InvalidObject(node.kind, node.key, f'status.allocatable["{name}"]', str(error)) from None
    return NodeResources(
        milli_cpu=milli_of(amounts.get(CPU, 0)),
        memory=value_of(amounts.get(MEMORY, 0)),
        ephemeral_storage=value_of(amounts.get(EPHEMERAL_STORAGE, 0)),
        pods=value_of(amounts.get(PODS, 0)),
        scalar=_scalars(amounts),
    )
