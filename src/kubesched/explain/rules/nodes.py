"""TaintToleration, NodeUnschedulable, NodeAffinity, NodeName, NodePorts: what nodes and pods say of each other."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterator

from msgspec.structs import replace

from kubesched.api import objects as api
from kubesched.api.selectors import (
    DOES_NOT_EXIST,
    EXISTS,
    IN,
    NOT_IN,
    CompiledNodeTerm,
    Requirement,
    required_node_affinity,
)
from kubesched.api.taints import HARD_EFFECTS, tolerates
from kubesched.cluster.pods import ANY_ADDRESS, host_ports
from kubesched.explain.change import Change
from kubesched.explain.commands import Operation, patch
from kubesched.explain.evicting import belongs_to_node
from kubesched.explain.rules.rule import Detail, node_of
from kubesched.explain.survey import Survey

_GIVEN_BY_KUBERNETES = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Taints under these prefixes tell of a node's condition: tolerating them hardly ever helps the pod."""
_FACTS = frozenset(
    (
        "kubernetes.io/hostname",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
    )
)
"""Labels that state facts about a node: giving it another value is no help."""
PORTS = tuple[str, int, str]

# Taints


def taint_words(taint: api.Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _untolerated(survey: Survey, row: int) -> list[api.Taint]:
    compare = survey.cluster.features.taint_toleration_comparison_operators
    hard = (taint for taint in survey.table.node(row).spec.taints if taint.effect in HARD_EFFECTS)
    given = survey.pod.spec.tolerations
    return [taint for taint in hard if not any(tolerates(each, taint, compare=compare) for each in given)]


def taint_details(survey: Survey, row: int) -> list[Detail]:
    return [
        Detail(
            f"taint {taint_words(each)} is not tolerated",
            {"taint": taint_words(each), "key": each.key, "value": each.value, "effect": each.effect},
        )
        for each in _untolerated(survey, row)
    ]


def taint_fixes(survey: Survey, row: int) -> list[Change]:
    taints, name = _untolerated(survey, row), node_of(survey, row)
    condition = any(each.key.startswith(_GIVEN_BY_KUBERNETES) for each in taints)
    control = any("control-plane" in each.key or "master" in each.key for each in taints)
    more = 6 * condition + 3 * control
    words = ", ".join(map(taint_words, taints))
    added = tuple(_toleration(each) for each in taints)

    def tolerate(pod: api.Pod) -> api.Pod:
        return replace(pod, spec=replace(pod.spec, tolerations=(*pod.spec.tolerations, *added)))

    keys = [f"{each.key}:{each.effect}" for each in taints]
    gone = set(taints)

    def untaint(node: api.Node) -> api.Node:
        return replace(node, spec=replace(node.spec, taints=tuple(t for t in node.spec.taints if t not in gone)))

    return [
        Change(
            "toleration",
            f"tolerate {words}",
            1 + len(taints) + more,
            edit=tolerate,
            commands=_tolerating(survey.pod, added),
        ),
        Change(
            "taint",
            f"remove {words} from {name}",
            3 + len(taints) + more,
            node=name,
            node_edit=untaint,
            commands=tuple(f"kubectl taint node {shlex.quote(name)} {shlex.quote(key)}-" for key in keys),
        ),
    ]


def _toleration(taint: api.Taint) -> api.Toleration:
    if taint.value:
        return api.Toleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)
    return api.Toleration(key=taint.key, operator="Exists", effect=taint.effect)


def _tolerating(pod: api.Pod, added: tuple[api.Toleration, ...]) -> tuple[str, ...]:
    """A running pod's tolerations may be added to."""
    values = [
        {k: v for k, v in (("key", t.key), ("operator", t.operator), ("value", t.value), ("effect", t.effect)) if v}
        for t in added
    ]
    operations: list[Operation] = [{"op": "add", "path": "/spec/tolerations", "value": values}]
    if pod.spec.tolerations:
        operations = [{"op": "add", "path": "/spec/tolerations/-", "value": each} for each in values]
    return (patch(pod, operations),)


# Cordons and names


def cordon_details(survey: Survey, row: int) -> list[Detail]:
    return [Detail("cordoned: spec.unschedulable is set")]


