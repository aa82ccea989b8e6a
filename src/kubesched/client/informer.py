"""A cache of all objects of a kind, kept up to date from the API server. It notifies handlers of changes.

It lists, then watches from the version of the list. When a watch ends, it continues from the last version. If that
version is too old, it lists again and reports the differences, deletions included, so that nothing is missed. Handlers
see what handlers of client-go would see.

It never gives up. A kind that the server does not have, or does not allow us to read, is logged once and retried from
time to time. `wait_until_settled` tells the scheduler, which decides whether it can run without the kind.
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
from kubesched.client.endpoints import endpoint_of
from kubesched.client.informer_backoff import Backoff
from kubesched.client.protocol import ApiError, Client, Malformed, WatchEvent, WatchType

O = TypeVar("O", bound=api.Object)  # noqa: E741 - the one-letter name for "some kind of object", as in the protocol
H = TypeVar("H", bound=api.Object, contravariant=True)

logger = logging.getLogger(__name__)

DELETED = WatchType.DELETED  # slow to look up for each event

TURN = 0.005
"""Seconds after which handlers give other tasks their turn: lease renewals and health checks must not wait for them."""

LONG_TURN = 0.02
REST = 0.1
"""After a turn longer than `LONG_TURN`, handlers rest for this part of it. A renewal takes several turns of the event
loop, and all of them fit into the rest."""

BATCH = 100
"""Objects after which they do so in any case. On a virtual clock handlers take no time, and a run can be repeated."""

FRESH_LIST = 10.0
"""If a list expires sooner than this, the next one is delayed."""

SHORT_WATCH = 1.0
"""A watch that ends sooner than this without an event counts as a failure, so that a broken server is not flooded."""


STALE_LISTS = 60.0
"""Seconds for which lists are refused that are older than what was seen before: a server or a proxy answers from an old
cache, and objects would lose what was written to them. After that the server has really gone back, to a backup."""


class Handler(Protocol[H]):
    """Is notified of changes of a kind, one at a time and in order."""

    def on_add(self, obj: H, is_initial_list: bool) -> None:
        """An object was added. Objects that exist at the start are reported as the initial list."""
        ...

    def on_update(self, old: H, new: H) -> None:
        """An object has changed. After a gap, `new` may be another object with the same name."""
        ...

    def on_delete(self, obj: H) -> None:
        """An object was deleted; `obj` is its last known state."""
        ...


class Pause:
    """When informers that share it go on after a long turn. All of them wait, so that no kind overtakes another: a
    scheduler that sees a new pod has also seen the nodes as they were when the pod was created."""

    __slots__ = ("until",)

    def __init__(self) -> None:
        self.until = float("-inf")


class Informer(Generic[O]):
    """Caches one kind. `run` it as a task. `store` is the cache, by ``namespace/name``."""

    def __init__(
        self,
        client: Client,
        kind: type[O],
        *handlers: Handler[O],
        clock: Clock | None = None,
        chance: random.Random | None = None,
        pause: Pause | None = None,
    ) -> None:
        self.kind = kind
        self.resource = str(endpoint_of(kind))
        """The kind as messages name it."""
        self.store: dict[str, O] = {}
        self.synced = asyncio.Event()
        """Set when all objects of the initial list have been passed to the handlers."""
        self.missing: ApiError | None = None
        """The error of the server while it does not let us read this kind."""
        self._client = client
        self._handlers = handlers
        self._clock: Clock = clock or SystemClock()
        self._backoff = Backoff(self._clock, chance or random.Random())
        self._settled = asyncio.Event()
        self._version: str | None = None
        self._newest = 0
        self._stale_since: float | None = None
        self._pause = pause or Pause()
        self._passed_on = 0
        self._busy = 0.0
        self._reported_missing = False
        self._problem = ""
        self._listed_at = float("-inf")

    @property
    def resource_version(self) -> str:
        """The version of the cache; empty before the first list."""
        return self._version or ""

    async def wait_until_settled(self) -> bool:
        """Wait until the kind is synced (returns True) or known to be missing (returns False)."""
        await self._settled.wait()
        return self.synced.is_set()

    async def run(self) -> None:
        """Keep the cache up to date until cancelled."""
        while True:
            at_least = 0.0
            try:
                if self._version is None:
                    await self._list()
                if await self._watch():
                    continue
            except ApiError as error:
                if self._refused(error):
                    continue
                at_least = error.retry_after or 0.0
            except OSError as error:
                self._report_problem(str(error) or type(error).__name__)
            except Exception:
                # A bug here or in the client must not end the updates for good.
                logger.exception("cannot watch %s; listing again", self.resource)
                self._version = None
            await self._backoff.wait(at_least)

    # --- listing ------------------------------------------------------------------------------------------------------

    async def _list(self) -> None:
        listing = await self._client.list(self.kind)
        self._refuse_if_stale(listing.resource_version)
        self.missing = None
        for problem in listing.malformed:
            self._report_malformed(problem)
        # An object that cannot be decoded still exists: it must not be reported as deleted.
        present = {item.key for item in listing.malformed}
        initial = not self.synced.is_set()
        for item in listing.items:
            key = item.key
            present.add(key)
            began = self._clock.monotonic()
            self._put(key, cast(O, item), initial)
            if self._has_had_its_turn(began):
                await self._give_way()
        for key in [key for key in self.store if key not in present]:
            began = self._clock.monotonic()
            self._remove(key, None)
            if self._has_had_its_turn(began):
                await self._give_way()
        self._version, self._listed_at = listing.resource_version, self._clock.monotonic()
        self.synced.set()
        self._settled.set()

    def _refuse_if_stale(self, version: str) -> None:
        now, known = self._clock.monotonic(), _number(version)
        if known >= self._newest or not version.isdecimal():
            self._stale_since = None
        elif self._stale_since is None or now - self._stale_since < STALE_LISTS:
            self._stale_since = now if self._stale_since is None else self._stale_since
            raise OSError(f"the server's list has version {version}, but version {self._newest} was seen before")
        self._newest = known

    # --- watching -----------------------------------------------------------------------------------------------------

    async def _watch(self) -> bool:
        """Process events until the watch ends. Returns whether it ended normally."""
        assert self._version is not None
        began, any_event = self._clock.monotonic(), False
        async with aclosing(self._client.watch(self.kind, self._version)) as events:
            async for event in events:
                any_event = True
                if self._reported_missing or self._problem:
                    self._report_recovery()
                while (started := self._clock.monotonic()) < self._pause.until:
                    await self._clock.sleep(self._pause.until - started)
                self._apply(event)
                if self._has_had_its_turn(started):
                    await self._give_way()
        if not any_event and self._clock.monotonic() - began < SHORT_WATCH:
            return False
        self._report_recovery()
        return True

    def _apply(self, event: WatchEvent) -> None:
        # A line that could not be decoded has no version. The next good one has a later version.
        self._version = event.resource_version or self._version
        self._newest = max(self._newest, _number(event.resource_version))
        if event.malformed is not None:
            self._report_malformed(event.malformed)
            if event.change is WatchType.DELETED:
                self._remove(event.malformed.key, None)
        elif event.object is not None:
            obj: O = event.object  # type: ignore[assignment]  # `cast` is a call, and this runs for every event
            if event.change is DELETED:
                self._remove(obj.key, obj)
            else:
                self._put(obj.key, obj, is_initial_list=False)

    # --- the cache and the handlers -----------------------------------------------------------------------------------

    def _put(self, key: str, new: O, is_initial_list: bool) -> None:
        old = self.store.get(key)
        self.store[key] = new
        if old is not None and old.metadata.resource_version == new.metadata.resource_version:
            return
        for handler in self._handlers:
            try:
                if old is None:
                    handler.on_add(new, is_initial_list)
                else:
                    handler.on_update(old, new)
            except Exception:
                self._report_failed_handler()

    def _remove(self, key: str, last: O | None) -> None:
        """Deletions of objects that are not in the cache were reported before, after a list."""
        known = self.store.pop(key, None)
        if known is not None:
            for handler in self._handlers:
                self._notify(handler.on_delete, last or known)

    def _notify(self, call: Callable[..., None], *args: Any) -> None:
        try:
            call(*args)
        except Exception:
            self._report_failed_handler()

    def _report_failed_handler(self) -> None:
        """A failing handler must not stop the other handlers or later events."""
        logger.exception("a handler of %s failed", self.resource)

    def _has_had_its_turn(self, began: float) -> bool:
        """Whether to let other tasks run. `began` is when the last object was passed on."""
        self._passed_on += 1
        self._busy += self._clock.monotonic() - began
        return self._busy >= TURN or self._passed_on >= BATCH

    async def _give_way(self) -> None:
        """Let other tasks run."""
        rest = self._busy * REST if self._busy >= LONG_TURN else 0
        if rest:
            self._pause.until = self._clock.monotonic() + rest
        self._passed_on, self._busy = 0, 0.0
        await self._clock.sleep(rest)

    # --- errors -------------------------------------------------------------------------------------------------------

    def _refused(self, error: ApiError) -> bool:
        """Log a refusal and prepare the next step. Returns whether to take it without delay."""
        if not _may_resume_watch(error):
            self._version = None
        if _went_back(error):
            self._newest = 0
        if error.code == 410:
            logger.info("the history of %s is gone: %s; listing again", self.resource, error)
            # The server works and we are behind. Wait only if even a fresh list was too old.
            return self._clock.monotonic() - self._listed_at >= FRESH_LIST
        if error.code in (403, 404):
            self._report_missing(error)
        else:
            self._report_problem(f"{error.code} {error.reason}: {error}")
        return False

    def _report_problem(self, what: str) -> None:
        """Log a problem once, until it changes: a server that is down for an hour must not fill the log."""
        level = logging.DEBUG if what == self._problem else logging.WARNING
        self._problem = what
        logger.log(level, "cannot watch %s: %s; trying again", self.resource, what)

    def _report_missing(self, error: ApiError) -> None:
        if not self._reported_missing:
            self._reported_missing = True
            why = "the API server does not have it" if error.code == 404 else "access is not allowed"
            hint = "enable the API" if error.code == 404 else "allow this user to list and watch it"
            logger.error("cannot watch %s: %s (%s); %s", self.resource, why, error, hint)
        self.missing = error
        self._settled.set()

    def _report_recovery(self) -> None:
        """Only a working watch is a recovery: the user may be allowed to list a kind but not to watch it."""
        if self._reported_missing or self._problem:
            self._reported_missing, self._problem = False, ""
            logger.info("watching %s again", self.resource)

    def _report_malformed(self, problem: Malformed) -> None:
        logger.error("skipping an object of %s that cannot be decoded: %s", self.resource, problem.problem)


def _may_resume_watch(error: ApiError) -> bool:
    """Whether the watch can continue from its version, or a new list is needed.

    If our version is ahead of the server's, as after a restored backup, the server returns a timeout. Then only a list
    helps.
    """
    return not _went_back(error) and (error.code == 429 or error.code >= 500)


def _went_back(error: ApiError) -> bool:
    """Whether the server says that our version is ahead of its own."""
    return "too large resource version" in error.message.lower()


def _number(version: str) -> int:
    """A resource version as a number; 0 if it is none. It has 64 bits; thousands of digits cannot be read."""
    return int(version) if version.isdecimal() and len(version) <= 20 else 0
