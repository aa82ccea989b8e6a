"""YAML and JSON from outside, read within limits of size, depth and number of values.

PyYAML's C loader recurses without a limit, so deep nesting ends the process. Aliases cost nothing to read, but a few
hundred bytes of them become gigabytes as soon as the result is copied or written. Every YAML document is read here.

Scalars are what Go's YAML library takes them for. The two libraries disagree about what is not a string: ``y`` and
``1e3`` there, ``1:30`` and dates here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import yaml
from yaml.composer import Composer
from yaml.constructor import ConstructorError, SafeConstructor
from yaml.resolver import Resolver

Text = str | bytes
R = TypeVar("R", bound=type[yaml.SafeLoader] | type[yaml.SafeDumper])


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """The largest document that is read."""

    size: int
    """Bytes. Also how many characters aliases may repeat."""
    values: int
    """Objects, lists, keys and scalars in a YAML document, with those that aliases repeat."""
    depth: int = 128
    """Levels of nested objects and lists. Kubernetes objects have at most about forty."""


FILE = DocumentLimits(size=64 << 20, values=2_000_000)
REQUEST = DocumentLimits(size=3 << 20, values=100_000)
"""For what clients send. The size is upstream's; 100,000 YAML values take about a second to read."""


def valid_text(header: str) -> str:
    """A header's value as text that can be encoded: aiohttp keeps bytes that are not UTF-8 as surrogates."""
    return header if header.isascii() else header.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class DocumentError(ValueError):
    """Text that is no YAML or JSON document. `line` and `column` count from 1; 0 is unknown."""

    def __init__(self, problem: str, mark: Any = None) -> None:
        super().__init__(problem)
        self.line = mark.line + 1 if mark is not None else 0
        self.column = mark.column + 1 if mark is not None else 0


class DocumentLimitError(DocumentError):
    """A document beyond a limit. The message names the limit and never quotes the document."""

    def __init__(self, problem: str, mark: Any = None) -> None:
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        super().__init__(f"{place}{problem}", mark)


# --- YAML -------------------------------------------------------------------------------------------------------------

_DIGITS = "-+0123456789"
_SCALARS = (
    ("bool", "y|Y|yes|Yes|YES|n|N|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF", "yYnNtTfFoO"),
    ("null", "~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("merge", "<<", "<"),
    ("int", "[-+]?(?:0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)", _DIGITS),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", f".{_DIGITS}"),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", ".-+"),
)
_OTHERS = ("timestamp", "set", "omap", "pairs")
"""Values that JSON does not have. They need an explicit tag, because plain dates are strings."""


def scalars_as_go(cls: R) -> R:
    """Make a PyYAML loader or dumper tell strings from other scalars as Go's library does."""
    cls.yaml_implicit_resolvers = {}
    for tag, pattern, first in _SCALARS:
        cls.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"(?:{pattern})$"), first)
    return cls


if TYPE_CHECKING or not yaml.__with_libyaml__:
    from yaml import SafeLoader
else:
    from yaml.cyaml import CParser

    class SafeLoader(Composer, CParser, SafeConstructor, Resolver):
        """Events from the C parser, which does not recurse, composed in Python, where limits can be kept."""

        def __init__(self, stream: Text) -> None:
            CParser.__init__(self, stream)
            Composer.__init__(self)
            SafeConstructor.__init__(self)
            Resolver.__init__(self)


