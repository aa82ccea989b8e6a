"""The estimated cost of an expression, before it runs: what the API server compares with its limits at admission."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kubesched.cel.estimates import Estimate, estimate_call
from kubesched.cel.ranges import EMPTY, ONE, UNKNOWN, ZERO, Range
from kubesched.cel.syntax import (
    ACCUMULATOR,
    Call,
    Comprehension,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Node,
    Select,
    StructNode,
    children,
)
from kubesched.cel.types import Type

_LIST, _MAP, _STRUCT = Range.fixed(10), Range.fixed(30), Range.fixed(40)
_SCALARS = frozenset({"bool", "double", "int", "uint", "google.protobuf.Duration", "google.protobuf.Timestamp"})

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Entries:
    """The sizes of the keys and values of a container."""

    kind: str
    key: Range
    value: Range


@dataclass(frozen=True, slots=True)
class _Local:
    path: Path
    size: Range | None
    entries: Entries | None = None


def estimate(root: Node, variables: Mapping[str, Type], rest: Type | None = None) -> Range:
    """The least and the greatest cost of an expression over variables of these types.

    Whatever else an expression comes from, such as a list that it makes, counts as of the type `rest`.
    """
    return _Coster(variables, rest).cost(root)


class _Coster:
    def __init__(self, variables: Mapping[str, Type], rest: Type | None) -> None:
        self._variables = variables
        self._rest = rest
        self._locals: dict[str, list[_Local]] = {}
        self._paths: dict[int, Path] = {}
        self._sizes: dict[int, Range] = {}
        self._entries: dict[int, Entries] = {}

    def cost(self, node: Node) -> Range:
        match node:
            case Ident():
                local = self._local(node)
                self._paths[id(node)] = local.path if local else (node.name,)
                return ONE
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListNode():
                return self._list(node)
            case MapNode():
                return self._map(node)
            case StructNode():
                return sum(map(self.cost, children(node)), _STRUCT)
            case Comprehension():
                return self._bind(node) if node.binds else self._loop(node)
        return ZERO

    # Sizes.

    def size(self, node: Node) -> Range | None:
        """The size that a node may have, or None if nothing is known about it."""
        known = self._sizes.get(id(node)) or _literal_size(node)
        if known is not None:
            return known
        declared = self._declared(self._path(node))
        if declared is not None:
            self._sizes[id(node)] = declared
            return declared
        if _scalar(node.type):
            return ONE
        local = self._local(node)
        return local.size if local else None

    def item_size(self, node: Node) -> Range:
        """The size that an element of a list may have."""
        path = self._path(node)
        declared = self._declared((*path, "@items")) if path else None
        return declared or UNKNOWN

    def _declared(self, path: Path) -> Range | None:
        """The size from the declaration of a variable: follow fields, items, keys and values."""
        if not path:
            return None
        kind = self._variables.get(path[0], self._rest)
        for name in path[1:]:
            kind = _member(kind, name) if kind is not None else None
        return None if kind is None or kind.max_size is None else Range(0, kind.max_size)

    def _local(self, node: Node) -> _Local | None:
        stack = self._locals.get(node.name) if isinstance(node, Ident) else None
        return stack[-1] if stack else None

    def _path(self, node: Node) -> Path:
        local = self._local(node)
        path = local.path if local else self._paths.get(id(node), ())
        return () if path and path[0] == ACCUMULATOR else path

    def _entries_of(self, node: Node) -> Entries | None:
        local = self._local(node)
        return self._entries.get(id(node)) or (local.entries if local else None)

    def _copy_sizes(self, target: Node, source: Node) -> None:
        self._set_size(target, self.size(source))
        self._set_entries(target, self._entries_of(source))

    def _set_size(self, node: Node, size: Range | None) -> None:
        if size is not None:
            self._sizes[id(node)] = size

    def _set_entries(self, node: Node, entries: Entries | None) -> None:
        if entries is not None:
            self._entries[id(node)] = entries

    # Costs.

    def _select(self, node: Select) -> Range:
        if node.reference:
            self._paths[id(node)] = (node.reference,)
            return ONE
        cost = self.cost(node.operand)
        if node.test:
            return cost
        kind = node.operand.type
        if kind is not None and (kind.name == "map" or kind.fields is not None):
            cost += ONE
        self._paths[id(node)] = (*self._path(node.operand), node.field)
        return cost

    def _call(self, node: Call) -> Range:
        if node.function == "dyn":
            cost = self.cost(node.args[0]) + ONE
            self._copy_sizes(node, node.args[0])
            return cost
        arguments = [self.cost(arg) for arg in node.args]
        target = ZERO if node.target is None else self.cost(node.target)
        total, size = EMPTY, None
        for overload in node.overloads:
            found = self._overload(node, overload, arguments)
            total |= found.cost
            if found.size is not None:
                size = found.size if size is None else size | found.size
            if overload in ("index_list", "index_map"):
                entries = self._entries_of(node.args[0])
                size = entries.value if entries else None
                step = "@items" if overload == "index_list" else "@values"
                self._paths[id(node)] = (*self._path(node.args[0]), step)
            if size is None:
                size = self.size(node)
        self._set_size(node, size)
        return target + total

    def _overload(self, node: Call, overload: str, arguments: list[Range]) -> Estimate:
        if overload in ("logical_and", "logical_or"):
            left, right = arguments
            return Estimate(Range(left.min, (left + right).max))
        if overload == "conditional":
            return self._conditional(node, arguments)
        if overload in ("add_string", "add_bytes", "add_list"):
            self._set_entries(node, _union(self._entries_of(node.args[0]), self._entries_of(node.args[1])))
        found = estimate_call(self, node, overload)
        return Estimate(sum(arguments, found.cost), found.size)

    def _conditional(self, node: Call, arguments: list[Range]) -> Estimate:
        condition, yes, no = arguments
        size = (self.size(node.args[1]) or UNKNOWN) | (self.size(node.args[2]) or UNKNOWN)
        self._set_entries(node, _union(self._entries_of(node.args[1]), self._entries_of(node.args[2])))
        return Estimate(condition + (yes | no), size)

    def _list(self, node: ListNode) -> Range:
        total, item = _LIST, EMPTY if node.elements else ZERO
        for element in node.elements:
            total += self.cost(element)
            item |= self.size(element) or UNKNOWN
        self._entries[id(node)] = Entries("list", ONE, item)
        return total

    def _map(self, node: MapNode) -> Range:
        total, key, value = _MAP, *((EMPTY, EMPTY) if node.entries else (ZERO, ZERO))
        for entry in node.entries:
            total += self.cost(entry.key) + self.cost(entry.value)
            key |= self.size(entry.key) or UNKNOWN
            value |= self.size(entry.value) or UNKNOWN
        self._entries[id(node)] = Entries("map", key, value)
        return total

    def _bind(self, node: Comprehension) -> Range:
        cost = self.cost(node.range) + self.cost(node.initial)
        self._push(node.accumulator, self._bound(node.initial))
        cost += self.cost(node.result)
        self._copy_sizes(node, node.result)
        self._locals[node.accumulator].pop()
        return cost

    def _loop(self, node: Comprehension) -> Range:
        cost = self.cost(node.range) + self.cost(node.initial)
        self._push(node.accumulator, self._bound(node.initial))
        names = self._push_variables(node)
        each = self.cost(node.condition) + self.cost(node.step)
        for name in names:
            self._locals[name].pop()
        cost += self.cost(node.result)
        self._locals[node.accumulator].pop()
        count = self.size(node.range) or UNKNOWN
        if isinstance(node.initial, Literal):
            self._set_size(node, self.size(node.initial))
        elif isinstance(node.initial, ListNode | MapNode):
            self._set_size(node, count)
            self._set_entries(node, self._entries_of(node.step))
        return cost + count * each

    def _bound(self, node: Node) -> _Local:
        return _Local(self._path(node), self.size(node), self._entries_of(node))

    def _push(self, name: str, local: _Local) -> None:
        self._locals.setdefault(name, []).append(local)

    def _push_variables(self, node: Comprehension) -> list[str]:
        entries, path = self._entries_of(node.range), self._path(node.range)
        listed = (entries.kind if entries else node.range.type.name if node.range.type else "") == "list"
        key = _Local((*path, "@indices" if listed else "@keys"), entries.key if entries else None)
        value = _Local((*path, "@items" if listed else "@values"), entries.value if entries else None)
        if not node.variable2:
            self._push(node.variable, value if listed else key)
            return [node.variable]
        self._push(node.variable, key)
        self._push(node.variable2, value)
        return [node.variable, node.variable2]


def _member(kind: Type, name: str) -> Type | None:
    if name == "@keys":
        return kind.params[0] if kind.name == "map" else None
    if name in ("@items", "@values"):
        return kind.params[-1] if kind.params else None
    if kind.fields is not None:
        return kind.fields.get(name)
    # The values of a map have one size, whatever their key.
    return kind.params[1] if kind.name == "map" and kind.params[1].is_dynamic else None


def _union(left: Entries | None, right: Entries | None) -> Entries | None:
    if left is None or right is None:
        return None
    return Entries(left.kind, left.key | right.key, left.value | right.value)


def _literal_size(node: Node) -> Range | None:
    match node:
        case Literal():
            return Range.fixed(len(node.value) if isinstance(node.value, str | bytes) else 1)
        case ListNode():
            return Range.fixed(len(node.elements))
        case MapNode():
            return Range.fixed(len(node.entries))
    return None


def _scalar(kind: Type | None) -> bool:
    if kind is None:
        return False
    return kind.name in _SCALARS or (kind.name == "optional_type" and _scalar(kind.params[0]))
