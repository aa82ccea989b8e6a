"""Where the scheduler's cluster events come from: one informer for each kind it watches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Final, TypeVar, cast

from kubesched.api import objects as api
from kubesched.base.clock import Clock
from kubesched.base.log import Log
from kubesched.client.informer import Informer, Pause
from kubesched.client.protocol import Client
from kubesched.scheduler.handlers import KINDS

O = TypeVar("O", bound=api.Object)  # noqa: E741  # the one-letter name for "some kind of object"

Deliver = Callable[[api.Object | None, api.Object | None], None]
"""Receives an object before and after a change; None means that it did not exist."""

INDISPENSABLE: Final = frozenset((api.Pod, api.Node))
"""Kinds that scheduling cannot do without. A small or old server may lack the others."""


class _Delivery:
    """Adapts an informer's handler to a single callback."""

    def __init__(self, deliver: Deliver) -> None:
        self._deliver = deliver

    def on_add(self, obj: api.Object, is_initial_list: bool) -> None:
        self._deliver(None, obj)

    def on_update(self, old: api.Object, new: api.Object) -> None:
        self._deliver(old, new)

    def on_delete(self, obj: api.Object) -> None:
        self._deliver(obj, None)


class Sources:
    """Follows all kinds through a client, which is real or in-process."""

    def __init__(
        self,
        client: Client,
        deliver: Deliver,
        clock: Clock,
        random: Random,
        log: Log,
        kinds: Sequence[type[api.Object]] = KINDS,
    ) -> None:
        self._log = log
        self.deliver = deliver
        handler, pause = _Delivery(deliver), Pause()
        self.informers: list[Informer[api.Object]] = [
            # A separate random generator: broken watches must not change scheduling decisions.
            Informer(client, kind, handler, clock=clock, chance=Random(random.random()), pause=pause)
            for kind in kinds
        ]
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start to list and watch the required kinds; `synced` starts the others."""
        self._follow([each for each in self.informers if each.kind in INDISPENSABLE])

    def _follow(self, informers: Sequence[Informer[api.Object]]) -> None:
        self._tasks += [asyncio.create_task(each.run(), name=f"informer {each.resource}") for each in informers]

    def objects(self, kind: type[O]) -> list[O]:
        """All known objects of a kind."""
        informer = next(each for each in self.informers if each.kind is kind)
        return cast("list[O]", list(informer.store.values()))

    async def synced(self) -> None:
        """Wait until all existing objects have been delivered. A kind that the server lacks is skipped unless it is
        required.

        The required kinds are synced first: a server that has just started rejects every request until its roles are
        loaded. A kind that it rejects after serving the required ones is really missing.
        """
        for informer in self.informers:
            if informer.kind in INDISPENSABLE:
                await informer.synced.wait()
        others = [each for each in self.informers if each.kind not in INDISPENSABLE]
        self._follow(others)
        for informer in others:
            if not await informer.wait_until_settled():
                self._log(
                    0, "Continuing without a kind that the server does not serve", resource=str(informer.resource)
                )
        self._log(3, "Handlers synced")

    async def stop(self) -> None:
        """Stop watching."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        self._tasks.clear()
