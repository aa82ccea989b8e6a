"""Functions of lists and sets: ``[3, 1].sort()``, ``l.sum()``, ``sets.contains(a, b)``."""

from collections.abc import Callable
from functools import cmp_to_key
from itertools import pairwise

from kubesched.cel.equality import compare, contains, equal
from kubesched.cel.errors import EvaluationError
from kubesched.cel.functions import Library
from kubesched.cel.standard import add_duration, add_int, add_uint
from kubesched.cel.values import Duration, Timestamp, Uint, name_of

library = Library()
define = library.define

_COMPARABLE = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
_SUMMABLE: dict[str, object] = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}

Items = list[object]


def _each(overload: str, text: str) -> dict[str, str]:
    """Declarations for every type with an order."""
    return {overload.format(kind): text.format(kind) for kind in _COMPARABLE}


@define(**_each("list_{0}_is_sorted_bool", "list({0}).isSorted() -> bool"))
def is_sorted(items: Items) -> bool:
    return all(_ordered(left, right) <= 0 for left, right in pairwise(items))


def _ordered(left: object, right: object) -> int:
    """The order of two elements. Elements of different types count as equal, as in Kubernetes."""
    numbers = isinstance(left, int | float) and isinstance(right, int | float)
    if numbers and isinstance(left, bool) == isinstance(right, bool):
        return compare(left, right)
    return compare(left, right) if name_of(type(left)) == name_of(type(right)) else 0


@define(**_each("list_{0}_max_{0}", "list({0}).max() -> {0}"))
def maximum(items: Items) -> object:
    return _extreme(items, "max", -1)


@define(**_each("list_{0}_min_{0}", "list({0}).min() -> {0}"))
def minimum(items: Items) -> object:
    return _extreme(items, "min", 1)


def _extreme(items: Items, name: str, replaced_by: int) -> object:
    if not items:
        raise EvaluationError(f"{name} called on empty list")
    best = items[0]
    for item in items[1:]:
        if _ordered(best, item) == replaced_by:
            best = item
    return best


def _sums() -> None:
    for kind, zero in _SUMMABLE.items():
        define(**{f"list_{kind}_sum_{kind}": f"list({kind}).sum() -> {kind}"})(_sum_from(zero))


def _sum_from(zero: object) -> Callable[[Items], object]:
    def run(items: Items) -> object:
        total = zero
        for item in items:
            total = _added(total, item)
        return total

    return run


def _added(total: object, item: object) -> object:
    match total, item:
        case (bool(), _) | (_, bool()):
            pass
        case Uint(), Uint():
            return add_uint(total, item)
        case int(), int() if not isinstance(item, Uint) and not isinstance(total, Uint):
            return add_int(total, item)
        case float(), float():
            return total + item
        case Duration(), Duration():
            return add_duration(total, item)
    raise EvaluationError("no such overload")


_sums()


@define(list_a_index_of_int="list(A).indexOf(A) -> int")
def index_of(items: Items, value: object) -> int:
    return next((index for index, item in enumerate(items) if equal(item, value)), -1)


@define(list_a_last_index_of_int="list(A).lastIndexOf(A) -> int")
def last_index_of(items: Items, value: object) -> int:
    return next((index for index in range(len(items) - 1, -1, -1) if equal(items[index], value)), -1)


@define(list_slice="list(A).slice(int, int) -> list(A)")
def slice_(items: Items, start: int, end: int) -> Items:
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(items):
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return list(items[start:end])


@define(
    list_flatten="list(list(A)).flatten() -> list(A)",
    list_flatten_int="list(dyn).flatten(int) -> list(dyn)",
)
def flatten(items: Items, depth: int = 1) -> Items:
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    for _ in range(min(depth, 300)):
        if not any(isinstance(item, list | tuple) for item in items):
            break
        items = [part for item in items for part in (item if isinstance(item, list | tuple) else (item,))]
    return list(items)


@define(**_each("list_{0}_sort", "list({0}).sort() -> list({0})"))
def sort(items: Items) -> Items:
    return sort_by_keys(items, items)


@define(**_each("list_{0}_sortByAssociatedKeys", "list(A).@sortByAssociatedKeys(list({0})) -> list(A)"))
def sort_by_keys(items: Items, keys: Items) -> Items:
    """The items in the order of their keys. ``sortBy`` is a macro that computes the keys."""
    if not keys:
        return list(items)
    kind = name_of(type(keys[0]))
    if not isinstance(keys[0], bool | int | float | str | bytes | Duration | Timestamp):
        raise EvaluationError("list elements must be comparable")
    if any(name_of(type(key)) != kind for key in keys):
        raise EvaluationError("list elements must have the same type")

    def ordered(left: int, right: int) -> int:
        return compare(keys[left], keys[right])

    order = sorted(range(len(keys)), key=cmp_to_key(ordered))
    return [items[index] for index in order]


@define(lists_range="lists::range(int) -> list(int)")
def range_(count: int) -> list[int]:
    return list(range(count))


@define(list_reverse="list(A).reverse() -> list(A)")
def reverse(items: Items) -> Items:
    return list(reversed(items))


@define(list_distinct="list(A).distinct() -> list(A)")
def distinct(items: Items) -> Items:
    found: Items = []
    for item in items:
        if not contains(found, item):
            found.append(item)
    return found


@define(list_sets_contains_list="sets::contains(list(T), list(T)) -> bool")
def sets_contains(items: Items, others: Items) -> bool:
    return all(contains(items, other) for other in others)


@define(list_sets_equivalent_list="sets::equivalent(list(T), list(T)) -> bool")
def sets_equivalent(items: Items, others: Items) -> bool:
    return sets_contains(items, others) and sets_contains(others, items)


@define(list_sets_intersects_list="sets::intersects(list(T), list(T)) -> bool")
def sets_intersects(items: Items, others: Items) -> bool:
    return any(contains(items, other) for other in others)
