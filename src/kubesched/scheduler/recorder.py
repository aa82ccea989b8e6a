"""Events, as shown by kubectl describe: events.k8s.io/v1, written the way client-go's new recorder does.

**Series.** Events that differ only in time and note are one event. The second occurrence turns it into a series of two
by a patch; later ones are only counted. The count is written when the series ends (six minutes without another) or
every half hour. As upstream, events about different versions of a pod are different events.

**Never in the way.** Recording is a dictionary lookup and an append; it neither blocks nor fails. A few tasks write
the recorded events while no bind is in progress. An event that has waited for seconds is written anyway, one at a time
as upstream writes all of them, so that a scheduler that is never idle still reports what it does. When events are
recorded faster than they can be written, the oldest are dropped and counted. As upstream, the recorder should have its
own client, so that events do not use up the rate limit of binds.

**Spam.** client-go limits events per source and object only in its old recorder, the one for core/v1. The new one can
flood an API server as well, when a pod's version changes with every failure. So the old recorder's filter is used here
too: a burst of 25, then one every five minutes.
"""

from __future__ import annotations

import asyncio
import random
import re
import socket
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from typing import Final

import msgspec

from kubesched.api import objects as api
from kubesched.base.clock import Clock
from kubesched.base.log import ERROR, Log, SilentLog
from kubesched.base.types import JSON
from kubesched.client.protocol import ApiError, Client
from kubesched.scheduler.ports import NORMAL, WARNING
from kubesched.scheduler.urgent_calls import UrgentCalls

MAX_TRIES: Final = 12
RETRY_DELAY: Final = 10.0
FINISH_TIME: Final = 6 * 60.0
REFRESH_TIME: Final = 30 * 60.0
NOTE_LIMIT: Final = 1024
NOTE_SUFFIX: Final = " ..."
SPAM_BURST: Final = 25
SPAM_REFILL: Final = 300.0
SPAM_OBJECTS: Final = 4096
QUEUE_SIZE: Final = 10_000
"""Upstream's queue holds 1,000 events and then drops the newest. Ours is longer, because binds go first."""
CACHE_SIZE: Final = 50_000
"""Upstream's cache of single events is unlimited. This one evicts the oldest, which then start again as new events."""
PATIENCE: Final = 5.0
"""How many seconds an event lets binds and deletions of victims go first."""
PAUSE: Final = 0.01

_SUBDOMAIN = re.compile(r"[a-z0-9]+(?:-+[a-z0-9]+)*(?:\.[a-z0-9]+(?:-+[a-z0-9]+)*)*")
_MAX_NAME = 253

Key = tuple[str, ...]


class _Entry(msgspec.Struct, eq=False):
    """An event and the state of its series. It has references and no objects: it may outlive its pod for minutes."""

    profile: str
    regarding: JSON
    related: JSON | None
    kind: str
    reason: str
    action: str
    note: str
    time: float
    nanoseconds: int
    name: str = ""
    last: float = 0.0
    count: int = 1
    tries: int = 0
    stored: bool = False
    queued: bool = False
    writing: bool = False
    again: bool = False


