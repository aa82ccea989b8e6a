"""Unification of types: which type may stand where another is expected, and what type variables stand for."""

from kubesched.cel.types import DYN, Type

_NULLABLE = frozenset({"null", "any", "google.protobuf.Timestamp", "google.protobuf.Duration"})
_NOT_NULLABLE = frozenset({"bool", "int", "uint", "double", "string", "bytes", "list", "map", "type"})


class Unifier:
    """The substitutions found so far. A failed attempt leaves them unchanged."""

    def __init__(self) -> None:
        self._bindings: dict[str, Type] = {}
        self._count = 0

    def fresh(self) -> Type:
        """A new type variable."""
        self._count += 1
        return Type(f"_var{self._count}")

    def instantiate(self, types: tuple[Type, ...]) -> tuple[Type, ...]:
        """The types of a declaration, with fresh variables for its parameters."""
        names: dict[str, Type] = {}
        return tuple(self._renamed(item, names) for item in types)

    def _renamed(self, item: Type, names: dict[str, Type]) -> Type:
        if item.is_param:
            return names.setdefault(item.name, self.fresh()) if item.name not in names else names[item.name]
        if not item.params:
            return item
        return Type(item.name, tuple(self._renamed(param, names) for param in item.params))

    def assignable(self, left: Type, right: Type) -> bool:
        return self.all_assignable((left,), (right,))

    def all_assignable(self, left: tuple[Type, ...], right: tuple[Type, ...]) -> bool:
        saved = dict(self._bindings)
        if self._all(left, right):
            return True
        self._bindings = saved
        return False

    def _all(self, left: tuple[Type, ...], right: tuple[Type, ...]) -> bool:
        return len(left) == len(right) and all(map(self._one, left, right))

    def _one(self, left: Type, right: Type) -> bool:
        if right.is_param:
            fits, bound = self._bind(left, right)
            if fits or bound:
                return fits
        if left.is_param:
            return self._bind(right, left)[0]
        if left.is_dynamic or right.is_dynamic:
            return True
        if left.name == "null" or right.name == "null":
            return _nullable(right if left.name == "null" else left)
        if left.name != right.name:
            return False
        return left.name == "type" or self._all(left.params, right.params)

    def _bind(self, item: Type, variable: Type) -> tuple[bool, bool]:
        """Whether the variable may stand for the type, and whether it stood for something before."""
        if item == variable:
            return True, True
        known = self._bindings.get(variable.name)
        if known is None:
            if self._occurs(variable, item):
                return False, False
            self._bindings[variable.name] = item
            return True, False
        if item == known:
            return True, True
        if not self._one(item, known):
            return False, True
        general = most_general(item, known)
        if not self._occurs(variable, general):
            self._bindings[variable.name] = general
        return True, True

    def _occurs(self, variable: Type, within: Type) -> bool:
        if variable == within:
            return True
        if within.is_param:
            known = self._bindings.get(within.name)
            return known is not None and self._occurs(variable, known)
        return any(self._occurs(variable, param) for param in within.params)

    def resolve(self, item: Type, unknown_is_dyn: bool = False) -> Type:
        """The type with every known variable replaced."""
        if item.is_param:
            known = self._bindings.get(item.name)
            if known is not None:
                return self.resolve(known, unknown_is_dyn)
            return DYN if unknown_is_dyn else item
        if not item.params:
            return item
        params = tuple(self.resolve(param, unknown_is_dyn) for param in item.params)
        return Type(item.name, params, item.fields, item.max_size)


def most_general(left: Type, right: Type) -> Type:
    return left if _less_specific(left, right) else right


def _less_specific(left: Type, right: Type) -> bool:
    if left.name in ("dyn", "any") or left.is_param:
        return True
    if right.name in ("dyn", "any") or right.is_param or left.name != right.name:
        return False
    if left.name == "type":
        return True
    return len(left.params) == len(right.params) and all(map(_less_specific, left.params, right.params))


def _nullable(item: Type) -> bool:
    return item.name in _NULLABLE or item.name not in _NOT_NULLABLE
