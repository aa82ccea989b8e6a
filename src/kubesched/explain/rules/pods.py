"""PodTopologySpread and InterPodAffinity: which pods of which domain are in the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from msgspec.structs import replace

from kubesched.api import objects as api
from kubesched.api.selectors import EXISTS, IN, Requirement
from kubesched.cluster.pods import PodInfo
from kubesched.cluster.terms import AffinityTerm
from kubesched.explain.change import Change
from kubesched.explain.rules.rule import MOST_NAMES, Detail, Value, some
from kubesched.explain.survey import Survey
from kubesched.plugins.inter_pod_affinity.plugin import ANTI, EXISTING_ANTI, NO_AFFINITY
from kubesched.plugins.pod_topology_spread.plugin import HARD, SOFT, DomainState, SpreadState

SPREAD, AFFINITY = "PodTopologySpread", "InterPodAffinity"
Domains = dict[str, list[api.Pod]]
Terms = TypeVar("Terms", api.PodAffinity, api.PodAntiAffinity)

# Spreading


class Skew:
    """A spread constraint and the domain of one node."""

    def __init__(self, domain: DomainState, row: int) -> None:
        self.constraint = domain.constraint
        self.key = domain.constraint.topology_key
        place = int(domain.ids[row])
        counted = domain.counts[domain.present]
        enough = len(counted) >= domain.constraint.min_domains
        self.lowest = int(counted.min()) if len(counted) and enough else 0
        self.has_label = place >= 0
        self.count = int(domain.counts[place]) if self.has_label else 0
        self.skew = self.count + domain.own - self.lowest

    @property
    def is_broken(self) -> bool:
        return not self.has_label or self.skew > self.constraint.max_skew


def _skews(survey: Survey, row: int) -> list[Skew]:
    plugin = survey.plugin(SPREAD)
    if plugin is None or plugin not in survey.state:
        return []
    domains = survey.state.read(plugin, SpreadState).domains
    return [each for each in (Skew(domain, row) for domain in domains) if each.is_broken]


def spread_details(survey: Survey, row: int) -> list[Detail]:
    labels = survey.table.node(row).labels
    found = []
    for each in _skews(survey, row):
        if not each.has_label:
            found.append(Detail(f"the node has no label {each.key}", {"topologyKey": each.key}))
            continue
        most, place = each.constraint.max_skew, f"{each.key}={labels.get(each.key, '')}"
        text = f"skew {each.skew} > {most}: {place} has {each.count} matching pods, the emptiest domain {each.lowest}"
        values: dict[str, Value] = {"topologyKey": each.key, "domain": labels.get(each.key, ""), "skew": each.skew}
        found.append(Detail(text, {**values, "maxSkew": most, "count": each.count, "lowest": each.lowest}))
    return found


def spread_fixes(survey: Survey, row: int) -> list[Change]:
    broken = _skews(survey, row)
    if not survey.pod.spec.topology_spread_constraints or not broken:
        return []  # default constraints belong to the scheduler's configuration
    keys = {each.key for each in broken}
    relax = Change(
        "spread",
        f"make the spread over {', '.join(sorted(keys))} a preference (whenUnsatisfiable: {SOFT})",
        3.5,
        edit=lambda pod: _constraints(
            pod, lambda c: replace(c, when_unsatisfiable=SOFT) if c.topology_key in keys else c
        ),
    )
    if not all(each.has_label for each in broken):
        return [relax]
    wanted = {each.key: max(other.skew for other in broken if other.key == each.key) for each in broken}
    words = ", ".join(f"maxSkew {skew} over {key}" for key, skew in sorted(wanted.items()))
    over = sum(each.skew - each.constraint.max_skew for each in broken)
    allow = Change(
        "skew",
        f"allow {words}",
        2.5 + 0.2 * over,
        edit=lambda pod: _constraints(
            pod, lambda c: replace(c, max_skew=max(c.max_skew, wanted.get(c.topology_key, 0)))
        ),
    )
    return [allow, relax]


def _constraints(pod: api.Pod, edit: Callable[[api.TopologySpreadConstraint], api.TopologySpreadConstraint]) -> api.Pod:
    """The pod with its hard constraints changed."""
    given = pod.spec.topology_spread_constraints
    changed = tuple(edit(each) if each.when_unsatisfiable == HARD else each for each in given)
    return replace(pod, spec=replace(pod.spec, topology_spread_constraints=changed))


# Affinity between pods


def term_words(term: AffinityTerm) -> str:
    """What a term selects."""
    wanted = term.selector.requirements
    return ", ".join(map(_requirement, wanted)) or "any pod"


def _requirement(each: Requirement) -> str:
    values = sorted(each.values)
    if each.operator == IN and len(values) == 1:
        return f"{each.key}={values[0]}"
    return f"{each.key} {each.operator}" + (f" [{' '.join(values)}]" if values else "")


def _by_domain(survey: Survey, term: AffinityTerm, counts: Callable[[PodInfo], bool], name: str) -> Domains:
    """The pods that count for a term, by the value of its topology key; computed once for all rows."""
    key = (name, term)
    if key not in survey.memo:
        found: Domains = {}
        column = survey.table.label(term.topology_key)
        for info in survey.cluster.pods.values():
            place = int(column.ids[info.row])
            if place >= 0 and counts(info):
                found.setdefault(column.values[place], []).append(info.pod)
        survey.memo[key] = found
    return survey.memo[key]  # type: ignore[no-any-return]  # stored above


def _selected(survey: Survey, term: AffinityTerm) -> Domains:
    labels = survey.cluster.namespace_labels

    def counts(info: PodInfo) -> bool:
        return term.matches(info.pod.namespace, info.pod.labels, labels(info.pod.namespace))

    return _by_domain(survey, term, counts, "selected")


def _existing(survey: Survey, row: int) -> Iterator[tuple[AffinityTerm, list[api.Pod]]]:
    """Terms of running pods that keep this pod away, each with the pods of the row's domain that have it."""
    pod = survey.pod
    labels = survey.cluster.namespace_labels(pod.namespace)
    if "existing" not in survey.memo:
        terms = {term for info in survey.cluster.pods.values() for term in info.pod_class.terms.required_anti}
        matching = [each for each in terms if each.matches(pod.namespace, pod.labels, labels)]
        survey.memo["existing"] = sorted(matching, key=term_words)
    node = survey.table.node(row)
    for term in survey.memo["existing"]:
        domains = _by_domain(survey, term, lambda info, t=term: t in info.pod_class.terms.required_anti, "existing")  # type: ignore[misc]  # binds the term
        found = domains.get(node.labels.get(term.topology_key, ""), [])
        if found:
            yield term, found


