"""Checks of a plugin class before the first pod comes.

A method with the wrong parameters would fail at the first pod, and a misspelt one would never be called. Both are
reported here, with what to write instead.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from difflib import get_close_matches
from types import CodeType
from typing import Any, Final
from weakref import WeakSet

from kubesched.framework.places import place_of
from kubesched.framework.plugin import Plugin, Reads, points_of

PARAMETERS: Final = {
    "pre_enqueue": "pod",
    "sort_key": "pod",
    "less": "a, b",
    "pre_filter": "state, pod, nodes",
    "ignores": "pod_class",
    "add_pod": "state, pod, info, row",
    "remove_pod": "state, pod, info, row",
    "filter": "state, pod, node",
    "filter_all": "state, pod, nodes",
    "filter_depends_on": "state, pod, other",
    "post_filter": "state, pod, diagnosis",
    "pre_score": "state, pod, nodes",
    "score": "state, pod, node",
    "score_all": "state, pod, nodes",
    "normalize": "state, pod, scores",
    "reserve": "state, pod, node_name",
    "unreserve": "state, pod, node_name",
    "permit": "state, pod, node_name",
    "pre_bind_needed": "state, pod, node_name",
    "pre_bind_waits": "state, pod, node_name",
    "pre_bind": "state, pod, node_name",
    "bind": "state, pod, node_name",
    "post_bind": "state, pod, node_name",
    "sign": "pod",
    "generate_placements": "group, parent",
    "score_placement": "group, assignments",
    "normalize_placements": "scores",
    "events_to_register": "",
    "close": "",
}
"""The methods of the contract and their parameters after `self`."""

ASYNC: Final = frozenset(("pre_bind", "bind", "post_bind"))

OTHER_WORDS: Final = {
    "normalizescore": "normalize",
    "normalise": "normalize",
    "normalisescore": "normalize",
    "eventstoregister": "events_to_register",
    "signpod": "sign",
    "queueinghints": "events_to_register",
}
"""Names that people who know upstream may use, in lower case and without underscores."""


class ContractError(ValueError):
    """A class that cannot be run as a plugin, and everything that is wrong with it."""


_sound: WeakSet[type[Plugin]] = WeakSet()
"""Classes that have been checked: registries are created often, and a check takes a while."""


def check_contract(plugin: type[Plugin]) -> None:
    """Raise a `ContractError` that lists what to change, if anything is wrong."""
    if plugin in _sound:
        return
    problems = list(_problems(plugin))
    if problems:
        raise ContractError("\n".join(problems))
    _sound.add(plugin)


def _problems(plugin: type[Plugin]) -> Iterator[str]:
    called = f"plugin {plugin.__name__}"
    name: object = getattr(plugin, "name", None)
    if not isinstance(name, str) or not name:
        yield f'{called} has no name; give the class one: name = "{plugin.__name__}" ({place_of(plugin)})'
        return
    called = f"plugin {name!r}"
    if not isinstance(plugin.reads, Reads):
        yield f"{called}: reads is {plugin.reads!r}; it must be a member of Reads ({place_of(plugin)})"
    if plugin.args_type is not None and not isinstance(plugin.args_type, type):
        yield f"{called}: args_type is {plugin.args_type!r}; it must be a msgspec.Struct class ({place_of(plugin)})"
    weight: object = plugin.default_weight
    if type(weight) is not int or weight < 1:
        yield f"{called}: default_weight is {weight!r}; it must be a positive integer ({place_of(plugin)})"
    misspelt = list(_misspelt(plugin))
    for written, meant in misspelt:
        yield f"{called}: nothing calls {written}; rename it to {meant} ({place_of(getattr(plugin, written))})"
    if not misspelt and not points_of(plugin):
        yield (
            f"{called} takes part in nothing; give it the method of an extension point, such as "
            f"filter(self, state, pod, node) ({place_of(plugin)})"
        )
    yield from _wrong_methods(plugin, called)


def _wrong_methods(plugin: type[Plugin], called: str) -> Iterator[str]:
    yield from _unless_called_with(plugin, called, "__init__", "args, handle")
    for method, parameters in PARAMETERS.items():
        found = getattr(plugin, method, None)
        if found is None:
            continue
        if not callable(found):
            yield f"{called}: {method} is {found!r}, not a method ({place_of(plugin)})"
            continue
        yield from _unless_called_with(plugin, called, method, parameters)
        if inspect.iscoroutinefunction(found) and method not in ASYNC:
            advice = "drop the async, or do the work in pre_bind"
            yield f"{called}: {method} is async, but the scheduling cycle never waits; {advice} ({place_of(found)})"
        if method in ASYNC and not _may_be_awaited(found):
            yield f"{called}: {method} is awaited; write it as async def ({place_of(found)})"


def _unless_called_with(plugin: type[Plugin], called: str, method: str, parameters: str) -> Iterator[str]:
    found: Any = inspect.getattr_static(plugin, method)
    arguments = [each for each in parameters.split(", ") if each]
    with_self = arguments if isinstance(found, staticmethod) else ["self", *arguments]
    function = getattr(plugin, method)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # not written in Python
        return
    try:
        signature.bind(*(arguments if isinstance(found, classmethod) else with_self))
    except TypeError:
        wanted = f"{method}({', '.join(with_self)})"
        yield f"{called}: {method}{signature} cannot be called; write {wanted} ({place_of(function)})"


def _may_be_awaited(method: object) -> bool:
    """A plain function may return an awaitable if its annotation says so."""
    if inspect.iscoroutinefunction(method):
        return True
    returned = str(getattr(method, "__annotations__", {}).get("return", ""))
    return any(word in returned for word in ("Awaitable", "Coroutine", "Future", "Task"))


def _misspelt(plugin: type[Plugin]) -> Iterator[tuple[str, str]]:
    """Methods with a name close to one of the contract, which neither the framework nor the class itself calls."""
    known = {_plain(method): method for method in PARAMETERS} | OTHER_WORDS
    points = points_of(plugin)
    called = {name for base in plugin.__mro__ for value in vars(base).values() for name in _named_in(value)}
    for name, value in vars(plugin).items():
        if name.startswith("_") or name in PARAMETERS or not inspect.isfunction(value):
            continue
        plain = _plain(name)
        meant = known.get(plain)
        if meant is None and not points:
            meant = next((known[each] for each in get_close_matches(plain, known, n=1, cutoff=0.8)), None)
        elif meant is None and name not in called:  # a method that another method calls is a helper, whatever its name
            meant = next((known[each] for each in known if _one_slip(plain, each)), None)
        if meant and not hasattr(plugin, meant):
            yield name, meant


def _one_slip(written: str, meant: str) -> bool:
    """Whether one letter is missing, extra or wrong, or two are swapped. Short words are close to too many others."""
    same = next(
        (i for i, (a, b) in enumerate(zip(written, meant, strict=False)) if a != b), min(len(written), len(meant))
    )
    left, right = written[same:], meant[same:]
    swapped = left[1::-1] + left[2:] == right
    return len(meant) > 4 and (swapped or left == right[1:] or left[1:] == right or left[1:] == right[1:])


def _named_in(member: object) -> Iterator[str]:
    """The names that a method and the functions inside it use: `helper` for `self.helper()`."""
    function = getattr(member, "fget", getattr(member, "__func__", member))  # of a property, of a static method
    codes = [getattr(inspect.unwrap(function), "__code__", None)] if callable(function) else []
    while codes:
        code = codes.pop()
        if isinstance(code, CodeType):
            yield from code.co_names
            codes += code.co_consts


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
