"""The expressions of admission policies: their variables, and compiling them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from kubesched.cel import CELError, Environment, Program
from kubesched.cel.types import BOOL, DYN, STRING, Type, list_of, map_of, object_type

COST_LIMIT = 10_000_000
"""What all expressions of a policy may cost for one write."""

_KIND = object_type("kubernetes.GroupVersionKind", dict.fromkeys(("group", "version", "kind"), STRING))
_RESOURCE = object_type("kubernetes.GroupVersionResource", dict.fromkeys(("group", "version", "resource"), STRING))
_USER = object_type(
    "kubernetes.UserInfo",
    {
        "username": STRING,
        "uid": STRING,
        "groups": list_of(STRING),
        "extra": map_of(STRING, list_of(STRING)),
    },
)
_REQUEST = object_type(
    "kubernetes.AdmissionRequest",
    {
        "kind": _KIND,
        "resource": _RESOURCE,
        "subResource": STRING,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "requestSubResource": STRING,
        "name": STRING,
        "namespace": STRING,
        "operation": STRING,
        "userInfo": _USER,
        "dryRun": BOOL,
        "options": DYN,
    },
)
_BASE: dict[str, Type] = {
    "object": DYN,
    "oldObject": DYN,
    "namespaceObject": DYN,
    "request": _REQUEST,
}


@lru_cache(maxsize=256)
def _environment(has_params: bool, variables: tuple[tuple[str, Type], ...] | None) -> Environment:
    types = dict(_BASE)
    if has_params:
        types["params"] = DYN
    if variables is not None:
        types["variables"] = object_type("kubernetes.variables", dict(variables))
    return Environment(types, cost_limit=COST_LIMIT)


class Variables(dict[str, object]):
    """The value of `variables`: each expression is evaluated when it is first read."""

    def __init__(self, programs: Mapping[str, Program], activation: dict[str, object]) -> None:
        super().__init__()
        self._programs = programs
        self._activation = activation

    def __missing__(self, name: str) -> object:
        value = self[name] = self._programs[name](self._activation)
        return value


class Expressions:
    """Compiles the expressions of one policy. Later variables may refer to earlier ones."""

    def __init__(self, has_params: bool, variables: Iterable[tuple[str, str]]) -> None:
        self._has_params = has_params
        self._types: dict[str, Type] = {}
        self.programs: dict[str, Program] = {}
        for name, source in variables:
            program = self.compile(source)
            self.programs[name] = program
            self._types[name] = program.result_type

    def compile(self, source: str, *, with_variables: bool = True) -> Program:
        """Compile an expression. Raises CELError."""
        known = tuple(self._types.items()) if with_variables else None
        return _environment(self._has_params, known).compile(source)

    def activation(self, base: dict[str, object]) -> dict[str, object]:
        """The values of all variables of an expression."""
        activation = dict(base)
        activation["variables"] = Variables(self.programs, activation)
        return activation


__all__ = ["COST_LIMIT", "CELError", "Expressions", "Program"]
