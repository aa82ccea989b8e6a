"""Inter-pod terms: compiled by upstream's rules, with upstream's error messages."""

from __future__ import annotations

import pytest
from tests.builders import HOSTNAME, ZONE, affinity, expression, pod_term, selector

from kubesched.api import objects as api
from kubesched.api.selectors import EVERYTHING, NOTHING, label_selector
from kubesched.cluster.terms import NO_TERMS, AffinityTerm, affinity_terms

BAD = selector(None, expression("app", "In"))
WEB = {"app": "web"}


def required(term: api.PodAffinityTerm) -> AffinityTerm:
    return affinity_terms("blue", affinity(near=[term])).required[0]


def test_no_affinity_is_no_terms() -> None:
    """Pods without pod affinity share one empty result, which is false."""
    assert affinity_terms("blue", None) is NO_TERMS
    assert affinity_terms("blue", api.Affinity(node_affinity=api.NodeAffinity())) is NO_TERMS
    assert not NO_TERMS
    assert not affinity_terms("blue", affinity())


def test_every_list_has_its_place() -> None:
    """The four lists of a pod's affinity are compiled separately, with their weights."""
    term = pod_term(WEB, ZONE)
    terms = affinity_terms("blue", affinity(near=[term], away=[term], prefer_near=[(3, term)], prefer_away=[(4, term)]))
    compiled = required(term)
    assert terms.required == terms.required_anti == (compiled,)
    assert [(w.weight, w.term) for w in (*terms.preferred, *terms.preferred_anti)] == [(3, compiled), (4, compiled)]
    assert compiled.topology_key == ZONE
    assert terms


def test_the_default_namespace_of_a_term() -> None:
    """A term without namespaces and namespace selector applies to the pod's own namespace."""
    term = required(pod_term(WEB))
    assert term.namespaces == {"blue"}
    assert term.namespace_selector == NOTHING
    assert term.matches("blue", WEB, {})
    assert not term.matches("red", WEB, {})
    assert not term.matches("blue", {"app": "db"}, {})


def test_named_namespaces_replace_its_own() -> None:
    """A term that lists namespaces applies to those only."""
    term = required(pod_term(WEB, namespaces=["red", "green"]))
    assert term.namespaces == {"red", "green"}
    assert not term.matches("blue", WEB, {})


def test_a_namespace_selector_adds_to_the_named() -> None:
    """Listed and selected namespaces both count; with only a selector, the pod's own namespace is not listed."""
    term = required(pod_term(WEB, namespaces=["red"], namespace_selector={"team": "one"}))
    assert term.matches("red", WEB, {})
    assert term.matches("green", WEB, {"team": "one"})
    assert not term.matches("blue", WEB, {"team": "two"})
    alone = required(pod_term(WEB, namespace_selector=selector()))
    assert alone.namespaces == frozenset()
    assert alone.namespace_selector == EVERYTHING


def test_no_selector_selects_no_pods() -> None:
    """A term without a label selector matches no pod; one with an empty selector matches all."""
    assert required(pod_term(None)).selector == NOTHING
    assert required(pod_term(selector())).selector == EVERYTHING


def test_equal_terms_are_equal_values() -> None:
    """Differently written equal terms are the same dictionary key, so that counts can be shared."""
    one = required(pod_term(selector({"app": "web", "tier": "front"}), HOSTNAME))
    other = required(
        pod_term(selector(None, expression("tier", "In", "front"), expression("app", "In", "web")), HOSTNAME)
    )
    assert one == other
    assert len({one, other}) == 1


@pytest.mark.parametrize(
    ("place", "name"),
    [
        ("near", "requiredAffinityTerms"),
        ("away", "requiredAntiAffinityTerms"),
        ("prefer_near", "preferredAffinityTerms"),
        ("prefer_away", "preferredAntiAffinityTerms"),
    ],
)
def test_a_bad_selector_is_named(place: str, name: str) -> None:
    """An invalid selector empties its list and is reported under the list's name."""
    term = pod_term(BAD)
    terms = affinity_terms("blue", affinity(**{place: [(1, term) if place.startswith("prefer") else term]}))  # type: ignore[arg-type]  # whichever field a test varies
    assert terms.error is not None
    assert terms.error.startswith(f"{name}: ")
    assert "values set can't be empty" in terms.error
    assert not any((terms.required, terms.required_anti, terms.preferred, terms.preferred_anti))
    assert terms


def test_a_bad_list_leaves_the_others() -> None:
    """One bad term empties only its own list; several bad lists are reported like Go's aggregate."""
    terms = affinity_terms("blue", affinity(near=[pod_term(WEB), pod_term(BAD)], away=[pod_term(WEB)]))
    assert (len(terms.required), len(terms.required_anti)) == (0, 1)
    both = affinity_terms("blue", affinity(near=[pod_term(BAD)], away=[pod_term(BAD)])).error
    assert both is not None
    assert both.startswith("[requiredAffinityTerms: ")
    assert ", requiredAntiAffinityTerms: " in both
    assert both.endswith("]")


def test_a_bad_namespace_selector_is_an_error_too() -> None:
    """Both selectors of a term must be valid; if neither is, the label selector is reported."""
    only = affinity_terms("blue", affinity(near=[pod_term(WEB, namespace_selector=BAD)])).error
    assert only is not None
    worse = selector(None, expression("bad key!", "Exists"))
    both = affinity_terms("blue", affinity(near=[pod_term(worse, namespace_selector=BAD)])).error
    assert both is not None
    assert "bad key!" in both
    assert label_selector(selector(WEB)) == required(pod_term(WEB)).selector
