"""Functions: their declarations, their implementations, and the choice among overloads at run time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from kubesched.cel.errors import EvaluationError
from kubesched.cel.types import Signature, Type, parse_signature
from kubesched.cel.values import name_of

Implementation = Callable[..., object]
_F = TypeVar("_F", bound=Implementation)


class Library:
    """A set of overloads that belong together, such as the functions of quantities."""

    def __init__(self) -> None:
        self.overloads: dict[str, tuple[Signature, Implementation]] = {}

    def define(self, **declarations: str) -> Callable[[_F], _F]:
        """Declare the decorated function under one or more overload names."""

        def register(implementation: _F) -> _F:
            for overload, text in declarations.items():
                self.overloads[overload] = (parse_signature(overload, text), implementation)
            return implementation

        return register


class FunctionRegistry:
    """All functions of an environment."""

    def __init__(self, libraries: Iterable[Library]) -> None:
        self._overloads: dict[str, tuple[Signature, Implementation]] = {}
        for library in libraries:
            self._overloads.update(library.overloads)
        self._dispatchers: dict[tuple[str, tuple[str, ...]], FunctionDispatcher] = {}

    @property
    def signatures(self) -> Mapping[str, tuple[Signature, ...]]:
        found: dict[str, tuple[Signature, ...]] = {}
        for signature, _ in self._overloads.values():
            found[signature.function] = (*found.get(signature.function, ()), signature)
        return found

    def dispatcher(self, function: str, overloads: tuple[str, ...]) -> FunctionDispatcher:
        """What runs a call whose overloads the checker narrowed down to these.

        Operators work on all values that have an overload, because the checker may have guessed the type of an operand.
        """
        if _is_operator(function):
            overloads = tuple(name for name, (found, _) in self._overloads.items() if found.function == function)
        key = (function, overloads)
        if key not in self._dispatchers:
            self._dispatchers[key] = FunctionDispatcher(function, [self._overloads[name] for name in overloads])
        return self._dispatchers[key]


def _is_operator(function: str) -> bool:
    return function.startswith(("_", "@", "-", "!"))


class FunctionDispatcher(dict[tuple[type, ...], Implementation]):
    """The implementation for each combination of argument classes, found on first use."""

    def __init__(self, function: str, overloads: list[tuple[Signature, Implementation]]) -> None:
        super().__init__()
        self._function = function
        self._overloads = overloads

    def __missing__(self, kinds: tuple[type, ...]) -> Implementation:
        for signature, implementation in self._overloads:
            if len(signature.params) == len(kinds) and all(map(_accepts, signature.params, kinds)):
                self[kinds] = implementation
                return implementation
        raise no_such_overload(self._function, kinds)


def no_such_overload(function: str, kinds: tuple[type, ...]) -> EvaluationError:
    """Operators do not say what they were applied to; most functions do."""
    if function in ("size", "sort"):
        return EvaluationError(f"no such overload: {function}")
    if _is_operator(function):
        return EvaluationError("no such overload")
    return EvaluationError(f"no such overload: {function}({', '.join(map(name_of, kinds))})")


def _accepts(param: Type, kind: type) -> bool:
    if param.is_param or param.name == "dyn":
        return True
    name = name_of(kind)
    return name == param.name or (name == "null_type" and param.name == "null")
