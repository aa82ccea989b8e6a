"""Taints and tolerations: which taints a pod tolerates.

Several plugins need this (TaintToleration, NodeUnschedulable, PodTopologySpread), and the rules have corner cases that
are easy to get wrong, so they are stated once, here.
"""

import re
from collections.abc import Collection, Iterable

from kubesched.api.objects import Taint, Toleration

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"

#: The effects that keep a pod off a node; PreferNoSchedule only lowers the score.
HARD_EFFECTS = frozenset((NO_SCHEDULE, NO_EXECUTE))

TAINT_NODE_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"

_UNSCHEDULABLE = Taint(key=TAINT_NODE_UNSCHEDULABLE, effect=NO_SCHEDULE)
_DECIMAL = re.compile(r"0|-?[1-9][0-9]{0,18}")


def tolerates(toleration: Toleration, taint: Taint, *, compare: bool = False) -> bool:
    """Whether this toleration covers this taint.

    An empty effect or key stands for every effect or key. Only the API server insists on ``Exists`` with an empty key;
    here, as upstream, an empty key with ``Equal`` compares the values alone. The operators ``Gt`` and ``Lt`` count only
    with ``compare``, which is the feature gate TaintTolerationComparisonOperators.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    if toleration.operator in ("Gt", "Lt"):
        return compare and _compares(toleration, taint)
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


def _compares(toleration: Toleration, taint: Taint) -> bool:
    """Whether the taint's number is on the right side of the toleration's; False if either is no 64-bit integer."""
    bound, actual = _int64(toleration.value), _int64(taint.value)
    if bound is None or actual is None:
        return False
    return actual > bound if toleration.operator == "Gt" else actual < bound


def _int64(text: str) -> int | None:
    if not _DECIMAL.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def untolerated(
    taints: Iterable[Taint],
    tolerations: Collection[Toleration],
    effects: Collection[str] = HARD_EFFECTS,
    *,
    compare: bool = False,
) -> Taint | None:
    """The first taint with one of these effects that none of the tolerations covers."""
    for taint in taints:
        if taint.effect in effects and not any(tolerates(t, taint, compare=compare) for t in tolerations):
            return taint
    return None


def tolerates_unschedulable(tolerations: Iterable[Toleration]) -> bool:
    """Whether a pod may go to a cordoned node, which counts as having the matching taint, without a value."""
    return any(tolerates(toleration, _UNSCHEDULABLE) for toleration in tolerations)