def cordon_fixes(survey: Survey, row: int) -> list[Change]:
    name = node_of(survey, row)

    def uncordon(node: api.Node) -> api.Node:
        return replace(node, spec=replace(node.spec, unschedulable=False))

    command = f"kubectl uncordon {shlex.quote(name)}"
    return [Change("uncordon", f"uncordon {name}", 2, node=name, node_edit=uncordon, commands=(command,))]


def name_details(survey: Survey, row: int) -> list[Detail]:
    wanted = survey.pod.spec.node_name
    return [Detail(f"the pod names node {wanted}", {"nodeName": wanted})]


# Node affinity


def _holds(requirement: Requirement, node: api.Node) -> bool:
    return requirement.matches_value(node.labels.get(requirement.key))


def _words(requirement: Requirement) -> str:
    values = sorted(requirement.values)
    if requirement.operator in (EXISTS, DOES_NOT_EXIST):
        return f"{requirement.key} {requirement.operator}"
    if requirement.operator == IN and len(values) == 1:
        return f"{requirement.key}={values[0]}"
    return f"{requirement.key} {requirement.operator} [{' '.join(values)}]"


def _has(requirement: Requirement, node: api.Node) -> str:
    value = node.labels.get(requirement.key)
    return f"the node has no label {requirement.key}" if value is None else f"the node has {requirement.key}={value}"


def _failing(term: CompiledNodeTerm, node: api.Node) -> Iterator[tuple[str, str]]:
    """What a term wants and what the node has instead."""
    for each in term.labels:
        if not _holds(each, node):
            yield _words(each), _has(each, node)
    for each in term.fields:
        if not each.matches_value(node.name if each.key == "metadata.name" else ""):
            yield _words(each), f"the node is {node.name}"


def affinity_details(survey: Survey, row: int) -> list[Detail]:
    node, wanted = survey.table.node(row), required_node_affinity(survey.pod)
    found = []
    for each in wanted.selector.requirements:
        if not _holds(each, node):
            values = {"nodeSelector": _words(each), "node": node.labels.get(each.key, "")}
            found.append(Detail(f"nodeSelector {_words(each)}: {_has(each, node)}", dict(values)))
    if wanted.affinity is not None and not wanted.affinity.matches(node.labels, node.name):
        if wanted.affinity.error:
            found.append(Detail(f"node affinity cannot be read: {wanted.affinity.error}"))
        for number, term in enumerate(wanted.affinity.terms, 1):
            for want, has in _failing(term, node):
                text = f"term {number} of node affinity wants {want}: {has}"
                found.append(Detail(text, {"term": number, "requirement": want}))
    return found


def affinity_fixes(survey: Survey, row: int) -> list[Change]:
    if belongs_to_node(survey.pod):
        return []  # the DaemonSet made it for one node, and another one is no help
    node, wanted = survey.table.node(row), required_node_affinity(survey.pod)
    unmet = [each for each in wanted.selector.requirements if not _holds(each, node)]
    affinity = wanted.affinity
    blocked = affinity is not None and not affinity.matches(node.labels, node.name)
    terms = affinity.terms if affinity is not None and blocked else ()
    # If other nodes match, this one is not meant, and making it match asks for more.
    more = 0 if survey.verdicts["NodeAffinity"].mask[survey.rows].all() else 3
    found = [*_typos(survey, node, unmet), *_labelling(node, unmet, terms, blocked, more)]
    dropped = [_words(each) for each in unmet] + (["the required node affinity"] if blocked else [])

    def drop(pod: api.Pod) -> api.Pod:
        keys = {each.key for each in unmet}
        selector = {key: value for key, value in pod.spec.node_selector.items() if key not in keys}
        spec = replace(pod.spec, node_selector=selector)
        return replace(pod, spec=_without_affinity(spec) if blocked else spec)

    if dropped:
        found.append(Change("selector", f"drop {' and '.join(dropped)}", 3 + 0.5 * len(dropped) + more, edit=drop))
    return found


