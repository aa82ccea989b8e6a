"""The pages below /debug/scheduling: what the scheduler decided lately, and what waits in its queue."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Iterator
from itertools import islice
from urllib.parse import unquote

from aiohttp import web

from kubesched.base.types import JSON
from kubesched.daemon.serving.auth.guard import Handler
from kubesched.daemon.serving.pages import responses
from kubesched.history import view
from kubesched.history.record import AttemptRecord
from kubesched.history.store import History
from kubesched.scheduler.scheduler import Scheduler
from kubesched.scheduler.shared import Shared

PREFIX = "/debug/scheduling"
PATHS = ("attempts", "attempts/NUMBER", "pods/NAMESPACE/NAME", "queue", "wakeups")
LIMIT, MOST = 100, 5000
MAX_DIGITS = 18
READ_ONLY = "GET or HEAD is allowed here; the history cannot be changed"


class SchedulingPages:
    """Answers questions about attempts and the queue. All answers are JSON."""

    def __init__(self, scheduler: Scheduler, history: History) -> None:
        self._shared: Shared = scheduler.shared
        self._history = history
        self._instance = secrets.token_hex(8)
        """Lets readers notice that the scheduler was restarted, and its numbers begin anew."""
        if self._shared.queue.wake_ups is None:
            self._shared.queue.wake_ups = deque(maxlen=MOST)

    def routes(self) -> Iterator[tuple[str, Handler]]:
        """All paths. One that ends in a slash matches everything below it."""
        yield PREFIX, self._handle
        yield f"{PREFIX}/", self._handle

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method not in ("GET", "HEAD"):
            return responses.error(READ_ONLY, 405)
        match request.path.removeprefix(PREFIX).strip("/").split("/"):
            case [""]:
                return _json(request, self._index())
            case ["attempts"]:
                return await self._attempts(request)
            case ["attempts", text] if (number := _read_number(text)) is not None:
                return await self._attempt(request, number)
            case ["wakeups"]:
                return self._wake_ups(request)
            case ["queue"]:
                return self._queue(request)
            case ["pods", namespace, name]:
                return await self._pod(request, unquote(namespace), unquote(name))
        return responses.not_found()

    def _index(self) -> JSON:
        history = self._history
        return {
            "kind": "SchedulingHistory",
            "attempts": len(history),
            "dropped": history.dropped,
            "bytes": history.bytes,
            "limits": {
                "attempts": history.limits.in_all,
                "perPod": history.limits.per_pod,
                "bytes": history.limits.bytes,
            },
            "waiting": len(self._shared.queue),
            "paths": [f"{PREFIX}/{each}" for each in PATHS],
        }

    async def _attempts(self, request: web.BaseRequest) -> web.StreamResponse:
        outcome, node = request.query.get("outcome"), request.query.get("node")
        after = _number(request, "after")
        found: list[JSON] = []
        for record in self._history.newest():
            if record.number <= after:
                break
            if outcome in (None, record.outcome) and node in (None, record.node):
                found.append(view.head(record))
                if len(found) == _limit(request):
                    break
        return _json(request, {"kind": "AttemptList", "instance": self._instance, "items": found})

    async def _attempt(self, request: web.BaseRequest, number: int) -> web.StreamResponse:
        record = self._history.get(number)
        if record is None:
            return responses.error(f"attempt {number} is not kept (any more)", 404)
        shown = await asyncio.to_thread(view.columns, record)
        return _json(request, {"kind": "Attempt", **shown})

    async def _pod(self, request: web.BaseRequest, namespace: str, name: str) -> web.StreamResponse:
        key = f"{namespace}/{name}"
        records = self._history.of_pod(key)
        known = self._shared.pods.get(key)
        state = None if known is None else self._shared.queue.state_of(known.uid)
        if known is None and not records:
            return responses.error(f"pod {responses.sanitized(key)} is not known, and no attempt of it is kept", 404)
        body: JSON = {
            "kind": "PodScheduling",
            "namespace": namespace,
            "pod": name,
            "queue": None if state is None else view.waiting(state, self._shared.queue, self._shared.clock),
            "waitingOnPermit": [] if known is None else self._permit(known.uid),
            "attempts": await asyncio.to_thread(_summaries, records),
        }
        return _json(request, body)

    def _permit(self, uid: str) -> list[str]:
        waiting = self._shared.waiting.get(uid)
        return [] if waiting is None else list(waiting.pending_plugins)

    def _queue(self, request: web.BaseRequest) -> web.StreamResponse:
        queue, clock = self._shared.queue, self._shared.clock
        shown = [view.waiting(state, queue, clock) for state in queue.states(_limit(request))]
        waiting = [
            {"namespace": each.pod.namespace, "pod": each.pod.name, "plugins": list(each.pending_plugins)}
            for each in islice(self._shared.waiting, _limit(request))
        ]
        body = {"kind": "QueuedPodList", "waiting": len(queue), "counts": queue.counts(), "items": shown}
        return _json(request, {**body, "waitingOnPermit": waiting})

    def _wake_ups(self, request: web.BaseRequest) -> web.StreamResponse:
        queue, clock = self._shared.queue, self._shared.clock
        kept = queue.wake_ups or ()
        new = min(queue.woken - _number(request, "after"), len(kept), _limit(request))
        offset = clock.now() - clock.monotonic()
        items = [
            {**each._asdict(), "time": view.timestamp(each.time + offset)}
            for each in islice(kept, max(0, len(kept) - new), None)
        ]
        return _json(request, {"kind": "WakeUpList", "count": queue.woken, "items": items})


def _summaries(records: list[AttemptRecord]) -> list[JSON]:
    return [view.summary(record) for record in records]


def _limit(request: web.BaseRequest) -> int:
    return min(_number(request, "limit"), MOST) or LIMIT


def _number(request: web.BaseRequest, name: str) -> int:
    return _read_number(request.query.get(name, "")) or 0


def _read_number(text: str) -> int | None:
    """A number of the history, or None. Python refuses to read numbers of thousands of digits."""
    return int(text) if text.isdecimal() and len(text) <= MAX_DIGITS else None


def _json(request: web.BaseRequest, body: JSON) -> web.Response:
    content = responses.encoded(request, {"apiVersion": view.VERSION, **body})
    return web.Response(body=content, content_type="application/json", headers=dict(responses.NO_SNIFF))
