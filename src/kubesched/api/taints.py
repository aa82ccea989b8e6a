"""Taints and tolerations: which taints a pod may live with.

Several plugins ask this (TaintToleration, NodeUnschedulable, PodTopologySpread), and the rules have corners that are
easy to get wrong, so they are stated once, here.
"""

from collections.abc import Collection, Iterable

from kubesched.api.objects import Taint, Toleration

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"

#: The effects that keep a pod off a node; PreferNoSchedule only costs points.
HARD_EFFECTS = frozenset((NO_SCHEDULE, NO_EXECUTE))

TAINT_NODE_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"

_UNSCHEDULABLE = Taint(key=TAINT_NODE_UNSCHEDULABLE, effect=NO_SCHEDULE)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether this toleration covers this taint.

    An empty effect or key stands for every effect or key. Upstream asks for ``Exists`` with an empty key only when a
    pod is created; here, as there, an empty key with ``Equal`` compares the values alone. The operators ``Gt`` and
    ``Lt`` belong to a feature that is off by default and then tolerate nothing, like any unknown operator.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value


def untolerated(
    taints: Iterable[Taint], tolerations: Collection[Toleration], effects: Collection[str] = HARD_EFFECTS
) -> Taint | None:
    """The first taint with one of these effects that none of the tolerations covers."""
    for taint in taints:
        if taint.effect in effects and not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def tolerates_unschedulable(tolerations: Iterable[Toleration]) -> bool:
    """Whether a pod may go to a cordoned node, which counts as if it bore the matching taint."""
    return any(tolerates(toleration, _UNSCHEDULABLE) for toleration in tolerations)
