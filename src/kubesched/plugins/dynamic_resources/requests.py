"""Claims compiled for allocation: what each request needs, and which kinds of device match.

Claims made from one template have equal specs, so they share one compiled form, and with it every answer about a kind
of device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kubesched.api import devices as dra
from kubesched.base.features import Features
from kubesched.plugins.dynamic_resources.capacity import Portion, consumption
from kubesched.plugins.dynamic_resources.kinds import DeviceKind
from kubesched.plugins.dynamic_resources.selectors import ExpressionError, Selectors


class AllocationError(Exception):
    """Allocation cannot go on: something is wrong with a claim, a class or a pool. It fails the whole attempt.

    The text may name the claim as ``{claim}``, a device as ``{device}`` and a pool as ``{pool}``: equal claims on
    nodes with equal devices share the error, so the plugin fills in the names.
    """

    def __init__(self, text: str, *, claim: int = -1, pool: int = -1, device: int = -1) -> None:
        super().__init__(text)
        self.text = text
        self.claim = claim
        self.pool = pool
        self.device = device


@dataclass(slots=True, eq=False)
class SubRequest:
    """One of the alternatives of a request; a request without alternatives has exactly one."""

    claim: int
    """The position of its claim."""
    name: str
    parent: str
    """The name of the request that this is an alternative of, or the empty string."""
    device_class: dra.DeviceClass
    selectors: tuple[dra.DeviceSelector, ...]
    all_devices: bool
    count: int
    admin: bool
    admin_access: bool | None
    tolerations: tuple[dra.DeviceToleration, ...]
    capacity: Mapping[str, Portion]
    _selectable: dict[int, bool | AllocationError] = field(default_factory=dict)
    _tolerated: dict[int, bool] = field(default_factory=dict)
    _taken: dict[int, dict[str, Portion] | None] = field(default_factory=dict)

    @property
    def full_name(self) -> str:
        """The name in allocation results."""
        return f"{self.parent}/{self.name}" if self.parent else self.name

    @property
    def base_name(self) -> str:
        """The name of the request itself, alternative or not."""
        return self.parent or self.name

    def selects(self, kind: DeviceKind, selectors: Selectors) -> bool:
        """Whether the class's selectors and the request's own match a kind of device."""
        answer = self._selectable.get(kind.number)
        if answer is None:
            try:
                answer = self._evaluate(kind, selectors)
            except AllocationError as problem:
                answer = problem
            self._selectable[kind.number] = answer
        if isinstance(answer, AllocationError):
            raise answer
        return answer

    def _evaluate(self, kind: DeviceKind, selectors: Selectors) -> bool:
        of_class = f"class {self.device_class.name}"
        for owner, claim, each in (
            (of_class, -1, self.device_class.spec.selectors),
            ("claim {claim}", self.claim, self.selectors),
        ):
            for index, selector in enumerate(each):
                assert selector.cel is not None  # compiling a claim has checked it
                try:
                    if not selectors.matches(selector.cel.expression, kind):
                        return False
                except ExpressionError as problem:
                    text = _literal(str(problem))
                    raise AllocationError(f"{owner}: selector #{index}: {text}", claim=claim) from None
        return True

    def tolerates(self, kind: DeviceKind) -> bool:
        """Whether every taint that prevents allocation is tolerated."""
        if not kind.taints:
            return True
        answer = self._tolerated.get(kind.number)
        if answer is None:
            answer = all(any(tolerates(each, taint) for each in self.tolerations) for taint in kind.taints)
            self._tolerated[kind.number] = answer
        return answer

    def taken(self, kind: DeviceKind) -> dict[str, Portion] | None:
        """What the request takes of each capacity of such a device; None if it cannot have one."""
        try:
            return self._taken[kind.number]
        except KeyError:
            answer = self._taken[kind.number] = consumption(kind.capacities, self.capacity)
            return answer


def _literal(text: str) -> str:
    """A text in which braces stand for themselves."""
    return text.replace("{", "{{").replace("}", "}}")


def tolerates(toleration: dra.DeviceToleration, taint: dra.DeviceTaint) -> bool:
    """Whether a request's toleration covers a device's taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


@dataclass(slots=True, eq=False)
class RequestPlan:
    """A request of a claim: one thing asked for, or several of which the first that can be had is taken."""

    name: str
    alternatives: tuple[SubRequest, ...]
    prioritized: bool


@dataclass(slots=True, eq=False)
class CompiledClaim:
    """A claim's spec, ready to be allocated."""

    requests: tuple[RequestPlan, ...]
    constraints: tuple[dra.DeviceConstraint, ...]
    config: tuple[dra.DeviceClaimConfiguration, ...]


