"""What a call costs at run time, by overload or function: the numbers of cel-go and of Kubernetes' libraries."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil

from kubesched.cel.syntax import Call
from kubesched.cel.values import Optional


@dataclass(frozen=True, slots=True)
class Charge:
    """A fixed cost, or functions that compute it from the arguments or from the result."""

    fixed: int = 1
    arguments: Callable[..., int] | None = None
    result: Callable[[object], int] | None = None


_ONE = Charge()
_STRING_FACTOR, _REGEX_FACTOR = 0.1, 0.25


def size_of(value: object) -> int:
    """The size that costs are computed from: of strings, bytes and containers; 1 for everything else."""
    if isinstance(value, str | bytes | list | tuple | Mapping):
        return len(value)
    if isinstance(value, Optional) and value.present:
        return size_of(value.value)
    return getattr(value, "cost_size", 1)


def _scan(value: object, *_rest: object) -> int:
    return ceil(size_of(value) * _STRING_FACTOR)


def _scan_twice(value: object, *_rest: object) -> int:
    return ceil(size_of(value) * 2 * _STRING_FACTOR)


def _smaller(left: object, right: object) -> int:
    return ceil(min(size_of(left), size_of(right)) * _STRING_FACTOR)


def _equality(left: object, right: object) -> int:
    return 1 if hasattr(left, "cost_size") else _smaller(left, right)


def _both(left: object, right: object) -> int:
    return ceil((size_of(left) + size_of(right)) * _STRING_FACTOR)


def _second(_value: object, container: object) -> int:
    return size_of(container)


def _product(text: object, part: object) -> int:
    return ceil(size_of(text) * _STRING_FACTOR) * ceil(size_of(part) * _STRING_FACTOR)


def regex(text: object, pattern: object, *_rest: object) -> int:
    return ceil((1 + size_of(text)) * _STRING_FACTOR) * ceil(size_of(pattern) * _REGEX_FACTOR)


def _joined(result: object) -> int:
    return ceil(size_of(result) * 2 * _STRING_FACTOR)


def traversal(value: object, *_rest: object) -> int:
    """The cost of reading a whole value."""
    if isinstance(value, str):
        return int(len(value.encode()) * _STRING_FACTOR)
    if isinstance(value, bytes):
        return int(len(value) * _STRING_FACTOR)
    if isinstance(value, list | tuple):
        return sum(map(traversal, value))
    if isinstance(value, Mapping):
        return sum(traversal(key) + traversal(item) for key, item in value.items())
    return 1


def _list_of(result: object) -> int:
    return size_of(result) + 11


def _flattened(items: object, depth: int = 1) -> int:
    return size_of(items) * depth + 11


def _self_compared(items: object, keys: object = None) -> int:
    """Sorting and removing duplicates count as comparing every element with every other."""
    compared = items if keys is None else keys
    size = size_of(compared)
    texts = size and isinstance(compared, list | tuple) and isinstance(compared[0], str | bytes)
    return int(size * size * (2.1 if texts else 2)) + 11


def _sets(left: object, right: object) -> int:
    return size_of(left) * size_of(right) + 1


#: A check of the library `authorizer`. An expression can afford two.
_AUTHORIZATION = 350_000


def _sets_twice(left: object, right: object) -> int:
    return size_of(left) * size_of(right) * 2 + 1


def _contains_ip(value: object, _other: object) -> int:
    return ceil(2 * size_of(value) * _STRING_FACTOR)


def _contains_cidr(value: object, _other: object) -> int:
    return _contains_ip(value, _other) + _scan(value) + 1


def _validated(value: object, text: object) -> int:
    return ceil((1 + size_of(text)) * _STRING_FACTOR) * int(getattr(value, "pattern_cost", 1))


def _by(arguments: Callable[..., int]) -> Charge:
    return Charge(0, arguments)


_FUNCTIONS: dict[str, Charge] = {
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _by(traversal)),
    **dict.fromkeys(("url", "jsonpatch.escapeKey", "lowerAscii", "upperAscii", "substring", "trim"), _by(_scan)),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _by(_scan)),
    **dict.fromkeys(("replace", "split", "ip.isCanonical"), _by(_scan_twice)),
    **dict.fromkeys(("find", "findAll"), _by(regex)),
    "validate": _by(_validated),
    "check": Charge(_AUTHORIZATION),
    "join": Charge(0, None, _joined),
    "_==_": _by(_equality),
    "_!=_": _by(_smaller),
}
_OVERLOADS: dict[str, Charge] = {
    **dict.fromkeys(("starts_with_string", "ends_with_string", "string_to_bytes", "bytes_to_string"), _by(_scan)),
    **dict.fromkeys(("strings_quote", "string_format", "string_to_ip"), _by(_scan)),
    **{
        f"{order}_{kind}": _by(_smaller)
        for order in ("less", "less_equals", "greater", "greater_equals")
        for kind in ("string", "bytes")
    },
    **dict.fromkeys(("list_slice", "list_reverse"), Charge(0, None, _list_of)),
    # Charged before the list is made: a hostile number must not use up the memory.
    "lists_range": _by(lambda count: max(count, 0) + 11),
    **dict.fromkeys(("list_flatten", "list_flatten_int"), _by(_flattened)),
    **{
        f"list_{kind}_{function}": _by(_self_compared)
        for kind in ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
        for function in ("sort", "sortByAssociatedKeys")
    },
    "list_distinct": _by(_self_compared),
    "list_sets_contains_list": _by(_sets),
    "list_sets_intersects_list": _by(_sets),
    "list_sets_equivalent_list": _by(_sets_twice),
    "cidr_contains_ip_ip": _by(_contains_ip),
    "cidr_contains_ip_string": _by(lambda value, other: _contains_ip(value, other) + _scan(other)),
    "cidr_contains_cidr": _by(_contains_cidr),
    "cidr_contains_cidr_string": _by(lambda value, other: _contains_cidr(value, other) + _scan(other)),
    "in_list": _by(_second),
    "add_string": _by(_both),
    "add_bytes": _by(_both),
    "matches_string": _by(regex),
    "contains_string": _by(_product),
}


def charge_of(node: Call) -> Charge:
    """The charge of a call. An overload counts only if the checker found exactly one."""
    charge = _FUNCTIONS.get(node.function)
    if charge is None and len(node.overloads) == 1:
        charge = _OVERLOADS.get(node.overloads[0])
    return charge or _ONE
