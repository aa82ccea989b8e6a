"""Does a plugin keep to what the scheduler relies on? Asked with clusters that its author did not think of."""

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
from kubesched.queue.registrations import EVERYTHING, registered_by
from kubesched.testing.asking import Answers, Asked, OutOfRangeError, cluster_of
from kubesched.testing.generate import Chance, Change, Example, Labels
from kubesched.testing.searching import search

T = TypeVar("T")
P = ParamSpec("P")


class PluginCheckError(AssertionError):
    """Something that a plugin must not do, an example of its doing so, and what to change."""


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
    """Ask a plugin about many small clusters; raises a `PluginCheckError` for the first thing that it must not do.

    It must give the same answers when asked again; score from 0 to 100 once normalised; say the same of a node alone as
    among others; change nothing; depend on no more than its `reads` says; and its hints must wake pods that now fit.

    Nodes have made-up labels, among them those given as `labels` (keys, and the values that they may have). Given
    `nodes` and `pods` are used beside made-up ones: those that make your plugin say yes, and no. `args` are as they
    stand in a configuration file.
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
        asked = self._ask(self.example.pod)
        before = asked.fingerprint()
        answers = self._guarded(asked.everything)
        self._unchanged(before, asked)
        self._repeatable(answers)
        self._row_by_row(asked, answers)
        self._forms_agree(asked, answers)
        self._reads_no_more(answers)
        self._hints(asked, answers)

    def _ask(self, pod: api.Pod, *, with_running: bool = True) -> Asked:
        cluster = cluster_of(self.example, with_running=with_running)
        return self._guarded(Asked, self.plugin, cluster, pod, self.args)

    def _guarded(self, ask: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return ask(*args, **kwargs)
        except OutOfRangeError as error:
            wanted = "scores must be from 0 to 100; give the plugin a normalize, or @score(normalize=True)"
            raise self._wrong(f"{error}; {wanted}") from error
        except Exception as error:
            raise self._raised(error) from error

    def _raised(self, error: Exception) -> PluginCheckError:
        if isinstance(error, AnswerError | PluginError | PluginStartError):  # these say where
            return self._wrong(str(error))
        written = getattr(self.plugin, "written_as", self.plugin)
        return self._wrong(f"raised {type(error).__name__}: {error} ({place_of_error(error, written)})")

    def _wrong(self, what: str) -> PluginCheckError:
        written = getattr(self.plugin, "written_as", self.plugin)
        message = f"plugin {self.plugin.name} ({place_of(written)}): {what}\nexample: {self.example}"
        return PluginCheckError(message)

    def _unchanged(self, before: Mapping[str, bytes], asked: Asked) -> None:
        after = asked.fingerprint()
        changed = [what for what in before if before[what] != after[what]]
        if changed:
            raise self._wrong(f"changed {' and '.join(changed)}; plugins only look, so work on a copy")

    def _repeatable(self, answers: Answers) -> None:
        again = self._guarded(self._ask(self.example.pod).everything)
        difference = _difference(answers, again)
        if difference:
            advice = "take chance and time from self.handle, and keep no memory of earlier pods"
            raise self._wrong(f"gave different answers when asked twice: {difference}; {advice}")

    def _row_by_row(self, asked: Asked, answers: Answers) -> None:
        """A window of one row must get what that row gets among others: preemption and kept answers rely on it."""
        for row, name in zip(asked.nodes.row_numbers(), asked.nodes.names, strict=True):
            window = Nodes(asked.cluster.nodes, slice(row, row + 1))
            if name in answers.filters:
                alone = self._guarded(asked.filter, window)[name]
                if alone != answers.filters[name]:
                    both = (
                        f"{answers.filters[name] or 'yes'} of {name} among all nodes, but {alone or 'yes'} of it alone"
                    )
                    raise self._wrong(f"Filter says {both}; answer for each row from that row")
            if name in answers.raw:
                score = self._guarded(asked.score, window)[name]
                if score != answers.raw[name]:
                    both = f"{answers.raw[name]} to {name} among others, but {score} alone"
                    raise self._wrong(f"Score gives {both}; compare nodes in normalize, not in score_all")

    def _forms_agree(self, asked: Asked, answers: Answers) -> None:
        for node in asked.nodes:
            if hasattr(self.plugin, "filter") and hasattr(self.plugin, "filter_all") and node.name in answers.filters:
                one = self._guarded(asked.filter_one, node)
                if one != answers.filters[node.name]:
                    both = f"filter_all says {answers.filters[node.name] or 'yes'} and filter says {one or 'yes'}"
                    raise self._wrong(f"of {node.name}, {both}; only filter_all would be called")
            if hasattr(self.plugin, "score") and hasattr(self.plugin, "score_all") and node.name in answers.raw:
                number = self._guarded(asked.score_one, node)
                if number != answers.raw[node.name]:
                    both = f"score_all gives {answers.raw[node.name]} and score gives {number}"
                    raise self._wrong(f"to {node.name}, {both}; only score_all would be called")

    def _reads_no_more(self, answers: Answers) -> None:
        """Kept answers are given to other pods of the class, and kept while other things change."""
        if self.plugin.reads is Reads.CLUSTER:
            return
        self._reads_its_own_row(answers)
        if not self.plugin.reads.is_cacheable:
            return
        pod = self.example.pod
        difference = _difference(answers, self._guarded(self._ask(_twin(pod)).everything))
        if difference:
            claim = f"has reads = Reads.{self.plugin.reads.name}, but its answers depend on more than the pod's class"
            own = "its name, owner, annotations or status"
            raise self._wrong(f"{claim}, on {own}: {difference}; set reads = Reads.ROW")
        if self.plugin.reads is Reads.NODE:
            alone = self._guarded(self._ask(pod, with_running=False).everything)
            difference = _difference(answers, alone)
            if difference:
                claim = "has reads = Reads.NODE, but its answers depend on the pods that run there"
                raise self._wrong(f"{claim}: {difference}; set reads = Reads.PODS")

    def _reads_its_own_row(self, answers: Answers) -> None:
        """What is asked again when a row changes is that row, and what preemption tries out is one node."""
        for name in answers.filters:
            alone = self._ask_then(self.example.only(name))
            for what, before, after in (("Filter", answers.filters, alone.filters), ("Score", answers.raw, alone.raw)):
                if name in before and name in after and before[name] != after[name]:
                    claim = f"has reads = Reads.{self.plugin.reads.name}, but its answers depend on other nodes"
                    said = f"{what} says {before[name] or 'yes'} of {name} and, when that is the only node there is"
                    raise self._wrong(f"{claim}: {said}, {after[name] or 'yes'}; set reads = Reads.CLUSTER")

    def _hints(self, asked: Asked, answers: Answers) -> None:
        """Whoever rejects a pod must let it be tried again when something happens that lets it fit."""
        registered = self._guarded(registered_by, asked.plugin)
        if registered is EVERYTHING:
            return
        for change in self.example.changes():
            heard = self._hears(registered, change)
            if not answers.fits and not heard and self._ask_then(change.then).fits:
                event = change.events[0] if change.events else NODE_ADD
                wanted = f"on(Resource.{event.resource.name}, Action.{event.action.name})"
                advice = f"let events_to_register have {wanted}, with a hint that says QUEUE then, or without one"
                claim = f"rejects the pod everywhere, would take it after {change.words}"
                raise self._wrong(f"{claim}, and does not ask for it to be tried then; {advice}")
        for change in self.example.others():
            self._hears(registered, change)

    def _hears(self, registered: Sequence[EventHint], change: Change) -> bool:
        """Whether any of the hints that an event is for wants the pod tried again."""
        heard = False
        for event in change.events:
            for each in registered:
                if each.event.matches(event):
                    heard |= each.hint is None or self._asked_for_hint(each, change) is Hint.QUEUE
        return heard

    def _asked_for_hint(self, registered: EventHint, change: Change) -> Hint:
        assert registered.hint is not None
        pod = change.then.pod
        seen = msgspec.json.encode([pod, change.old, change.new])
        answer: object = self._guarded(registered.hint, pod, change.old, change.new)
        if not isinstance(answer, Hint):
            raise self._wrong(f"a hint answered with {answer!r}; return Hint.QUEUE or Hint.SKIP")
        if msgspec.json.encode([pod, change.old, change.new]) != seen:
            raise self._wrong("a hint changed an object; hints only look")
        if self._guarded(registered.hint, pod, change.old, change.new) is not answer:
            raise self._wrong(f"a hint gave different answers when asked twice after {change.words}")
        if registered.by_class and change.old is not self.example.pod:
            twin = self._guarded(registered.hint, _twin(pod), change.old, change.new)
            if twin is not answer:
                raise self._wrong("a hint with by_class=True depends on more than the pod's class; drop by_class")
        return answer

    def _ask_then(self, example: Example) -> Answers:
        asked = self._guarded(Asked, self.plugin, cluster_of(example), example.pod, self.args)
        return self._guarded(asked.everything)


def _twin(pod: api.Pod) -> api.Pod:
    """Another pod of the same class, different in all that may differ."""
    own = {"name": "twin", "uid": "twin", "annotations": {"a": "twin"}, "creation_timestamp": "2026-02-02T02:02:02Z"}
    metadata = replace(pod.metadata, **own, owner_references=(owner("Job", "twin"),))
    return replace(pod, metadata=metadata, status=api.PodStatus(phase="Pending", nominated_node_name="nowhere"))


def _difference(first: Answers, second: Answers) -> str:
    """What two rounds of answers disagree on, in words; empty if on nothing."""
    if repr(first.pre_filter) != repr(second.pre_filter):
        return f"PreFilter said {first.pre_filter!r}, then {second.pre_filter!r}"
    for name in first.filters:
        if first.filters[name] != second.filters.get(name):
            return f"Filter said {first.filters[name] or 'yes'} of {name}, then {second.filters.get(name) or 'yes'}"
    for name in first.scores:
        if first.scores[name] != second.scores.get(name):
            return f"{name} scored {first.scores[name]}, then {second.scores.get(name)}"
    return ""