def _message(survey: Survey, row: int) -> str:
    return survey.verdicts[AFFINITY].status(row).message


def affinity_details(survey: Survey, row: int) -> list[Detail]:
    message, terms = _message(survey, row), survey.info.pod_class.terms
    if message == NO_AFFINITY.message:
        return [each for number, term in enumerate(terms.required, 1) for each in _unmet(survey, row, number, term)]
    if message == ANTI.message:
        found = []
        for number, term in enumerate(terms.required_anti, 1):
            pods = _in_domain(survey, row, term)
            if pods:
                place = _place(survey, row, term)
                text = f"term {number} of pod anti-affinity ({term_words(term)}): {place} has {_names(pods)}"
                found.append(Detail(text, {"term": number, "topologyKey": term.topology_key, "pods": len(pods)}))
        return found
    if message == EXISTING_ANTI.message:
        return [
            Detail(
                f"{_names(pods)} in {_place(survey, row, term)} does not want a pod with {term_words(term)} beside it",
                {"topologyKey": term.topology_key, "pods": len(pods)},
            )
            for term, pods in _existing(survey, row)
        ]
    return []


def _unmet(survey: Survey, row: int, number: int, term: AffinityTerm) -> Iterator[Detail]:
    values: dict[str, Value] = {"term": number, "topologyKey": term.topology_key}
    start = f"term {number} of pod affinity ({term_words(term)})"
    domains = _selected(survey, term)
    total = sum(map(len, domains.values()))
    if term.topology_key not in survey.table.node(row).labels:
        yield Detail(f"{start}: the node has no label {term.topology_key}", values)
    elif not total:
        yield Detail(f"{start}: no pod in the cluster matches", values)
    elif not _in_domain(survey, row, term):
        where = some([f"{term.topology_key}={value}" for value in sorted(domains)])
        yield Detail(f"{start}: no such pod in {_place(survey, row, term)}; they are in {where}", values)