FindClass = Callable[[str], dra.DeviceClass | None]


def compile_claims(
    claims: Sequence[dra.ResourceClaim], find_class: FindClass, features: Features
) -> tuple[CompiledClaim, ...]:
    """Check claims and compile them; an AllocationError says what is wrong with the first that cannot be."""
    return tuple(_claim(index, claim.spec.devices, find_class, features) for index, claim in enumerate(claims))


def _claim(index: int, spec: dra.DeviceClaim, find_class: FindClass, features: Features) -> CompiledClaim:
    requests = tuple(_request(index, request, find_class, features) for request in spec.requests)
    for number, constraint in enumerate(spec.constraints):
        supported = constraint.distinct_attribute is not None and not _is_stable(features)
        if constraint.match_attribute is None and not supported:
            text = f"claim {{claim}}, constraint #{number}: empty constraint (unsupported constraint type?)"
            raise AllocationError(text, claim=index)
    return CompiledClaim(requests, spec.constraints, spec.config)


def _is_stable(features: Features) -> bool:
    """Whether upstream uses the oldest of its allocators. It knows neither shared devices nor distinct attributes."""
    newer = features.dra_consumable_capacity or features.binding_conditions or features.dra_list_type_attributes
    return not newer


def _check_capacity(index: int, request: dra.DeviceRequest, features: Features) -> None:
    if features.dra_consumable_capacity or _is_stable(features):
        return
    subs = [(f"subrequest {each.name}", each.capacity) for each in request.first_available]
    if request.exactly is not None:
        subs.insert(0, (f"request {request.name}", request.exactly.capacity))
    for where, capacity in subs:
        if capacity is not None:
            text = f"{where}: has capacity requests, but the DRAConsumableCapacity feature is disabled"
            raise AllocationError(f"claim {{claim}}, {text}", claim=index)


def _request(index: int, request: dra.DeviceRequest, find_class: FindClass, features: Features) -> RequestPlan:
    if request.first_available:
        if not features.dra_prioritized_list:
            text = f"request {request.name}: has subrequests, but the DRAPrioritizedList feature is disabled"
            raise AllocationError(f"claim {{claim}}, {text}", claim=index)
        _check_capacity(index, request, features)
        subs = tuple(_sub_request(index, each, each.name, request.name, find_class) for each in request.first_available)
        return RequestPlan(request.name, subs, prioritized=True)
    _check_capacity(index, request, features)
    exactly = request.exactly if request.exactly is not None else dra.ExactDeviceRequest()
    return RequestPlan(request.name, (_sub_request(index, exactly, request.name, "", find_class),), prioritized=False)


def _sub_request(
    index: int,
    request: dra.ExactDeviceRequest | dra.DeviceSubRequest,
    name: str,
    parent: str,
    find_class: FindClass,
) -> SubRequest:
    admin_access = request.admin_access if isinstance(request, dra.ExactDeviceRequest) else None
    return SubRequest(
        claim=index,
        name=name,
        parent=parent,
        device_class=_checked(index, request, name, find_class),
        selectors=request.selectors,
        all_devices=request.allocation_mode == dra.ALL,
        count=request.count,
        admin=bool(admin_access),
        admin_access=admin_access,
        tolerations=request.tolerations,
        capacity={} if request.capacity is None else {k: Portion.of(q) for k, q in request.capacity.requests.items()},
    )


def _checked(
    index: int,
    request: dra.ExactDeviceRequest | dra.DeviceSubRequest,
    name: str,
    find_class: FindClass,
) -> dra.DeviceClass:
    """The class of a request that can be served; upstream's words for one that cannot."""
    where = f"claim {{claim}}, request {_literal(name)}"
    for number, selector in enumerate(request.selectors):
        if selector.cel is None:
            text = f"{where}, selector #{number}: CEL expression empty (unsupported selector type?)"
            raise AllocationError(text, claim=index)
    if not request.device_class_name:
        raise AllocationError(f"{where}: missing device class name (unsupported request type?)", claim=index)
    found = find_class(request.device_class_name)
    if found is None:
        missing = f'deviceclass.resource.k8s.io "{request.device_class_name}" not found'
        text = f"{where}: could not retrieve device class {request.device_class_name}: {missing}"
        raise AllocationError(text, claim=index)
    if request.allocation_mode not in (dra.ALL, dra.EXACT_COUNT):
        raise AllocationError(f"{where}: unsupported count mode {request.allocation_mode}", claim=index)
    return found
