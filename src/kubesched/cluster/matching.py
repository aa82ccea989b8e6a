"""Selectors and taints evaluated over a window of nodes: once per distinct value, then gathered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from kubesched.api import objects as api
from kubesched.api import selectors
from kubesched.api.selectors import CompiledNodeSelector, CompiledNodeTerm, RequiredNodeAffinity, Requirement
from kubesched.api.taints import untolerated
from kubesched.cluster.table import Ints, LabelColumn, Mask
from kubesched.cluster.view import Nodes


def requirement_mask(nodes: Nodes, requirement: Requirement) -> Mask:
    """Where a label requirement holds."""
    column = nodes.label_column(requirement.key)
    return _per_value(column, requirement)[nodes.label(requirement.key)]


def term_mask(nodes: Nodes, term: CompiledNodeTerm) -> Mask:
    """Where a node selector term holds: all its label and field requirements."""
    mask = np.ones(len(nodes), dtype=np.bool_)
    for requirement in term.labels:
        mask &= requirement_mask(nodes, requirement)
    for requirement in term.fields:
        mask &= field_mask(nodes, requirement)
    return mask


def field_mask(nodes: Nodes, requirement: Requirement) -> Mask:
    """Where a field requirement, on the node's name, holds."""
    if requirement.key != selectors.NAME_FIELD:
        return np.full(len(nodes), requirement.matches_value(""), dtype=np.bool_)
    row_of = nodes.table.row_of
    named = np.zeros(nodes.table.size, dtype=np.bool_)
    named[[row_of[name] for name in requirement.values if name in row_of]] = True
    inside = named[nodes.rows]
    return inside if requirement.operator == selectors.IN else ~inside


def node_selector_mask(nodes: Nodes, selector: CompiledNodeSelector) -> Mask:
    """Where any of a node selector's terms holds."""
    mask = np.zeros(len(nodes), dtype=np.bool_)
    for term in selector.terms:
        mask |= term_mask(nodes, term)
    return mask


def required_affinity_mask(nodes: Nodes, required: RequiredNodeAffinity) -> Mask:
    """Where a pod's node selector and required node affinity hold."""
    mask = np.ones(len(nodes), dtype=np.bool_)
    for requirement in required.selector.requirements:
        mask &= requirement_mask(nodes, requirement)
    if required.affinity is not None:
        mask &= node_selector_mask(nodes, required.affinity)
    return mask


def per_taint_set(nodes: Nodes, evaluate: Callable[[tuple[api.Taint, ...]], int]) -> Ints:
    """A number per node that depends on its taints alone."""
    values = [evaluate(taints) for taints in nodes.table.taint_sets]
    return np.array(values, dtype=np.int64)[nodes.table.taint_set[nodes.rows]]


def untolerated_mask(
    nodes: Nodes, tolerations: Sequence[api.Toleration], effects: Iterable[str], *, compare: bool = False
) -> Mask:
    """Where a taint with one of these effects is not tolerated."""
    wanted, table = tuple(effects), nodes.table
    kept_out = [untolerated(taints, tolerations, wanted, compare=compare) is not None for taints in table.taint_sets]
    if not any(kept_out):
        return np.zeros(len(nodes), dtype=np.bool_)
    return np.array(kept_out)[table.taint_set[nodes.rows]]


def _per_value(column: LabelColumn, requirement: Requirement) -> Mask:
    """The requirement's answer per value id, and as the last element (id -1) for nodes without the label."""
    operator = requirement.operator
    if operator in (selectors.GT, selectors.LT):
        answers = [requirement.matches_value(value) for value in column.values]
        return np.array([*answers, requirement.matches_value(None)], dtype=np.bool_)
    named = np.zeros(len(column.values) + 1, dtype=np.bool_)
    if operator in (selectors.IN, selectors.NOT_IN):
        named[[column.index[value] for value in requirement.values if value in column.index]] = True
        return named if operator == selectors.IN else ~named
    named[:-1] = True
    return named if operator == selectors.EXISTS else ~named