class EventRecorder:
    """Records events and, while `run` is running, writes them."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        *,
        log: Log | None = None,
        hostname: str | None = None,
        urgent_calls: UrgentCalls | None = None,
        queue_size: int = QUEUE_SIZE,
        spam_burst: int = SPAM_BURST,
        writers: int = 4,
        chance: random.Random | None = None,
    ) -> None:
        self._client = client
        self._clock = clock
        self._log: Log = SilentLog() if log is None else log
        self._hostname = socket.gethostname() if hostname is None else hostname
        self._urgent_calls = UrgentCalls() if urgent_calls is None else urgent_calls
        self._chance = chance or random.Random()
        self._writers = writers
        self._queue_size = queue_size
        self._queue: deque[_Entry] = deque()
        self._cache: OrderedDict[Key, _Entry] = OrderedDict()
        self._spam = _SpamFilter(clock, spam_burst)
        self._ready = asyncio.Event()
        self._retries: set[asyncio.TimerHandle] = set()
        self._writing = 0
        self._last_name = 0
        self.dropped = 0
        """Events lost because the queue was full."""
        self.suppressed = 0
        """Events lost to the spam filter."""
        self.abandoned = 0
        """Events that the API server refused, that could not be written in twelve tries, or that were one too many to
        be tried again."""

    # --- recording ----------------------------------------------------------------------------------------------------

    def event(
        self,
        profile: str,
        regarding: api.Pod,
        kind: str,
        reason: str,
        action: str,
        note: str,
        related: api.Pod | None = None,
    ) -> None:
        """Record that `action` had the outcome `reason`, in the name of the scheduler `profile`; `kind` is Normal or
        Warning.
        """
        if kind not in (NORMAL, WARNING):
            self._log(ERROR, "Unsupported event type", eventType=kind)
            return
        key = _key(profile, kind, reason, action, regarding, related)
        known = self._cache.get(key)
        if known is None:
            if self._spam.allows(profile, regarding):
                now = self._clock.now()
                # The event's name contains the time, and must be unique among the events of a pod.
                self._last_name = max(int(now * 1e9), self._last_name + 1)
                about, beside = reference(regarding), None if related is None else reference(related)
                self._begin(key, _Entry(profile, about, beside, kind, reason, action, note, now, self._last_name))
            else:
                self.suppressed += 1
            return
        known.count += 1
        known.last = self._clock.now()
        if known.count == 2:
            self._enqueue(known)

    def _begin(self, key: Key, entry: _Entry) -> None:
        self._cache[key] = entry
        if len(self._cache) > CACHE_SIZE:
            self._cache.popitem(last=False)
        self._enqueue(entry)

    def _enqueue(self, entry: _Entry) -> None:
        """Queue the event for writing. If it is queued already, the newest state is written."""
        if entry.writing:
            entry.again = True
        elif not entry.queued:
            entry.queued = True
            self._queue.append(entry)
            if len(self._queue) > self._queue_size:
                self._queue.popleft().queued = False
                self.dropped += 1
            self._ready.set()

    # --- writing ------------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Write events until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._writers):
                    group.create_task(self._write_all())
                group.create_task(self._every(FINISH_TIME, self._finish_series))
                group.create_task(self._every(REFRESH_TIME, self._refresh_series))
        finally:
            for handle in self._retries:
                handle.cancel()

    async def flush(self, timeout: float = 5.0) -> bool:
        """Wait until all recorded events are written, for at most `timeout`; returns whether they were."""
        deadline = self._clock.monotonic() + timeout
        while self._queue or self._writing:
            if self._clock.monotonic() >= deadline:
                return False
            await self._clock.sleep(PAUSE)
        return True

    @property
    def pending(self) -> int:
        """How many events are queued."""
        return len(self._queue)

    async def _write_all(self) -> None:
        while True:
            while not self._queue:
                self._ready.clear()
                await self._ready.wait()
            while self._queue and self._urgent_calls.pending and (self._writing or self._can_wait(self._queue[0])):
                await self._clock.sleep(PAUSE)
            if self._queue:
                await self._write(self._queue.popleft())
            # Binds that have become ready in the meantime go first.
            await asyncio.sleep(0)

    def _can_wait(self, entry: _Entry) -> bool:
        return self._clock.now() - max(entry.time, entry.last) < PATIENCE

    async def _write(self, entry: _Entry) -> None:
        entry.queued = entry.again = False
        entry.writing = True
        self._writing += 1
        try:
            done = await self._try(entry)
        finally:
            entry.writing = False
            self._writing -= 1
        if not done:
            self._try_later(entry)
            return
        entry.tries = 0
        if entry.again:
            self._enqueue(entry)

    def _try_later(self, entry: _Entry) -> None:
        entry.tries += 1
        if entry.tries >= MAX_TRIES or len(self._retries) >= self._queue_size:
            self.abandoned += 1
            entry.tries = 0
            self._log(ERROR, "Unable to write event (retry limit exceeded!)", event=self._document(entry))
            return

        def again() -> None:
            self._retries.discard(handle)
            self._enqueue(entry)

        delay = RETRY_DELAY * (1 + 0.25 * self._chance.random())
        handle = asyncio.get_running_loop().call_later(delay, again)
        self._retries.add(handle)

    async def _try(self, entry: _Entry) -> bool:
        """Write the current state of the event; False if it should be retried."""
        try:
            if entry.count == 1:
                await self._client.create_event(_namespace(entry), self._document(entry))
                entry.stored = True
            else:
                await self._create_or_patch(entry)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                return self._already_exists(entry, error)
            self.abandoned += 1
            self._log(ERROR, "Server rejected event (will not retry!)", event=self._document(entry), err=error)
        except Exception as error:
            self._log(ERROR, "Unable to write event (may retry after sleeping)", err=error)
            return False
        return True

    def _already_exists(self, entry: _Entry, error: ApiError) -> bool:
        """The event exists: an earlier attempt succeeded but its response was lost. A series can be patched into it."""
        entry.stored = True
        if entry.count > 1:
            return False
        if self._log.verbosity >= 5:
            self._log(5, "Server rejected event (will not retry!)", event=self._document(entry), err=error)
        return True

    async def _create_or_patch(self, entry: _Entry) -> None:
        """Write a series."""
        namespace = _namespace(entry)
        if entry.stored:
            try:
                await self._client.patch_event(namespace, entry.name, {"series": _series(entry)})
                return
            except ApiError as error:
                if error.code != 404:
                    raise
                entry.stored = False
        await self._client.create_event(namespace, self._document(entry))
        entry.stored = True

    # --- series -------------------------------------------------------------------------------------------------------

    async def _every(self, seconds: float, act: Callable[[], None]) -> None:
        while True:
            await asyncio.sleep(seconds)
            act()

    def _finish_series(self) -> None:
        """Forget events that have not recurred for a while; a series is written a last time, with its final count."""
        before = self._clock.now() - FINISH_TIME
        for key, entry in list(self._cache.items()):
            if max(entry.last, entry.time) < before:
                del self._cache[key]
                if entry.count > 1:
                    self._enqueue(entry)

    def _refresh_series(self) -> None:
        """Write the counts, so that the API server does not expire an event that still recurs."""
        for entry in self._running_series():
            self._enqueue(entry)

    def _running_series(self) -> Iterator[_Entry]:
        return (entry for entry in self._cache.values() if entry.count > 1)

    # --- documents ----------------------------------------------------------------------------------------------------

    def _document(self, entry: _Entry) -> JSON:
        if not entry.name:
            entry.name = event_name(entry.regarding.get("name", ""), entry.nanoseconds, self._chance)
        document: JSON = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": entry.name, "namespace": _namespace(entry)},
            "eventTime": micro_time(entry.time),
            "reportingController": entry.profile,
            "reportingInstance": f"{entry.profile}-{self._hostname}",
            "action": entry.action,
            "reason": entry.reason,
            "regarding": entry.regarding,
            "note": truncated(entry.note),
            "type": entry.kind,
        }
        if entry.related is not None:
            document["related"] = entry.related
        if entry.count > 1:
            document["series"] = _series(entry)
        return document


def _key(profile: str, kind: str, reason: str, action: str, regarding: api.Object, related: api.Object | None) -> Key:
    """What identifies a series. The recorder's host is not part of it, being always the same."""
    meta = regarding.metadata
    key = (profile, kind, reason, action, regarding.kind, meta.namespace, meta.name, meta.uid, meta.resource_version)
    if related is None:
        return key
    meta = related.metadata
    return (*key, related.kind, meta.namespace, meta.name, meta.uid, meta.resource_version)


