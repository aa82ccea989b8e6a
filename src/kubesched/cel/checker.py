"""The type checker: finds what Kubernetes rejects at admission, and notes types and overloads for the compiler."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from kubesched.cel.errors import Issue
from kubesched.cel.syntax import (
    Call,
    Comprehension,
    FieldInit,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Node,
    Select,
    StructNode,
    children,
)
from kubesched.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    UINT,
    Signature,
    Type,
    list_of,
    map_of,
    optional_of,
    type_of,
)
from kubesched.cel.unify import Unifier, most_general
from kubesched.cel.values import MAX_INT, Uint

Functions = Mapping[str, tuple[Signature, ...]]


def _type_names() -> dict[str, Type]:
    plain = {item.name: type_of(item) for item in (BOOL, BYTES, DOUBLE, INT, STRING, UINT)}
    return {
        **plain,
        "null_type": type_of(NULL),
        "list": type_of(list_of(Type("A"))),
        "map": type_of(map_of(Type("A"), Type("B"))),
        "type": type_of(Type("type")),
        "dyn": type_of(DYN),
        "google.protobuf.Timestamp": type_of(Type("google.protobuf.Timestamp")),
        "google.protobuf.Duration": type_of(Type("google.protobuf.Duration")),
        "optional_type": type_of(optional_of(Type("A"))),
        "net.IP": type_of(Type("net.IP")),
        "net.CIDR": type_of(Type("net.CIDR")),
    }


#: Names that stand for types, as in ``type(x) == int``.
TYPE_NAMES: Mapping[str, Type] = _type_names()


StructTypes = Callable[[str], Type | None]
"""The type that ``name{...}`` creates, if there is one."""


def no_structs(_name: str) -> Type | None:
    """For environments in which expressions create no objects."""
    return None


def check(
    root: Node, variables: Mapping[str, Type], functions: Functions, structs: StructTypes = no_structs
) -> list[Issue]:
    """Annotate the tree and return its errors, ordered by position."""
    checker = _Checker(variables, functions, structs)
    checker.check(root)
    if not checker.issues:
        checker.finish(root)
    return sorted(checker.issues, key=lambda issue: issue.offset)


class _Checker:
    def __init__(self, variables: Mapping[str, Type], functions: Functions, structs: StructTypes) -> None:
        self.issues: list[Issue] = []
        self._scopes: list[dict[str, Type]] = [dict(TYPE_NAMES), dict(variables)]
        self._functions = functions
        self._structs = structs
        self._unify = Unifier()

    def finish(self, root: Node) -> None:
        """Replace type variables in the whole tree; what is still unknown is dyn."""
        pending = [root]
        while pending:
            node = pending.pop()
            node.type = self._unify.resolve(node.type or ERROR, unknown_is_dyn=True)
            pending += children(node)

    def check(self, node: Node) -> Type:
        match node:
            case Literal():
                node.type = self._literal(node)
            case Ident():
                node.type = self._ident(node)
            case Select():
                node.type = self._select(node)
            case Call(function="_?._"):
                node.type = self._field(node, node.args[0], str(getattr(node.args[1], "value", "")), optional=True)
                self.check(node.args[1])
                node.overloads = ("select_optional_field",)
            case Call():
                node.type = self._call(node)
            case ListNode():
                node.type = self._list(node)
            case MapNode():
                node.type = self._map(node)
            case StructNode():
                node.type = self._struct(node)
            case Comprehension():
                node.type = self._comprehension(node)
        assert node.type is not None
        return node.type

    def _report(self, node: Node, message: str) -> Type:
        self.issues.append(Issue(node.offset, message))
        return ERROR

    def _undeclared(self, node: Node, name: str) -> Type:
        return self._report(node, f"undeclared reference to '{name}' (in container '')")

    def _mismatch(self, node: Node, expected: Type, found: Type) -> Type:
        return self._report(node, f"expected type '{self._shown(expected)}' but found '{self._shown(found)}'")

    def _shown(self, item: Type) -> str:
        return str(self._unify.resolve(item, unknown_is_dyn=True))

    def _literal(self, node: Literal) -> Type:
        match node.value:
            case bool():
                return BOOL
            case Uint():
                return UINT
            case int():
                return INT if node.value <= MAX_INT else self._report(node, "invalid int literal")
            case float():
                return DOUBLE
            case str():
                return STRING
            case bytes():
                return BYTES
        return NULL

    def _lookup(self, name: str) -> Type | None:
        if name.startswith("."):
            return self._scopes[1].get(name[1:]) or self._scopes[0].get(name[1:])
        return next((scope[name] for scope in reversed(self._scopes) if name in scope), None)

    def _ident(self, node: Ident) -> Type:
        found = self._lookup(node.name)
        if found is None:
            return self._undeclared(node, node.name)
        node.reference = node.name.lstrip(".")
        return found

    def _select(self, node: Select) -> Type:
        name = None if node.test else _qualified(node)
        if name is not None and (found := self._lookup(name)):
            node.reference = name.lstrip(".")
            return found
        result = self._field(node, node.operand, node.field, optional=False)
        return BOOL if node.test else self._unify.resolve(result)

    def _field(self, node: Node, operand: Node, field: str, optional: bool) -> Type:
        target = self._unify.resolve(self.check(operand))
        wrapped = target.name == "optional_type"
        if wrapped:
            target = target.params[0]
        result = self._field_type(node, target, field)
        return optional_of(result) if wrapped or optional else result

    def _field_type(self, node: Node, target: Type, field: str) -> Type:
        if target.name == "map":
            return target.params[1]
        if target.fields is not None:
            found = target.fields.get(field)
            return found or self._report(node, f"undefined field '{field}'")
        if target.is_param:
            self._unify.assignable(DYN, target)
        elif not target.is_dynamic:
            self._report(node, f"type '{self._shown(target)}' does not support field selection")
        return DYN

    def _call(self, node: Call) -> Type:
        for arg in node.args:
            self.check(arg)
        if node.target is None:
            return self._resolved(node, node.function)
        prefix = _qualified(node.target)
        if prefix is not None and f"{prefix}.{node.function}" in self._functions:
            node.function, node.target = f"{prefix}.{node.function}", None
            return self._resolved(node, node.function)
        self.check(node.target)
        return self._resolved(node, node.function)

    def _resolved(self, node: Call, function: str) -> Type:
        signatures = self._functions.get(function)
        if signatures is None:
            return self._undeclared(node, function)
        if function in ("_&&_", "_||_"):
            return self._logical(node, signatures[0].overload)
        given = tuple(operand.type or ERROR for operand in node.operands)
        result, overloads = None, []
        for signature in signatures:
            if signature.member != (node.target is not None) or len(signature.params) != len(given):
                continue
            types = self._unify.instantiate((signature.result, *signature.params))
            if not self._unify.all_assignable(given, types[1:]):
                continue
            overloads.append(signature.overload)
            found = self._unify.resolve(types[0])
            result = found if result is None else result if result.name in ("dyn", "any") or result == found else DYN
        node.overloads = tuple(overloads)
        return result or self._no_overload(node, function, given)

    def _no_overload(self, node: Call, function: str, given: tuple[Type, ...]) -> Type:
        shown = [self._shown(item) for item in given]
        arguments = f"({', '.join(shown)})" if node.target is None else f"{shown[0]}.({', '.join(shown[1:])})"
        return self._report(node, f"found no matching overload for '{function}' applied to '{arguments}'")

    def _logical(self, node: Call, overload: str) -> Type:
        node.overloads = (overload,)
        wrong = False
        for arg in node.args:
            if not self._unify.assignable(arg.type or ERROR, BOOL):
                self._mismatch(arg, BOOL, arg.type or ERROR)
                wrong = True
        return ERROR if wrong else BOOL

    def _list(self, node: ListNode) -> Type:
        joined: Type | None = None
        for index, element in enumerate(node.elements):
            found = self.check(element)
            if index in node.optional:
                found = self._unwrapped(element, found)
            joined = self._joined(joined, found)
        return list_of(joined or self._unify.fresh())

    def _map(self, node: MapNode) -> Type:
        key: Type | None = None
        value: Type | None = None
        for entry in node.entries:
            key = self._joined(key, self.check(entry.key))
            found = self.check(entry.value)
            if entry.optional:
                found = self._unwrapped(entry.value, found)
            value = self._joined(value, found)
        return map_of(key or self._unify.fresh(), value or self._unify.fresh())

    def _unwrapped(self, node: Node, found: Type) -> Type:
        if found.name == "optional_type":
            return found.params[0]
        if not found.is_dynamic:
            self._mismatch(node, optional_of(found), found)
        return found

    def _joined(self, previous: Type | None, current: Type) -> Type:
        """The type of elements so far. The validators reject mixed types later, except in arguments of format()."""
        if previous is None:
            return current
        return most_general(previous, current) if self._unify.assignable(previous, current) else DYN

    def _struct(self, node: StructNode) -> Type:
        for item in node.fields:
            self.check(item.value)
        if (struct := self._structs(node.name)) is not None:
            for item in node.fields:
                self._initializer(item, struct)
            return struct
        if (found := self._lookup(node.name)) is None:
            return self._undeclared(node, node.name)
        if found.name == "type":
            return self._report(node, f"'{found.params[0]}' is not a message type")
        return self._report(node, f"'{self._shown(found)}' is not a type")

    def _initializer(self, item: FieldInit, struct: Type) -> None:
        found = item.value.type or ERROR
        if item.optional:
            found = self._unwrapped(item.value, found)
        expected = None if struct.fields is None else struct.fields.get(item.name)
        if expected is None:
            self.issues.append(Issue(item.offset, f"undefined field '{item.name}'"))
        elif not self._unify.assignable(expected, found):
            types = f"'{self._shown(expected)}' but provided type is '{self._shown(found)}'"
            self.issues.append(Issue(item.offset, f"expected type of field '{item.name}' is {types}"))

    def _comprehension(self, node: Comprehension) -> Type:
        over = self._unify.resolve(self.check(node.range))
        accumulated = self.check(node.initial)
        with self._scope({node.accumulator: accumulated}):
            with self._scope(self._loop_variables(node, over)):
                self.check(node.condition)
                self._assert(node.condition, BOOL)
                self.check(node.step)
                self._assert(node.step, accumulated)
            result = self.check(node.result)
        return self._unify.resolve(result)

    def _loop_variables(self, node: Comprehension, over: Type) -> dict[str, Type]:
        first: Type
        second: Type
        if over.name == "list":
            first, second = (INT, over.params[0]) if node.variable2 else (over.params[0], ERROR)
        elif over.name == "map":
            first, second = over.params
        elif over.name in ("dyn", "*error*") or over.is_param:
            self._unify.assignable(DYN, over)
            first = second = DYN
        else:
            words = "cannot be range of a comprehension (must be list, map, or dynamic)"
            first = second = self._report(node.range, f"expression of type '{self._shown(over)}' {words}")
        return {node.variable: first, node.variable2: second} if node.variable2 else {node.variable: first}

    def _assert(self, node: Node, expected: Type) -> None:
        if not self._unify.assignable(expected, node.type or ERROR):
            self._mismatch(node, expected, node.type or ERROR)

    @contextmanager
    def _scope(self, names: dict[str, Type]) -> Iterator[None]:
        self._scopes.append(names)
        yield
        self._scopes.pop()


def _qualified(node: Node) -> str | None:
    """The dotted name that a chain of selections spells, or None if it is another expression."""
    names: list[str] = []
    while isinstance(node, Select) and not node.test:
        names.append(node.field)
        node = node.operand
    return ".".join([node.name, *reversed(names)]) if isinstance(node, Ident) else None
