"""The runner of a profile's plugins at every extension point, from PreEnqueue to PostBind, by upstream's rules.

Points up to Permit are synchronous; PreBind, Bind and PostBind are coroutines. Every caller uses this runner: the loop,
the simulator, the replay of recorded decisions, tests. What ran is written to the cycle's `CycleRecord`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.pods import PodClass
from kubesched.cluster.state import ClusterState
from kubesched.cluster.table import Ints
from kubesched.cluster.view import Nodes
from kubesched.framework.adapters import FilterPlugin, ScorePlugin
from kubesched.framework.answers import (
    AnswerError,
    check_scores,
    permit_answer,
    pre_filter_answer,
    status_answer,
    wrong,
)
from kubesched.framework.diagnosis import Diagnosis
from kubesched.framework.errors import PluginError, described, place_in, plugin_error, source_of
from kubesched.framework.places import place_of
from kubesched.framework.plugin import (
    MAX_NODE_SCORE,
    MIN_NODE_SCORE,
    Plugin,
    PostFilterResult,
    Verdicts,
    is_built_in,
    reject,
    whole,
)
from kubesched.framework.preemption_contract import PreemptionPlugin
from kubesched.framework.record import SUCCESS, CycleRecord, Objection
from kubesched.framework.state import CycleState
from kubesched.framework.status import SKIP, Code, Status, error, unresolvable
from kubesched.framework.verdicts import Rejections
from kubesched.framework.what_if import WhatIf

LONGEST_PERMIT = 15 * 60.0
"""Seconds that a pod waits on Permit at most, whatever a plugin asks for."""
NO_BINDER = Status(Code.SKIP, "no Bind plugin took the pod")


class PreFilterOutcome:
    """The result of PreFilter: a rejection, or the nodes to go on with."""

    __slots__ = ("node_names", "plugins", "status", "stopped_at")

    def __init__(
        self, status: Status | None, node_names: frozenset[str] | None, plugins: frozenset[str], stopped_at: str = ""
    ) -> None:
        self.status = status
        self.stopped_at = stopped_at
        """The plugin after which no other ran; empty if all did."""
        self.node_names = node_names
        """The only nodes to filter; None for all."""
        self.plugins = plugins
        """The plugins that narrowed the nodes."""


GOES_ON = PreFilterOutcome(None, None, frozenset())
"""No plugin has rejected the pod or narrowed the nodes, as with most pods."""


class Framework:
    """The plugins of one profile."""

    def __init__(
        self,
        profile_name: str,
        cluster: ClusterState,
        points: Mapping[str, Sequence[Plugin]],
        weights: Mapping[str, int],
        placement_weights: Mapping[str, int] | None = None,
    ) -> None:
        self.profile_name = profile_name
        self.cluster = cluster
        self.points = points
        self.weights = weights
        self.placement_weights = placement_weights or {}
        self.pre_enqueue: Sequence[Any] = points.get("preEnqueue", ())
        self.pre_filter: Sequence[Any] = points.get("preFilter", ())
        self.filters = [self._at_filter(plugin) for plugin in points.get("filter", ())]
        self.post_filter: Sequence[Any] = points.get("postFilter", ())
        self.pre_score: Sequence[Any] = points.get("preScore", ())
        self.scores = [self._at_score(plugin) for plugin in points.get("score", ())]
        self.reserve: Sequence[Any] = points.get("reserve", ())
        self.permit: Sequence[Any] = points.get("permit", ())
        self.pre_bind: Sequence[Any] = points.get("preBind", ())
        self.bind: Sequence[Any] = points.get("bind", ())
        self.post_bind: Sequence[Any] = points.get("postBind", ())
        self.placement_generate: Sequence[Any] = points.get("placementGenerate", ())
        self.placement_score: Sequence[Any] = points.get("placementScore", ())
        self.plugins: Sequence[Plugin] = list({id(each): each for some in points.values() for each in some}.values())
        """Every plugin of the profile once."""
        self.what_if = WhatIf(self)
        self.caches_only_built_in = all(
            is_built_in(type(plugin))
            for plugin in self.plugins
            if plugin.reads.is_cacheable or type(plugin).ignores is not Plugin.ignores
        )
        """Whether cached answers are all from our own plugins: those read only specs, and those that read only nodes
        do not read requests."""
        self.cacheable_filters = [each for each in self.filters if each.reads.is_cacheable]
        self.cacheable_scores = [each for each in self.scores if each.reads.is_cacheable]

    def cache_class(self, pod_class: PodClass) -> PodClass:
        """The class that cached answers are valid for. Where labels do not matter, pods that differ in them share the
        answers."""
        return pod_class.without_labels if self.caches_only_built_in else pod_class

    @property
    def preemption(self) -> PreemptionPlugin | None:
        """The PostFilter plugin that names victims."""
        return next((plugin for plugin in self.post_filter if isinstance(plugin, PreemptionPlugin)), None)

    def close(self) -> list[PluginError]:
        """Close all plugins, in order; returns what they raised."""
        problems = []
        for plugin in self.plugins:
            try:
                plugin.close()
            except KeyboardInterrupt:
                raise
            except BaseException as problem:
                problems.append(PluginError(plugin.name, "close", described(problem), place_in(plugin, problem)))
        return problems

    def _at_filter(self, plugin: Plugin) -> FilterPlugin:
        if "preFilter" not in plugin.relies_on or plugin in self.pre_filter:
            return FilterPlugin(plugin)
        missing = error(f'reading "PreFilter{plugin.name}" from cycleState: not found')
        return FilterPlugin(plugin, lambda state, pod, nodes: reject(np.ones(len(nodes), dtype=np.bool_), missing))

    def _at_score(self, plugin: Plugin) -> ScorePlugin:
        weight = self.weights[plugin.name]
        if "preScore" not in plugin.relies_on or plugin in self.pre_score:
            return ScorePlugin(plugin, weight)
        message = f'plugin "{plugin.name}" failed with: reading "PreScore{plugin.name}" from cycleState: not found'

        def refuse(state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints:
            raise PluginError(plugin.name, "Score", f"running Score plugins: {message}")

        return ScorePlugin(plugin, weight, refuse)

    # PreEnqueue

    def run_pre_enqueue(self, pod: api.Pod) -> Status | None:
        """Whether the pod may enter the active queue; the first plugin that rejects it decides."""
        for plugin in self.pre_enqueue:
            answer = self.call(NOT_RECORDED, plugin, "PreEnqueue", plugin.pre_enqueue, pod)
            if answer is None:
                continue
            status = self._status(plugin, "PreEnqueue", "pre_enqueue", answer)
            if status is not None:
                return status.by(plugin.name)
        return None

    # PreFilter

    def is_asked_once(self, plugin: Plugin, pod_class: PodClass) -> bool:
        """Whether the plugin's PreFilter and PreScore results hold for all pods of a class."""
        if plugin.reads.is_cacheable:
            return True
        ignores: bool = self.call(NOT_RECORDED, plugin, "PreFilter", _truth, plugin.ignores, pod_class)
        return ignores

    def ask_pre_filter(self, plugin: Any, state: CycleState, pod: api.Pod, nodes: Nodes) -> Any:
        """One plugin's PreFilter result: None, a Status, or node names."""
        answer = self.call(state.record, plugin, "PreFilter", plugin.pre_filter, state, pod, nodes)
        if answer is None or answer is SKIP:
            return answer
        try:
            return pre_filter_answer(plugin, answer)
        except AnswerError as problem:
            raise plugin_error(plugin, "PreFilter", problem) from problem

    def combine_pre_filter(self, answers: Iterable[tuple[str, Any]], state: CycleState) -> PreFilterOutcome:
        """Combine the PreFilter results of all plugins, in their order."""
        names: frozenset[str] | None = None
        narrowed: set[str] = set()
        rejected: Status | None = None
        for plugin, answer in answers:
            if answer is None:
                continue
            if isinstance(answer, Status):
                if answer.is_skip:
                    state.skip_filter.add(plugin)
                elif answer.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                    # Preemption cannot help, so the other plugins need not run.
                    return PreFilterOutcome(answer.by(plugin), None, frozenset(), plugin)
                elif answer.code is Code.UNSCHEDULABLE:
                    # Preemption may help, and then it needs every plugin's state.
                    rejected = answer.by(plugin)
                elif not answer.is_success:
                    raise PluginError(plugin, "PreFilter", f'running PreFilter plugin "{plugin}": {answer.message}')
                continue
            narrowed.add(plugin)
            names = frozenset(answer) if names is None else names & frozenset(answer)
            if not names:
                return PreFilterOutcome(_no_common_node(narrowed), names, frozenset(narrowed), plugin)
        return PreFilterOutcome(rejected, names, frozenset(narrowed)) if narrowed or rejected else GOES_ON

    # Filter

    def active_filters(self, state: CycleState) -> list[FilterPlugin]:
        """The Filter plugins that PreFilter did not skip."""
        skip = state.skip_filter
        return [f for f in self.filters if f.name not in skip]

    def run_filters(
        self, state: CycleState, pod: api.Pod, nodes: Nodes, plugins: Iterable[FilterPlugin] | None = None
    ) -> Rejections:
        """Run Filter plugins, by default every active one, on a window of the cluster as it is."""
        entries: list[tuple[str, Verdicts]] = []
        for plugin in self.active_filters(state) if plugins is None else plugins:
            verdicts = self.ask_filter(plugin, state, pod, nodes)
            if verdicts is not None:
                entries.append((plugin.name, verdicts))
        return Rejections(len(nodes), entries)

    def ask_filter(self, plugin: FilterPlugin, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        """One plugin's Filter result."""
        return self.call(state.record, plugin, "Filter", plugin.filter_all, state, pod, nodes)  # type: ignore[no-any-return]  # found by name

    # PostFilter

    def run_post_filter(
        self, state: CycleState, pod: api.Pod, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """Run PostFilter plugins in turn until one makes room."""
        result: PostFilterResult | None = None
        reasons: list[str] = []
        rejector = ""
        for plugin in self.post_filter:
            answer, status = self._ask_post_filter(plugin, state, pod, diagnosis)
            if status.is_success:
                return answer, status
            if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return answer, status.by(plugin.name)
            if not status.is_rejected:
                return None, Status(Code.ERROR, status.message, plugin=plugin.name)
            result = answer if answer is not None else result
            reasons += status.reasons
            rejector = rejector or plugin.name
        return result, Status(Code.UNSCHEDULABLE, *reasons, plugin=rejector)

    def _ask_post_filter(
        self, plugin: Any, state: CycleState, pod: api.Pod, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        answer = self.call(state.record, plugin, "PostFilter", plugin.post_filter, state, pod, diagnosis)
        result, status = answer if isinstance(answer, tuple) and len(answer) == 2 else (None, None)
        if isinstance(status, Status) and (result is None or isinstance(result, PostFilterResult)):
            return result, status
        wanted = 'return (None, unschedulable("why")), or (PostFilterResult(node_name), Status(Code.SUCCESS))'
        problem = wrong(plugin, "post_filter", answer, wanted)
        raise plugin_error(plugin, "PostFilter", problem) from problem

    # PreScore, Score

    def ask_pre_score(self, plugin: Any, state: CycleState, pod: api.Pod, nodes: Nodes) -> bool:
        """Run one plugin's PreScore; False if its Score is to be skipped."""
        answer = self.call(state.record, plugin, "PreScore", plugin.pre_score, state, pod, nodes)
        if answer is None:
            return True
        status = self._status(plugin, "PreScore", "pre_score", answer)
        if status is None:
            return True
        if status.is_skip:
            return False
        raise PluginError(plugin.name, "PreScore", f'running PreScore plugin "{plugin.name}": {status.message}')

    def ask_score(self, plugin: ScorePlugin, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints | int:
        """One plugin's raw scores for a window."""
        return self.call(state.record, plugin, "Score", plugin.score_all, state, pod, nodes)  # type: ignore[no-any-return]  # found by name

    def ask_normalize(self, plugin: ScorePlugin, state: CycleState, pod: api.Pod, scores: Ints | int) -> Ints | int:
        """Scores normalised to 0…100 and weighted. A single number stands for the same score on every row."""
        uniform = isinstance(scores, int)
        if plugin.normalize is not None:
            array = np.array([scores], dtype=np.int64) if isinstance(scores, int) else scores
            scores = self.call(state.record, plugin, "NormalizeScore", self._normalized, plugin, state, pod, array)
            if uniform:
                scores = int(scores[0])  # type: ignore[index]  # normalize returns an array
        elif not uniform:
            scores = whole(scores)  # type: ignore[arg-type]  # an array, since it is no int
        if plugin.normalize is None or plugin.reads.is_cacheable or not is_built_in(type(plugin.plugin)):
            self.check_range(plugin, scores)  # our own plugins that are asked for every pod normalise what they count
        return scores if plugin.weight == 1 else scores * plugin.weight

    def _normalized(self, plugin: ScorePlugin, state: CycleState, pod: api.Pod, scores: Ints) -> Ints:
        assert plugin.normalize is not None
        # Cached scores must survive a plugin that normalises in place, as Go's do.
        answer = plugin.normalize(state, pod, scores if is_built_in(type(plugin.plugin)) else scores.copy())
        if type(answer) is not np.ndarray or answer.dtype != np.int64 or answer.shape != scores.shape:
            check_scores(plugin.plugin, answer, len(scores), "normalize")
            return whole(answer)
        return answer

    def check_range(self, plugin: ScorePlugin, scores: Ints | int) -> None:
        """Raise if a score is not in 0…100."""
        low, high = (scores, scores) if isinstance(scores, int) else (scores.min(initial=0), scores.max(initial=0))
        if low < MIN_NODE_SCORE or high > MAX_NODE_SCORE:
            bad = low if low < MIN_NODE_SCORE else high
            raise PluginError(
                plugin.name,
                "Score",
                f'plugin "{plugin.name}" returns an invalid score {bad}, it should in the range of '
                f"[{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing" + _advice(plugin),
                place_of(source_of(plugin.plugin)),
            )

    # Reserve, Permit

    def run_reserve(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
        """Let plugins reserve resources for the pod. If one rejects it, the caller has to run Unreserve."""
        record = state.record
        record.begin_point()
        status: Status | None = None
        for plugin in self.reserve:
            answer = self._try(record, plugin, "Reserve", plugin.reserve, state, pod, node_name)
            status = self._judged(record, plugin, "Reserve", "reserve", answer)
            if status is not None:
                break
        record.end_point("Reserve", _name_of(status))
        return status

    def run_unreserve(self, state: CycleState, pod: api.Pod, node_name: str) -> None:
        """Undo Reserve, in reverse order. A plugin that fails does not keep the others from it."""
        record = state.record
        record.begin_point()
        for plugin in reversed(self.reserve):
            if hasattr(plugin, "unreserve"):
                answer = self._try(record, plugin, "Unreserve", plugin.unreserve, state, pod, node_name)
                self._judged(record, plugin, "Unreserve", "unreserve", answer)
        record.end_point("Unreserve")

    def run_permit(self, state: CycleState, pod: api.Pod, node_name: str) -> tuple[Status | None, dict[str, float]]:
        """Ask whether the pod may be bound: a rejection, or how many seconds it has to wait for each plugin."""
        record = state.record
        record.begin_point()
        rejection: Status | None = None
        timeouts: dict[str, float] = {}
        for plugin in self.permit:
            answer = self._try(record, plugin, "Permit", plugin.permit, state, pod, node_name)
            seconds, rejection = self._permitted(record, plugin, answer)
            if rejection is not None:
                break
            if seconds is not None:
                timeouts[plugin.name] = min(seconds, LONGEST_PERMIT)
        record.end_point("Permit", _name_of(rejection or (Status(Code.WAIT) if timeouts else None)))
        return rejection, timeouts

    def _permitted(self, record: CycleRecord, plugin: Any, answer: Any) -> tuple[float | None, Status | None]:
        if isinstance(answer, BaseException):
            return None, self._raised(record, plugin, "Permit", answer)
        try:
            status, seconds = permit_answer(plugin, answer)
        except AnswerError as problem:
            return None, self._raised(record, plugin, "Permit", problem)
        if status is not None and status.code is Code.WAIT:
            record.wait_reason = status.message
            return LONGEST_PERMIT if seconds is None else seconds, None
        return None, self._judged(record, plugin, "Permit", "permit", status)

    # PreBind, Bind, PostBind

    def plugins_to_pre_bind(self, state: CycleState, pod: api.Pod, node_name: str) -> tuple[list[Any], Status | None]:
        """The PreBind plugins that have something to do. One without `pre_bind_needed` always has."""
        record = state.record
        record.begin_point()
        needed = []
        for plugin in self.pre_bind:
            ask = getattr(plugin, "pre_bind_needed", None)
            answer = ask is None or self._try(record, plugin, "PreBindPreFlight", _truth, ask, state, pod, node_name)
            if isinstance(answer, BaseException):
                failed = error(f'running PreBindPreFlight "{plugin.name}": {described(answer)}')
                record.objections.append(Objection(plugin.name, "PreBindPreFlight", failed, described(answer)))
                record.end_point("PreBindPreFlight", _name_of(failed))
                return [], failed
            if answer:
                needed.append(plugin)
        record.end_point("PreBindPreFlight", SUCCESS if needed else Code.SKIP.upstream)
        return needed, None

    def pre_bind_waits(self, plugins: Sequence[Any], state: CycleState, pod: api.Pod, node_name: str) -> bool:
        """Whether PreBind waits for more than its own writes. A plugin without `pre_bind_waits` may."""
        for plugin in plugins:
            ask = getattr(plugin, "pre_bind_waits", None)
            # An exception counts as a yes: the caller only saves work after a no.
            if ask is None or self._try(state.record, plugin, "PreBindPreFlight", _truth, ask, state, pod, node_name):
                return True
        return False

    async def ask_pre_bind(self, plugin: Any, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
        """Run one plugin's PreBind."""
        answer = await self._try_async(state.record, plugin, "PreBind", plugin.pre_bind, state, pod, node_name)
        return self._judged(state.record, plugin, "PreBind", "pre_bind", answer)

    async def run_bind(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
        """Let the first Bind plugin that does not skip the pod bind it."""
        record = state.record
        record.begin_point()
        status: Status | None = NO_BINDER
        for plugin in self.bind:
            answer = await self._try_async(record, plugin, "Bind", plugin.bind, state, pod, node_name)
            status = self._judged(record, plugin, "Bind", "bind", answer)
            if status is None or not status.is_skip:
                break
        record.end_point("Bind", _name_of(status))
        return status

    async def run_post_bind(self, state: CycleState, pod: api.Pod, node_name: str) -> None:
        """Notify plugins that the pod is bound. Their results change nothing."""
        record = state.record
        record.begin_point()
        for plugin in self.post_bind:
            answer = await self._try_async(record, plugin, "PostBind", plugin.post_bind, state, pod, node_name)
            self._judged(record, plugin, "PostBind", "post_bind", answer)
        record.end_point("PostBind")

    # Calling a plugin

    def call(self, record: CycleRecord, plugin: Any, point: str, method: Callable[..., Any], *args: Any) -> Any:
        """Call a plugin's method. What it raises becomes a `PluginError`."""
        try:
            if not record.times_plugins:
                return method(*args)
            return _timed(record, plugin, point, method, args)
        except PluginError:
            raise
        except KeyboardInterrupt:
            raise
        except BaseException as problem:
            raise plugin_error(plugin, point, problem) from problem

    def _try(self, record: CycleRecord, plugin: Any, point: str, method: Callable[..., Any], *args: Any) -> Any:
        """Call a plugin's method; returns its result, or the exception that it raised."""
        try:
            if not record.times_plugins:
                return method(*args)
            return _timed(record, plugin, point, method, args)
        except KeyboardInterrupt:
            raise
        except BaseException as problem:
            return problem

    async def _try_async(
        self, record: CycleRecord, plugin: Any, point: str, method: Callable[..., Awaitable[Any]], *args: Any
    ) -> Any:
        """Await a plugin's method; returns its result, or the exception that it raised."""
        started = record.now() if record.times_plugins else 0.0
        answer: Any
        try:
            answer = await method(*args)
        except KeyboardInterrupt:
            raise
        except BaseException as problem:
            if not isinstance(problem, (Exception, SystemExit)) and record.is_cancelled:
                raise
            answer = problem
        if record.times_plugins:
            record.add_call(plugin.name, point, started, answer)
        return answer

    def _status(self, plugin: Any, point: str, method: str, answer: object) -> Status | None:
        """A plugin's result as a status; None for success."""
        try:
            return status_answer(plugin, method, answer)
        except AnswerError as problem:
            raise plugin_error(plugin, point, problem) from problem

    def _judged(self, record: CycleRecord, plugin: Any, point: str, method: str, answer: object) -> Status | None:
        """The status of a point after the decision; None for success. A rejection or a failure is recorded."""
        if answer is None:
            return None
        if isinstance(answer, BaseException):
            return self._raised(record, plugin, point, answer)
        try:
            status = status_answer(plugin, method, answer)
        except AnswerError as problem:
            return self._raised(record, plugin, point, problem)
        if status is None or (status.is_skip and point == "Bind"):
            return status
        if not status.is_rejected:
            return fail(record, plugin, point, status.message or f"{status.code.upstream} is no result of this point")
        record.objections.append(Objection(plugin.name, point, status.by(plugin.name), status.message))
        return status.by(plugin.name)

    def _raised(self, record: CycleRecord, plugin: Any, point: str, problem: BaseException) -> Status:
        """The author of a plugin needs the line. In our own plugins the exception is the API server's."""
        place = "" if is_built_in(type(plugin)) else place_in(plugin, problem)
        return fail(record, plugin, point, described(problem), place)


NOT_RECORDED = CycleRecord()
"""PreEnqueue runs before there is an attempt."""


def fail(record: CycleRecord, plugin: Any, point: str, reason: str, place: str = "") -> Status:
    """A plugin has failed at a point after the decision."""
    status = Status(Code.ERROR, f'running {point} plugin "{plugin.name}": {reason}', plugin=plugin.name)
    record.objections.append(Objection(plugin.name, point, status, reason, place))
    return status


def _timed(record: CycleRecord, plugin: Any, point: str, method: Callable[..., Any], args: Sequence[Any]) -> Any:
    started = record.now()
    try:
        answer = method(*args)
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        record.add_call(plugin.name, point, started, problem)
        raise
    record.add_call(plugin.name, point, started, answer)
    return answer


def _truth(ask: Callable[..., Any], *args: Any) -> bool:
    """What a plugin answers, as yes or no. Its object may refuse to say."""
    return bool(ask(*args))


def _name_of(status: Status | None) -> str:
    return SUCCESS if status is None else status.code.upstream


def _advice(plugin: ScorePlugin) -> str:
    """What to do about a score out of range. The messages of our own plugins are upstream's and end there."""
    source = source_of(plugin.plugin)
    if is_built_in(type(plugin.plugin)):
        return ""
    if plugin.normalize is not None:
        return f"; let its normalize answer with numbers from 0 to 100 ({place_of(source)})"
    if isinstance(source, type):
        return f"; return a number from 0 to 100, or give the class a normalize method ({place_of(source)})"
    return f"; return a number from 0 to 100, or write @score(normalize=True) ({place_of(source)})"


def _no_common_node(plugins: set[str]) -> Status:
    if len(plugins) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {next(iter(plugins))}")
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}] simultaneously")
