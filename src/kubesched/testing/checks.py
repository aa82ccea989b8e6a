"""Checks that a plugin keeps the contract that the scheduler relies on, with many small generated clusters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ParamSpec, TypeVar

import msgspec
from msgspec.structs import replace

from kubesched.api import objects as api
from kubesched.api.builders import owner
from kubesched.cluster.view import Nodes
from kubesched.framework.answers import AnswerError
from kubesched.framework.contract import check_contract
from kubesched.framework.errors import PluginError, PluginStartError
from kubesched.framework.events import NODE_ADD, EventHint, Hint
from kubesched.framework.functions import plugin_class
from kubesched.framework.places import place_of, place_of_error
from kubesched.framework.plugin import Plugin, Reads
from kubesched.framework.registry import PluginSource
from kubesched.queue.registrations import EVERYTHING, OF_FUNCTIONS, registered_by
from kubesched.testing.chance import Chance
from kubesched.testing.generate import ClusterChange, Example, Labels
from kubesched.testing.probe import Answers, OutOfRangeError, PluginProbe, cluster_of
from kubesched.testing.searching import search

T = TypeVar("T")
P = ParamSpec("P")


class PluginCheckError(AssertionError):
    """Says which rule a plugin breaks, with an example, and what to change."""


def check_plugin(
    plugin: PluginSource,
    *,
    args: object = None,
    labels: Labels | None = None,
    nodes: Sequence[api.Node] = (),
    pods: Sequence[api.Pod] = (),
    examples: int = 50,
    seed: int = 0,
) -> None:
    """Call a plugin for many small clusters; raises a `PluginCheckError` for the first rule that it breaks.

    It must return the same when called again; score from 0 to 100 once normalised; judge a node alone as it does among
    others; change nothing; depend on no more than its `reads` says; and its hints must wake pods that now fit.

    Nodes, namespaces, priorities, volumes and owners vary. `labels` are label keys of nodes and namespaces that matter
    to the plugin, with their values. `nodes` and `pods` are used beside generated ones: give some that the plugin
    accepts and some that it rejects. `args` are as in a configuration file.
    """
    checked = plugin_class(plugin)
    check_contract(checked)

    def once(chance: Chance) -> None:
        example = Example(chance, labels or {}, nodes, pods)
        _Check(checked, example, args).run()

    __tracebackhide__ = True  # pytest then shows the line of the test
    try:
        search(once, examples, seed)
    except PluginCheckError as error:
        raise error.with_traceback(None)  # noqa: B904  # the same error, without our way to it; its cause stays


class _Check:
    """One plugin and one example."""

    def __init__(self, plugin: type[Plugin], example: Example, args: object) -> None:
        self.plugin = plugin
        self.example = example
        self.args = args

    def run(self) -> None:
        probe = self._probe(self.example.pod)
        before = probe.fingerprint()
        answers = self._guarded(probe.everything)
        self._unchanged(before, probe)
        self._repeatable(answers)
        self._row_by_row(probe, answers)
        self._forms_agree(probe, answers)
        self._reads_no_more(answers)
        self._hints(probe, answers)

    def _probe(self, pod: api.Pod, *, with_running: bool = True) -> PluginProbe:
        cluster = cluster_of(self.example, with_running=with_running)
        return self._guarded(PluginProbe, self.plugin, cluster, pod, self.args)

    def _guarded(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return call(*args, **kwargs)
        except OutOfRangeError as error:
            wanted = "scores must be from 0 to 100; give the plugin a normalize, or @score(normalize=True)"
            raise self._wrong(f"{error}; {wanted}") from error
        except Exception as error:
            raise self._raised(error) from error

    def _raised(self, error: Exception) -> PluginCheckError:
        if isinstance(error, AnswerError | PluginError | PluginStartError):  # these name the place
            return self._wrong(str(error))
        written = getattr(self.plugin, "written_as", self.plugin)
        return self._wrong(f"raised {type(error).__name__}: {error} ({place_of_error(error, written)})")

    def _wrong(self, what: str) -> PluginCheckError:
        written = getattr(self.plugin, "written_as", self.plugin)
        message = f"plugin {self.plugin.name} ({place_of(written)}): {what}\nexample: {self.example}"
        return PluginCheckError(message)

    def _unchanged(self, before: Mapping[str, bytes], probe: PluginProbe) -> None:
        after = probe.fingerprint()
        changed = [what for what in before if before[what] != after[what]]
        if changed:
            raise self._wrong(f"changed {' and '.join(changed)}; plugins only read, so work on a copy")

    def _repeatable(self, answers: Answers) -> None:
        again = self._guarded(self._probe(self.example.pod).everything)
        difference = _difference(answers, again)
        if difference:
            advice = "take randomness and time from self.handle, and remember nothing of earlier pods"
            raise self._wrong(f"returned different results when called twice: {difference}; {advice}")

    def _row_by_row(self, probe: PluginProbe, answers: Answers) -> None:
        """A row alone must get the same result as among others: preemption and cached results rely on it."""
        for row, name in zip(probe.nodes.row_numbers(), probe.nodes.names, strict=True):
            window = Nodes(probe.cluster.nodes, slice(row, row + 1))
            if name in answers.filters:
                alone = self._guarded(probe.filter, window)[name]
                if alone != answers.filters[name]:
                    both = f"{answers.filters[name] or 'yes'} for {name} among all nodes, but {alone or 'yes'} alone"
                    raise self._wrong(f"Filter says {both}; judge each row by that row")
            if name in answers.raw:
                score = self._guarded(probe.score, window)[name]
                if score != answers.raw[name]:
                    both = f"{answers.raw[name]} to {name} among others, but {score} alone"
                    raise self._wrong(f"Score gives {both}; compare nodes in normalize, not in score_all")

    def _forms_agree(self, probe: PluginProbe, answers: Answers) -> None:
        for node in probe.nodes:
            if hasattr(self.plugin, "filter") and hasattr(self.plugin, "filter_all") and node.name in answers.filters:
                one = self._guarded(probe.filter_one, node)
                if one != answers.filters[node.name]:
                    both = f"filter_all says {answers.filters[node.name] or 'yes'} and filter says {one or 'yes'}"
                    raise self._wrong(f"of {node.name}, {both}; only filter_all would be called")
            if hasattr(self.plugin, "score") and hasattr(self.plugin, "score_all") and node.name in answers.raw:
                number = self._guarded(probe.score_one, node)
                if number != answers.raw[node.name]:
                    both = f"score_all gives {answers.raw[node.name]} and score gives {number}"
                    raise self._wrong(f"to {node.name}, {both}; only score_all would be called")

    def _reads_no_more(self, answers: Answers) -> None:
        """Cached results are used for other pods of the class, and while other things change."""
        if self.plugin.reads is Reads.CLUSTER:
            return
        self._reads_its_own_row(answers)
        if not self.plugin.reads.is_cacheable:
            return
        pod = self.example.pod
        difference = _difference(answers, self._guarded(self._probe(_twin(pod)).everything))
        if difference:
            claim = f"has reads = Reads.{self.plugin.reads.name}, but its results depend on more than the pod's class"
            own = "its name, owner, annotations or status"
            raise self._wrong(f"{claim}, on {own}: {difference}; set reads = Reads.ROW")
        difference = _difference(answers, self._results(self.example.without_related()))
        if difference:
            claim = f"has reads = Reads.{self.plugin.reads.name}, but its results depend on other objects"
            raise self._wrong(
                f"{claim}, such as namespaces, claims or volumes: {difference}; set reads = Reads.CLUSTER"
            )
        if self.plugin.reads is Reads.NODE:
            alone = self._guarded(self._probe(pod, with_running=False).everything)
            difference = _difference(answers, alone)
            if difference:
                claim = "has reads = Reads.NODE, but its results depend on the pods that run there"
                raise self._wrong(f"{claim}: {difference}; set reads = Reads.PODS")

    def _reads_its_own_row(self, answers: Answers) -> None:
        """When a row changes, that row alone is evaluated again, and preemption evaluates single nodes."""
        for name in answers.filters:
            alone = self._results(self.example.only(name))
            for what, before, after in (("Filter", answers.filters, alone.filters), ("Score", answers.raw, alone.raw)):
                if name in before and name in after and before[name] != after[name]:
                    claim = f"has reads = Reads.{self.plugin.reads.name}, but its results depend on other nodes"
                    said = f"{what} says {before[name] or 'yes'} for {name} and, when that is the only node"
                    raise self._wrong(f"{claim}: {said}, {after[name] or 'yes'}; set reads = Reads.CLUSTER")

    def _hints(self, probe: PluginProbe, answers: Answers) -> None:
        """A plugin that rejects a pod must have it retried when a change makes it fit."""
        registered = self._guarded(registered_by, probe.plugin)
        if registered in (EVERYTHING, OF_FUNCTIONS):
            return
        for change in self.example.changes():
            wakes = self._wakes(registered, change)
            if not answers.fits and not wakes and self._results(change.then).fits:
                event = change.events[0] if change.events else NODE_ADD
                wanted = f"on({event.resource}, Action.{event.action.name})"
                advice = f"add {wanted} to events_to_register, with a hint that returns QUEUE then, or without one"
                claim = f"rejects the pod on every node, would accept it after {change.words}"
                raise self._wrong(f"{claim}, and does not have it retried then; {advice}")
        for change in self.example.unrelated():
            self._wakes(registered, change)

    def _wakes(self, registered: Sequence[EventHint], change: ClusterChange) -> bool:
        """Whether any registration for the change wants the pod retried."""
        wakes = False
        for event in change.events:
            for each in registered:
                if each.event.matches(event):
                    wakes |= each.hint is None or self._hint(each, change) is Hint.QUEUE
        return wakes

    def _hint(self, registered: EventHint, change: ClusterChange) -> Hint:
        assert registered.hint is not None
        pod = change.then.pod
        seen = msgspec.json.encode([pod, change.old, change.new])
        answer: object = self._guarded(registered.hint, pod, change.old, change.new)
        if not isinstance(answer, Hint):
            raise self._wrong(f"a hint returned {answer!r}; return Hint.QUEUE or Hint.SKIP")
        if msgspec.json.encode([pod, change.old, change.new]) != seen:
            raise self._wrong("a hint changed an object; hints only read")
        if self._guarded(registered.hint, pod, change.old, change.new) is not answer:
            raise self._wrong(f"a hint returned different results when called twice after {change.words}")
        if registered.by_class and change.old is not self.example.pod:
            twin = self._guarded(registered.hint, _twin(pod), change.old, change.new)
            if twin is not answer:
                raise self._wrong("a hint with by_class=True depends on more than the pod's class; drop by_class")
        if registered.by_spec and change.old is not self.example.pod:
            twin = self._guarded(registered.hint, _stranger(pod), change.old, change.new)
            if twin is not answer:
                raise self._wrong("a hint with by_spec=True depends on more than the pod's spec; use by_class")
        return answer

    def _results(self, example: Example) -> Answers:
        probe = self._guarded(PluginProbe, self.plugin, cluster_of(example), example.pod, self.args)
        return self._guarded(probe.everything)


def _twin(pod: api.Pod) -> api.Pod:
    """Another pod of the same class, different in everything that may differ."""
    own = {"name": "twin", "uid": "twin", "annotations": {"a": "twin"}, "creation_timestamp": "2026-02-02T02:02:02Z"}
    metadata = replace(pod.metadata, **own, owner_references=(owner("Job", "twin"),))
    return replace(pod, metadata=metadata, status=api.PodStatus(phase="Pending", nominated_node_name="nowhere"))


def _stranger(pod: api.Pod) -> api.Pod:
    """A pod with the same spec, different in everything else."""
    twin = _twin(pod)
    return replace(twin, metadata=replace(twin.metadata, namespace="elsewhere", labels={"own": "label"}))


def _difference(first: Answers, second: Answers) -> str:
    """The first difference between two results, in words; empty if there is none."""
    if repr(first.pre_filter) != repr(second.pre_filter):
        return f"PreFilter said {first.pre_filter!r}, then {second.pre_filter!r}"
    for name in first.filters:
        if first.filters[name] != second.filters.get(name):
            return f"Filter said {first.filters[name] or 'yes'} for {name}, then {second.filters.get(name) or 'yes'}"
    for name in first.scores:
        if first.scores[name] != second.scores.get(name):
            return f"{name} scored {first.scores[name]}, then {second.scores.get(name)}"
    return ""
