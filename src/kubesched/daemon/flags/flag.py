"""Flags are fields of dataclasses, so that type checkers understand ``options.serving.secure_port``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any, ClassVar, TypeVar, cast

from kubesched.daemon.flags.value_types import FlagType

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag. `no_effect` gives the reason if the flag changes nothing here."""

    name: str
    value_type: FlagType[Any]
    default: Any
    help: str
    shorthand: str = ""
    no_effect: str = ""

    @property
    def attribute(self) -> str:
        """The field's name: with an underscore at the end if the flag's is a word of Python, such as ``from``."""
        return attribute_of(self.name)


def attribute_of(name: str) -> str:
    """The name of the field of a flag."""
    plain = name.replace("-", "_")
    return f"{plain}_" if iskeyword(plain) else plain


def flag(value_type: FlagType[T], default: T, text: str, *, shorthand: str = "", no_effect: str = "") -> T:
    """Declare a field that is a flag. The flag's name is the field's, with dashes."""
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
    """A remark on the whole section in the help."""

    @classmethod
    def flags(cls) -> Iterator[Flag]:
        """The flags of this section, sorted by name."""
        defaults = cls()
        for field in sorted(dataclasses.fields(cast(Any, cls)), key=lambda each: each.name):
            yield Flag(
                field.name.rstrip("_").replace("_", "-"), default=getattr(defaults, field.name), **field.metadata
            )
