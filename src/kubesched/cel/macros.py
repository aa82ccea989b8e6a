"""The macros of Kubernetes' environment: has, the comprehensions with one and two variables, optionals and cel.bind."""

from collections.abc import Callable

from kubesched.cel.errors import ParseError
from kubesched.cel.syntax import (
    ACCUMULATOR,
    UNUSED,
    Call,
    Comprehension,
    Ident,
    ListNode,
    Literal,
    MapNode,
    Node,
    Select,
    duplicate,
    measured,
)

Macro = Callable[[int, Node | None, list[Node]], Node | None]


def expand(offset: int, function: str, target: Node | None, args: list[Node]) -> Node | None:
    """The expansion of a call, or None if the call is no macro."""
    macro = _MACROS.get((function, len(args), target is not None))
    return macro(offset, target, args) if macro else None


def _has(offset: int, target: Node | None, args: list[Node]) -> Node:
    operand = args[0]
    if not isinstance(operand, Select) or operand.test:
        raise ParseError(operand.offset, "invalid argument to has() macro")
    return measured(Select(operand.operand, operand.field, test=True, offset=offset))


class _Builder:
    """Makes the nodes of one expansion, all at the position of the macro's call."""

    def __init__(self, offset: int) -> None:
        self.offset = offset

    def literal(self, value: object) -> Node:
        return Literal(value, offset=self.offset)

    def ident(self, name: str) -> Node:
        return Ident(name, offset=self.offset)

    def result(self) -> Node:
        return self.ident(ACCUMULATOR)

    def call(self, function: str, *args: Node, target: Node | None = None) -> Node:
        return measured(Call(function, list(args), target, offset=self.offset))

    def list(self, *elements: Node) -> Node:
        return measured(ListNode(list(elements), offset=self.offset))

    def append(self, element: Node) -> Node:
        return self.call("_+_", self.result(), self.list(element))

    def when(self, condition: Node | None, step: Node) -> Node:
        return step if condition is None else self.call("_?_:_", condition, step, self.result())

    def loop(self, over: Node | None, names: tuple[str, str], initial: Node, condition: Node, step: Node) -> Node:
        return self.fold(over, names, initial, condition, step, self.result())

    def fold(
        self, over: Node | None, names: tuple[str, str], initial: Node, condition: Node, step: Node, result: Node
    ) -> Node:
        assert over is not None
        node = Comprehension(over, *names, ACCUMULATOR, initial, condition, step, result, offset=self.offset)
        return measured(node)

    def bind(self, name: str, value: Node, result: Node) -> Node:
        loop = (self.list(), UNUSED, "", name, value, self.literal(False), self.ident(name), result)
        return measured(Comprehension(*loop, offset=self.offset))


def _name(node: Node, message: str) -> str:
    if not isinstance(node, Ident):
        raise ParseError(node.offset, message)
    if node.name in (ACCUMULATOR, "__result__"):
        raise ParseError(node.offset, "iteration variable overwrites accumulator variable")
    return node.name


def _one(args: list[Node], message: str = "argument must be a simple name") -> tuple[str, str]:
    return _name(args[0], message), ""


def _two(args: list[Node]) -> tuple[str, str]:
    first = _name(args[0], "argument must be a simple name")
    second = _name(args[1], "argument must be a simple name")
    if first == second:
        raise ParseError(args[1].offset, f"duplicate variable name: {second}")
    return first, second


def _quantifier(variables: int, kind: str) -> Macro:
    names = _one if variables == 1 else _two

    def macro(offset: int, target: Node | None, args: list[Node]) -> Node:
        make, predicate = _Builder(offset), args[-1]
        if kind == "all":
            condition = make.call("@not_strictly_false", make.result())
            step = make.call("_&&_", make.result(), predicate)
            return make.loop(target, names(args), make.literal(True), condition, step)
        if kind == "exists":
            condition = make.call("@not_strictly_false", make.call("!_", make.result()))
            step = make.call("_||_", make.result(), predicate)
            return make.loop(target, names(args), make.literal(False), condition, step)
        step = make.when(predicate, make.call("_+_", make.result(), make.literal(1)))
        result = make.call("_==_", make.result(), make.literal(1))
        return make.fold(target, names(args), make.literal(0), make.literal(True), step, result)

    return macro


