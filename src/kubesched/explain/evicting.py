"""Which pods would have to leave a node so that another fits: lowest priority first, budgets respected."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from kubesched.api import objects as api
from kubesched.api.selectors import SelectorError, label_selector
from kubesched.cluster.pods import PodInfo
from kubesched.cluster.state import ClusterState
from kubesched.explain.change import Change
from kubesched.explain.nearness import nearest_first
from kubesched.explain.survey import Survey, is_resolvable
from kubesched.framework.errors import PluginError

MIRROR = "kubernetes.io/config.mirror"
MOST_ROWS = 8
_FIRST, _MORE = 3.5, 0.75


class Protection:
    """Disruption budgets and the evictions that they still allow."""

    def __init__(self, cluster: ClusterState) -> None:
        self._budgets = []
        for budget in cluster.all(api.PodDisruptionBudget):
            try:
                self._budgets.append((budget, label_selector(budget.spec.selector)))
            except SelectorError:
                continue  # a budget that cannot be read protects nothing

    def covering(self, pod: api.Pod) -> list[api.PodDisruptionBudget]:
        """The budgets that count an eviction of the pod."""
        return [b for b, selector in self._budgets if b.namespace == pod.namespace and selector.matches(pod.labels)]

    def protects(self, pod: api.Pod, leaving: Sequence[api.Pod] = ()) -> api.PodDisruptionBudget | None:
        """The budget that does not allow one more eviction, beside those of `leaving`."""
        for budget in self.covering(pod):
            used = sum(budget in self.covering(each) for each in leaving)
            if used >= budget.status.disruptions_allowed:
                return budget
        return None


def belongs_to_node(pod: api.Pod) -> bool:
    """Whether the pod would come back to the same node: a DaemonSet's or the kubelet's own."""
    return MIRROR in pod.annotations or any(
        o.kind == "DaemonSet" and o.controller for o in pod.metadata.owner_references
    )


def evictions(survey: Survey) -> Iterator[Change]:
    """Sets of pods whose eviction makes room, for the nodes that lack the least."""
    protection = Protection(survey.cluster)
    for row in promising(survey):
        victims = victims_on(survey, row, protection)
        if victims:
            yield _change(survey, row, victims)


def promising(survey: Survey, most: int = MOST_ROWS) -> list[int]:
    """Rows that only pods keep from fitting, those first that lack the least."""
    rows = []
    for plugins, found in survey.combinations():
        verdicts = [survey.verdicts[name] for name in plugins]
        if any(each.whole is not None for each in verdicts):
            continue
        nearest = nearest_first(survey, found)[: 2 * most].tolist()
        rows += [row for row in nearest if all(is_resolvable(each.status(row)) for each in verdicts)]
    return rows[:most]


def victims_on(survey: Survey, row: int, protection: Protection, *, any_priority: bool = False) -> list[api.Pod]:
    """The pods that have to leave a row: as few and as unimportant as possible; none if that does not help.

    Pods that are more important than the one that is to fit leave only with `any_priority`.
    """
    pod, what_if = survey.pod, survey.framework.what_if
    order = sorted(
        (info for info in survey.table.pods[row].values() if _may_go(info.pod, pod, any_priority)),
        key=lambda info: (info.pod.priority, info.pod.key),
    )
    state = survey.state.clone()
    leaving: list[PodInfo] = []
    try:
        with what_if.on_rows([row]):
            for info in order:
                if protection.protects(info.pod, [each.pod for each in leaving]) is not None:
                    continue
                what_if.remove_pods(pod, [(state, info, row)])
                leaving.append(info)
                if what_if.status_on(state, pod, row) is None:
                    break
            else:
                return []
            for info in list(reversed(leaving)):
                what_if.add_pods(pod, [(state, info, row)])
                if what_if.status_on(state, pod, row) is None:
                    leaving.remove(info)
                else:
                    what_if.remove_pods(pod, [(state, info, row)])
    except PluginError:
        return []
    return [each.pod for each in leaving]


def _may_go(other: api.Pod, pod: api.Pod, any_priority: bool = False) -> bool:
    return (any_priority or other.priority <= pod.priority) and not belongs_to_node(other) and not other.is_terminating


def _change(survey: Survey, row: int, victims: Sequence[api.Pod]) -> Change:
    names = ", ".join(each.key for each in victims)
    same = any(each.priority >= survey.pod.priority for each in victims)
    commands = tuple(
        f"kubectl delete pod -n {shlex.quote(each.namespace)} {shlex.quote(each.name)}" for each in victims
    )
    return Change(
        "eviction",
        f"evict {names} from {survey.table.names[row]}",
        _FIRST + _MORE * (len(victims) - 1) + same,
        removed=tuple(victims),
        commands=commands,
    )


def protected_on(survey: Survey, row: int) -> list[tuple[api.Pod, api.PodDisruptionBudget]]:
    """The pods of a row that budgets protect, each with its budget."""
    protection = Protection(survey.cluster)
    pods = (info.pod for info in survey.table.pods[row].values())
    found = ((each, protection.protects(each)) for each in pods if _may_go(each, survey.pod))
    return [(each, budget) for each, budget in found if budget is not None]
