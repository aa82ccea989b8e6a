"""The operators of CEL: arithmetic with overflow checks, comparisons, membership, size."""

import math
from collections.abc import Callable, Mapping

from kubesched.cel.equality import compare, contains, equal, lookup
from kubesched.cel.errors import EvaluationError
from kubesched.cel.functions import Library
from kubesched.cel.values import MAX_INT, MAX_UINT, MIN_INT, Duration, Timestamp, Uint, key_of

library = Library()
define = library.define

_MIN_TIME, _MAX_TIME = -62135596800 * 10**9, 253402300799999999999


def checked_int(value: int) -> int:
    if MIN_INT <= value <= MAX_INT:
        return value
    raise EvaluationError("integer overflow")


def checked_uint(value: int) -> Uint:
    if 0 <= value <= MAX_UINT:
        return Uint(value)
    raise EvaluationError("unsigned integer overflow")


def checked_duration(nanos: int) -> Duration:
    return Duration(checked_int(nanos))


def checked_timestamp(nanos: int) -> Timestamp:
    if _MIN_TIME <= nanos <= _MAX_TIME:
        return Timestamp(nanos)
    raise EvaluationError("timestamp overflow")


# These overloads are never called: the compiler evaluates logic lazily. The checker needs their types.
@define(logical_and="_&&_(bool, bool) -> bool", logical_or="_||_(bool, bool) -> bool")
@define(conditional="_?_:_(bool, A, A) -> A")
@define(index_list="_[_](list(A), int) -> A", index_map="_[_](map(A, B), A) -> B")
@define(optional_list_index_value="_[_](optional_type(list(V)), int) -> optional_type(V)")
@define(optional_map_index_value="_[_](optional_type(map(K, V)), K) -> optional_type(V)")
@define(list_optindex_optional_int="_[?_](list(V), int) -> optional_type(V)")
@define(map_optindex_optional_value="_[?_](map(K, V), K) -> optional_type(V)")
@define(optional_list_optindex_optional_int="_[?_](optional_type(list(V)), int) -> optional_type(V)")
@define(optional_map_optindex_optional_value="_[?_](optional_type(map(K, V)), K) -> optional_type(V)")
def _compiled(*_args: object) -> object:
    raise EvaluationError("no such overload")


@define(logical_not="!_(bool) -> bool")
def logical_not(value: bool) -> bool:
    return not value


@define(not_strictly_false="@not_strictly_false(bool) -> bool")
def not_strictly_false(value: bool) -> bool:
    return value


define(equals="_==_(A, A) -> bool")(equal)


@define(not_equals="_!=_(A, A) -> bool")
def not_equal(left: object, right: object) -> bool:
    return not equal(left, right)


def _comparisons() -> None:
    pairs = {
        name: f"({kind}, {kind})"
        for name, kind in (
            ("bool", "bool"),
            ("int64", "int"),
            ("uint64", "uint"),
            ("double", "double"),
            ("string", "string"),
            ("bytes", "bytes"),
            ("timestamp", "timestamp"),
            ("duration", "duration"),
        )
    }
    numbers = {"int64": "int", "uint64": "uint", "double": "double"}
    for left, first in numbers.items():
        pairs |= {f"{left}_{right}": f"({first}, {second})" for right, second in numbers.items() if left != right}
    tests: dict[str, tuple[str, Callable[[int], bool]]] = {
        "less": ("<", lambda order: order < 0),
        "less_equals": ("<=", lambda order: order <= 0),
        "greater": (">", lambda order: order > 0),
        "greater_equals": (">=", lambda order: order >= 0),
    }
    for name, (sign, test) in tests.items():
        for overload, params in pairs.items():
            define(**{f"{name}_{overload}": f"_{sign}_{params} -> bool"})(_comparison(test))


def _comparison(test: Callable[[int], bool]) -> Callable[[object, object], bool]:
    def run(left: object, right: object) -> bool:
        if left != left or right != right:
            raise EvaluationError("NaN values cannot be ordered")
        return test(compare(left, right))

    return run


_comparisons()


@define(add_int64="_+_(int, int) -> int")
def add_int(left: int, right: int) -> int:
    return checked_int(left + right)


@define(add_uint64="_+_(uint, uint) -> uint")
def add_uint(left: Uint, right: Uint) -> Uint:
    return checked_uint(int(left) + int(right))


@define(
    add_double="_+_(double, double) -> double",
    add_string="_+_(string, string) -> string",
    add_bytes="_+_(bytes, bytes) -> bytes",
)
def add_plain(left: str, right: str) -> str:
    return left + right


@define(add_list="_+_(list(A), list(A)) -> list(A)")
def add_list(left: list[object], right: list[object]) -> list[object]:
    return [*left, *right]


@define(
    add_timestamp_duration="_+_(timestamp, duration) -> timestamp",
    add_duration_timestamp="_+_(duration, timestamp) -> timestamp",
)
def add_timestamp(left: Timestamp | Duration, right: Timestamp | Duration) -> Timestamp:
    return checked_timestamp(left.nanos + right.nanos)


@define(add_duration_duration="_+_(duration, duration) -> duration")
def add_duration(left: Duration, right: Duration) -> Duration:
    return checked_duration(left.nanos + right.nanos)


