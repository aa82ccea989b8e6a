"""The expressions of admission policies: their variables, and compiling them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from kubesched.apiserver.policies import authorization
from kubesched.cel import CELError, Environment, Program
from kubesched.cel.checker import no_structs
from kubesched.cel.environment import KUBERNETES
from kubesched.cel.patches import library as patch_library
from kubesched.cel.patches import patch_types
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
    **authorization.VARIABLES,
}
_LIBRARIES = (*KUBERNETES, authorization.library)


@lru_cache(maxsize=256)
def _environment(has_params: bool, patches: bool, variables: tuple[tuple[str, Type], ...] | None) -> Environment:
    return _make_environment(DYN, DYN if has_params else None, patches, variables)


def _make_environment(
    kind: Type, params: Type | None, patches: bool, variables: tuple[tuple[str, Type], ...] | None
) -> Environment:
    types = {**_BASE, "object": kind, "oldObject": kind}
    if params is not None:
        types["params"] = params
    if variables is not None:
        types["variables"] = object_type("kubernetes.variables", dict(variables))
    libraries = (*_LIBRARIES, patch_library) if patches else _LIBRARIES
    return Environment(types, libraries, COST_LIMIT, patch_types if patches else no_structs)


class Variables(dict[str, object]):
    """The value of `variables`: each expression is evaluated when it is first read."""

    def __init__(self, programs: Mapping[str, Program], activation: dict[str, object]) -> None:
        super().__init__()
        self._programs = programs
        self._activation = activation

    def __missing__(self, name: str) -> object:
        value = self[name] = self._programs[name](self._activation)
        return value


class WrongResultError(CELError):
    """An expression has another type than its place needs."""


class Expressions:
    """Compiles the expressions of one policy. Later variables may refer to earlier ones.

    Objects and parameters may be anything, unless their types are given.
    """

    def __init__(self, has_params: bool, kind: Type = DYN, params: Type = DYN) -> None:
        self._has_params = has_params
        self._kind = kind
        self._params = params
        self._types: dict[str, Type] = {}
        self.programs: dict[str, Program] = {}

    def add_variable(self, name: str, source: str) -> None:
        """Compile a variable. Raises CELError."""
        try:
            program = self.compile(source)
        except CELError:
            self._types[name] = DYN  # so that expressions that use it have no second error
            raise
        self.programs[name] = program
        self._types[name] = program.result_type

    def add_variables(self, variables: Iterable[tuple[str, str]]) -> None:
        for name, source in variables:
            self.add_variable(name, source)

    def compile(self, source: str, result: Type | None = None, *, patches: bool = False) -> Program:
        """Compile an expression, which must have the given type. Raises CELError."""
        variables = tuple(self._types.items())
        if self._kind is DYN and self._params is DYN:
            environment = _environment(self._has_params, patches, variables)
        else:
            environment = _make_environment(self._kind, self._params if self._has_params else None, patches, variables)
        return _checked(environment.compile(source), result)

    def compile_condition(self, source: str) -> Program:
        """Compile a match condition, which cannot refer to variables. Raises CELError."""
        return _checked(_environment(self._has_params, False, None).compile(source), BOOL)

    def activation(self, base: dict[str, object]) -> dict[str, object]:
        """The values of all variables of an expression."""
        activation = dict(base)
        activation["variables"] = Variables(self.programs, activation)
        return activation


def _checked(program: Program, result: Type | None) -> Program:
    if result is not None and program.result_type != result:
        raise WrongResultError(f"must evaluate to {result} but got {program.result_type}")
    return program


__all__ = ["COST_LIMIT", "CELError", "Expressions", "Program", "WrongResultError"]
