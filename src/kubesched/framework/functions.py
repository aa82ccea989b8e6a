"""Plugins made from one function: a rule or a preference about a pod and a node.

    @filter
    def is_awake(pod, node):
        return "node(s) were resting" if node.labels.get("resting") == "true" else True

    @score(weight=2)
    def prefer_ssd(pod, node):
        return 100 if node.labels.get("disktype") == "ssd" else 0

Such a function can still be called and tested as a function. Its attribute `plugin` is the class that the scheduler
runs, under the function's name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar, get_type_hints, overload

import msgspec
import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.table import Ints
from kubesched.cluster.view import NodeInfo
from kubesched.framework.answers import AnswerError, wrong
from kubesched.framework.events import EventHint
from kubesched.framework.places import place_of
from kubesched.framework.plugin import MAX_NODE_SCORE, Plugin, whole
from kubesched.framework.state import CycleState
from kubesched.framework.status import Status, unschedulable

P = ParamSpec("P")
R = TypeVar("R", covariant=True)
FilterAnswer = bool | str | Status | None
F = TypeVar("F", bound=FilterAnswer)
N = TypeVar("N", bound=float)
Normalize = bool | Literal["highest", "lowest"]

TakesFilter = Callable[Concatenate[api.Pod, NodeInfo, P], F]
TakesScore = Callable[Concatenate[api.Pod, NodeInfo, P], N]


class PluginFunction(Generic[P, R]):
    """A function that is a plugin."""

    def __init__(self, function: Callable[P, R], plugin: type[Plugin]) -> None:
        self.function = function
        self.plugin = plugin
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<plugin {self.plugin.name} from {place_of(self.function)}>"


@overload
def filter(function: TakesFilter[P, F], /) -> PluginFunction[Concatenate[api.Pod, NodeInfo, P], F]: ...
@overload
def filter(
    *, name: str = "", events: Sequence[EventHint] | None = None
) -> Callable[[TakesFilter[P, F]], PluginFunction[Concatenate[api.Pod, NodeInfo, P], F]]: ...
def filter(function: Any = None, /, *, name: str = "", events: Sequence[EventHint] | None = None) -> Any:
    """Make a Filter plugin from a function of a pod and a node.

    It returns True or None if the pod fits. A string is the reason why it does not, False gives a default reason, and a
    `Status` says more, as in `unresolvable("…")`. `events` may make a rejected pod fit; by default, all events.
    """

    def decorate(function: Callable[..., FilterAnswer]) -> PluginFunction[..., FilterAnswer]:
        called, args_type = _checked(function, name)
        refusal = unschedulable(f"node(s) didn't satisfy plugin {called}")

        def filter(self: Plugin, state: CycleState, pod: api.Pod, node: NodeInfo) -> Status | None:
            answer = function(pod, node, self.args) if args_type else function(pod, node)
            return _status(self, answer, refusal)

        return _made(function, called, args_type, {"filter": filter}, events)

    return decorate if function is None else decorate(function)


@overload
def score(function: TakesScore[P, N], /) -> PluginFunction[Concatenate[api.Pod, NodeInfo, P], N]: ...
@overload
def score(
    *, weight: int = 1, normalize: Normalize = False, name: str = ""
) -> Callable[[TakesScore[P, N]], PluginFunction[Concatenate[api.Pod, NodeInfo, P], N]]: ...
def score(function: Any = None, /, *, weight: int = 1, normalize: Normalize = False, name: str = "") -> Any:
    """Make a Score plugin from a function of a pod and a node.

    It returns a number from 0 to 100. With `normalize`, any number: of the nodes that fit, the one with the highest
    gets 100 and the one with the lowest 0, or the other way round for ``normalize="lowest"``. `weight` is used if
    the configuration gives none.
    """

    def decorate(function: Callable[..., float]) -> PluginFunction[..., float]:
        called, args_type = _checked(function, name)
        if type(weight) is not int or weight < 1:
            raise TypeError(f"weight of {called} is {weight!r}; it must be a positive integer ({place_of(function)})")

        def score(self: Plugin, state: CycleState, pod: api.Pod, node: NodeInfo) -> float:
            return function(pod, node, self.args) if args_type else function(pod, node)

        def stretch(self: Plugin, state: CycleState, pod: api.Pod, scores: Ints) -> Ints:
            return stretched(scores, lowest_is_best=normalize == "lowest")

        methods: dict[str, Any] = {"score": score} | ({"normalize": stretch} if normalize else {})
        return _made(function, called, args_type, methods | {"default_weight": weight})

    return decorate if function is None else decorate(function)


def stretched(scores: Ints, *, lowest_is_best: bool = False) -> Ints:
    """Scale so that the best gets 100 and the worst 0; if all are equal, all get 0."""
    if not len(scores):
        return scores
    low, high = scores.min(), scores.max()
    if low == high:
        return np.zeros(len(scores), dtype=np.int64)
    distance = high - scores if lowest_is_best else scores - low
    return whole(distance * (MAX_NODE_SCORE / (high - low)))


def plugin_class(source: object) -> type[Plugin]:
    """The plugin class of a class or a decorated function."""
    found = source.plugin if isinstance(source, PluginFunction) else source
    if isinstance(found, type) and issubclass(found, Plugin):
        return found
    raise TypeError(
        f"{place_of(source)} is not a plugin; derive the class from kubesched.Plugin, "
        "or put @kubesched.filter or @kubesched.score on the function"
    )


def _checked(function: Callable[..., object], name: str) -> tuple[str, type | None]:
    """The plugin's name and the type of its arguments. Raises if the function cannot be a plugin."""
    called = name or function.__name__
    parameters = list(inspect.signature(function).parameters.values())
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    where = place_of(function)
    if inspect.iscoroutinefunction(function):
        raise TypeError(f"{called} is async; filters and scores answer at once, so drop the async ({where})")
    if len(positional) not in (2, 3) or len(needed) > len(positional):
        name = function.__name__
        wanted = f"write {name}(pod, node), or {name}(pod, node, args) for one with arguments"
        raise TypeError(f"{name}{inspect.signature(function)} cannot be a plugin; {wanted} ({where})")
    return called, _args_type(function, positional[2].name, where) if len(positional) == 3 else None