@define(subtract_int64="_-_(int, int) -> int")
def subtract_int(left: int, right: int) -> int:
    return checked_int(left - right)


@define(subtract_uint64="_-_(uint, uint) -> uint")
def subtract_uint(left: Uint, right: Uint) -> Uint:
    return checked_uint(int(left) - int(right))


@define(subtract_double="_-_(double, double) -> double")
def subtract_double(left: float, right: float) -> float:
    return left - right


@define(
    subtract_timestamp_timestamp="_-_(timestamp, timestamp) -> duration",
    subtract_duration_duration="_-_(duration, duration) -> duration",
)
def subtract_times(left: Timestamp, right: Timestamp) -> Duration:
    return checked_duration(left.nanos - right.nanos)


@define(subtract_timestamp_duration="_-_(timestamp, duration) -> timestamp")
def subtract_duration(left: Timestamp, right: Duration) -> Timestamp:
    return checked_timestamp(left.nanos - right.nanos)


@define(multiply_int64="_*_(int, int) -> int")
def multiply_int(left: int, right: int) -> int:
    return checked_int(left * right)


@define(multiply_uint64="_*_(uint, uint) -> uint")
def multiply_uint(left: Uint, right: Uint) -> Uint:
    return checked_uint(int(left) * int(right))


@define(multiply_double="_*_(double, double) -> double")
def multiply_double(left: float, right: float) -> float:
    return left * right


@define(divide_int64="_/_(int, int) -> int")
def divide_int(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("division by zero")
    return checked_int(_truncated(left, right))


@define(divide_uint64="_/_(uint, uint) -> uint")
def divide_uint(left: Uint, right: Uint) -> Uint:
    if right == 0:
        raise EvaluationError("division by zero")
    return Uint(int(left) // int(right))


@define(divide_double="_/_(double, double) -> double")
def divide_double(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or left != left:
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


@define(modulo_int64="_%_(int, int) -> int")
def modulo_int(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("modulus by zero")
    checked_int(_truncated(left, right))
    return left - _truncated(left, right) * right


@define(modulo_uint64="_%_(uint, uint) -> uint")
def modulo_uint(left: Uint, right: Uint) -> Uint:
    if right == 0:
        raise EvaluationError("modulus by zero")
    return Uint(int(left) % int(right))


def _truncated(left: int, right: int) -> int:
    """Division that rounds toward zero; Python rounds down."""
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


@define(negate_int64="-_(int) -> int")
def negate_int(value: int) -> int:
    return checked_int(-value)


@define(negate_double="-_(double) -> double")
def negate_double(value: float) -> float:
    return -value


@define(in_list="@in(A, list(A)) -> bool")
def in_list(value: object, container: list[object]) -> bool:
    return contains(container, value)


@define(in_map="@in(A, map(A, B)) -> bool")
def in_map(value: object, container: Mapping[object, object]) -> bool:
    return lookup_contains(container, value)


def lookup_contains(container: Mapping[object, object], key: object) -> bool:
    """Membership proper: a map with a default for missing keys still does not contain them."""
    if isinstance(key, str):
        return key in container
    return lookup(container, key)[0]


@define(
    size_string="size(string) -> int",
    string_size="string.size() -> int",
    size_bytes="size(bytes) -> int",
    bytes_size="bytes.size() -> int",
    size_list="size(list(A)) -> int",
    list_size="list(A).size() -> int",
    size_map="size(map(A, B)) -> int",
    map_size="map(A, B).size() -> int",
)
def size(value: str) -> int:
    return len(value)


@define(contains_string="string.contains(string) -> bool")
def contains_string(text: str, part: str) -> bool:
    return part in text


@define(starts_with_string="string.startsWith(string) -> bool")
def starts_with(text: str, prefix: str) -> bool:
    return text.startswith(prefix)


@define(ends_with_string="string.endsWith(string) -> bool")
def ends_with(text: str, suffix: str) -> bool:
    return text.endswith(suffix)


@define(map_insert_map_map="cel::@mapInsert(map(K, V), map(K, V)) -> map(K, V)")
def insert_map(target: dict[object, object], entries: Mapping[object, object]) -> dict[object, object]:
    for key, value in entries.items():
        _insert(target, key, value)
    return target


@define(map_insert_map_key_value="cel::@mapInsert(map(K, V), K, V) -> map(K, V)")
def insert_entry(target: dict[object, object], key: object, value: object) -> dict[object, object]:
    """The target is the hidden accumulator of a macro, which nothing else refers to: it is changed in place."""
    _insert(target, key, value)
    return target


def _insert(target: dict[object, object], key: object, value: object) -> None:
    if key_of(key) in target:
        raise EvaluationError(f"insert failed: key {key} already exists")
    target[key_of(key)] = value


# An operand of unknown type takes the type of the first overload that fits. cel-go sorts these by name.
_ARITHMETIC = ("add_", "divide_", "multiply_", "negate_", "subtract_")
library.overloads = dict(
    sorted(library.overloads.items(), key=lambda item: item[0] if item[0].startswith(_ARITHMETIC) else "")
)
