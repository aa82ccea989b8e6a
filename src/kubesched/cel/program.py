"""Trees to closures: each node becomes a Python function of a frame, which holds variables and counts the cost.

The charges are cel-go's: 1 for a variable and for each selection, 10 for a list, 30 for a map, 40 for an object, and
for a call what the table in ``charges`` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from kubesched.cel.charges import charge_of
from kubesched.cel.checker import TYPE_NAMES
from kubesched.cel.errors import CELError, EvaluationError
from kubesched.cel.functions import FunctionRegistry
from kubesched.cel.regexes import compiled
from kubesched.cel.selection import field_present
from kubesched.cel.steps import (
    UNSET,
    Constant,
    Frame,
    Qualifier,
    Step,
    as_optional,
    calling,
    chain,
    charged,
    given,
    iterated,
    lazy,
    local,
    logical,
    map_key,
    member_of,
    tolerant,
    without_absent,
)
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
)
from kubesched.cel.values import Optional, StructValue, TypeValue

LIST_COST, MAP_COST, STRUCT_COST = 10, 30, 40
#: Conversions of constants run when the program is made, and cost nothing later.
_FOLDED = frozenset({"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"})


class ProgramError(CELError):
    """A conversion of a constant failed while the program was made."""


class Closure:
    """The closure of an expression, and where it expects its variables."""

    def __init__(self, root: Node, registry: FunctionRegistry) -> None:
        compiler = _Compiler(registry)
        self._step = compiler.compile(root)
        self._inputs = compiler.inputs
        self._size = compiler.size

    def run(self, variables: Mapping[str, object], limit: int) -> tuple[object, int]:
        """The value and the actual cost. Raises EvaluationError or CostLimitError."""
        values = [UNSET] * self._size
        for name, slot in self._inputs.items():
            if name in variables:
                values[slot] = variables[name]
        frame = Frame(values, limit)
        try:
            value = self._step(frame)
        except EvaluationError:
            frame.charge(0)
            raise
        except RecursionError:
            raise EvaluationError("evaluation is nested too deeply") from None
        frame.charge(0)
        return value, frame.cost


class _Compiler:
    def __init__(self, registry: FunctionRegistry) -> None:
        self._registry = registry
        self._scopes: list[dict[str, tuple[int, Step | None]]] = []
        self.inputs: dict[str, int] = {}
        self.size = 0

    def compile(self, node: Node) -> Step:
        match node:
            case Literal():
                return Constant(node.value)
            case Ident() | Select(test=False) | Call(function="_[_]" | "_[?_]" | "_?._"):
                return self._attribute(node, 1)
            case Select():
                return self._presence(node)
            case Call(function="_&&_"):
                return logical(self.compile(node.args[0]), self.compile(node.args[1]), False)
            case Call(function="_||_"):
                return logical(self.compile(node.args[0]), self.compile(node.args[1]), True)
            case Call(function="_?_:_"):
                return self._conditional(node)
            case Call():
                return self._call(node)
            case ListNode():
                return self._list(node)
            case MapNode():
                return self._map(node)
            case StructNode():
                return self._struct(node)
            case Comprehension():
                return self._bind(node) if node.binds else self._loop(node)
        raise EvaluationError(f"unsupported expression {type(node).__name__}")

    def _slot(self) -> int:
        self.size += 1
        return self.size - 1

    def _variable(self, name: str, cost: int) -> Step:
        for scope in reversed(self._scopes):
            if name in scope:
                slot, initial = scope[name]
                return local(slot, cost) if initial is None else lazy(slot, initial, cost)
        if name in TYPE_NAMES:
            return Constant(TypeValue(TYPE_NAMES[name].params[0].name if name != "null_type" else name))
        slot = self.inputs.setdefault(name, -1)
        if slot < 0:
            slot = self.inputs[name] = self._slot()
        return given(slot, name, cost)

    def _attribute(self, node: Node, cost: int) -> Step:
        """A chain of selections and indices, evaluated in one frame. ``cost`` is the charge for its root."""
        steps: list[Qualifier] = []
        while not node.reference:
            match node:
                case Select(test=False):
                    steps.append((node.field, None, False))
                    node = node.operand
                case Call(function="_[_]" | "_[?_]" | "_?._"):
                    index = self._index(node.args[1])
                    optional = node.function != "_[_]"
                    constant = isinstance(index, Constant)
                    steps.append(
                        (index.value if isinstance(index, Constant) else None, None if constant else index, optional)
                    )
                    node = node.args[0]
                case _:
                    break
        if node.reference:
            root = self._variable(node.reference, cost)
        elif isinstance(node, Call) and node.function == "_?_:_":
            root = self._conditional(node)
        else:
            root = self.compile(node)
            if steps:
                root = charged(root, cost)
        return chain(root, steps[::-1]) if steps else root

    def _index(self, node: Node) -> Step:
        """An index or a branch of a conditional: the root of a chain is not charged there."""
        match node:
            case Ident() | Select(test=False) | Call(function="_[_]" | "_[?_]" | "_?._"):
                return self._attribute(node, 0)
        return self.compile(node)

    def _presence(self, node: Select) -> Step:
        operand, field = self.compile(node.operand), node.field
        if not isinstance(node.operand, Ident | Select) and not _is_index(node.operand):
            operand = charged(operand, 1)

        def run(frame: Frame) -> object:
            return field_present(operand(frame), field)

        return run

    def _conditional(self, node: Call) -> Step:
        condition = self.compile(node.args[0])
        yes, no = self._index(node.args[1]), self._index(node.args[2])

        def run(frame: Frame) -> object:
            chosen = condition(frame)
            if chosen is True:
                return yes(frame)
            if chosen is False:
                return no(frame)
            raise EvaluationError("no such overload")

        return run

    def _call(self, node: Call) -> Step:
        if node.function in ("or", "orValue"):
            return self._or_value(node)
        if node.function == "@not_strictly_false":
            return tolerant(self.compile(node.args[0]))
        steps = [self.compile(operand) for operand in node.operands]
        if _appends(node):
            return self._append(steps[0], cast(ListNode, node.args[1]))
        if node.function == "@in" and isinstance(steps[1], Constant) and isinstance(steps[1].value, list):
            return member_of(steps[0], steps[1].value) if steps[1].value else Constant(False)
        if node.function in ("matches", "find", "findAll") and isinstance(steps[1], Constant):
            _check_pattern(steps[1].value)
        charge = charge_of(node)
        dispatch = self._registry.dispatcher(node.function, node.overloads)
        run = calling(steps, dispatch.__getitem__, charge)
        if node.function in _FOLDED and isinstance(steps[0], Constant) and len(steps) == 1:
            return _folded(run)
        return run

    def _append(self, accumulator: Step, items: ListNode) -> Step:
        """``result + [item]`` in a macro. The accumulator has no other reference, so it grows in place."""
        item = self.compile(items.elements[0])
        cost = (0 if isinstance(item, Constant) else LIST_COST) + 1

        def run(frame: Frame) -> object:
            target = cast(list[object], accumulator(frame))
            target.append(item(frame))
            frame.charge(cost)
            return target

        return run

    def _or_value(self, node: Call) -> Step:
        assert node.target is not None
        target, other, unwrap = self.compile(node.target), self.compile(node.args[0]), node.function == "orValue"

        def run(frame: Frame) -> object:
            value = target(frame)
            if not isinstance(value, Optional):
                raise EvaluationError("no such overload")
            if value.present:
                return value.value if unwrap else value
            return other(frame)

        return run

    def _list(self, node: ListNode) -> Step:
        steps = [self.compile(element) for element in node.elements]
        optional = node.optional
        if not optional and all(isinstance(step, Constant) for step in steps):
            return Constant([cast(Constant, step).value for step in steps])

        def run(frame: Frame) -> object:
            items = [step(frame) for step in steps]
            frame.charge(LIST_COST)
            return without_absent(items, optional) if optional else items

        return run

    def _map(self, node: MapNode) -> Step:
        entries = [(self.compile(entry.key), self.compile(entry.value), entry.optional) for entry in node.entries]
        if all(isinstance(key, Constant) and isinstance(value, Constant) and not opt for key, value, opt in entries):
            return Constant({map_key(cast(Constant, k).value): cast(Constant, v).value for k, v, _ in entries})

        def run(frame: Frame) -> object:
            result: dict[object, object] = {}
            for key, value, optional in entries:
                name, item = map_key(key(frame)), value(frame)
                if not optional:
                    result[name] = item
                elif as_optional(item).present:
                    result[name] = as_optional(item).value
            frame.charge(MAP_COST)
            return result

        return run

    def _struct(self, node: StructNode) -> Step:
        name = node.name.lstrip(".")
        fields = [(item.name, self.compile(item.value), item.optional) for item in node.fields]

        def run(frame: Frame) -> object:
            values: dict[str, object] = {}
            for field, step, optional in fields:
                value = step(frame)
                if not optional:
                    values[field] = value
                elif as_optional(value).present:
                    values[field] = as_optional(value).value
            frame.charge(STRUCT_COST)
            return StructValue(name, values)

        return run

    def _bind(self, node: Comprehension) -> Step:
        """``cel.bind``: the value is computed when the name is first used."""
        slot, initial = self._slot(), self.compile(node.initial)
        self._scopes.append({node.accumulator: (slot, initial)})
        result = self.compile(node.result)
        self._scopes.pop()

        def run(frame: Frame) -> object:
            frame.values[slot] = UNSET
            return result(frame)

        return run

    def _loop(self, node: Comprehension) -> Step:
        over, initial = self.compile(node.range), self.compile(node.initial)
        slot, first, second = self._slot(), self._slot(), self._slot()
        self._scopes.append({node.accumulator: (slot, None)})
        self._scopes.append({node.variable: (first, None), node.variable2: (second, None)})
        condition, step = self.compile(node.condition), self.compile(node.step)
        self._scopes.pop()
        result = self.compile(node.result)
        self._scopes.pop()
        pairs = bool(node.variable2)
        always = isinstance(condition, Constant)

        def run(frame: Frame) -> object:
            values = frame.values
            items = iterated(over(frame), pairs)
            start = initial(frame)
            values[slot] = start.copy() if isinstance(start, list | dict) else start
            for item in items:
                if pairs:
                    values[first], values[second] = cast(tuple[object, object], item)
                else:
                    values[first] = item
                if not always and condition(frame) is False:
                    break
                try:
                    values[slot] = step(frame)
                except EvaluationError as error:
                    if always:
                        raise
                    values[slot] = error
                frame.charge(0)
            return result(frame)

        return run


def _is_index(node: Node) -> bool:
    return isinstance(node, Call) and node.function in ("_[_]", "_[?_]", "_?._")


def _check_pattern(pattern: object) -> None:
    """A constant pattern that does not compile makes the whole program fail."""
    try:
        compiled(str(pattern))
    except EvaluationError as error:
        raise ProgramError(str(error)) from None


def _appends(node: Call) -> bool:
    if node.function != "_+_" or not isinstance(node.args[1], ListNode) or len(node.args[1].elements) != 1:
        return False
    return isinstance(node.args[0], Ident) and node.args[0].name == ACCUMULATOR


def _folded(step: Step) -> Step:
    try:
        return Constant(step(Frame([], 10**9)))
    except EvaluationError as error:
        raise ProgramError(str(error)) from None
