"""A client that gives a scheduler the responses of a recording. Nothing is stored."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Mapping
from typing import NoReturn, cast

import msgspec

from kubesched.api import objects as api
from kubesched.api.decoding import decode_as, kind_of
from kubesched.base.types import JSON
from kubesched.client.protocol import ApiError, Listing, O, WatchEvent
from kubesched.scheduler.journal import CallKey, call_key, created_name

NOT_HERE = ApiError(405, "MethodNotAllowed", "a replay of decisions has no API server")


class RecordedClient:
    """Every call waits until it is the turn of its response."""

    def __init__(self) -> None:
        self.kinds: Mapping[tuple[str, str], type[api.Object]] = {}
        """The classes of the kinds that the scheduler reads, by apiVersion and kind."""
        self.refused: set[str] = set()
        """UIDs of pods that were scheduled here and not in the recording: binding them fails."""
        self._waiting: dict[CallKey, list[asyncio.Future[api.Object | None]]] = defaultdict(list)
        self._early: dict[CallKey, deque[JSON]] = defaultdict(deque)
        """Responses to calls that have yet to be made, because they follow a pause."""

    def respond(self, called: JSON) -> None:
        """The next recorded response."""
        key: CallKey = (called["call"], called["kind"], called["name"])
        waiting = self._waiting[key] = [each for each in self._waiting[key] if not each.done()]  # some are cancelled
        if waiting:
            self._resolve(waiting.pop(min(called.get("before", 0), len(waiting) - 1)), called)
        elif key[0] != "bind":  # a response to a bind that nobody waits for: the pod has no node here
            self._early[key].append(called)

    def _resolve(self, future: asyncio.Future[api.Object | None], called: JSON) -> None:
        error, result = called.get("error"), called.get("result")
        if error is not None and "code" in error:
            future.set_exception(ApiError(error["code"], error["reason"], error["message"]))
        elif error is not None:
            future.set_exception(OSError(error["message"]))
        elif result is None:
            future.set_result(None)
        else:
            data = msgspec.json.encode(result)
            future.set_result(decode_as(self.kinds[kind_of(data)], data))

    async def _response(self, key: CallKey) -> api.Object | None:
        future: asyncio.Future[api.Object | None] = asyncio.get_running_loop().create_future()
        if self._early[key]:
            self._resolve(future, self._early[key].popleft())
        else:
            self._waiting[key].append(future)
        return await future

    # --- calls --------------------------------------------------------------------------------------------------------

    async def read(self, kind: type[O], name: str, namespace: str = "") -> O:
        return cast(O, await self._response(call_key("read", kind, name, namespace)))

    async def bind(self, pod: api.Pod, node_name: str) -> None:
        if pod.uid in self.refused:
            self.refused.discard(pod.uid)
            raise ApiError(409, "Conflict", "the recorded scheduler has not bound this pod")
        await self._response(call_key("bind", api.Pod, pod.name, pod.namespace))

    async def patch_pod_status(self, pod: api.Pod, patch: JSON) -> api.Pod:
        return cast(api.Pod, await self._response(call_key("patch_pod_status", api.Pod, pod.name, pod.namespace)))

    async def delete_pod(self, pod: api.Pod) -> None:
        await self._response(call_key("delete_pod", api.Pod, pod.name, pod.namespace))

    async def create_object(self, kind: type[O], body: JSON, namespace: str = "") -> O:
        return cast(O, await self._response(call_key("create_object", kind, created_name(body), namespace)))

    async def merge_patch(self, kind: type[O], name: str, patch: JSON, namespace: str = "", subresource: str = "") -> O:
        return cast(O, await self._response(call_key("merge_patch", kind, name, namespace)))

    async def delete_object(self, kind: type[O], name: str, namespace: str = "") -> None:
        await self._response(call_key("delete_object", kind, name, namespace))

    # --- what a replay does not need: events come from the recording --------------------------------------------------

    async def list(self, kind: type[api.Object]) -> Listing:
        raise NOT_HERE

    async def watch(self, kind: type[api.Object], resource_version: str) -> AsyncGenerator[WatchEvent, None]:
        raise NOT_HERE
        yield

    async def create_event(self, namespace: str, event: JSON) -> None:
        """Events are not written."""

    async def patch_event(self, namespace: str, name: str, patch: JSON) -> None:
        """Events are not written."""

    async def get_lease(self, namespace: str, name: str) -> NoReturn:
        raise NOT_HERE

    async def create_lease(self, namespace: str, lease: JSON) -> NoReturn:
        raise NOT_HERE

    async def update_lease(self, namespace: str, name: str, lease: JSON) -> NoReturn:
        raise NOT_HERE
