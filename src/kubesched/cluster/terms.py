"""Inter-pod affinity terms, compiled once per pod class.

A term says which pods it selects (namespaces and a selector) and in which domain (a topology key). Both sides of
the relation need it: the incoming pod's terms against running pods, and running pods' terms against the incoming pod.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kubesched.api import objects as api
from kubesched.api.selectors import Selector, SelectorError, label_selector


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """One compiled PodAffinityTerm."""

    namespaces: frozenset[str]
    namespace_selector: Selector
    selector: Selector
    topology_key: str

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Whether the term selects a pod with these labels in this namespace."""
        if namespace not in self.namespaces and not self.namespace_selector.matches(namespace_labels):
            return False
        return self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class WeightedTerm:
    """A preferred term and its weight."""

    weight: int
    term: AffinityTerm


@dataclass(frozen=True, slots=True)
class AffinityTerms:
    """All inter-pod terms of a pod; a list that does not parse is empty and named in `error`, as upstream has it."""

    required: tuple[AffinityTerm, ...] = ()
    required_anti: tuple[AffinityTerm, ...] = ()
    preferred: tuple[WeightedTerm, ...] = ()
    preferred_anti: tuple[WeightedTerm, ...] = ()
    error: str | None = None
    bad_required: bool = False
    """Whether one of the required lists is among those that do not parse."""

    def __bool__(self) -> bool:
        return bool(self.required or self.required_anti or self.preferred or self.preferred_anti or self.error)


NO_TERMS = AffinityTerms()


def affinity_terms(namespace: str, affinity: api.Affinity | None) -> AffinityTerms:
    """Compile the pod affinity and anti-affinity of a pod in `namespace`."""
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    towards = affinity.pod_affinity or api.PodAffinity()
    away = affinity.pod_anti_affinity or api.PodAntiAffinity()
    errors: list[str] = []

    def required(terms: Iterable[api.PodAffinityTerm], name: str) -> tuple[AffinityTerm, ...]:
        try:
            return tuple(_compile(namespace, term) for term in terms)
        except SelectorError as error:
            errors.append(f"{name}: {error}")
            return ()

    def preferred(terms: Iterable[api.WeightedPodAffinityTerm], name: str) -> tuple[WeightedTerm, ...]:
        try:
            return tuple(WeightedTerm(t.weight, _compile(namespace, t.pod_affinity_term)) for t in terms)
        except SelectorError as error:
            errors.append(f"{name}: {error}")
            return ()

    compiled = (
        required(towards.required_during_scheduling_ignored_during_execution, "requiredAffinityTerms"),
        required(away.required_during_scheduling_ignored_during_execution, "requiredAntiAffinityTerms"),
        preferred(towards.preferred_during_scheduling_ignored_during_execution, "preferredAffinityTerms"),
        preferred(away.preferred_during_scheduling_ignored_during_execution, "preferredAntiAffinityTerms"),
    )
    bad_required = any(error.startswith("required") for error in errors)
    return AffinityTerms(*compiled, error=_aggregate(errors), bad_required=bad_required)


def _aggregate(errors: list[str]) -> str | None:
    """Several errors as Go's aggregate error prints them."""
    if not errors:
        return None
    return errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"


def _compile(namespace: str, term: api.PodAffinityTerm) -> AffinityTerm:
    own = not term.namespaces and term.namespace_selector is None
    selector = label_selector(term.label_selector)  # first: of two bad selectors upstream reports this one
    return AffinityTerm(
        namespaces=frozenset((namespace,)) if own else frozenset(term.namespaces),
        namespace_selector=label_selector(term.namespace_selector),
        selector=selector,
        topology_key=term.topology_key,
    )
