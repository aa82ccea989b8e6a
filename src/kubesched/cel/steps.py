"""The closures that a program is made of: each takes a frame and returns a value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kubesched.cel.charges import Charge
from kubesched.cel.equality import contains, keys_of
from kubesched.cel.errors import CostLimitError, EvaluationError
from kubesched.cel.selection import qualify, qualify_optional
from kubesched.cel.values import NONE, Optional, key_of

#: The value of a variable that has none yet.
UNSET = object()
#: One selection or index: a constant key, or a step that computes it; and whether it is optional.
Qualifier = tuple[object, "Step | None", bool]


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


def map_key(value: object) -> object:
    if isinstance(value, bool | int | float | str):
        return key_of(value)
    raise EvaluationError("unsupported key type")


def as_optional(value: object) -> Optional:
    if isinstance(value, Optional):
        return value
    raise EvaluationError("no such overload")


def without_absent(items: list[object], optional: frozenset[int]) -> list[object]:
    found = []
    for index, item in enumerate(items):
        if index not in optional:
            found.append(item)
        elif as_optional(item).present:
            found.append(as_optional(item).value)
    return found


_GO_NAMES = {
    str: "types.String",
    bool: "types.Bool",
    float: "types.Double",
    bytes: "types.Bytes",
    type(None): "types.Null",
}


def iterated(value: object, pairs: bool) -> Iterable[object]:
    if isinstance(value, list | tuple):
        return list(enumerate(value)) if pairs else value
    if isinstance(value, Mapping):
        keys = keys_of(value)
        return [(key, value[key_of(key)]) for key in keys] if pairs else keys
    name = _GO_NAMES.get(type(value), "types.Int" if isinstance(value, int) else type(value).__name__)
    raise EvaluationError(f"got '{name}', expected iterable type")


def local(slot: int, cost: int) -> Step:
    def run(frame: Frame) -> object:
        frame.cost += cost
        value = frame.values[slot]
        if isinstance(value, EvaluationError):
            raise value
        return value

    return run


def lazy(slot: int, initial: Step, cost: int) -> Step:
    def run(frame: Frame) -> object:
        frame.cost += cost
        value = frame.values[slot]
        if value is UNSET:
            value = frame.values[slot] = initial(frame)
        return value

    return run


def given(slot: int, name: str, cost: int) -> Step:
    def run(frame: Frame) -> object:
        frame.cost += cost
        value = frame.values[slot]
        if value is UNSET:
            raise EvaluationError(f"no such attribute(s): {name}")
        return value

    return run


def charged(step: Step, cost: int) -> Step:
    def run(frame: Frame) -> object:
        value = step(frame)
        frame.cost += cost
        return value

    return run


def chain(root: Step, steps: list[Qualifier]) -> Step:
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
                frame.cost += 1
            else:
                frame.cost += 1
                value = qualify(value, key)
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


def logical(left: Step, right: Step, decisive: bool) -> Step:
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


def tolerant(condition: Step) -> Step:
    """The condition of ``all`` and ``exists``: an error so far does not end the loop, a later element may decide."""

    def run(frame: Frame) -> object:
        frame.cost += 1
        try:
            return condition(frame)
        except EvaluationError:
            return True

    return run


def member_of(item: Step, values: list[object]) -> Step:
    """``x in [constants]``: cel-go makes a set of them, and charges for the left side alone."""

    def run(frame: Frame) -> object:
        return contains(values, item(frame))

    return run


def calling(steps: list[Step], choose: Callable[[tuple[type, ...]], Callable[..., object]], charge: Charge) -> Step:
    """A call: evaluate the arguments, choose the overload by their classes, charge, run."""
    cost, before, after = charge.fixed, charge.arguments, charge.result
    if len(steps) == 2 and before is None and after is None:
        left, right = steps

        def run_binary(frame: Frame) -> object:
            try:
                first, second = left(frame), right(frame)
            except EvaluationError:
                _charge_failure(frame, steps)
                raise
            frame.charge(cost)
            return choose((type(first), type(second)))(first, second)

        return run_binary

    def run(frame: Frame) -> object:
        try:
            args = [step(frame) for step in steps]
        except EvaluationError:
            _charge_failure(frame, steps)
            raise
        chosen = choose(tuple(map(type, args)))
        frame.charge(cost if before is None else before(*args))
        value = chosen(*args)
        if after is not None:
            frame.charge(after(value))
        return value

    return run


def _charge_failure(frame: Frame, steps: list[Step]) -> None:
    """A call with one or two arguments is charged even if an argument failed."""
    if len(steps) < 3:
        frame.charge(1)
