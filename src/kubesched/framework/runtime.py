"""A profile's plugins, wired to their extension points and run as upstream's framework runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.cluster import Cluster
from kubesched.cluster.pods import PodInfo
from kubesched.cluster.table import Ints
from kubesched.cluster.view import Nodes
from kubesched.framework.answers import (
    AnswerError,
    check_scores,
    check_verdicts,
    pre_filter_answer,
    status_answer,
    wrong,
)
from kubesched.framework.diagnosis import Diagnosis
from kubesched.framework.places import place_of, place_of_error
from kubesched.framework.plugin import (
    MAX_NODE_SCORE,
    MIN_NODE_SCORE,
    Plugin,
    PostFilterResult,
    Reads,
    Verdicts,
    is_built_in,
    lift_filter,
    lift_score,
    reject,
    whole,
)
from kubesched.framework.state import CycleState
from kubesched.framework.status import Code, Status, error, unresolvable
from kubesched.framework.verdicts import Rejections

FilterAll = Callable[[CycleState, api.Pod, Nodes], Verdicts | None]
ScoreAll = Callable[[CycleState, api.Pod, Nodes], Ints | int]


class PluginError(Exception):
    """A plugin failed: it raised, answered with an error, or broke the contract."""

    def __init__(self, plugin: str, point: str, message: str, place: str = "") -> None:
        super().__init__(message)
        self.plugin = plugin
        self.point = point
        self.place = place
        """File and line that it happened in, for the plugin's author; the message is for whoever owns the pod."""


class PluginStartError(ValueError):
    """A plugin that cannot be made, or cannot say what its pods wait for: the scheduler does not start."""


@contextmanager
def start_of(plugin: type[Plugin], method: str) -> Iterator[None]:
    """A plugin is asked something before the first pod comes. What it raises becomes an error for its author."""
    try:
        yield
    except Exception as problem:
        said = str(problem) if isinstance(problem, AnswerError) else f"{method} raised {described(problem)}"
        where = place_of_error(problem, getattr(plugin, "written_as", plugin))
        place = "" if isinstance(problem, AnswerError) else f" ({where})"
        raise PluginStartError(f'plugin "{plugin.name}": {said}{place}') from problem


class FilterPlugin:
    """A plugin at the Filter point, lifted to whole windows."""

    __slots__ = ("filter_all", "lifted", "name", "plugin", "reads")

    def __init__(self, plugin: Plugin) -> None:
        self.plugin = plugin
        self.name = plugin.name
        self.lifted = not hasattr(plugin, "filter_all")
        self.reads = Reads.CLUSTER if self.lifted else plugin.reads
        asked = lift_filter(plugin)
        self.filter_all = asked if self.lifted or is_built_in(type(plugin)) else _checked_filter(plugin, asked)


class ScorePlugin:
    """A plugin at the Score point, lifted to whole windows, with its weight in this profile."""

    __slots__ = ("name", "normalize", "plugin", "reads", "score_all", "weight")

    def __init__(self, plugin: Plugin, weight: int) -> None:
        self.plugin = plugin
        self.name = plugin.name
        self.reads = plugin.reads if hasattr(plugin, "score_all") else Reads.CLUSTER
        self.weight = weight
        asked = lift_score(plugin)
        lifted = not hasattr(plugin, "score_all")
        self.score_all = asked if lifted or is_built_in(type(plugin)) else _checked_score(plugin, asked)
        self.normalize: Callable[[CycleState, api.Pod, Ints], Ints] | None = getattr(plugin, "normalize", None)


