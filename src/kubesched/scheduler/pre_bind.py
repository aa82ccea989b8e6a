"""PreBind: plugins run in parallel where they allow it, and a preemption can cancel them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from kubesched.framework.record import SUCCESS
from kubesched.framework.runtime import fail
from kubesched.framework.status import Status, error
from kubesched.scheduler.attempt import Attempt
from kubesched.scheduler.shared import Shared
from kubesched.scheduler.waiting import PreBinding


async def run_pre_bind(shared: Shared, attempt: Attempt, plugins: Sequence[Any]) -> Status | None:
    """Run PreBind. Adjacent plugins that allow it (`pre_bind_in_parallel`) run in parallel; the first failure ends
    it.
    """
    attempt.begin_point()
    uid = attempt.assumed.uid
    stage = shared.pre_binding[uid] = PreBinding()
    try:
        status = await _groups(attempt, plugins, stage)
        if status is None and not stage.finish():
            status = error(stage.message)
    finally:
        del shared.pre_binding[uid]
    attempt.end_point("PreBind", SUCCESS if status is None else status.code.upstream)
    return status


async def _groups(attempt: Attempt, plugins: Sequence[Any], stage: PreBinding) -> Status | None:
    for together, group in groupby(plugins, lambda plugin: getattr(plugin, "pre_bind_in_parallel", False)):
        for some in [list(group)] if together else [[plugin] for plugin in group]:
            status = await _group(attempt, some, stage)
            if status is not None:
                return status
    return None


async def _group(attempt: Attempt, plugins: Sequence[Any], stage: PreBinding) -> Status | None:
    """Run one plugin, or several in parallel."""
    framework = attempt.profile.engine.framework
    calls = [framework.ask_pre_bind(each, attempt.state, attempt.assumed, attempt.chosen) for each in plugins]
    if len(calls) == 1:
        try:
            return await calls[0]
        except asyncio.CancelledError:
            return _cancelled(attempt, plugins[0], stage)
    tasks = [asyncio.create_task(call) for call in calls]
    try:
        for task in asyncio.as_completed(tasks):
            if (status := await task) is not None:
                return status
        return None
    except asyncio.CancelledError:
        unfinished = next((each for each, task in zip(plugins, tasks, strict=True) if not task.done()), plugins[-1])
        return _cancelled(attempt, unfinished, stage)
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _cancelled(attempt: Attempt, plugin: Any, stage: PreBinding) -> Status:
    """A plugin was cancelled: by a preemption, which ends the attempt, or because the scheduler stops."""
    if not stage.message:
        raise asyncio.CancelledError
    stage.take_back_cancellation()
    return fail(attempt, plugin, "PreBind", stage.message)
