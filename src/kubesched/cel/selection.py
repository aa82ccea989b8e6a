"""Field selection and indexing at run time."""

from collections.abc import Mapping

from kubesched.cel.equality import lookup, shown_key
from kubesched.cel.errors import EvaluationError
from kubesched.cel.values import Optional, name_of


def qualify(value: object, key: object) -> object:
    """``value.key`` or ``value[key]``."""
    if type(key) is str and isinstance(value, dict):
        try:
            return value[key]
        except KeyError:
            raise _no_such_key(key) from None
    if isinstance(value, list | tuple):
        return value[_index(value, key)]
    if isinstance(value, Mapping):
        found, item = lookup(value, key)
        if found:
            return item
    raise _no_such_key(key)


def qualify_optional(value: object, key: object) -> tuple[bool, object]:
    """``value.?key`` or ``value[?key]``: whether the key is there, and its value."""
    if isinstance(value, Mapping):
        return lookup(value, key)
    try:
        return True, qualify(value, key)
    except EvaluationError:
        return False, None


def field_present(value: object, field: str) -> bool:
    """``has(value.field)``."""
    if isinstance(value, Optional):
        return value.present and field_present(value.value, field)
    if isinstance(value, Mapping):
        return lookup(value, field)[0]
    return False


def _index(container: list[object] | tuple[object, ...], key: object) -> int:
    if isinstance(key, bool) or not isinstance(key, int | float) or key != int(key):
        raise EvaluationError(f"unsupported index type '{name_of(type(key))}' in list")
    if not 0 <= key < len(container):
        raise EvaluationError(f"index out of bounds: {int(key)}")
    return int(key)


def _no_such_key(key: object) -> EvaluationError:
    return EvaluationError(f"no such key: {shown_key(key)}")