def _checked_filter(plugin: Plugin, asked: FilterAll) -> FilterAll:
    """A `filter_all` whose answers are looked at before they are used, and what its codes mean, too."""

    def filter_all(state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        verdicts = asked(state, pod, nodes)
        if verdicts is None:
            return None
        check_verdicts(plugin, verdicts, len(nodes))
        return Verdicts(verdicts.codes, lambda code: _meaning(plugin, verdicts.status_of, code))

    return filter_all


def _meaning(plugin: Plugin, status_of: Callable[[int], object], code: int) -> Status:
    """What a code means, or the plugin's failure to say so. This is asked at any time, not only at the Filter point."""
    try:
        status = status_of(code)
        if isinstance(status, Status):
            return status
        raise wrong(plugin, "filter_all", status, f"let status_of({code}) return a Status")
    except Exception as problem:
        raise plugin_error(plugin, "Filter", problem) from problem


def _checked_score(plugin: Plugin, asked: ScoreAll) -> ScoreAll:
    """A `score_all` whose answers are looked at before they are used."""

    def score_all(state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints | int:
        answer = asked(state, pod, nodes)
        check_scores(plugin, answer, len(nodes))
        return answer

    return score_all


class PreFilterOutcome:
    """What PreFilter said: go on with these nodes, or not at all."""

    __slots__ = ("node_names", "plugins", "status")

    def __init__(self, status: Status | None, node_names: frozenset[str] | None, plugins: frozenset[str]) -> None:
        self.status = status
        self.node_names = node_names
        """Only these nodes are worth a look; None for all."""
        self.plugins = plugins
        """The plugins that narrowed the nodes."""


class Framework:
    """The plugins of one profile."""

    def __init__(
        self,
        profile_name: str,
        cluster: Cluster,
        points: Mapping[str, Sequence[Plugin]],
        weights: Mapping[str, int],
    ) -> None:
        self.profile_name = profile_name
        self.cluster = cluster
        self.points = points
        self.weights = weights
        self.pre_enqueue: Sequence[Any] = points.get("preEnqueue", ())
        self.pre_filter: Sequence[Any] = points.get("preFilter", ())
        self.filters = [self._at_filter(plugin) for plugin in points.get("filter", ())]
        self.post_filter: Sequence[Any] = points.get("postFilter", ())
        self.pre_score: Sequence[Any] = points.get("preScore", ())
        self.scores = [self._at_score(plugin) for plugin in points.get("score", ())]
        self.reserve: Sequence[Any] = points.get("reserve", ())
        self.watch: Callable[[str, str, Callable[..., Any], Sequence[Any]], Any] | None = None
        """Calls a plugin's method in the framework's stead and answers with its answer: to time it, say."""
        self._extended = [p for p in self.pre_filter if hasattr(p, "add_pod")]
        others = (p for at_point in points.values() for p in at_point if not is_built_in(type(p)))
        if any(plugin.reads.is_kept for plugin in others):
            cluster.nodes.exact = True  # ours read columns alone; who knows what others read

    def _at_filter(self, plugin: Plugin) -> FilterPlugin:
        placed = FilterPlugin(plugin)
        if "preFilter" in plugin.relies_on and plugin not in self.pre_filter:
            missing = error(f'reading "PreFilter{plugin.name}" from cycleState: not found')
            placed.filter_all = lambda state, pod, nodes: reject(np.ones(len(nodes), dtype=np.bool_), missing)
        return placed

    def _at_score(self, plugin: Plugin) -> ScorePlugin:
        placed = ScorePlugin(plugin, self.weights[plugin.name])
        if "preScore" in plugin.relies_on and plugin not in self.pre_score:
            message = f'plugin "{plugin.name}" failed with: reading "PreScore{plugin.name}" from cycleState: not found'

            def refuse(state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints:
                raise PluginError(plugin.name, "Score", f"running Score plugins: {message}")

            placed.score_all = refuse
        return placed

    def run_pre_enqueue(self, pod: api.Pod) -> Status | None:
        """Whether the pod may enter the active queue; the first plugin that objects speaks."""
        for plugin in self.pre_enqueue:
            answer = self._call(plugin, "PreEnqueue", plugin.pre_enqueue, pod)
            status = self._status(plugin, "PreEnqueue", "pre_enqueue", answer)
            if status is not None:
                return status.by(plugin.name)
        return None

    # PreFilter

    def ask_pre_filter(self, plugin: Any, state: CycleState, pod: api.Pod, nodes: Nodes) -> Any:
        """One plugin's PreFilter answer: None, a Status, or node names."""
        answer = self._call(plugin, "PreFilter", plugin.pre_filter, state, pod, nodes)
        if answer is None or type(answer) is Status:
            return answer
        try:
            return pre_filter_answer(plugin, answer)
        except AnswerError as problem:
            raise plugin_error(plugin, "PreFilter", problem) from problem

    def run_pre_filter(self, answers: Iterable[tuple[str, Any]], state: CycleState) -> PreFilterOutcome:
        """Put the PreFilter answers of all plugins together, in their order."""
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
                    # Preemption cannot help, so the others need not be asked.
                    return PreFilterOutcome(answer.by(plugin), None, frozenset())
                elif answer.code is Code.UNSCHEDULABLE:
                    # Preemption may help, and then it needs every plugin's state.
                    rejected = answer.by(plugin)
                elif not answer.is_success:
                    raise PluginError(plugin, "PreFilter", f'running PreFilter plugin "{plugin}": {answer.message}')
                continue
            narrowed.add(plugin)
            names = frozenset(answer) if names is None else names & frozenset(answer)
            if not names:
                return PreFilterOutcome(_nowhere(narrowed), names, frozenset(narrowed))
        return PreFilterOutcome(rejected, names, frozenset(narrowed))

    # Filter

    def active_filters(self, state: CycleState) -> list[FilterPlugin]:
        """The Filter plugins that PreFilter did not skip."""
        skip = state.skip_filter
        return [f for f in self.filters if f.name not in skip]

    def run_filters(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Rejections:
        """Ask every active Filter plugin about a window, as the cluster is."""
        entries: list[tuple[str, Verdicts]] = []
        for plugin in self.active_filters(state):
            verdicts = self.ask_filter(plugin, state, pod, nodes)
            if verdicts is not None:
                entries.append((plugin.name, verdicts))
        return Rejections(len(nodes), entries)

    def ask_filter(self, plugin: FilterPlugin, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        """One plugin's Filter answer."""
        return self._call(plugin, "Filter", plugin.filter_all, state, pod, nodes)  # type: ignore[no-any-return]  # its answer

    def filter_row(self, state: CycleState, pod: api.Pod, row: int) -> Status | None:
        """The status of one row, counting pods nominated to it, as `run_filters` and they together give it."""
        window = Nodes(self.cluster.nodes, slice(row, row + 1))
        with self.nominated_added(state, pod, row) as (what_if, added):
            status = attributed(self.run_filters(what_if, pod, window).status(0))
        if status is None and added:
            status = attributed(self.run_filters(state, pod, window).status(0))
        return status

    def filter_rows(self, state: CycleState, pod: api.Pod, rows: Ints) -> Rejections:
        """Statuses of several rows at once; right only where no pod of at least this priority is nominated to one."""
        return self.run_filters(state, pod, Nodes(self.cluster.nodes, rows))

    def nominated_rows(self, pod: api.Pod) -> list[int]:
        """Rows that pods of at least this pod's priority are nominated to."""
        nominations, row_of = self.cluster.nominations, self.cluster.nodes.row_of
        return [
            row_of[name]
            for name in nominations.nodes
            if name in row_of and any(_outranks(info, pod) for info in nominations.on(name))
        ]

    @contextmanager
    def nominated_added(self, state: CycleState, pod: api.Pod, row: int) -> Iterator[tuple[CycleState, bool]]:
        """For a moment, put the pods nominated to a row on it, those of at least this pod's priority."""
        table = self.cluster.nodes
        pods = [info for info in self.cluster.nominations.on(table.names[row]) if _outranks(info, pod)]
        if not pods:
            yield state, False
            return
        state = state.clone()
        for info in pods:
            table.usage(info.pod_class)  # columns that these pods bring along must outlast the what-if
        with self.what_if([row]):
            for info in pods:
                self.add_pods(pod, [(state, info, row)])
            yield state, True

    # What if

    @property
    def what_if_extensions(self) -> Sequence[Any]:
        """PreFilter plugins that must be told of pods added and removed in a what-if."""
        return self._extended

    @contextmanager
    def what_if(self, rows: Sequence[int]) -> Iterator[None]:
        """A time in which pods on these rows may come and go; afterwards the rows are as they were."""
        table = self.cluster.nodes
        pods = {row: dict(table.pods[row]) for row in rows}
        used = table.used[:, list(rows)]
        try:
            yield
        finally:
            table.restore(pods, used)

    def add_pods(self, pod: api.Pod, moves: Sequence[tuple[CycleState, PodInfo, int]]) -> None:
        """Suppose each of these pods were on its row too; the rows are all different."""
        self.cluster.nodes.place_each([(info, row) for _, info, row in moves])
        self._tell(moves, "PreFilter AddPod", "add_pod", pod)

    def remove_pods(self, pod: api.Pod, moves: Sequence[tuple[CycleState, PodInfo, int]]) -> None:
        """Suppose each of these pods were not on its row; the rows are all different."""
        self.cluster.nodes.take_off_each([(info, row) for _, info, row in moves])
        self._tell(moves, "PreFilter RemovePod", "remove_pod", pod)

    def _tell(self, moves: Sequence[tuple[CycleState, PodInfo, int]], point: str, method: str, pod: api.Pod) -> None:
        for plugin in self._extended:
            for state, info, row in moves:
                if plugin.name not in state.skip_filter:
                    self._call(plugin, point, getattr(plugin, method), state, pod, info, row)

    # PostFilter, PreScore, Score

    def run_post_filter(
        self, state: CycleState, pod: api.Pod, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """Ask PostFilter plugins in turn until one makes room, or none can."""
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
        answer = self._call(plugin, "PostFilter", plugin.post_filter, state, pod, diagnosis)
        result, status = answer if isinstance(answer, tuple) and len(answer) == 2 else (None, None)
        if isinstance(status, Status) and (result is None or isinstance(result, PostFilterResult)):
            return result, status
        wanted = 'return (None, unschedulable("why")), or (PostFilterResult(node_name), Status(Code.SUCCESS))'
        problem = wrong(plugin, "post_filter", answer, wanted)
        raise plugin_error(plugin, "PostFilter", problem) from problem

    def ask_pre_score(self, plugin: Any, state: CycleState, pod: api.Pod, nodes: Nodes) -> bool:
        """Run one plugin's PreScore; False when it wants no Score."""
        answer = self._call(plugin, "PreScore", plugin.pre_score, state, pod, nodes)
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
        return self._call(plugin, "Score", plugin.score_all, state, pod, nodes)  # type: ignore[no-any-return]  # its answer

    def ask_normalize(self, plugin: ScorePlugin, state: CycleState, pod: api.Pod, scores: Ints | int) -> Ints | int:
        """Scores brought to 0…100 and weighted. One number stands for a whole window of it."""
        uniform = isinstance(scores, int)
        if plugin.normalize is not None:
            array = np.array([scores], dtype=np.int64) if isinstance(scores, int) else scores
            scores = self._call(plugin, "NormalizeScore", self._normalized, plugin, state, pod, array)
            if uniform:
                scores = int(scores[0])  # type: ignore[index]  # normalize answers with an array
        elif not uniform:
            scores = whole(scores)  # type: ignore[arg-type]  # an array, since it is no int
        self.check_range(plugin, scores)
        return scores * plugin.weight

    def _normalized(self, plugin: ScorePlugin, state: CycleState, pod: api.Pod, scores: Ints) -> Ints:
        assert plugin.normalize is not None
        answer = plugin.normalize(state, pod, scores)
        if type(answer) is not np.ndarray or answer.dtype != np.int64 or answer.shape != scores.shape:
            check_scores(plugin.plugin, answer, len(scores), "normalize")
            return whole(answer)
        return answer

    def check_range(self, plugin: ScorePlugin, scores: Ints | int) -> None:
        """Refuse scores out of 0…100."""
        low, high = (scores, scores) if isinstance(scores, int) else (scores.min(initial=0), scores.max(initial=0))
        if low < MIN_NODE_SCORE or high > MAX_NODE_SCORE:
            bad = low if low < MIN_NODE_SCORE else high
            raise PluginError(
                plugin.name,
                "Score",
                f'plugin "{plugin.name}" returns an invalid score {bad}, it should in the range of '
                f"[{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing" + _advice(plugin),
                place_of(_written(plugin.plugin)),
            )

    # Reserve

    def run_reserve(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
        """Let plugins set things aside for the pod; on a failure those that did are told to give them back."""
        for plugin in self.reserve:
            answer = self._call(plugin, "Reserve", plugin.reserve, state, pod, node_name)
            status = self._status(plugin, "Reserve", "reserve", answer)
            if status is not None:
                self.run_unreserve(state, pod, node_name)
                if status.is_rejected:
                    return status.by(plugin.name)
                return error(f'running Reserve plugin "{plugin.name}": {status.message}')
        return None

    def run_unreserve(self, state: CycleState, pod: api.Pod, node_name: str) -> None:
        """Give everything back, in reverse order."""
        for plugin in reversed(self.reserve):
            if hasattr(plugin, "unreserve"):
                self._call(plugin, "Unreserve", plugin.unreserve, state, pod, node_name)

    def _status(self, plugin: Any, point: str, method: str, answer: object) -> Status | None:
        """A plugin's answer as a status; None for success."""
        try:
            return status_answer(plugin, method, answer)
        except AnswerError as problem:
            raise plugin_error(plugin, point, problem) from problem

    def _call(self, plugin: Any, point: str, method: Callable[..., Any], *args: Any) -> Any:
        try:
            return method(*args) if self.watch is None else self.watch(plugin.name, point, method, args)
        except PluginError:
            raise
        except Exception as problem:
            raise plugin_error(plugin, point, problem) from problem

    def is_row_local(self, state: CycleState) -> bool:
        """Whether every active Filter plugin answers for a row from that row alone."""
        return all(f.reads is not Reads.CLUSTER for f in self.active_filters(state))


def plugin_error(plugin: Any, point: str, problem: Exception) -> PluginError:
    """What a plugin raised, or answered, as the failure of that plugin."""
    return PluginError(
        plugin.name, point, f'running {point} plugin "{plugin.name}": {described(problem)}', place_in(plugin, problem)
    )


def described(problem: Exception) -> str:
    """What went wrong, for a message. An answer that is none says itself what it is."""
    return str(problem) if isinstance(problem, AnswerError) else f"{type(problem).__name__}: {problem}"


def place_in(plugin: Any, problem: Exception) -> str:
    """The line of a plugin's own file that went wrong; where the plugin begins, if it was none in particular."""
    return problem.place if isinstance(problem, AnswerError) else place_of_error(problem, _written(plugin))


def attributed(status: Status | None) -> Status | None:
    """A Filter status; an error says where it comes from, as upstream words it."""
    if status is None or status.is_rejected:
        return status
    return Status(Code.ERROR, f'running "{status.plugin}" filter plugin: {status.message}', plugin=status.plugin)


def checked(status: Status | None) -> Status | None:
    """A Filter status, unless it is an error: that ends the attempt."""
    status = attributed(status)
    if status is not None and status.code is Code.ERROR:
        raise PluginError(status.plugin, "Filter", status.message)
    return status


def _written(plugin: Any) -> object:
    """What a plugin was written as: its class, or the function that it was made of."""
    kind = type(getattr(plugin, "plugin", plugin))
    return getattr(kind, "written_as", kind)


def _advice(plugin: ScorePlugin) -> str:
    """What to do about a score out of range. Our own plugins say what upstream's say, and no more."""
    written = _written(plugin.plugin)
    if is_built_in(type(plugin.plugin)):
        return ""
    if plugin.normalize is not None:
        return f"; let its normalize answer with numbers from 0 to 100 ({place_of(written)})"
    if isinstance(written, type):
        return f"; return a number from 0 to 100, or give the class a normalize method ({place_of(written)})"
    return f"; return a number from 0 to 100, or write @score(normalize=True) ({place_of(written)})"


def _outranks(info: PodInfo, pod: api.Pod) -> bool:
    return info.pod.priority >= pod.priority and info.pod.metadata.uid != pod.metadata.uid


def _nowhere(plugins: set[str]) -> Status:
    if len(plugins) == 1:
        return unresolvable(f"node(s) didn't satisfy plugin {next(iter(plugins))}")
    return unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}] simultaneously")
