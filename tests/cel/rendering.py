"""Values as text, so that a recorded result is one string: ``list([1 2])``, ``double(1.5)``."""

from collections.abc import Mapping

from kubesched.cel.conversions import string_of_double
from kubesched.cel.equality import keys_of
from kubesched.cel.network import IP
from kubesched.cel.times import duration_text, timestamp_text
from kubesched.cel.values import Duration, Optional, Timestamp, TypeValue, key_of, name_of


def rendered(value: object) -> str:
    """A value with its type."""
    return f"{name_of(type(value))}({_text(value)})"


def _text(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case float():
            return string_of_double(value)
        case list() | tuple():
            return f"[{' '.join(map(_text, value))}]"
        case Mapping():
            return f"{{{' '.join(sorted(f'{_text(key)}:{_text(value[key_of(key)])}' for key in keys_of(value)))}}}"
        case Optional():
            return _text(value.value) if value.present else "none"
        case TypeValue():
            return value.name
        case IP():
            return str(value.address)
        case Timestamp():
            return timestamp_text(value)
        case Duration():
            return duration_text(value)
    return str(value)