def _in_domain(survey: Survey, row: int, term: AffinityTerm) -> list[api.Pod]:
    value = survey.table.node(row).labels.get(term.topology_key)
    return [] if value is None else _selected(survey, term).get(value, [])


def _place(survey: Survey, row: int, term: AffinityTerm) -> str:
    return f"{term.topology_key}={survey.table.node(row).labels.get(term.topology_key, '')}"


def _names(pods: Sequence[api.Pod]) -> str:
    return some([each.key for each in pods[:MOST_NAMES]], count=len(pods))


def affinity_fixes(survey: Survey, row: int) -> list[Change]:
    message, terms = _message(survey, row), survey.info.pod_class.terms
    if message == NO_AFFINITY.message:
        return [*_companions(survey, row, terms.required), Change("affinity", _SOFTEN[0], 4, edit=_soften)]
    if message == ANTI.message:
        return [Change("antiAffinity", _SOFTEN[1], 4, edit=_soften_anti)]
    return []  # evicting the pods in the way is suggested by itself


_SOFTEN = ("make the required pod affinity a preference", "make the required pod anti-affinity a preference")


def _companions(survey: Survey, row: int, terms: Sequence[AffinityTerm]) -> list[Change]:
    """Pods that the terms ask for and that do not exist anywhere."""
    missing = [term for term in terms if not any(_selected(survey, term).values())]
    labels: dict[str, str] = {}
    for each in (requirement for term in missing for requirement in term.selector.requirements):
        if each.operator not in (IN, EXISTS):
            return []
        labels[each.key] = sorted(each.values)[0] if each.values else "true"
    if not missing:
        return []
    namespace = min(missing[0].namespaces, default=survey.pod.namespace)
    meta = api.ObjectMeta(name="companion", namespace=namespace, uid="companion", labels=labels)
    other = api.Pod(metadata=meta, spec=api.PodSpec(node_name=survey.table.names[row]))
    words = ", ".join(f"{key}={value}" for key, value in labels.items())
    where = survey.table.names[row]
    return [Change("companion", f"run a pod with {words} in namespace {namespace}, as on {where}", 3, objects=(other,))]


def _soften(pod: api.Pod) -> api.Pod:
    affinity = pod.spec.affinity
    assert affinity is not None
    assert affinity.pod_affinity is not None
    preferred = _as_preferences(affinity.pod_affinity)
    return replace(pod, spec=replace(pod.spec, affinity=replace(affinity, pod_affinity=preferred)))


def _soften_anti(pod: api.Pod) -> api.Pod:
    affinity = pod.spec.affinity
    assert affinity is not None
    assert affinity.pod_anti_affinity is not None
    preferred = _as_preferences(affinity.pod_anti_affinity)
    return replace(pod, spec=replace(pod.spec, affinity=replace(affinity, pod_anti_affinity=preferred)))


def _as_preferences(terms: Terms) -> Terms:
    """The same terms, none of them required."""
    return replace(
        terms,
        required_during_scheduling_ignored_during_execution=(),
        preferred_during_scheduling_ignored_during_execution=(
            *terms.preferred_during_scheduling_ignored_during_execution,
            *_weighted(terms.required_during_scheduling_ignored_during_execution),
        ),
    )


def _weighted(terms: Sequence[api.PodAffinityTerm]) -> Iterator[api.WeightedPodAffinityTerm]:
    return (api.WeightedPodAffinityTerm(weight=100, pod_affinity_term=each) for each in terms)
