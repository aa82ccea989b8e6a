"""What a call may cost, from the sizes that its arguments may have: cel-go's and Kubernetes' estimates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Protocol

from kubesched.cel.ranges import LIMIT, ONE, UNKNOWN, ZERO, Range
from kubesched.cel.syntax import Call, Literal, Node

_STRING, _REGEX = 0.1, 0.25
_LIST = Range.fixed(11)


@dataclass(frozen=True, slots=True)
class Estimate:
    """The cost of a call, without its arguments, and the size of its result if that is known."""

    cost: Range
    size: Range | None = None


class Sizes(Protocol):
    """Where estimates get the sizes of nodes from."""

    def size(self, node: Node) -> Range | None: ...

    def item_size(self, node: Node) -> Range: ...


Estimator = Callable[[Sizes, Call], Estimate]


def _of(sizes: Sizes, node: Node) -> Range:
    return sizes.size(node) or UNKNOWN


def _scan(sizes: Sizes, call: Call) -> Estimate:
    return Estimate(_of(sizes, call.operands[0]).scaled(_STRING))


def _scan_same_size(sizes: Sizes, call: Call) -> Estimate:
    size = _of(sizes, call.operands[0])
    return Estimate(size.scaled(_STRING), size)


def _scan_twice(sizes: Sizes, call: Call) -> Estimate:
    return Estimate(_of(sizes, call.operands[0]).scaled(2 * _STRING))


def _scan_argument(sizes: Sizes, call: Call) -> Estimate:
    return Estimate(_of(sizes, call.args[0]).scaled(_STRING))


def _to_bytes(sizes: Sizes, call: Call) -> Estimate:
    size = _of(sizes, call.args[0])
    return Estimate(size.scaled(_STRING), Range(size.min, size.max * 4 & LIMIT))


def _to_string(sizes: Sizes, call: Call) -> Estimate:
    size = _of(sizes, call.args[0])
    return Estimate(size.scaled(_STRING), Range(size.min // 4, size.max))


def _quote(sizes: Sizes, call: Call) -> Estimate:
    size = _of(sizes, call.args[0])
    return Estimate(size.scaled(_STRING), Range(size.min + 2, size.max * 2 + 2 & LIMIT))


def _in_list(sizes: Sizes, call: Call) -> Estimate:
    return Estimate(_of(sizes, call.args[1]).scaled(1))


def _pattern(sizes: Sizes, call: Call) -> Range:
    text, pattern = call.operands[0], call.operands[1]
    return (_of(sizes, text) + ONE).scaled(_STRING) * _of(sizes, pattern).scaled(_REGEX)


def _matches(sizes: Sizes, call: Call) -> Estimate:
    return Estimate(_pattern(sizes, call)) if call.target is not None else Estimate(ONE)


def _find(sizes: Sizes, call: Call) -> Estimate:
    return Estimate(_pattern(sizes, call), Range(0, _of(sizes, call.operands[0]).max))


def _contains(sizes: Sizes, call: Call) -> Estimate:
    text, part = call.operands
    return Estimate(_of(sizes, text).scaled(_STRING) * _of(sizes, part).scaled(_STRING))


def _add(sizes: Sizes, call: Call) -> Estimate:
    size = _of(sizes, call.args[0]) + _of(sizes, call.args[1])
    return Estimate(size.scaled(_STRING), size)


def _add_list(sizes: Sizes, call: Call) -> Estimate:
    return Estimate(ONE, _of(sizes, call.args[0]) + _of(sizes, call.args[1]))


def _compare(sizes: Sizes, call: Call) -> Estimate:
    smallest = min(_of(sizes, call.args[0]).max, _of(sizes, call.args[1]).max)
    return Estimate(Range(1 if smallest else 0, smallest).scaled(_STRING))


_FIXED_EQUALITY = frozenset({"net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver"})


def _equal(sizes: Sizes, call: Call) -> Estimate:
    left, right = call.args[0].type, call.args[1].type
    if left is None or left != right:
        return _compare(sizes, call)
    if left.name in _FIXED_EQUALITY:
        return Estimate(ONE)
    if left.name == "kubernetes.NamedFormat":
        return Estimate(Range(1, 64).scaled(_STRING))
    if left.name == "kubernetes.URL":
        size = sizes.size(call.args[1])
        return Estimate(Range(1, size.max if size else 1).scaled(_STRING))
    return _compare(sizes, call)


def _traverse(sizes: Sizes, call: Call) -> Estimate:
    target = call.operands[0]
    size, kind = _of(sizes, target), target.type
    if kind is None or not kind.params:
        return Estimate(size.scaled(_STRING))
    item = kind.params[0]
    if item.name in ("string", "bytes"):
        return Estimate(size * (ONE + sizes.item_size(target).scaled(_STRING)))
    return Estimate(size)


def _replace(sizes: Sizes, call: Call) -> Estimate:
    text, old, new = (_of(sizes, node) for node in call.operands[:3])
    if old.min == 0:
        most = min(text.max + 1, LIMIT) * new.max + text.max
    elif new.max <= old.min:
        most = text.max
    else:
        most = ceil(float(text.max) / float(old.min)) * new.max
    if old.max == 0:
        least = min(text.min + 1, LIMIT) * new.min + text.min
    elif old.max <= new.min:
        least = text.min
    else:
        least = ceil(float(text.min) / float(old.max)) * new.min
    return Estimate(text.scaled(2 * _STRING), Range(min(least, LIMIT), min(most, LIMIT)))


def _split(sizes: Sizes, call: Call) -> Estimate:
    size = _of(sizes, call.operands[0])
    most = size.max
    if len(call.args) > 1 and isinstance(call.args[1], Literal) and isinstance(call.args[1].value, int):
        most = call.args[1].value & LIMIT
    return Estimate(size.scaled(2 * _STRING), Range(0, most))


def _join(sizes: Sizes, call: Call) -> Estimate:
    target = call.operands[0]
    count, size = _of(sizes, target), ZERO
    if target.type is not None and target.type.params:
        size = count * sizes.item_size(target)
    if call.args:
        size += _of(sizes, call.args[0]) * Range(max(count.min - 1, 0), max(count.max - 1, 0))
    return Estimate(size.scaled(_STRING), size)


def _contains_ip(sizes: Sizes, call: Call) -> Estimate:
    cost = Range(8, 32).scaled(_STRING)
    text = call.overloads[0].endswith("_string") and len(call.overloads) == 1
    return Estimate(cost + _of(sizes, call.args[0]).scaled(_STRING) if text else cost)


def _contains_cidr(sizes: Sizes, call: Call) -> Estimate:
    return Estimate(_contains_ip(sizes, call).cost + Range(4, 16).scaled(_STRING) + ONE)


def _validate(sizes: Sizes, call: Call) -> Estimate:
    return Estimate(_of(sizes, call.args[0]).scaled(_STRING).scaled(128 * _REGEX))


def _integer(node: Node, default: int) -> int:
    if isinstance(node, Literal) and type(node.value) is int:
        return max(node.value, 0)
    return default


def _new_list(size: Range, factor: float = 1) -> Estimate:
    return Estimate(size.scaled(factor) + _LIST, size)


def _slice(sizes: Sizes, call: Call) -> Estimate:
    size = _of(sizes, call.operands[0])
    return _new_list(Range.fixed(_integer(call.args[1], size.max) - _integer(call.args[0], 0) & LIMIT))


def _range(_sizes: Sizes, call: Call) -> Estimate:
    return _new_list(Range.fixed(_integer(call.args[0], LIMIT)))


def _reverse(sizes: Sizes, call: Call) -> Estimate:
    return _new_list(_of(sizes, call.operands[0]))


def _flatten(sizes: Sizes, call: Call) -> Estimate:
    depth = _integer(call.args[0], LIMIT) if call.args else 1
    return _new_list(_of(sizes, call.operands[0]), float(depth))


def _distinct(sizes: Sizes, call: Call) -> Estimate:
    size = _of(sizes, call.operands[0])
    return _new_list(size * size, 2)


def _sort(factor: float) -> Estimator:
    def estimate(sizes: Sizes, call: Call) -> Estimate:
        size = _of(sizes, call.operands[-1])
        return _new_list(size * size, factor)

    return estimate


def _sets(factor: float) -> Estimator:
    def estimate(sizes: Sizes, call: Call) -> Estimate:
        return Estimate((_of(sizes, call.args[0]) * _of(sizes, call.args[1])).scaled(factor) + ONE)

    return estimate


_ALLOCATING: dict[str, Estimator] = {
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _range,
    "list_reverse": _reverse,
    "list_distinct": _distinct,
    **{
        f"list_{kind}_{function}": _sort(2.1 if kind in ("string", "bytes") else 2)
        for kind in ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
        for function in ("sort", "sortByAssociatedKeys")
    },
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}
_FUNCTIONS: dict[str, Estimator] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _traverse),
    **dict.fromkeys(("url", "jsonpatch.escapeKey", "lowerAscii", "upperAscii", "substring", "trim"), _scan_same_size),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _scan_argument),
    "ip.isCanonical": _scan_twice,
    "replace": _replace,
    "split": _split,
    "join": _join,
    "find": _find,
    "findAll": _find,
    "containsIP": _contains_ip,
    "containsCIDR": _contains_cidr,
    "validate": _validate,
    "_==_": _equal,
}
_OVERLOADS: dict[str, Estimator] = {
    # Lists of attributes have at most 48 values.
    "dra_includes_dyn_dyn": lambda _sizes, _call: Estimate(Range(0, 48)),
    "string_to_ip": _scan_argument,
    "string_format": _scan,
    "string_to_bytes": _to_bytes,
    "bytes_to_string": _to_string,
    "strings_quote": _quote,
    "starts_with_string": _scan_argument,
    "ends_with_string": _scan_argument,
    "in_list": _in_list,
    "matches_string": _matches,
    "contains_string": _contains,
    "add_string": _add,
    "add_bytes": _add,
    "add_list": _add_list,
    "not_equals": _compare,
    **{
        f"{order}_{kind}": _compare
        for order in ("less", "less_equals", "greater", "greater_equals")
        for kind in ("string", "bytes")
    },
}


def estimate_call(sizes: Sizes, call: Call, overload: str) -> Estimate:
    """The cost of a call as one of its overloads."""
    estimator = _ALLOCATING.get(overload) or _FUNCTIONS.get(call.function) or _OVERLOADS.get(overload)
    return estimator(sizes, call) if estimator else Estimate(ONE)
