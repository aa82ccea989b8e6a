"""An environment: variables, libraries, and the way from source text to a program."""

from collections.abc import Iterable, Mapping
from functools import cached_property

from kubesched.cel import (
    conversions,
    formats,
    formatting,
    lists,
    network,
    optionals,
    quantities,
    regexes,
    semver,
    standard,
    strings,
    times,
    urls,
)
from kubesched.cel.checker import StructTypes, check, no_structs
from kubesched.cel.costs import estimate
from kubesched.cel.errors import CompileError, Issue, ParseError
from kubesched.cel.functions import FunctionRegistry, Library
from kubesched.cel.parser import MAX_DEPTH, parse
from kubesched.cel.program import Closure
from kubesched.cel.ranges import UNKNOWN, Range
from kubesched.cel.syntax import Node
from kubesched.cel.types import DYN, Type
from kubesched.cel.validators import validate

#: The libraries of Kubernetes 1.36.
KUBERNETES: tuple[Library, ...] = (
    standard.library,
    conversions.library,
    times.library,
    strings.library,
    formatting.library,
    lists.library,
    network.library,
    urls.library,
    formats.library,
    regexes.library,
    optionals.library,
    quantities.library,
    semver.library,
)
#: What one evaluation may cost in the API server, unless the caller sets another limit.
DEFAULT_COST_LIMIT = 1_000_000


class Environment:
    """Compiles expressions over the given variables."""

    def __init__(
        self,
        variables: Mapping[str, Type],
        libraries: Iterable[Library] = KUBERNETES,
        cost_limit: int = DEFAULT_COST_LIMIT,
        structs: StructTypes = no_structs,
    ) -> None:
        self.variables = dict(variables)
        self.registry = FunctionRegistry(libraries)
        self.cost_limit = cost_limit
        self._structs = structs
        self._signatures = self.registry.signatures

    def compile(self, source: str) -> "Program":
        """Parse, check and compile. Raises CompileError, or ProgramError if a constant cannot be converted."""
        try:
            root = parse(source)
            issues = check(root, self.variables, self._signatures, self._structs) or validate(root)
            if not issues:
                return Program(self, source, root)
        except ParseError as error:
            issues = error.issues
        except RecursionError:
            issues = [Issue(-1, f"expression recursion limit exceeded: {MAX_DEPTH}")]
        raise CompileError(source, issues)


class Program:
    """A compiled expression. Calling it with the values of the variables returns the value of the expression."""

    def __init__(self, environment: Environment, source: str, root: Node) -> None:
        self.source = source
        self.result_type = root.type or DYN
        self._environment = environment
        self._root = root
        self._code = Closure(root, environment.registry)

    @cached_property
    def cost(self) -> Range:
        """The estimated cost: the least and the greatest that an evaluation may take."""
        return self._estimate(self._environment.variables, None)

    def cost_in(self, kind: Type) -> Range:
        """The same for a rule of a custom resource of some type. As upstream, all it reads counts as part of it."""
        return self._estimate({}, kind)

    def _estimate(self, variables: Mapping[str, Type], rest: Type | None) -> Range:
        try:
            return estimate(self._root, variables, rest)
        except RecursionError:
            return UNKNOWN

    def __call__(self, variables: Mapping[str, object]) -> object:
        return self._code.run(variables, self._environment.cost_limit)[0]

    def evaluate(self, variables: Mapping[str, object], cost_limit: int | None = None) -> tuple[object, int]:
        """The value and the actual cost."""
        return self._code.run(variables, self._environment.cost_limit if cost_limit is None else cost_limit)
