"""Trees to closures: each node becomes a Python function of a frame, which holds variables and counts the cost.

The charges are cel-go's: 1 for a variable and for each selection, 10 for a list, 30 for a map, and for a call what the
table in ``charges`` says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import cast

from kubesched.cel.charges import Charge, charge_of
from kubesched.cel.checker import TYPE_NAMES
from kubesched.cel.equality import contains, keys_of
from kubesched.cel.errors import CELError, CostLimitError, EvaluationError
from kubesched.cel.functions import Registry
from kubesched.cel.regexes import compiled
from kubesched.cel.selection import field_present, qualify, qualify_optional
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
)
from kubesched.cel.values import NONE, Optional, TypeValue, key_of

LIST_COST, MAP_COST = 10, 30
_UNSET = object()
#: Conversions of constants run when the program is made, and cost nothing later.
_FOLDED = frozenset({"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"})


class Frame:
    """The state of one evaluation."""

    __slots__ = ("cost", "limit", "values")

    def __init__(self, values: list[object], limit: int) -> None:
        self.values = values
        self.cost = 0
        self.limit = limit

    def charge(self, amount: int) -> None:
        self.cost += amount
        if self.cost > self.limit:
            raise CostLimitError


Step = Callable[[Frame], object]


class Constant:
    """A step whose value is known."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value

    def __call__(self, _frame: Frame) -> object:
        return self.value


class ProgramError(CELError):
    """A conversion of a constant failed while the program was made."""


class Code:
    """The closure of an expression, and where it expects its variables."""

    def __init__(self, root: Node, registry: Registry) -> None:
        compiler = _Compiler(registry)
        self._step = compiler.compile(root)
        self._inputs = compiler.inputs
        self._size = compiler.size

    def run(self, variables: Mapping[str, object], limit: int) -> tuple[object, int]:
        """The value and the actual cost. Raises EvaluationError or CostLimitError."""
        values = [_UNSET] * self._size
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
    def __init__(self, registry: Registry) -> None:
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
                return _logical(self.compile(node.args[0]), self.compile(node.args[1]), False)
            case Call(function="_||_"):
                return _logical(self.compile(node.args[0]), self.compile(node.args[1]), True)
            case Call(function="_?_:_"):
                return self._conditional(node)
            case Call():
                return self._call(node)
            case ListNode():
                return self._list(node)
            case MapNode():
                return self._map(node)
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
                return _local(slot, cost) if initial is None else _lazy(slot, initial, cost)
        if name in TYPE_NAMES:
            return Constant(TypeValue(TYPE_NAMES[name].params[0].name if name != "null_type" else name))
        slot = self.inputs.setdefault(name, -1)
        if slot < 0:
            slot = self.inputs[name] = self._slot()
        return _input(slot, name, cost)

    def _attribute(self, node: Node, cost: int) -> Step:
        """A chain of selections and indices, evaluated in one frame. ``cost`` is the charge for its root."""
        steps: list[tuple[object, Step | None, bool]] = []
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
                root = _charged(root, cost)
        return _chain(root, steps[::-1]) if steps else root

    def _index(self, node: Node) -> Step:
        """An index or a branch of a conditional: the root of a chain is not charged there."""
        match node:
            case Ident() | Select(test=False) | Call(function="_[_]" | "_[?_]" | "_?._"):
                return self._attribute(node, 0)
        return self.compile(node)

    def _presence(self, node: Select) -> Step:
        operand, field = self.compile(node.operand), node.field
        if not isinstance(node.operand, Ident | Select) and not _is_index(node.operand):
            operand = _charged(operand, 1)

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
            return _tolerant(self.compile(node.args[0]))
        steps = [self.compile(operand) for operand in node.operands]
        if _appends(node):
            return self._append(steps[0], cast(ListNode, node.args[1]))
        if node.function == "@in" and isinstance(steps[1], Constant) and isinstance(steps[1].value, list):
            return _member_of(steps[0], steps[1].value)
        if node.function in ("matches", "find", "findAll") and isinstance(steps[1], Constant):
            _check_pattern(steps[1].value)
        charge = charge_of(node)
        dispatch = self._registry.dispatcher(node.function, node.overloads)
        run = _calling(steps, dispatch.__getitem__, charge)
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
            return _without_absent(items, optional) if optional else items

        return run

    def _map(self, node: MapNode) -> Step:
        entries = [(self.compile(entry.key), self.compile(entry.value), entry.optional) for entry in node.entries]
        if all(isinstance(key, Constant) and isinstance(value, Constant) and not opt for key, value, opt in entries):
            return Constant({_key(cast(Constant, k).value): cast(Constant, v).value for k, v, _ in entries})

        def run(frame: Frame) -> object:
            result: dict[object, object] = {}
            for key, value, optional in entries:
                name, item = _key(key(frame)), value(frame)
                if not optional:
                    result[name] = item
                elif _optional(item).present:
                    result[name] = _optional(item).value
            frame.charge(MAP_COST)
            return result

        return run

    def _bind(self, node: Comprehension) -> Step:
        """``cel.bind``: the value is computed when the name is first used."""
        slot, initial = self._slot(), self.compile(node.initial)
        self._scopes.append({node.accumulator: (slot, initial)})
        result = self.compile(node.result)
        self._scopes.pop()

        def run(frame: Frame) -> object:
            frame.values[slot] = _UNSET
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
            iterated = _iterated(over(frame), pairs)
            start = initial(frame)
            values[slot] = start.copy() if isinstance(start, list | dict) else start
            for item in iterated:
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


def _key(value: object) -> object:
    if isinstance(value, bool | int | float | str):
        return key_of(value)
    raise EvaluationError("unsupported key type")


