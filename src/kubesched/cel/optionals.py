"""Optional values: ``optional.of(x)``, ``object.?field.orValue(0)``."""

from kubesched.cel.errors import EvaluationError
from kubesched.cel.functions import Library
from kubesched.cel.values import NONE, Duration, Optional

library = Library()


@library.define(optional_of="optional::of(V) -> optional_type(V)")
def of(value: object) -> Optional:
    return Optional(True, value)


@library.define(optional_none="optional::none() -> optional_type(V)")
def none() -> Optional:
    return NONE


@library.define(optional_ofNonZeroValue="optional::ofNonZeroValue(V) -> optional_type(V)")
def of_non_zero(value: object) -> Optional:
    empty = not value.nanos if isinstance(value, Duration) else not value
    return NONE if empty else Optional(True, value)


@library.define(optional_value="optional_type(V).value() -> V")
def value(item: Optional) -> object:
    if not item.present:
        raise EvaluationError("optional.none() dereference")
    return item.value


@library.define(optional_hasValue="optional_type(V).hasValue() -> bool")
def has_value(item: Optional) -> bool:
    return item.present


# The compiler evaluates these two lazily; the checker needs their types.
@library.define(optional_or_optional="optional_type(V).or(optional_type(V)) -> optional_type(V)")
@library.define(optional_orValue_value="optional_type(V).orValue(V) -> V")
def _compiled(*_args: object) -> object:
    raise EvaluationError("no such overload")


@library.define(optional_unwrapOpt="list(optional_type(V)).unwrapOpt() -> list(V)")
@library.define(optional_unwrap="optional::unwrap(list(optional_type(V))) -> list(V)")
def unwrap(items: list[object]) -> list[object]:
    found: list[object] = []
    for item in items:
        if not isinstance(item, Optional):
            raise EvaluationError(f"value {item} is not optional")
        if item.present:
            found.append(item.value)
    return found
