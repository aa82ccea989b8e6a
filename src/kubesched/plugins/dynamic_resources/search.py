"""The search for devices: which ones a pod's claims get on a node in a given state.

Claims, requests and devices are tried in order, and the first complete solution is taken, so the result is the same as
upstream's. Three things keep it short. Answers about a kind of device are known from earlier searches. Of devices that
are alike only the first is tried, because the second would fail in the same way. And a situation that has failed once
is recognised when it comes up again by another way.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import Enum

from kubesched.api.devices import MAX_RESULTS, MAX_SUBREQUESTS
from kubesched.base.features import Features
from kubesched.plugins.dynamic_resources.capacity import NOTHING, Portion, fits
from kubesched.plugins.dynamic_resources.constraints import SearchConstraint, constraint_of
from kubesched.plugins.dynamic_resources.requests import AllocationError, CompiledClaim, SubRequest
from kubesched.plugins.dynamic_resources.selectors import Selectors
from kubesched.plugins.dynamic_resources.states import CounterKey, DevicePosition, NodeState

REMEMBER_AFTER = 500
"""Steps after which failures are remembered: short searches are done before that would pay."""
STEPS_PER_CHECK = 1024


class Found(Enum):
    """How a part of the search ended."""

    YES = "a solution"
    NO = "no solution"
    TOO_MANY = "no solution, for want of room in the claim's status"


@dataclass(slots=True, eq=False)
class Pick:
    """A device for a request."""

    sub: SubRequest
    pool: int
    device: int
    taken: dict[str, Portion] | None
    """What it takes of a device that it shares; None if it has the device to itself."""


@dataclass(slots=True, eq=False)
class Solution:
    """The devices of all claims, and which alternative of each request they are for."""

    picks: tuple[tuple[Pick, ...], ...]
    alternatives: tuple[tuple[int, ...], ...]

    def score(self, claims: Sequence[CompiledClaim]) -> tuple[int, ...]:
        """Per claim, how high in the lists of alternatives the chosen ones are."""
        return tuple(
            sum(
                MAX_SUBREQUESTS - chosen
                for request, chosen in zip(claim.requests, alternatives, strict=True)
                if request.prioritized and any(pick.sub is request.alternatives[chosen] for pick in picks)
            )
            for claim, alternatives, picks in zip(claims, self.alternatives, self.picks, strict=True)
        )


class Search:
    """One search: some claims on one state. It is used once."""

    def __init__(
        self,
        state: NodeState,
        claims: Sequence[CompiledClaim],
        selectors: Selectors,
        features: Features,
        check: Callable[[], None] | None = None,
    ) -> None:
        self._state = state
        self._claims = claims
        self._selectors = selectors
        self._features = features
        self._check = check
        """Called now and then; it raises when the search has taken too long."""
        self._steps = 0
        self._places = state.places()
        self._free = [place for place in self._places if not place.used]
        """Devices that no claim has to itself."""
        self._numbers: dict[SubRequest, int] = {}
        self._all: dict[SubRequest, list[DevicePosition]] = {}
        self._picks: list[list[Pick]] = [[] for _ in claims]
        self._chosen: list[list[int]] = [[0] * len(claim.requests) for claim in claims]
        self._constraints: list[list[SearchConstraint]] = [
            [constraint_of(spec, lists=features.dra_list_type_attributes) for spec in claim.constraints]
            for claim in claims
        ]
        self._holders: dict[DevicePosition, set[int]] = {}
        """Devices that are being given to one claim alone, with the claims."""
        self._taking: dict[DevicePosition, list[dict[str, Portion]]] = {}
        """Devices that are being shared, with what each share takes."""
        self._counted: dict[int, dict[CounterKey, int]] = {}
        self._was_counted: list[bool] = []
        """For each pick, in the order of picking, whether its counters were consumed: a second share consumes none."""
        self._failed: dict[Hashable, Found] = {}

    def run(self) -> Solution | None:
        """The first solution, or None. An AllocationError says that the claims cannot be allocated at all."""
        for number, claim in enumerate(self._claims):
            self._prepare(number, claim)
        found = self._request(0, 0) if self._claims else Found.YES
        if found is Found.TOO_MANY:
            raise AllocationError("allocation max size exceeded")
        if found is Found.NO:
            return None
        return Solution(tuple(map(tuple, self._picks)), tuple(map(tuple, self._chosen)))

    # Before the search

    def _prepare(self, number: int, claim: CompiledClaim) -> None:
        """Find out how many devices each request needs, at least."""
        least = 0
        for request in claim.requests:
            for sub in request.alternatives:
                if sub.all_devices:
                    self._all[sub] = list(self._every(sub))
                self._numbers[sub] = len(self._all[sub]) if sub.all_devices else sub.count
            least += min(self._numbers[sub] for sub in request.alternatives)
        if least > MAX_RESULTS:
            text = f"number of requested devices {least} exceeds the claim limit of {MAX_RESULTS}"
            raise AllocationError(f"claim {{claim}}: {text}", claim=number)

    def _every(self, sub: SubRequest) -> list[DevicePosition]:
        """The devices of a request for all; pools in transition make it unanswerable."""
        for number, pool in enumerate(self._state.pools):
            if pool.incomplete or pool.invalid:
                self._every_in(sub, number)
                what = "being updated" if pool.incomplete else "invalid"
                name = sub.name.replace("{", "{{").replace("}", "}}")
                text = f"request {name}: asks for all devices, but resource pool {{pool}} is currently {what}"
                raise AllocationError(f"claim {{claim}}, {text}", claim=sub.claim, pool=number)
        return self._every_in(sub, len(self._state.pools))

    def _every_in(self, sub: SubRequest, pools: int) -> list[DevicePosition]:
        """The devices of the first so many pools that a request selects."""
        return [
            place
            for place in self._places
            if place.pool < pools and self._is_selectable(sub, place) and self._has_capacity(sub, place)
        ]

    # The search

    def _request(self, claim: int, request: int) -> Found:
        """Go on with a request, and all that follow it."""
        if request < len(self._claims[claim].requests):
            return self._remembered(claim, request)
        if claim + 1 == len(self._claims):
            return Found.YES
        found = self._request(claim + 1, 0)
        # A claim that is too large now may be small enough if the claims before it get other devices.
        return Found.NO if found is Found.TOO_MANY else found

    def _remembered(self, claim: int, request: int) -> Found:
        if self._steps < REMEMBER_AFTER:
            return self._alternatives(claim, request)
        key = self._situation(claim, request)
        found = self._failed.get(key)
        if found is None:
            found = self._alternatives(claim, request)
            if found is not Found.YES:
                self._failed[key] = found
        return found

    def _situation(self, claim: int, request: int) -> Hashable:
        """Everything that decides how the search goes on from a request."""
        return (
            claim,
            request,
            len(self._picks[claim]),
            frozenset((place, frozenset(holders)) for place, holders in self._holders.items() if holders),
            frozenset((place, self._sums(place)) for place, shares in self._taking.items() if shares),
            self._counts(),
            tuple(constraint.state() for each in self._constraints[claim:] for constraint in each),
        )

    def _alternatives(self, claim: int, request: int) -> Found:
        wanted = self._claims[claim].requests[request]
        if not wanted.prioritized:
            return self._devices(wanted.alternatives[0], claim, request, 0, 0)
        too_many = True
        for index, sub in enumerate(wanted.alternatives):
            found = self._devices(sub, claim, request, 0, 0)
            if found is Found.YES:
                self._chosen[claim][request] = index
                return found
            too_many = too_many and found is Found.TOO_MANY
        return Found.TOO_MANY if too_many else Found.NO

    def _devices(self, sub: SubRequest, claim: int, request: int, index: int, start: int) -> Found:
        """Find the next device of a request, looking at places from `start` on, and all that follows."""
        self._step()
        if sub.all_devices and not self._all[sub]:
            return Found.NO
        number = self._numbers[sub]
        if index >= number:
            return self._request(claim, request + 1)
        if len(self._picks[claim]) + number - index > MAX_RESULTS:
            return Found.TOO_MANY
        if sub.all_devices:
            return self._next_of_all(sub, claim, request, index)
        if self._steps < REMEMBER_AFTER or not self._is_last(claim, request):
            return self._next_device(sub, claim, request, index, start)
        key = self._situation_of_last(sub, claim, index, start)
        found = self._failed.get(key)
        if found is None:
            found = self._next_device(sub, claim, request, index, start)
            if found is not Found.YES:
                self._failed[key] = found
        return found

    def _is_last(self, claim: int, request: int) -> bool:
        return claim == len(self._claims) - 1 and request == len(self._claims[claim].requests) - 1

    def _situation_of_last(self, sub: SubRequest, claim: int, index: int, start: int) -> Hashable:
        """Everything that decides how the last request goes on. Devices before `start` play no part any more."""
        places = self._places if sub.admin else self._free
        later = set(places[start:])
        return (
            sub,
            index,
            start,
            len(self._picks[claim]),
            frozenset((p, frozenset(holders)) for p, holders in self._holders.items() if holders and p in later),
            frozenset((p, self._sums(p)) for p, shares in self._taking.items() if shares and p in later),
            self._counts(),
            tuple(constraint.state() for constraint in self._constraints[claim]),
        )

    def _counts(self) -> Hashable:
        return frozenset(
            (pool, key, count) for pool, counts in self._counted.items() for key, count in counts.items() if count
        )

    def _next_device(self, sub: SubRequest, claim: int, request: int, index: int, start: int) -> Found:
        tried: set[Hashable] = set()
        places = self._places if sub.admin else self._free
        for position in range(start, len(places)):
            place = places[position]
            if not self._is_candidate(sub, place, claim):
                continue
            alike = self._alike(place)
            if alike in tried or not self._take(sub, place, claim):
                continue
            found = self._devices(sub, claim, request, index + 1, position + 1)
            if found is Found.YES:
                return found
            self._give_back(sub, place, claim)
            if found is Found.TOO_MANY:
                return found
            tried.add(alike)
        return Found.NO

    def _next_of_all(self, sub: SubRequest, claim: int, request: int, index: int) -> Found:
        place = self._all[sub][index]
        if not self._take(sub, place, claim, must=True):
            return Found.NO
        found = self._devices(sub, claim, request, index + 1, 0)
        if found is not Found.YES:
            self._give_back(sub, place, claim)
        return found

    def _step(self) -> None:
        self._steps += 1
        if self._check is not None and self._steps % STEPS_PER_CHECK == 0:
            self._check()

    def _alike(self, place: DevicePosition) -> Hashable:
        """What two devices have in common if one can stand for the other."""
        consumed = None if place.consumed is None else frozenset(place.consumed.items())
        holders = self._holders.get(place)
        sums = self._sums(place) if place in self._taking else None
        return (place.pool, place.kind.number, place.used, consumed, frozenset(holders) if holders else None, sums)

    # One device

    def _is_candidate(self, sub: SubRequest, place: DevicePosition, claim: int) -> bool:
        if sub.admin:
            if claim in self._holders.get(place, ()):
                return False
        elif self._in_use(place):
            return False
        return self._is_selectable(sub, place) and self._has_capacity(sub, place)

    def _in_use(self, place: DevicePosition) -> bool:
        return place.used or bool(self._holders.get(place))

    def _is_selectable(self, sub: SubRequest, place: DevicePosition) -> bool:
        kind = place.kind
        if kind.device.binding_conditions and not self._features.binding_conditions:
            return False
        return sub.selects(kind, self._selectors) and place.visible

    def _has_capacity(self, sub: SubRequest, place: DevicePosition) -> bool:
        if not self._features.dra_consumable_capacity:
            return True
        taken = sub.taken(place.kind)
        if taken is None:
            return False
        shares = self._taking.get(place)
        if place.consumed is None and not shares:
            return True
        return fits(place.kind.capacities, taken, place.consumed or NOTHING, dict(self._sums(place)))

    def _sums(self, place: DevicePosition) -> tuple[tuple[str, int], ...]:
        sums: dict[str, int] = {}
        for share in self._taking.get(place, ()):
            for name, amount in share.items():
                sums[name] = sums.get(name, 0) + amount.nanos
        return tuple(sorted(sums.items()))

    def _take(self, sub: SubRequest, place: DevicePosition, claim: int, *, must: bool = False) -> bool:
        """Give a device to a request, if it is free and every constraint holds. With `must`, a constraint that does
        not is an error: a claim for all devices that may not have all of them makes no sense."""
        kind = place.kind
        shared = kind.multiple and self._features.dra_consumable_capacity
        if sub.admin:
            if not shared and claim in self._holders.get(place, ()):
                return False
        elif self._in_use(place):
            return False
        if not self._features.dra_partitionable_devices and kind.device.consumes_counters:
            return False
        counted = bool(kind.counters) and not (shared and self._is_shared(place))
        if counted and not self._count(place):
            return False
        if self._features.dra_device_taints and not sub.tolerates(kind):
            self._uncount(place, counted)
            return False
        if not self._add_to_constraints(sub, place, claim):
            self._uncount(place, counted)
            if must:
                name = sub.name.replace("{", "{{").replace("}", "}}")
                text = f"request {name}: cannot add device {{device}} because a claim constraint would not be satisfied"
                raise AllocationError(f"claim {{claim}}, {text}", claim=claim, pool=place.pool, device=place.device)
            return False
        if not self._has_capacity(sub, place):
            self._remove_from_constraints(sub, claim)
            self._uncount(place, counted)
            return False
        self._record(sub, place, claim, shared=shared, counted=counted)
        return True

    def _record(self, sub: SubRequest, place: DevicePosition, claim: int, *, shared: bool, counted: bool) -> None:
        taken = sub.taken(place.kind) if shared else None
        if taken is None:
            self._holders.setdefault(place, set()).add(claim)
        else:
            self._taking.setdefault(place, []).append(taken)
        self._picks[claim].append(Pick(sub, place.pool, place.device, taken))
        self._was_counted.append(counted)

    def _give_back(self, sub: SubRequest, place: DevicePosition, claim: int) -> None:
        pick = self._picks[claim].pop()
        if pick.taken is None:
            self._holders[place].discard(claim)
        else:
            self._taking[place].pop()
        self._remove_from_constraints(sub, claim)
        self._uncount(place, self._was_counted.pop())

    def _is_shared(self, place: DevicePosition) -> bool:
        return place.consumed is not None or bool(self._taking.get(place))

    def _add_to_constraints(self, sub: SubRequest, place: DevicePosition, claim: int) -> bool:
        constraints = self._constraints[claim]
        for number, constraint in enumerate(constraints):
            if not constraint.add(sub, place.kind):
                for added in reversed(constraints[:number]):
                    added.remove(sub)
                return False
        return True

    def _remove_from_constraints(self, sub: SubRequest, claim: int) -> None:
        for constraint in reversed(self._constraints[claim]):
            constraint.remove(sub)

    # Counters

    def _count(self, place: DevicePosition) -> bool:
        """Consume a device's counters, if enough is left of every counter of its pool."""
        pool = self._state.counter_pools[place.pool]
        counts = self._counted.setdefault(pool, {})
        for key, amount in place.kind.counters:
            counts[key] = counts.get(key, 0) + amount
        available = self._state.pools[pool].counters
        if all(counts.get(key, 0) <= left for key, left in available.items()):
            return True
        self._uncount(place, True)
        return False

    def _uncount(self, place: DevicePosition, counted: bool) -> None:
        if not counted:
            return
        counts = self._counted[self._state.counter_pools[place.pool]]
        for key, amount in place.kind.counters:
            counts[key] -= amount