def _optional(value: object) -> Optional:
    if isinstance(value, Optional):
        return value
    raise EvaluationError("no such overload")


def _without_absent(items: list[object], optional: frozenset[int]) -> list[object]:
    found = []
    for index, item in enumerate(items):
        if index not in optional:
            found.append(item)
        elif _optional(item).present:
            found.append(_optional(item).value)
    return found


_GO_NAMES = {
    str: "types.String",
    bool: "types.Bool",
    float: "types.Double",
    bytes: "types.Bytes",
    type(None): "types.Null",
}


def _iterated(value: object, pairs: bool) -> Iterable[object]:
    if isinstance(value, list | tuple):
        return list(enumerate(value)) if pairs else value
    if isinstance(value, Mapping):
        keys = keys_of(value)
        return [(key, value[key_of(key)]) for key in keys] if pairs else keys
    name = _GO_NAMES.get(type(value), "types.Int" if isinstance(value, int) else type(value).__name__)
    raise EvaluationError(f"got '{name}', expected iterable type")


def _local(slot: int, cost: int) -> Step:
    def run(frame: Frame) -> object:
        frame.cost += cost
        value = frame.values[slot]
        if isinstance(value, EvaluationError):
            raise value
        return value

    return run


def _lazy(slot: int, initial: Step, cost: int) -> Step:
    def run(frame: Frame) -> object:
        frame.cost += cost
        value = frame.values[slot]
        if value is _UNSET:
            value = frame.values[slot] = initial(frame)
        return value

    return run


def _input(slot: int, name: str, cost: int) -> Step:
    def run(frame: Frame) -> object:
        frame.cost += cost
        value = frame.values[slot]
        if value is _UNSET:
            raise EvaluationError(f"no such attribute(s): {name}")
        return value

    return run


def _charged(step: Step, cost: int) -> Step:
    def run(frame: Frame) -> object:
        value = step(frame)
        frame.cost += cost
        return value

    return run


def _chain(root: Step, steps: list[tuple[object, Step | None, bool]]) -> Step:
    if all(index is None and not optional for _, index, optional in steps):
        return _plain_chain(root, [key for key, _, _ in steps])

    def run(frame: Frame) -> object:
        value, wrapped = root(frame), False
        for key, index, optional in steps:
            if index is not None:
                key = index(frame)
            if isinstance(value, Optional):
                if not value.present:
                    return NONE
                value, wrapped = value.value, True
            wrapped = wrapped or optional
            if wrapped:
                found, value = qualify_optional(value, key)
                if not found:
                    return NONE
            else:
                value = qualify(value, key)
            frame.cost += 1
        return Optional(True, value) if wrapped else value

    return run


def _plain_chain(root: Step, keys: list[object]) -> Step:
    def run(frame: Frame) -> object:
        value = root(frame)
        for position, key in enumerate(keys):
            frame.cost += 1
            if isinstance(value, Optional):
                return _through_optional(value, keys[position:])
            value = qualify(value, key)
        return value

    return run


def _through_optional(value: Optional, keys: list[object]) -> Optional:
    for key in keys:
        if not value.present:
            return NONE
        found, inner = qualify_optional(value.value, key)
        value = Optional(True, inner) if found else NONE
    return value


def _logical(left: Step, right: Step, decisive: bool) -> Step:
    """``&&`` (decisive value false) and ``||`` (true): the decisive value wins over an error on the other side."""

    def run(frame: Frame) -> object:
        failure: EvaluationError | None = None
        value: object = None
        try:
            value = left(frame)
            if value is decisive:
                return decisive
        except EvaluationError as error:
            failure = error
        other = right(frame) if failure is None else _absorbed(right, frame, failure)
        if other is decisive:
            return decisive
        if failure is not None:
            raise failure
        if isinstance(value, bool) and isinstance(other, bool):
            return not decisive
        raise EvaluationError("no such overload")

    return run


def _absorbed(step: Step, frame: Frame, failure: EvaluationError) -> object:
    try:
        return step(frame)
    except EvaluationError:
        raise failure from None


def _tolerant(condition: Step) -> Step:
    """The condition of ``all`` and ``exists``: an error so far does not end the loop, a later element may decide."""

    def run(frame: Frame) -> object:
        frame.cost += 1
        try:
            return condition(frame)
        except EvaluationError:
            return True

    return run


def _member_of(item: Step, values: list[object]) -> Step:
    """``x in [constants]``: cel-go makes a set of them, and charges for the left side alone."""

    def run(frame: Frame) -> object:
        return contains(values, item(frame))

    return run


def _folded(step: Step) -> Step:
    try:
        return Constant(step(Frame([], 10**9)))
    except EvaluationError as error:
        raise ProgramError(str(error)) from None


def _calling(steps: list[Step], choose: Callable[[tuple[type, ...]], Callable[..., object]], charge: Charge) -> Step:
    cost, before, after = charge.fixed, charge.arguments, charge.result
    if len(steps) == 2 and before is None and after is None:
        left, right = steps

        def run_binary(frame: Frame) -> object:
            try:
                first, second = left(frame), right(frame)
            except EvaluationError:
                frame.charge(cost)
                raise
            frame.charge(cost)
            return choose((type(first), type(second)))(first, second)

        return run_binary

    def run(frame: Frame) -> object:
        try:
            args = [step(frame) for step in steps]
        except EvaluationError:
            frame.charge(1)
            raise
        chosen = choose(tuple(map(type, args)))
        frame.charge(cost if before is None else before(*args))
        value = chosen(*args)
        if after is not None:
            frame.charge(after(value))
        return value

    return run
