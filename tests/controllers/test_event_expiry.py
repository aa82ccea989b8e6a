"""Events are deleted after an hour, and nothing is done while there are none."""

from __future__ import annotations

import asyncio
from random import Random

from kubesched.apiserver.apiserver import ApiServer
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.controllers.event_expiry import EventExpiry
from kubesched.reconcile.access import EVENTS, Access
from kubesched.reconcile.context import make_context


class Counted(EventExpiry):
    """Counts how often it looks."""

    looked = 0

    def sync(self, key: str) -> None:
        """Count, and do it."""
        self.looked += 1
        super().sync(key)


@virtual_time
async def test_events_expire_and_nothing_ticks_without_them(clock: VirtualClock) -> None:
    """An event is gone after an hour and a minute at most; a month without events costs nothing."""
    access = Access(ApiServer(clock=clock, random=Random(1)))
    context = make_context(access, Random(1))
    expiry = Counted(context)
    running = asyncio.create_task(context.loop.run())
    try:
        await clock.advance(30 * 86_400)
        assert expiry.looked == 0
        for name in ("first", "second"):
            about = {"kind": "Pod", "name": "p", "namespace": "default"}
            access.create(EVENTS, {"metadata": {"name": name, "namespace": "default"}, "involvedObject": about})
            await clock.advance(1800)
        await clock.advance(60)
        assert [each["metadata"]["name"] for each in access.list(EVENTS)] == ["second"]
        await clock.advance(1860)
        assert not list(access.list(EVENTS))
        looked = expiry.looked
        await clock.advance(30 * 86_400)
        assert expiry.looked == looked < 5
    finally:
        running.cancel()
