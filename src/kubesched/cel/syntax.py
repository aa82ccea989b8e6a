"""The abstract syntax tree of an expression, after macros are expanded.

The checker stores what it finds on the nodes: the type of each node, the overloads of each call, and the full name that
an identifier or a chain of selections stands for.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubesched.cel.types import Type

#: The hidden variable in which a macro accumulates its result. No source text can spell it.
ACCUMULATOR = "@result"
#: The iteration variable of a comprehension that iterates over nothing (``cel.bind``).
UNUSED = "#unused"


@dataclass(eq=False, slots=True, kw_only=True)
class Node:
    offset: int
    depth: int = 1
    #: The number of nodes from here down.
    weight: int = 1
    type: Type | None = field(default=None, repr=False)
    #: The dotted name of a variable or a type that this node stands for.
    reference: str = ""


@dataclass(eq=False, slots=True)
class Literal(Node):
    value: object
    #: In parentheses: a minus sign before it does not belong to the literal.
    closed: bool = False


@dataclass(eq=False, slots=True)
class Ident(Node):
    name: str


@dataclass(eq=False, slots=True)
class Select(Node):
    operand: Node
    field: str
    #: True for ``has(operand.field)``.
    test: bool = False


@dataclass(eq=False, slots=True)
class Call(Node):
    function: str
    args: list[Node]
    target: Node | None = None
    overloads: tuple[str, ...] = ()

    @property
    def operands(self) -> list[Node]:
        return self.args if self.target is None else [self.target, *self.args]


@dataclass(eq=False, slots=True)
class ListNode(Node):
    elements: list[Node]
    #: The indices of elements written as ``?element``.
    optional: frozenset[int] = frozenset()


@dataclass(eq=False, slots=True)
class Entry:
    key: Node
    value: Node
    optional: bool
    offset: int


@dataclass(eq=False, slots=True)
class MapNode(Node):
    entries: list[Entry]


@dataclass(eq=False, slots=True)
class FieldInit:
    name: str
    value: Node
    optional: bool
    offset: int


@dataclass(eq=False, slots=True)
class StructNode(Node):
    name: str
    fields: list[FieldInit]


@dataclass(eq=False, slots=True)
class Comprehension(Node):
    """A loop: every macro over lists and maps, and ``cel.bind``, which iterates over an empty list."""

    range: Node
    variable: str
    variable2: str
    accumulator: str
    initial: Node
    condition: Node
    step: Node
    result: Node

    @property
    def binds(self) -> bool:
        """Whether this is ``cel.bind``: a name for a value, without a loop."""
        return self.accumulator != ACCUMULATOR


def children(node: Node) -> list[Node]:
    match node:
        case Select():
            return [node.operand]
        case Call():
            return node.operands
        case ListNode():
            return node.elements
        case MapNode():
            return [part for entry in node.entries for part in (entry.key, entry.value)]
        case StructNode():
            return [item.value for item in node.fields]
        case Comprehension():
            return [node.range, node.initial, node.condition, node.step, node.result]
    return []


def measured(node: Node) -> Node:
    """Set the depth and the weight of a new node from its children."""
    parts = children(node)
    if parts:
        node.depth = 1 + max(part.depth for part in parts)
        node.weight = 1 + sum(part.weight for part in parts)
    return node


def duplicate(node: Node) -> Node:
    """A deep copy, for macros that use an argument twice: the checker writes to nodes."""
    match node:
        case Select():
            return replace(node, operand=duplicate(node.operand))
        case Call():
            target = None if node.target is None else duplicate(node.target)
            return replace(node, args=list(map(duplicate, node.args)), target=target)
        case ListNode():
            return replace(node, elements=list(map(duplicate, node.elements)))
        case MapNode():
            entries = [replace(entry, key=duplicate(entry.key), value=duplicate(entry.value)) for entry in node.entries]
            return replace(node, entries=entries)
        case StructNode():
            return replace(node, fields=[replace(item, value=duplicate(item.value)) for item in node.fields])
        case Comprehension():
            return replace(
                node,
                range=duplicate(node.range),
                initial=duplicate(node.initial),
                condition=duplicate(node.condition),
                step=duplicate(node.step),
                result=duplicate(node.result),
            )
    return replace(node)
