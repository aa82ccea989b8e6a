"""Constraints between the devices of one claim: an attribute that all share, or in which all differ.

A constraint is asked about each device before it is taken and keeps what it needs to judge the next. Taking a device
back restores what it kept before.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from kubesched.api import devices as dra
from kubesched.plugins.dynamic_resources.kinds import DeviceKind, Value, scalar_value, value_set
from kubesched.plugins.dynamic_resources.requests import SubRequest


class SearchConstraint(Protocol):
    """What the search needs of a constraint."""

    def add(self, sub: SubRequest, kind: DeviceKind) -> bool:
        """Take a device in, if the constraint still holds with it."""
        ...

    def remove(self, sub: SubRequest) -> None:
        """Undo the last `add` that returned true; it was for this request."""
        ...

    def state(self) -> Hashable:
        """Everything that later answers depend on."""
        ...


def constraint_of(spec: dra.DeviceConstraint, *, lists: bool) -> SearchConstraint:
    """The constraint that a claim's spec describes; with `lists`, attributes are compared as sets of values."""
    if spec.match_attribute is not None:
        return (MatchingSets if lists else Matching)(spec.match_attribute, spec.requests)
    assert spec.distinct_attribute is not None  # compiling the claim has checked it
    return Distinct(spec.distinct_attribute, spec.requests, lists=lists)


class _Scope:
    """The requests that a constraint is about; all of the claim's if it names none."""

    def __init__(self, attribute: str, requests: tuple[str, ...]) -> None:
        self.attribute = attribute
        self._requests = frozenset(requests)

    def covers(self, sub: SubRequest) -> bool:
        """Whether a request, or the request that it is an alternative of, is among them."""
        return not self._requests or sub.base_name in self._requests or sub.full_name in self._requests


class Matching:
    """All devices have the same value. The first device decides which."""

    def __init__(self, attribute: str, requests: tuple[str, ...]) -> None:
        self._scope = _Scope(attribute, requests)
        self._value: Value | None = None
        self._devices = 0

    def add(self, sub: SubRequest, kind: DeviceKind) -> bool:
        if not self._scope.covers(sub):
            return True
        attribute = kind.attribute(self._scope.attribute)
        if attribute is None:
            return False
        value = scalar_value(attribute)
        if self._devices == 0:
            self._value = value
        elif value is None or value != self._value:
            return False
        self._devices += 1
        return True

    def remove(self, sub: SubRequest) -> None:
        if self._scope.covers(sub):
            self._devices -= 1

    def state(self) -> Hashable:
        return (self._devices > 0, self._value if self._devices else None)


class MatchingSets:
    """All devices have a value in common."""

    def __init__(self, attribute: str, requests: tuple[str, ...]) -> None:
        self._scope = _Scope(attribute, requests)
        self._common: list[tuple[str, frozenset[object]]] = []

    def add(self, sub: SubRequest, kind: DeviceKind) -> bool:
        if not self._scope.covers(sub):
            return True
        attribute = kind.attribute(self._scope.attribute)
        values = None if attribute is None else value_set(attribute)
        if values is None:
            return False
        if self._common:
            before = self._common[-1]
            values = (values[0], values[1] & before[1])
            if values[0] != before[0] or not values[1]:
                return False
        self._common.append(values)
        return True

    def remove(self, sub: SubRequest) -> None:
        if self._scope.covers(sub):
            self._common.pop()

    def state(self) -> Hashable:
        return self._common[-1] if self._common else None


class Distinct:
    """Devices differ in an attribute.

    As upstream, it remembers one value per request: of several devices for one request, the last one's. A later device
    is compared with those values only.
    """

    def __init__(self, attribute: str, requests: tuple[str, ...], *, lists: bool) -> None:
        self._scope = _Scope(attribute, requests)
        self._lists = lists
        self._values: dict[str, dra.DeviceAttribute] = {}
        self._devices = 0

    def add(self, sub: SubRequest, kind: DeviceKind) -> bool:
        if not self._scope.covers(sub):
            return True
        attribute = kind.attribute(self._scope.attribute)
        if attribute is None or (self._devices and not self._differs(attribute)):
            return False
        self._values[sub.base_name] = attribute
        self._devices += 1
        return True

    def _differs(self, attribute: dra.DeviceAttribute) -> bool:
        if self._lists:
            return self._is_disjoint(attribute)
        value = scalar_value(attribute)
        return all(value is not None and value != scalar_value(other) for other in self._values.values())

    def _is_disjoint(self, attribute: dra.DeviceAttribute) -> bool:
        values = value_set(attribute)
        if values is None:
            return False
        others = (value_set(other) for other in self._values.values())
        return all(other is None or other[0] != values[0] or not (other[1] & values[1]) for other in others)

    def remove(self, sub: SubRequest) -> None:
        if self._scope.covers(sub):
            self._values.pop(sub.base_name, None)
            self._devices -= 1

    def state(self) -> Hashable:
        values = tuple(
            (name, value_set(value)) for name, value in sorted(self._values.items(), key=lambda item: item[0])
        )
        return (self._devices > 0, values)
