"""What the configuration says about extenders: which there are, what they manage, and what they have to be sent."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from kubesched.api import objects as api
from kubesched.base.clock import Clock
from kubesched.client.pool import MayWrite
from kubesched.client.whole import Wanted
from kubesched.config import types as config
from kubesched.config.args import NodeResourcesFitArgs
from kubesched.scheduler import extender_wire as wire

if TYPE_CHECKING:
    from kubesched.scheduler.extender import HTTPExtender, PodsOnNode

NODE_RESOURCES_FIT = "NodeResourcesFit"


def make_extenders(
    settings: Sequence[config.Extender],
    *,
    pods_on: PodsOnNode | None = None,
    raw: wire.RawObject | None = None,
    clock: Clock | None = None,
    may_write: MayWrite | None = None,
) -> list[HTTPExtender]:
    """The configured extenders in calling order: ignorable ones come last."""
    if not settings:
        return []
    # Not at the top: it imports aiohttp, which takes long, and few configurations have extenders.
    from kubesched.scheduler.extender import HTTPExtender

    made = [HTTPExtender(each, pods_on=pods_on, raw=raw, clock=clock, may_write=may_write) for each in settings]
    return sorted(made, key=lambda extender: extender.ignorable)


def passed_on_whole(settings: Sequence[config.Extender], ours: Container[str]) -> dict[type[api.Object], Wanted]:
    """Which objects must be kept whole, because upstream sends them whole to extenders; `ours` are our scheduler
    names.
    """
    asked = [each for each in settings if each.filter_verb or each.prioritize_verb]
    preempting = [each for each in settings if each.preempt_verb]
    with_victims = any(not each.node_cache_capable for each in preempting)

    def pod_wanted(pod: api.Object) -> bool:
        assert isinstance(pod, api.Pod)
        return with_victims if pod.node_name else pod.scheduler_name in ours

    wanted: dict[type[api.Object], Wanted] = {}
    if asked or preempting:
        wanted[api.Pod] = pod_wanted
    if any(not each.node_cache_capable for each in asked):
        wanted[api.Node] = lambda _: True
    return wanted


def with_ignored_resources(
    profiles: Sequence[config.KubeSchedulerProfile], extenders: Iterable[config.Extender]
) -> tuple[config.KubeSchedulerProfile, ...]:
    """Profiles whose NodeResourcesFit ignores the resources that extenders manage (`ignoredByScheduler`)."""
    ignored = tuple(r.name for each in extenders for r in each.managed_resources if r.ignored_by_scheduler)
    return tuple(_ignoring(profile, ignored) for profile in profiles) if ignored else tuple(profiles)


def _ignoring(profile: config.KubeSchedulerProfile, ignored: tuple[str, ...]) -> config.KubeSchedulerProfile:
    args = profile.args_of(NODE_RESOURCES_FIT)
    if args is None:
        raise ValueError("can't find NodeResourcesFitArgs in plugin config")
    if not isinstance(args, NodeResourcesFitArgs):
        raise ValueError(f"want args to be of type NodeResourcesFitArgs, got {type(args).__name__}")
    changed = msgspec.structs.replace(args, ignored_resources=ignored)
    return msgspec.structs.replace(
        profile,
        plugin_config=tuple(
            msgspec.structs.replace(each, args=changed) if each.name == NODE_RESOURCES_FIT else each
            for each in profile.plugin_config
        ),
    )
