"""The part of Go's text/template that scheduler_perf's files use: fields, numbers, strings and arithmetic.

An action is `{{.Index}}`, `{{Mod .Index 25}}` or `{{ DivideInt (AddInt .Count 1) 2 }}`. Anything else is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from kubesched.base.documents import DocumentError, read_yaml
from kubesched.base.types import JSON

Values = Mapping[str, int]
Expression = Callable[[Values], Any]

_ACTION = re.compile(r"\{\{-?(.*?)-?\}\}", re.DOTALL)
_TOKEN = re.compile(
    r'\s*(?:(?P<punct>[()])|(?P<field>\.\w+)|(?P<number>-?\d+(?:\.\d+)?)|"(?P<text>[^"]*)"|(?P<name>\w+))'
)


class PerfTemplateError(ValueError):
    """A template that cannot be used. The message names the file and the action."""


def _product(numbers: Sequence[float]) -> float:
    return math.prod(numbers)


_FUNCTIONS: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    "AddFloat": sum,
    "SubtractFloat": lambda numbers: numbers[0] - numbers[1],
    "MultiplyFloat": _product,
    "DivideFloat": lambda numbers: numbers[0] / numbers[1],
    "AddInt": lambda numbers: int(sum(numbers)),
    "SubtractInt": lambda numbers: int(numbers[0] - numbers[1]),
    "MultiplyInt": lambda numbers: int(_product(numbers)),
    "DivideInt": lambda numbers: int(numbers[0] / numbers[1]),
    "Mod": lambda numbers: int(numbers[0]) % int(numbers[1]),
}


class PerfTemplate:
    """A template file, parsed once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._parts = _parse(path.read_text("utf-8"))
        except OSError as error:
            raise PerfTemplateError(f"{path}: cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise PerfTemplateError(f"{path}: {error}") from None
        self._fixed = self._load({}) if all(isinstance(part, str) for part in self._parts) else None

    def render(self, index: int = 0, count: int = 1) -> JSON:
        """The object for one index out of a count. The caller may change its first two levels."""
        found = self._fixed if self._fixed is not None else self._load({"Index": index, "Count": count})
        copy = {key: dict(value) if isinstance(value, dict) else value for key, value in found.items()}
        copy.setdefault("metadata", {})
        return copy

    def _load(self, values: Values) -> JSON:
        try:
            text = "".join(part if isinstance(part, str) else _text(part(values)) for part in self._parts)
            loaded = read_yaml(text)
        except (DocumentError, ZeroDivisionError, KeyError, IndexError) as error:
            raise PerfTemplateError(f"{self._path}: {error}") from None
        if not isinstance(loaded, dict):
            raise PerfTemplateError(f"{self._path}: must be one object")
        return loaded


@cache
def load_template(path: Path) -> PerfTemplate:
    """A template by its path. The same file is read once."""
    return PerfTemplate(path)


def _parse(text: str) -> list[str | Expression]:
    parts: list[str | Expression] = []
    position = 0
    for match in _ACTION.finditer(text):
        parts += [text[position : match.start()], _action(match[1].strip())]
        position = match.end()
    parts.append(text[position:])
    return parts


def _action(text: str) -> Expression:
    tokens = _tokens(text)
    parsed = _call(tokens, text)
    if tokens:
        raise ValueError(f"{{{{{text}}}}}: cannot be read; only fields and arithmetic are supported")
    return parsed


def _tokens(text: str) -> list[re.Match[str]]:
    found, position = [], 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"{{{{{text}}}}}: cannot be read; only fields and arithmetic are supported")
        found.append(match)
        position = match.end()
    found.reverse()
    return found


def _call(tokens: list[re.Match[str]], text: str) -> Expression:
    """A function with its arguments, or a single value. `tokens` are in reverse order."""
    if tokens and (name := tokens[-1]["name"]):
        tokens.pop()
        function = _FUNCTIONS.get(name)
        if function is None:
            raise ValueError(f"{{{{{text}}}}}: function {name!r} is not supported")
        arguments = []
        while tokens and tokens[-1]["punct"] != ")":
            arguments.append(_operand(tokens, text))
        return lambda values: function([float(argument(values)) for argument in arguments])
    return _operand(tokens, text)


def _operand(tokens: list[re.Match[str]], text: str) -> Expression:
    token = tokens.pop() if tokens else None
    if token is not None and token["field"]:
        field = token["field"][1:]
        return lambda values: values[field]
    if token is not None and (token["number"] or token["text"] is not None):
        constant = token["number"] or token["text"]
        return lambda _: constant
    if token is not None and token["punct"] == "(":
        inner = _call(tokens, text)
        if tokens and tokens.pop()["punct"] == ")":
            return inner
    raise ValueError(f"{{{{{text}}}}}: cannot be read; only fields and arithmetic are supported")


def _text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