def _without_affinity(spec: api.PodSpec) -> api.PodSpec:
    assert spec.affinity is not None
    assert spec.affinity.node_affinity is not None
    node_affinity = replace(spec.affinity.node_affinity, required_during_scheduling_ignored_during_execution=None)
    return replace(spec, affinity=replace(spec.affinity, node_affinity=node_affinity))


def _typos(survey: Survey, node: api.Node, unmet: list[Requirement]) -> list[Change]:
    """A value that no node has, next to one that this node has and that is written almost the same."""
    found = []
    for each in unmet:
        has = node.labels.get(each.key)
        value = next(iter(each.values), "")
        known = survey.table.label(each.key).values
        if has is not None and value not in known and difflib.SequenceMatcher(None, value, has).ratio() >= 0.75:
            found.append((each.key, value, has))
    if not found or len(found) < len(unmet):
        return []
    words = ", ".join(f"{key}={has} instead of {key}={value}" for key, value, has in found)
    values = {key: has for key, _, has in found}

    def correct(pod: api.Pod) -> api.Pod:
        return replace(pod, spec=replace(pod.spec, node_selector={**pod.spec.node_selector, **values}))

    return [Change("spelling", f"write {words}", 1, edit=correct)]


def _labelling(
    node: api.Node, unmet: list[Requirement], terms: tuple[CompiledNodeTerm, ...], blocked: bool, more: int
) -> list[Change]:
    """Labels with which the node would match: those of the selector, and those of the term that lacks the fewest."""
    wanted = list(unmet)
    if blocked:
        choices = [[each for each in term.labels if not _holds(each, node)] for term in terms if not term.fields]
        if not choices:
            return []
        wanted += sorted(choices, key=len)[0]
    labels: dict[str, str | None] = {}
    for each in wanted:
        if each.key in _FACTS or each.operator not in (IN, NOT_IN, EXISTS, DOES_NOT_EXIST):
            return []
        given = sorted(each.values)[0] if each.operator == IN else "true" if each.operator == EXISTS else None
        labels[each.key] = given

    def relabel(old: api.Node) -> api.Node:
        changed = {key: value for key, value in old.labels.items() if key not in labels}
        changed |= {key: value for key, value in labels.items() if value is not None}
        return replace(old, metadata=replace(old.metadata, labels=changed))

    texts = [f"{key}={value}" if value is not None else f"{key}-" for key, value in labels.items()]
    command = f"kubectl label --overwrite node {shlex.quote(node.name)} {' '.join(map(shlex.quote, texts))}"
    words = f"label {node.name} with {', '.join(texts)}"
    cost = 2 + len(labels) + more
    return [Change("label", words, cost, node=node.name, node_edit=relabel, commands=(command,))] if labels else []


# Host ports


def _holders(survey: Survey, row: int) -> list[tuple[PORTS, api.Pod]]:
    """The ports that the pod wants and others hold on the row."""
    wanted = host_ports(survey.pod.spec)
    found = []
    for info in survey.table.pods[row].values():
        for protocol, port, address in host_ports(info.pod.spec):
            for each in wanted:
                same = each[:2] == (protocol, port)
                if same and (address == each[2] or ANY_ADDRESS in (address, each[2])):
                    found.append((each, info.pod))
    return found


def port_details(survey: Survey, row: int) -> list[Detail]:
    return [
        Detail(f"port {port}/{protocol} is held by {pod.key}", {"port": port, "protocol": protocol, "heldBy": pod.key})
        for (protocol, port, _), pod in _holders(survey, row)
    ]


def port_fixes(survey: Survey, row: int) -> list[Change]:
    taken = {(protocol, port) for (protocol, port, _), _ in _holders(survey, row)}

    def drop(pod: api.Pod) -> api.Pod:
        containers = tuple(
            replace(
                each,
                ports=tuple(
                    replace(p, host_port=0) if (p.protocol or "TCP", p.host_port) in taken else p for p in each.ports
                ),
            )
            for each in pod.spec.containers
        )
        return replace(pod, spec=replace(pod.spec, containers=containers))

    ports = ", ".join(str(port) for _, port in sorted(taken))
    return [Change("port", f"do without host port {ports}, or use another", 3, edit=drop)] if taken else []
