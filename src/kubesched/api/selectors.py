"""Label and node selectors, compiled: checked once, compared by value, evaluated for one object or for a whole column.

A selector arrives as JSON in many equivalent spellings. Compiled, it is a sorted tuple of requirements, so two pods
that select the same thing have equal, hashable selectors and can share one array of counts. A requirement
depends on the value of one key and nothing else, so a column of label values needs one evaluation per distinct value.

What upstream does with selectors that do not parse differs from place to place:

* A label selector is refused as a whole (`label_selector` raises). What that means is up to the caller: an affinity
  term makes the pod fail, a disruption budget or replica set with such a selector is ignored.
* In a pod's *required* node affinity a term that does not parse matches no node, and the error is reported only if no
  other term matches. The NodeAffinity filter ignores even that and says the node does not match; the topology of a
  volume reports it.
* *Preferred* terms are parsed together: one invalid term with a nonzero weight makes the attempt fail.
* Affinity from the scheduler's own configuration must parse entirely, or the scheduler does not start.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kubesched.api import objects
from kubesched.api.names import label_key_errors, label_value_errors

IN = "In"
NOT_IN = "NotIn"
EXISTS = "Exists"
DOES_NOT_EXIST = "DoesNotExist"
GT = "Gt"
LT = "Lt"

NAME_FIELD = "metadata.name"

_LABEL_OPERATORS = (IN, NOT_IN, EXISTS, DOES_NOT_EXIST)
_NODE_OPERATORS = (*_LABEL_OPERATORS, GT, LT)
_FIELD_OPERATORS = (IN, NOT_IN)


class SelectorError(ValueError):
    """A selector that does not parse; the text is upstream's."""


