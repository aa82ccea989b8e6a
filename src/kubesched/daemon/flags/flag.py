"""What a flag is: a field of a dataclass, so that ``options.serving.secure_port`` is known to a type checker."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, cast

from kubesched.daemon.flags.value_types import ValueType

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag as the table has it. `no_effect` says why giving it changes nothing here, if that is so."""

    name: str
    value_type: ValueType[Any]
    default: Any
    help: str
    shorthand: str = ""
    no_effect: str = ""


def flag(value_type: ValueType[T], default: T, text: str, *, shorthand: str = "", no_effect: str = "") -> T:
    """A field that is a flag. Its name is the field's, with dashes."""
    metadata = {"value_type": value_type, "help": text, "shorthand": shorthand, "no_effect": no_effect}
    if isinstance(default, dict):
        made = dataclasses.field(default_factory=lambda: cast(Any, dict(default)), metadata=metadata)
    else:
        made = dataclasses.field(default=cast(Any, default), metadata=metadata)
    return cast(T, made)


class FlagSection:
    """The base of the dataclasses whose fields are flags."""

    title: ClassVar[str] = ""
    note: ClassVar[str] = ""
    """What the help says about all of them."""

    @classmethod
    def flags(cls) -> Iterator[Flag]:
        """The flags of this section, in order of their names, as the help lists them."""
        pristine = cls()
        for field in sorted(dataclasses.fields(cast(Any, cls)), key=lambda each: each.name):
            yield Flag(field.name.replace("_", "-"), default=getattr(pristine, field.name), **field.metadata)