def _args_type(function: Callable[..., object], parameter: str, where: str) -> type:
    try:
        found = get_type_hints(function).get(parameter)
    except NameError:  # a name that only type checkers import
        found = None
    if isinstance(found, type) and issubclass(found, msgspec.Struct):
        return found
    wanted = f"annotate {parameter!r} with the msgspec.Struct that its arguments are decoded into"
    raise TypeError(f"{function.__name__}: {wanted} ({where})")


def _made(
    function: Callable[..., Any],
    name: str,
    args_type: type | None,
    members: dict[str, Any],
    events: Sequence[EventHint] | None = None,
) -> PluginFunction[..., Any]:
    if events is not None:
        registered = tuple(events)
        members["events_to_register"] = lambda self: registered
    described = {
        "name": name,
        "args_type": args_type,
        "written_as": staticmethod(function),
        "__doc__": function.__doc__,
        "__module__": function.__module__,
        "__qualname__": function.__qualname__,
    }
    return PluginFunction(function, type(function.__name__, (Plugin,), described | members))


def _status(plugin: Plugin, answer: object, refusal: Status) -> Status | None:
    match answer:
        case None | True:
            return None
        case False:
            return refusal
        case str() if answer:
            return unschedulable(answer)
        case Status():
            return answer
    raise _not_an_answer(plugin, answer)


def _not_an_answer(plugin: Plugin, answer: object) -> AnswerError:
    return wrong(plugin, plugin.name, answer, "return True if the pod fits, else the reason as a text")