class Requirement(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """A condition on the value of one key. The result depends on that value alone."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches_value(self, value: str | None) -> bool:
        """Whether an object whose key has this value matches; None means that it does not have the key."""
        operator = self.operator
        if operator == IN:
            return value in self.values
        if operator == NOT_IN:
            return value not in self.values
        if operator == EXISTS:
            return value is not None
        if operator == DOES_NOT_EXIST:
            return value is None
        return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        number = None if value is None else _int64(value)
        bound = _int64(next(iter(self.values)))
        if number is None or bound is None:
            return False
        return number > bound if self.operator == GT else number < bound


def equals(key: str, value: str) -> Requirement:
    """The requirement that ``key`` is there and has this value."""
    return Requirement(key, IN, frozenset((value,)))


_INTEGER = re.compile(r"[+-]?[0-9]{1,64}")


def _int64(text: str) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


# --- label selectors --------------------------------------------------------------------------------------------------


class Selector(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """Requirements that must all hold; none at all select everything, unless this is the selector of nothing."""

    requirements: tuple[Requirement, ...] = ()
    matches_nothing: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether it selects everything. The selector of nothing is not empty in this sense."""
        return not self.requirements and not self.matches_nothing

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.matches_nothing:
            return False
        for requirement in self.requirements:  # noqa: SIM110 - called per pod; a generator would double its cost
            if not requirement.matches_value(labels.get(requirement.key)):
                return False
        return True


EVERYTHING = Selector()
NOTHING = Selector(matches_nothing=True)


def label_selector(selector: objects.LabelSelector | None) -> Selector:
    """A label selector compiled; an absent one selects nothing, an empty one everything."""
    if selector is None:
        return NOTHING
    requirements = []
    for key, value in sorted(selector.match_labels.items()):
        _check(key, "Equals", (value,))
        requirements.append(equals(key, value))
    for expression in selector.match_expressions:
        if expression.operator not in _LABEL_OPERATORS:
            raise SelectorError(f"{_quote(expression.operator)} is not a valid label selector operator")
        _check(expression.key, expression.operator, expression.values)
        requirements.append(Requirement(expression.key, expression.operator, frozenset(expression.values)))
    return _selector(requirements)


def selector_from_map(labels: Mapping[str, str]) -> Selector:
    """The selector of everything that has all these labels. As upstream, keys and values are not validated."""
    return _selector(equals(key, value) for key, value in labels.items())


def with_requirements(selector: Selector, extra: Iterable[Requirement]) -> Selector:
    """The selector narrowed further; a selector of nothing stays one."""
    return selector if selector.matches_nothing else _selector((*selector.requirements, *extra))


def _selector(requirements: Iterable[Requirement]) -> Selector:
    return Selector(_ordered(requirements))


def _ordered(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    return tuple(sorted(set(requirements), key=lambda r: (r.key, r.operator, sorted(r.values))))


# --- node selectors ---------------------------------------------------------------------------------------------------


class CompiledNodeTerm(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """Requirements on labels and on fields, all of which must hold."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        return all(r.matches_value(labels.get(r.key)) for r in self.labels) and self.matches_name(node_name)

    def matches_name(self, node_name: str) -> bool:
        """Whether the field requirements hold. As upstream, they are not checked for a node without a name."""
        return not node_name or all(r.matches_value(field_value(r.key, node_name)) for r in self.fields)


def field_value(key: str, node_name: str) -> str:
    """The value that a field requirement is compared with. The node's name is the only field; any other is empty."""
    return node_name if key == NAME_FIELD else ""


class CompiledNodeSelector(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """Terms of which one must hold. Those that do not parse are left out; `error` says what is wrong with them."""

    terms: tuple[CompiledNodeTerm, ...] = ()
    error: str = ""

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        return any(term.matches(labels, node_name) for term in self.terms)


def node_selector(selector: objects.NodeSelector) -> CompiledNodeSelector:
    """A required node selector compiled. It never raises: see `NodeSelector.error`. An empty term matches nothing."""
    terms = []
    errors: list[str] = []
    for index, term in enumerate(selector.node_selector_terms):
        compiled, problems = _term(term, f"nodeSelectorTerms[{index}]")
        errors += problems
        if compiled is not None and not problems:
            terms.append(compiled)
    return CompiledNodeSelector(tuple(terms), _aggregate(errors))


def strict_node_selector(selector: objects.NodeSelector) -> CompiledNodeSelector:
    """Like `node_selector`, but every term must parse."""
    compiled = node_selector(selector)
    if compiled.error:
        raise SelectorError(compiled.error)
    return compiled


class CompiledPreferredTerm(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    weight: int
    term: CompiledNodeTerm


class PreferredSchedulingTerms(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """Terms with weights; a node's score is the sum of the weights of those that match it."""

    terms: tuple[CompiledPreferredTerm, ...] = ()

    def score(self, labels: Mapping[str, str], node_name: str) -> int:
        return sum(preferred.weight for preferred in self.terms if preferred.term.matches(labels, node_name))


def preferred_terms(terms: Sequence[objects.PreferredSchedulingTerm]) -> PreferredSchedulingTerms:
    """Preferred terms compiled. Terms without weight or content are skipped; others that do not parse raise."""
    compiled = []
    errors: list[str] = []
    for index, preferred in enumerate(terms):
        if preferred.weight == 0:
            continue
        term, problems = _term(preferred.preference, f"[{index}]")
        errors += problems
        if term is not None:
            compiled.append(CompiledPreferredTerm(preferred.weight, term))
    if errors:
        raise SelectorError(_aggregate(errors))
    return PreferredSchedulingTerms(tuple(compiled))


class RequiredNodeAffinity(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """Everything a pod requires of its node's labels and name: its node selector and its required node affinity."""

    selector: Selector = EVERYTHING
    affinity: CompiledNodeSelector | None = None

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        return self.selector.matches(labels) and (self.affinity is None or self.affinity.matches(labels, node_name))


def required_node_affinity(pod: objects.Pod) -> RequiredNodeAffinity:
    """What ``pod`` requires; affinity terms that do not parse match nothing."""
    affinity = pod.spec.affinity
    node_affinity = affinity.node_affinity if affinity else None
    required = node_affinity.required_during_scheduling_ignored_during_execution if node_affinity else None
    return RequiredNodeAffinity(
        selector_from_map(pod.spec.node_selector), None if required is None else node_selector(required)
    )


def _term(term: objects.NodeSelectorTerm, path: str) -> tuple[CompiledNodeTerm | None, list[str]]:
    """A term compiled, or None for one that is empty, with what is wrong with it."""
    if not term.match_expressions and not term.match_fields:
        return None, []
    errors = []
    for index, expression in enumerate(term.match_expressions):
        errors += _expression_errors(f"{path}.matchExpressions[{index}]", expression)
    for index, expression in enumerate(term.match_fields):
        errors += _field_errors(f"{path}.matchFields[{index}]", expression)
    return CompiledNodeTerm(_requirements(term.match_expressions), _requirements(term.match_fields)), errors


def _requirements(expressions: Iterable[objects.NodeSelectorRequirement]) -> tuple[Requirement, ...]:
    return _ordered(Requirement(e.key, e.operator, frozenset(e.values)) for e in expressions)


# --- checking, in upstream's words ------------------------------------------------------------------------------------


def _check(key: str, operator: str, values: Sequence[str]) -> None:
    errors = _requirement_errors("", key, operator, values)
    if errors:
        raise SelectorError(_aggregate(errors))


def _expression_errors(path: str, expression: objects.NodeSelectorRequirement) -> list[str]:
    if expression.operator not in _NODE_OPERATORS:
        return [_unsupported(f"{path}.operator", expression.operator, _NODE_OPERATORS)]
    return _requirement_errors(f"{path}.", expression.key, expression.operator, expression.values)


def _field_errors(path: str, expression: objects.NodeSelectorRequirement) -> list[str]:
    if expression.operator not in _FIELD_OPERATORS:
        return [_unsupported(f"{path}.operator", expression.operator, _FIELD_OPERATORS)]
    if len(expression.values) != 1:
        return [_invalid(f"{path}.values", _listed(expression.values), "must have one element")]
    return []


def _requirement_errors(prefix: str, key: str, operator: str, values: Sequence[str]) -> list[str]:
    errors = []
    if problems := label_key_errors(key):
        errors.append(_invalid(f"{prefix}key", _quote(key), "; ".join(problems)))
    errors += _value_count_errors(f"{prefix}values", operator, values)
    for index, value in enumerate(values):
        if problems := label_value_errors(value):
            errors.append(_invalid(f"{prefix}values[{index}][{key}]", _quote(value), "; ".join(problems)))
    return errors


def _value_count_errors(path: str, operator: str, values: Sequence[str]) -> list[str]:
    if operator in (IN, NOT_IN) and not values:
        return [_invalid(path, _listed(values), "for 'in', 'notin' operators, values set can't be empty")]
    if operator in (EXISTS, DOES_NOT_EXIST) and values:
        return [_invalid(path, _listed(values), "values set must be empty for exists and does not exist")]
    return _comparison_errors(path, values) if operator in (GT, LT) else []


def _comparison_errors(path: str, values: Sequence[str]) -> list[str]:
    errors = []
    if len(values) != 1:
        errors.append(_invalid(path, _listed(values), "for 'Gt', 'Lt' operators, exactly one value is required"))
    for index, value in enumerate(values):
        if _int64(value) is None:
            problem = "for 'Gt', 'Lt' operators, the value must be an integer"
            errors.append(_invalid(f"{path}[{index}]", _quote(value), problem))
    return errors


def _invalid(path: str, value: str, problem: str) -> str:
    return f"{path}: Invalid value: {value}: {problem}"


def _unsupported(path: str, value: str, supported: Iterable[str]) -> str:
    return f"{path}: Unsupported value: {_quote(value)}: supported values: {', '.join(map(_quote, supported))}"


def _quote(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _listed(values: Sequence[str]) -> str:
    # An absent list is null in Go, and an empty one counts as absent.
    return msgspec.json.encode(values).decode() if values else "null"


def _aggregate(errors: Iterable[str]) -> str:
    """Several errors as one text, as upstream joins them."""
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]" if distinct else ""
