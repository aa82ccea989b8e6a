"""A copy of all objects of a kind that follows the API server, and tells handlers what changes.

It lists, then watches from the list's version on. A watch that ends is taken up where it ended; when that is too long
ago, it lists again and tells the difference, so that nothing that happened meanwhile is missed, deletions included.
Handlers see what client-go's would see.

It never gives up. A kind that the server does not have or does not let us see is reported once, clearly, and asked for
again from time to time; `wait_until_settled` says which it is, and the scheduler decides whether it can do without.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from contextlib import aclosing
from typing import Any, Generic, Protocol, TypeVar, cast

from kubesched.api import objects as api
from kubesched.base.clock import Clock
from kubesched.base.clocks import SystemClock
from kubesched.client.backoff import Backoff
from kubesched.client.endpoints import endpoint_of
from kubesched.client.protocol import ApiError, Change, Client, Malformed, WatchEvent

O = TypeVar("O", bound=api.Object)  # noqa: E741 - the one-letter name for "some kind of object", as in the protocol
H = TypeVar("H", bound=api.Object, contravariant=True)

logger = logging.getLogger(__name__)

TURN = 0.005
"""Seconds after which handlers give other tasks their turn: lease renewals and health checks must not wait for them."""

LONG_TURN = 0.02
REST = 0.1
"""After a turn longer than `LONG_TURN`, handlers rest for this part of it. A renewal takes several turns of the event
loop, and all of them fit into the rest."""

BATCH = 100
"""Objects after which they do so in any case. On a virtual clock handlers take no time, and a run can be repeated."""

FRESH_LIST = 10.0
"""A list that expires sooner than this is no reason to list again at once."""

SHORT_WATCH = 1.0
"""A watch that ends sooner than this and brought nothing is taken for a failure, lest a broken server be hammered."""


class Handler(Protocol[H]):
    """Is told what happens to a kind. The calls come one at a time, in order."""

    def on_add(self, obj: H, is_initial_list: bool) -> None:
        """An object is there that was not; at the start, all that are there already are told as the initial list."""
        ...

    def on_update(self, old: H, new: H) -> None:
        """An object has changed. After a gap it may even be another one of the same name."""
        ...

    def on_delete(self, obj: H) -> None:
        """An object is gone; this is its last known state."""
        ...


class Informer(Generic[O]):
    """Follows one kind. `run` it as a task; `store` is the copy, by ``namespace/name``."""

    def __init__(
        self,
        client: Client,
        kind: type[O],
        *handlers: Handler[O],
        clock: Clock | None = None,
        chance: random.Random | None = None,
    ) -> None:
        self.kind = kind
        self.resource = str(endpoint_of(kind))
        """The kind as messages name it."""
        self.store: dict[str, O] = {}
        self.synced = asyncio.Event()
        """Set once every object of the initial list has been handed on."""
        self.missing: ApiError | None = None
        """Why the server does not show us this kind, while it does not."""
        self._client = client
        self._handlers = list(handlers)
        self._clock: Clock = clock or SystemClock()
        self._backoff = Backoff(self._clock, chance or random.Random())
        self._settled = asyncio.Event()
        self._version: str | None = None
        self._handed_on = 0
        self._busy = 0.0
        self._reported_missing = False
        self._trouble = ""
        self._listed_at = float("-inf")

    @property
    def resource_version(self) -> str:
        """The version that the copy has reached; empty before the first list."""
        return self._version or ""

    def add_handler(self, handler: Handler[O]) -> None:
        """Tell one more handler, starting with all that is in the copy."""
        self._handlers.append(handler)
        for obj in tuple(self.store.values()):
            self._tell(handler.on_add, obj, True)

    async def wait_until_settled(self) -> bool:
        """Wait until the kind is synced, which answers True, or known to be missing, which answers False."""
        await self._settled.wait()
        return self.synced.is_set()

    async def run(self) -> None:
        """Follow the kind until cancelled."""
        while True:
            asked = 0.0
            try:
                if self._version is None:
                    await self._list()
                if await self._watch():
                    continue
            except ApiError as error:
                if self._refused(error):
                    continue
                asked = error.retry_after or 0.0
            except OSError as error:
                self._report_trouble(str(error) or type(error).__name__)
            except Exception:
                # A mistake here or in the client must not leave everybody deaf for good.
                logger.exception("cannot follow %s; listing again", self.resource)
                self._version = None
            await self._backoff.wait(asked)

    # --- listing ------------------------------------------------------------------------------------------------------

    async def _list(self) -> None:
        listing = await self._client.list(self.kind)
        self.missing = None
        for problem in listing.malformed:
            self._report_malformed(problem)
        # An object that cannot be read is there all the same: it is not told as deleted.
        there = {item.key for item in listing.malformed}
        initial = not self.synced.is_set()
        for item in listing.items:
            key = item.key
            there.add(key)
            began = self._clock.monotonic()
            self._put(key, cast(O, item), initial)
            await self._yield_turn(began)
        for key in [key for key in self.store if key not in there]:
            began = self._clock.monotonic()
            self._remove(key, None)
            await self._yield_turn(began)
        self._version, self._listed_at = listing.resource_version, self._clock.monotonic()
        self.synced.set()
        self._settled.set()

    # --- watching -----------------------------------------------------------------------------------------------------

    async def _watch(self) -> bool:
        """Hand on what a watch brings, until it ends. Whether it ended as watches should."""
        assert self._version is not None
        began, told = self._clock.monotonic(), False
        async with aclosing(self._client.watch(self.kind, self._version)) as events:
            async for event in events:
                told = True
                self._found()
                handed_on = self._clock.monotonic()
                self._apply(event)
                await self._yield_turn(handed_on)
        if not told and self._clock.monotonic() - began < SHORT_WATCH:
            return False
        self._found()
        return True

    def _apply(self, event: WatchEvent) -> None:
        # A line that could not be read at all has no version; the next one that can be has a later one.
        self._version = event.resource_version or self._version
        if event.malformed is not None:
            self._report_malformed(event.malformed)
            if event.change is Change.DELETED:
                self._remove(event.malformed.key, None)
        elif event.object is not None:
            obj = cast(O, event.object)
            if event.change is Change.DELETED:
                self._remove(obj.key, obj)
            else:
                self._put(obj.key, obj, is_initial_list=False)

    # --- the copy and the handlers ------------------------------------------------------------------------------------

    def _put(self, key: str, new: O, is_initial_list: bool) -> None:
        old = self.store.get(key)
        self.store[key] = new
        if old is None:
            for handler in self._handlers:
                self._tell(handler.on_add, new, is_initial_list)
        elif old.metadata.resource_version != new.metadata.resource_version:
            for handler in self._handlers:
                self._tell(handler.on_update, old, new)

    def _remove(self, key: str, last: O | None) -> None:
        """A deletion of what is not in the copy has been told before, by the difference of a list."""
        known = self.store.pop(key, None)
        if known is not None:
            for handler in self._handlers:
                self._tell(handler.on_delete, last or known)

    def _tell(self, call: Callable[..., None], *args: Any) -> None:
        """A handler that fails must not cost the others, or the rest of the history, their turn."""
        try:
            call(*args)
        except Exception:
            logger.exception("a handler of %s failed", self.resource)

    async def _yield_turn(self, began: float) -> None:
        """Let other tasks run if this one has had its turn. `began` is when the last object was handed on."""
        self._handed_on += 1
        self._busy += self._clock.monotonic() - began
        if self._busy >= TURN or self._handed_on >= BATCH:
            rest = self._busy * REST if self._busy >= LONG_TURN else 0
            self._handed_on, self._busy = 0, 0.0
            await self._clock.sleep(rest)

    # --- trouble ------------------------------------------------------------------------------------------------------

    def _refused(self, error: ApiError) -> bool:
        """Report a refusal and decide what to do next. Whether to do it at once."""
        if not _may_take_up_watch(error):
            self._version = None
        if error.code == 410:
            logger.info("the history of %s is gone: %s; listing again", self.resource, error)
            # The server is well and we are behind; unless even a fresh list is too old for it, do not wait.
            return self._clock.monotonic() - self._listed_at >= FRESH_LIST
        if error.code in (403, 404):
            self._report_missing(error)
        else:
            self._report_trouble(f"{error.code} {error.reason}: {error}")
        return False

    def _report_trouble(self, what: str) -> None:
        """Once, until it is something else: a server that is down for an hour shall not fill the log."""
        level = logging.DEBUG if what == self._trouble else logging.WARNING
        self._trouble = what
        logger.log(level, "cannot follow %s: %s; trying again", self.resource, what)

    def _report_missing(self, error: ApiError) -> None:
        if not self._reported_missing:
            self._reported_missing = True
            why = "the API server does not have it" if error.code == 404 else "it is not allowed"
            hint = "enable the API" if error.code == 404 else "allow this user to list and watch it"
            logger.error("cannot follow %s: %s (%s); %s", self.resource, why, error, hint)
        self.missing = error
        self._settled.set()

    def _found(self) -> None:
        """Only a watch that works ends the trouble: a kind may be allowed to be listed and not to be watched."""
        if self._reported_missing or self._trouble:
            self._reported_missing, self._trouble = False, ""
            logger.info("following %s from now on", self.resource)

    def _report_malformed(self, problem: Malformed) -> None:
        logger.error("an object of %s cannot be read and is passed over: %s", self.resource, problem.problem)


def _may_take_up_watch(error: ApiError) -> bool:
    """Whether a watch may go on from where it was, or the kind must be listed again.

    A version beyond the server's own, as after a restored backup, is answered with a timeout and never catches up.
    """
    if "too large resource version" in error.message.lower():
        return False
    return error.code == 429 or error.code >= 500