def _to_list(offset: int, target: Node | None, names: tuple[str, str], condition: Node | None, item: Node) -> Node:
    make = _Builder(offset)
    return make.loop(target, names, make.list(), make.literal(True), make.when(condition, make.append(item)))


def _map(offset: int, target: Node | None, args: list[Node]) -> Node:
    return _to_list(offset, target, _one(args), args[1] if len(args) == 3 else None, args[-1])


def _filter(offset: int, target: Node | None, args: list[Node]) -> Node:
    names = _one(args)
    return _to_list(offset, target, names, args[1], Ident(names[0], offset=args[0].offset))


def _transform_list(offset: int, target: Node | None, args: list[Node]) -> Node:
    return _to_list(offset, target, _two(args), args[2] if len(args) == 4 else None, args[-1])


def _transform_map(entries: bool) -> Macro:
    def macro(offset: int, target: Node | None, args: list[Node]) -> Node:
        make, names = _Builder(offset), _two(args)
        parts = [args[-1]] if entries else [make.ident(names[0]), args[-1]]
        step = make.when(args[2] if len(args) == 4 else None, make.call("cel.@mapInsert", make.result(), *parts))
        return make.loop(target, names, MapNode([], offset=offset), make.literal(True), step)

    return macro


def _opt_map(flat: bool) -> Macro:
    function = "optFlatMap" if flat else "optMap"

    def macro(offset: int, target: Node | None, args: list[Node]) -> Node:
        assert target is not None
        make = _Builder(offset)
        if not isinstance(args[0], Ident):
            raise ParseError(args[0].offset, f"{function}() variable name must be a simple identifier")
        value = make.bind(args[0].name, make.call("value", target=duplicate(target)), args[1])
        present = value if flat else make.call("optional.of", value)
        return make.call("_?_:_", make.call("hasValue", target=target), present, make.call("optional.none"))

    return macro


def _sort_by(offset: int, target: Node | None, args: list[Node]) -> Node:
    assert target is not None
    if isinstance(target, Literal | MapNode):
        message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise ParseError(target.offset, message)
    make, name = _Builder(offset), "@__sortBy_input__"
    keys = _to_list(offset, make.ident(name), (_name(args[0], "argument is not an identifier"), ""), None, args[1])
    return make.bind(name, target, make.call("@sortByAssociatedKeys", keys, target=make.ident(name)))


def _bind(offset: int, target: Node | None, args: list[Node]) -> Node | None:
    if not isinstance(target, Ident) or target.name != "cel":
        return None
    if not isinstance(args[0], Ident):
        raise ParseError(args[0].offset, "cel.bind() variable names must be simple identifiers")
    return _Builder(offset).bind(args[0].name, args[1], args[2])


_MACROS: dict[tuple[str, int, bool], Macro] = {
    ("has", 1, False): _has,
    ("map", 2, True): _map,
    ("map", 3, True): _map,
    ("filter", 2, True): _filter,
    ("transformList", 3, True): _transform_list,
    ("transformList", 4, True): _transform_list,
    ("transformMap", 3, True): _transform_map(entries=False),
    ("transformMap", 4, True): _transform_map(entries=False),
    ("transformMapEntry", 3, True): _transform_map(entries=True),
    ("transformMapEntry", 4, True): _transform_map(entries=True),
    ("optMap", 2, True): _opt_map(flat=False),
    ("optFlatMap", 2, True): _opt_map(flat=True),
    ("sortBy", 2, True): _sort_by,
    ("bind", 3, True): _bind,
    **{
        (name, count + 1, True): _quantifier(count, kind)
        for name, kind in (("all", "all"), ("exists", "exists"), ("exists_one", "one"), ("existsOne", "one"))
        for count in (1, 2)
        if (name, count) != ("existsOne", 1)
    },
}
