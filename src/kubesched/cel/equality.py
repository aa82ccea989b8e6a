"""Equality and order of values, across the numeric types."""

from collections.abc import Mapping

from kubesched.cel.errors import EvaluationError
from kubesched.cel.values import Optional, StructValue, from_key, key_of, name_of


def equal(left: object, right: object) -> bool:
    """CEL's ``==``: numbers by value, containers by element, values of different types unequal."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, int | float) and isinstance(right, int | float):
        return _numbers_equal(left, right)
    if isinstance(left, list | tuple):
        return (
            isinstance(right, list | tuple)
            and len(left) == len(right)
            and all(equal(item, other) for item, other in zip(left, right, strict=True))
        )
    if isinstance(left, Mapping):
        return isinstance(right, Mapping) and _maps_equal(left, right)
    if isinstance(left, Optional) and isinstance(right, Optional):
        return left.present == right.present and (not left.present or equal(left.value, right.value))
    return name_of(type(left)) == name_of(type(right)) and left == right


def _numbers_equal(left: int | float, right: int | float) -> bool:
    """Compare numbers. Next to a double every number is a double, as in cel-go; Python would compare exactly."""
    if isinstance(left, float) or isinstance(right, float):
        return float(left) == float(right)
    return left == right


def _maps_equal(left: Mapping[object, object], right: Mapping[object, object]) -> bool:
    if len(left) != len(right) or _struct_name(left) != _struct_name(right):
        return False
    return all(key in right and equal(value, right[key]) for key, value in left.items())


def _struct_name(value: object) -> str:
    return value.type_name if isinstance(value, StructValue) else ""


def contains(container: list[object] | tuple[object, ...], value: object) -> bool:
    return any(equal(item, value) for item in container)


def lookup(container: Mapping[object, object], key: object) -> tuple[bool, object]:
    """Whether a map has a key, and the value. Numeric keys match across types."""
    if isinstance(key, float) and not key.is_integer():
        return False, None
    try:
        return True, container[key_of(key)]
    except (KeyError, TypeError):
        return False, None


def keys_of(container: Mapping[object, object]) -> list[object]:
    return list(map(from_key, container))


def compare(left: object, right: object) -> int:
    """-1, 0 or 1 for two values of a type that has an order."""
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)  # type: ignore[arg-type]  # the checker allows numbers only
    try:
        if left == right:
            return 0
        return -1 if left < right else 1  # type: ignore[operator]  # caught below
    except TypeError:
        raise EvaluationError("no such overload") from None


def shown_key(key: object) -> str:
    """A key as it is spelled in an error message."""
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)