@scalars_as_go
class _Loader(SafeLoader):
    """Composes nodes within limits."""

    bool_values = SafeConstructor.bool_values | {"y": True, "n": False}

    def __init__(self, stream: Text, limits: DocumentLimits) -> None:
        super().__init__(stream)
        self._limits = limits
        self._depth = self._values = self._characters = self._repeated = 0
        self._deepest = 0
        self._anchored: dict[str, tuple[int, int, int]] = {}
        """By anchor, how many values, characters and levels an alias repeats."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]  # the stubs lack it
        if isinstance(event, yaml.AliasEvent):
            self._repeat(event)
            return super().compose_node(parent, index)
        self._depth += 1
        self._values += 1
        self._check_depth(self._depth, event)
        self._check_values(event)
        anchor: str = event.anchor or ""
        self._anchored.pop(anchor, None)
        values, characters = self._values - 1, self._characters
        before, self._deepest = self._deepest, self._depth
        node = super().compose_node(parent, index)
        self._depth -= 1
        if isinstance(node, yaml.ScalarNode):
            self._characters += len(node.value)
        if anchor:
            levels = self._deepest - self._depth
            self._anchored[anchor] = (self._values - values, self._characters - characters, levels)
        self._deepest = max(self._deepest, before)
        return node

    def _repeat(self, event: Any) -> None:
        found = self._anchored.get(event.anchor)
        if found is None:
            if event.anchor in self.anchors:
                raise DocumentLimitError("an alias refers to a value that contains it", event.start_mark)
            return  # the composer says that there is no such anchor
        values, characters, levels = found
        self._deepest = max(self._deepest, self._depth + levels)
        self._check_depth(self._deepest, event)
        self._values += values
        self._characters += characters
        self._repeated += characters
        self._check_values(event)
        if self._repeated > self._limits.size:
            limit = f"aliases repeat more than {self._limits.size:,} characters"
            raise DocumentLimitError(limit, event.start_mark)

    def _check_depth(self, depth: int, event: yaml.Event) -> None:
        if depth > self._limits.depth:
            raise DocumentLimitError(f"nested deeper than {self._limits.depth} levels", event.start_mark)

    def _check_values(self, event: yaml.Event) -> None:
        if self._values > self._limits.values:
            limit = f"more than {self._limits.values:,} values, with those that aliases repeat"
            raise DocumentLimitError(limit, event.start_mark)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        mapping = super().construct_mapping(node, deep)
        return {key if isinstance(key, str) else _key(key, node): value for key, value in mapping.items()}

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        """The text of a scalar. An explicit tag does not make any text a number: `!!int ""`, `!!int 1:30`."""
        text = super().construct_scalar(node)
        pattern = _PATTERNS.get(node.tag)
        if pattern is not None and not pattern.fullmatch(text):
            raise ConstructorError(None, None, f"this is no {node.tag.rpartition(':')[2]}", node.start_mark)
        return text

    def construct_number(self, node: yaml.ScalarNode) -> int | float | str:
        number: int = self.construct_yaml_int(node)
        if -(2**63) <= number < 2**64:
            return number
        return self.construct_finite(node) if node.value.lstrip("+-").isdecimal() else node.value

    def construct_finite(self, node: yaml.ScalarNode) -> float | str:
        number: float = self.construct_yaml_float(node)
        if not math.isfinite(number) and node.value[-1].isalpha():
            raise ConstructorError(None, None, "JSON has no such number", node.start_mark)
        return number if math.isfinite(number) else node.value

    def construct_decoded(self, node: yaml.ScalarNode) -> str:
        return self.construct_yaml_binary(node).decode()


_PATTERNS = {
    f"tag:yaml.org,2002:{tag}": re.compile("|".join(f"(?:{pattern})" for name, pattern, _ in _SCALARS if name == tag))
    for tag in ("bool", "null", "int", "float")
}
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_number)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.construct_finite)
_Loader.add_constructor("tag:yaml.org,2002:binary", _Loader.construct_decoded)
for _tag in _OTHERS:
    del _Loader.yaml_constructors[f"tag:yaml.org,2002:{_tag}"]


def _key(key: object, node: yaml.MappingNode) -> str:
    """A key as JSON would have it."""
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | float):
        return str(key)
    raise ConstructorError("while constructing a mapping", node.start_mark, "found a key that is not a string", None)


def compose_yaml(text: Text, limits: DocumentLimits = FILE) -> yaml.Node | None:
    """The nodes of the only document in a text; None if it is empty. Raises `DocumentError`."""
    with _loading(text, limits) as loader:
        node: yaml.Node | None = loader.get_single_node()
        return node


def compose_yaml_documents(text: Text, limits: DocumentLimits = FILE) -> list[yaml.Node]:
    """The nodes of every document in a text. Raises `DocumentError`."""
    with _loading(text, limits) as loader:
        nodes = []
        while loader.check_node() and (node := loader.get_node()) is not None:
            nodes.append(node)
        return nodes


def construct_yaml(node: yaml.Node) -> Any:
    """The value of composed nodes. Raises `DocumentError`."""
    with _loading("", FILE) as loader:
        return loader.construct_document(node)


def read_yaml(text: Text, limits: DocumentLimits = FILE) -> Any:
    """The only document in a text; None if it is empty. Raises `DocumentError`."""
    node = compose_yaml(text, limits)
    return None if node is None else construct_yaml(node)


def read_yaml_documents(text: Text, limits: DocumentLimits = FILE) -> list[Any]:
    """All documents in a text. Raises `DocumentError`."""
    with _loading(text, limits) as loader:
        documents = []
        while loader.check_data():  # type: ignore[no-untyped-call]  # the stubs lack it
            documents.append(loader.get_data())
        return documents


@contextmanager
def _loading(text: Text, limits: DocumentLimits) -> Iterator[_Loader]:
    _check_size(text, limits)
    try:
        loader = _Loader(text, limits)
        try:
            yield loader
        finally:
            loader.dispose()
    except DocumentError:
        raise
    except yaml.YAMLError as error:
        raise DocumentError(" ".join(str(error).split()), getattr(error, "problem_mark", None)) from None
    except (ValueError, OverflowError) as error:
        raise DocumentError(str(error)) from None


# --- JSON -------------------------------------------------------------------------------------------------------------


def read_json(data: Text, limits: DocumentLimits = FILE) -> Any:
    """The value of a JSON text. Raises `DocumentError`."""
    _check_size(data, limits)
    try:
        value = msgspec.json.decode(data)
    except RecursionError:
        raise _too_deep(limits) from None
    except ValueError as error:
        raise DocumentError(str(error)) from None
    return within_depth(value, limits) if _may_be_deep(data, limits) else value


def _may_be_deep(data: Text, limits: DocumentLimits) -> bool:
    """Whether there are enough brackets at all: most objects have too few, and need not be walked through."""
    if isinstance(data, str):
        return data.count("{") + data.count("[") > limits.depth
    return data.count(b"{") + data.count(b"[") > limits.depth


def within_depth(value: Any, limits: DocumentLimits = FILE) -> Any:
    """The same value. Raises `DocumentLimitError` if it is nested too deep."""
    level = [value]
    for _ in range(limits.depth):
        level = [part for each in level for part in _parts(each)]
        if not level:
            return value
    raise _too_deep(limits)


def _parts(value: Any) -> list[Any]:
    """The objects and lists that stand directly in a value."""
    if isinstance(value, dict):
        return [part for part in value.values() if isinstance(part, dict | list)]
    return [part for part in value if isinstance(part, dict | list)] if isinstance(value, list) else []


def _too_deep(limits: DocumentLimits) -> DocumentLimitError:
    return DocumentLimitError(f"nested deeper than {limits.depth} levels")


def _check_size(text: Text, limits: DocumentLimits) -> None:
    if len(text) > limits.size:
        raise DocumentLimitError(f"{len(text):,} bytes long; at most {limits.size:,} are read")