def _namespace(entry: _Entry) -> str:
    return entry.regarding.get("namespace") or "default"


def _series(entry: _Entry) -> JSON:
    return {"count": entry.count, "lastObservedTime": micro_time(entry.last)}


def reference(obj: api.Object) -> JSON:
    """An ObjectReference."""
    meta = obj.metadata
    found = {
        "kind": obj.kind,
        "namespace": meta.namespace,
        "name": meta.name,
        "uid": meta.uid,
        "apiVersion": obj.api_version,
        "resourceVersion": meta.resource_version,
    }
    return found if all(found.values()) else {field: value for field, value in found.items() if value}


def event_name(name: str, nanoseconds: int, chance: random.Random) -> str:
    """Return the name of an event about an object. A name that would be invalid is replaced by a random UUID."""
    made = f"{name}.{nanoseconds:x}"
    if len(made) <= _MAX_NAME and _SUBDOMAIN.fullmatch(made):
        return made
    return str(uuid.UUID(int=chance.getrandbits(128), version=4))


def micro_time(seconds: float) -> str:
    """RFC 3339 with microseconds."""
    whole, part = divmod(round(seconds * 1e6), 1_000_000)
    return f"{_second(whole)}.{part:06d}Z"


@lru_cache(maxsize=256)
def _second(whole: int) -> str:
    return datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def truncated(note: str) -> str:
    """A note cut to the length that an API server accepts, never inside a character."""
    data = note.encode("utf-8", "replace")
    if len(data) <= NOTE_LIMIT:
        return note
    return data[: NOTE_LIMIT - len(NOTE_SUFFIX)].decode("utf-8", "ignore") + NOTE_SUFFIX


class _SpamFilter:
    """A token bucket per source and object; the oldest buckets are evicted."""

    def __init__(self, clock: Clock, burst: int) -> None:
        self._clock = clock
        self._burst = burst
        self._buckets: dict[Key, tuple[float, float]] = {}

    def allows(self, source: str, regarding: api.Object) -> bool:
        """Whether one more event is within the limit. A burst of 0 means no limit."""
        if not self._burst:
            return True
        now = self._clock.monotonic()
        key = (source, regarding.metadata.uid or regarding.key)
        known = self._buckets.get(key)
        if known is None:
            return self._first(key, now)
        tokens = min(known[0] + (now - known[1]) / SPAM_REFILL, float(self._burst))
        allowed = tokens >= 1
        self._buckets[key] = (tokens - allowed, now)
        return allowed

    def _first(self, key: Key, now: float) -> bool:
        if len(self._buckets) >= 2 * SPAM_OBJECTS:
            self._buckets = dict(islice(self._buckets.items(), SPAM_OBJECTS, None))
        self._buckets[key] = (self._burst - 1.0, now)
        return True
