"""Which plugins of which profiles registered for which events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kubesched.api import objects as api
from kubesched.framework.answers import events_answer
from kubesched.framework.errors import start_of
from kubesched.framework.events import Action, ClusterEvent, EventHint, Hint, Resource, on
from kubesched.framework.plugin import Plugin, points_of
from kubesched.framework.runtime import Framework
from kubesched.queue.unschedulable import File

EXTENDER: Final = "Extender"
"""The name under which extenders reject pods."""

REJECTING_POINTS: Final = frozenset(("preEnqueue", "preFilter", "filter", "reserve", "permit"))
"""The points where a rejection means that something in the cluster has to change. Other failures are retried anyway."""

EVERYTHING: Final = tuple(
    on(resource, Action.ALL)
    for resource in (
        Resource.POD,
        Resource.NODE,
        Resource.PERSISTENT_VOLUME,
        Resource.PERSISTENT_VOLUME_CLAIM,
        Resource.CSI_NODE,
        Resource.CSI_DRIVER,
        Resource.CSI_STORAGE_CAPACITY,
        Resource.STORAGE_CLASS,
        Resource.RESOURCE_CLAIM,
        Resource.DEVICE_CLASS,
    )
)
"""The events, as upstream lists them, for a plugin that does not implement `events_to_register`."""


def _except_own_status(pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
    """Ignore a change of the pod's own status, which the scheduler writes after each attempt."""
    if not isinstance(old, api.Pod) or not isinstance(new, api.Pod) or new.uid != pod.uid:
        return Hint.QUEUE
    claims = old.status.resource_claim_statuses == new.status.resource_claim_statuses
    same = old.labels == new.labels and old.annotations == new.annotations and old.spec == new.spec
    return Hint.SKIP if same and claims else Hint.QUEUE


OF_FUNCTIONS: Final = (on(Resource.POD, Action.ALL, _except_own_status), *EVERYTHING[1:])
"""The same for a plugin that is a function: what the scheduler itself writes to the pod cannot help it."""

Hints = Mapping[str, Sequence[EventHint]]
"""Per plugin, its registrations that cover an event."""


class EventMap:
    """The registrations of all profiles, looked up by event. Lookups are cached: there are few kinds of events."""

    def __init__(self, registrations: Mapping[str, Mapping[str, Sequence[EventHint]]]) -> None:
        self._registrations = registrations
        self._hints: dict[tuple[str, ClusterEvent], Hints] = {}
        self._listeners: dict[ClusterEvent, tuple[File, ...]] = {}

    def hints(self, profile: str, event: ClusterEvent) -> Hints:
        """The plugins of a profile that registered for an event, with what they registered."""
        known = self._hints.get((profile, event))
        if known is None:
            known = self._hints[profile, event] = self._find(profile, event)
        return known

    def registered(self, profile: str, plugin: str) -> list[ClusterEvent]:
        """The events that a plugin of a profile registered for."""
        return [each.event for each in self._registrations.get(profile, {}).get(plugin, ())]

    def listeners(self, event: ClusterEvent) -> tuple[File, ...]:
        """Profile and plugin of those that registered for an event, and once more if it may open their PreEnqueue."""
        known = self._listeners.get(event)
        if known is None:
            known = self._listeners[event] = tuple(
                (profile, plugin, gated)
                for profile in self._registrations
                for plugin, hints in self.hints(profile, event).items()
                for gated in (False, True)
                if not gated or any(hint.gated for hint in hints)
            )
        return known

    def kinds(self) -> set[type[api.Object]]:
        """The kinds without a resource name that plugins wait for."""
        hints = (hint for plugins in self._registrations.values() for each in plugins.values() for hint in each)
        return {hint.event.resource for hint in hints if isinstance(hint.event.resource, type)}

    def _find(self, profile: str, event: ClusterEvent) -> Hints:
        found: dict[str, Sequence[EventHint]] = {}
        for plugin, registered in self._registrations.get(profile, {}).items():
            hints = [r for r in registered if r.event.matches(event)]
            if hints:
                found[plugin] = hints
        return found


def event_map(frameworks: Iterable[Framework], *, extenders: bool = False) -> EventMap:
    """The registrations of these profiles. Pods that extenders reject are registered for every event."""
    return EventMap({framework.profile_name: _registrations(framework, extenders) for framework in frameworks})


def _registrations(framework: Framework, extenders: bool) -> dict[str, Sequence[EventHint]]:
    found: dict[str, Sequence[EventHint]] = {EXTENDER: EVERYTHING} if extenders else {}
    plugins = {plugin.name: plugin for at_point in framework.points.values() for plugin in at_point}
    for name, plugin in plugins.items():
        if points_of(type(plugin)) & REJECTING_POINTS or _registers(plugin):
            found[name] = registered_by(plugin)
    return found


def _registers(plugin: Plugin) -> bool:
    """Whether a plugin names events. One that rejects no pod does so to have a kind watched."""
    return type(plugin).events_to_register is not Plugin.events_to_register


def registered_by(plugin: Plugin) -> Sequence[EventHint]:
    """The events that a plugin registers for."""
    return _with_taints(_asked_for(plugin))


def _asked_for(plugin: Plugin) -> Sequence[EventHint]:
    """A plugin's registrations: all events if it does not implement the method, none if it returns an empty list."""
    if not _registers(plugin):
        return OF_FUNCTIONS if hasattr(plugin, "written_as") else EVERYTHING
    with start_of(type(plugin), "events_to_register"):
        asked: Sequence[EventHint] | None = plugin.events_to_register()
        return EVERYTHING if asked is None else events_answer(plugin, asked)


def _with_taints(asked: Sequence[EventHint]) -> Sequence[EventHint]:
    """As upstream, a registration for new nodes also covers changes of taints."""
    of_nodes = [each for each in asked if each.event.resource is Resource.NODE]
    new = [each for each in of_nodes if each.event.action & Action.ADD]
    if not new or any(each.event.action & Action.UPDATE_NODE_TAINT for each in of_nodes):
        return asked
    gated = any(each.gated for each in new)
    return [*asked, on(Resource.NODE, Action.UPDATE_NODE_TAINT, gated=gated)]
