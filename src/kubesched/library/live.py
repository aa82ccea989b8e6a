"""Reads all that scheduling needs from a running cluster, with the user's kubeconfig. Nothing is written there."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, ClassVar, Final, TypeVar
from urllib.parse import quote

import msgspec

from kubesched.api import objects as api
from kubesched.base.types import JSON
from kubesched.client.connection import Connection
from kubesched.client.endpoints import endpoint_of
from kubesched.client.http import HttpClient, OnPage
from kubesched.client.kubeconfig import EXTENSION
from kubesched.client.protocol import ApiError
from kubesched.explain.standing import Queued
from kubesched.history.reader import LoggedAttempt
from kubesched.scheduler.handlers import KINDS
from kubesched.snapshots.live import connect as connect
from kubesched.snapshots.live import kubeconfig_of

T = TypeVar("T")

FAILED: Final = "FailedScheduling"


class EventSeries(api.Part, frozen=True):
    """How often an event has been repeated."""

    count: int = 0


QUEUE: Final = "/debug/scheduling/queue"
CONFIGURATION: Final = "/configz"
ATTEMPTS: Final = "/debug/scheduling/pods"


class _Wakes(msgspec.Struct):
    """Events that wake a pod."""

    resource: str
    actions: list[str]


class _QueueItem(msgspec.Struct, rename="camel"):
    """A pod as the scheduler's page of its queue has it."""

    uid: str
    namespace: str = ""
    pod: str = ""
    place: str = ""
    position: int | None = None
    attempts: int = 0
    backoff_until: str | None = None
    woken_by: dict[str, list[_Wakes]] = {}

    def queued(self) -> Queued:
        """The same, for explanations."""
        wakes: dict[str, dict[str, None]] = {}
        for event in (event for each in self.woken_by.values() for event in each):
            wakes.setdefault(event.resource, {}).update(dict.fromkeys(event.actions))
        place = self.place.lower()
        return Queued(
            queue=place,
            tries=self.attempts,
            place=self.position,
            until=(self.backoff_until or "") if place == "backoff" else "",
            wakes=tuple(f"{resource} {'|'.join(actions)}" for resource, actions in wakes.items()),
        )


class _AtPermit(msgspec.Struct):
    """A pod that waits at Permit, and the plugins that have not allowed it yet."""

    namespace: str
    pod: str
    plugins: list[str]


class _QueueList(msgspec.Struct, rename="camel"):
    items: list[_QueueItem] = []
    waiting_on_permit: list[_AtPermit] = []


class _AttemptList(msgspec.Struct):
    attempts: list[LoggedAttempt] = []


READ: Final[tuple[type[api.Object], ...]] = (*KINDS, api.PriorityClass)
REQUIRED: Final = (api.Pod, api.Node)


def fetch(path: str | os.PathLike[str] | None, context: str | None, on_page: OnPage | None = None) -> list[api.Object]:
    """All objects of the kinds that scheduling reads. `on_page` is called in another thread."""
    return run_apart(_list_all(connect(path, context), on_page))


class SchedulingEvent(api.Object, frozen=True):
    """An Event; of those about scheduling, what tells how often it was tried."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Event"
    plural: ClassVar[str] = "events"

    involved_object: api.ObjectReference = api.ObjectReference()
    reason: str = ""
    count: int = 0
    series: EventSeries | None = None


def fetch_tries(path: str | os.PathLike[str] | None, context: str | None) -> dict[str, int]:
    """How often each pod was tried in vain, by UID, as far as events tell."""
    tries: dict[str, int] = {}
    for each in run_apart(_list_events(connect(path, context))):
        if isinstance(each, SchedulingEvent) and each.reason == FAILED:
            uid = each.involved_object.uid
            count = each.series.count if each.series is not None else each.count
            tries[uid] = tries.get(uid, 0) + max(1, count)
    return tries


def fetch_queue(
    path: str | os.PathLike[str] | None, context: str | None, server: str, authority: str | None = None
) -> dict[str, Queued]:
    """The queue of a kubesched scheduler at its secure port, by the pod's UID, asked with the user's credentials.

    Its certificate must come from `authority`, or else from the cluster's.
    """
    return run_apart(_ask_queue(_at_scheduler(path, context, server, authority)))


def _at_scheduler(
    path: str | os.PathLike[str] | None, context: str | None, server: str, authority: str | None
) -> Connection:
    connection = connect(path, context)
    tls = connection.tls if authority is None else replace(connection.tls, ca_file=authority, ca_data=b"")
    return replace(connection, server=server.rstrip("/"), tls=tls)


async def _ask_queue(connection: Connection) -> dict[str, Queued]:
    async with HttpClient(connection) as client:
        return queued_pods(await client.get(QUEUE, {"limit": "5000"}))


def fetch_attempts(
    path: str | os.PathLike[str] | None, context: str | None, server: str, authority: str | None, key: str
) -> list[LoggedAttempt]:
    """The attempts to schedule a pod that a kubesched scheduler keeps, the newest first."""
    return run_apart(_ask_attempts(_at_scheduler(path, context, server, authority), key))


async def _ask_attempts(connection: Connection, key: str) -> list[LoggedAttempt]:
    async with HttpClient(connection) as client:
        page = await client.get(f"{ATTEMPTS}/{quote(key)}")
    return msgspec.convert(page, _AttemptList).attempts


def fetch_configuration(
    path: str | os.PathLike[str] | None, context: str | None, server: str, authority: str | None = None
) -> dict[str, Any]:
    """The configuration that a kubesched scheduler, or a kube-scheduler, uses."""
    return run_apart(_ask_configuration(_at_scheduler(path, context, server, authority)))


async def _ask_configuration(connection: Connection) -> dict[str, Any]:
    async with HttpClient(connection) as client:
        return msgspec.convert(next(iter((await client.get(CONFIGURATION)).values()), {}), dict[str, Any])


def queued_pods(page: JSON) -> dict[str, Queued]:
    """The pods on the scheduler's page of its queue, by UID. Raises msgspec.MsgspecError if it is another page."""
    found = msgspec.convert(page, _QueueList)
    waiting = {(each.namespace, each.pod): tuple(each.plugins) for each in found.waiting_on_permit}
    pods = {each.uid: each.queued() for each in found.items}
    for each in found.items:
        plugins = waiting.get((each.namespace, each.pod))
        if plugins is not None:
            pods[each.uid] = msgspec.structs.replace(pods[each.uid], queue="waiting", plugins=plugins)
    return pods


async def _list_events(connection: Connection) -> Sequence[api.Object]:
    async with HttpClient(connection) as client:
        found = await _list(client, SchedulingEvent)
    if found is None:
        warnings.warn("tries are not shown: you may not list events", stacklevel=1)
    return found or ()


def known_scheduler(path: str | os.PathLike[str] | None, context: str | None) -> str:
    """The address of the cluster's scheduler, if it is a kubesched and the kubeconfig says where; `up` writes that."""
    config = kubeconfig_of(path, context)
    used = config.contexts.get(config.current_context)
    cluster = config.clusters.get(used.value.cluster) if used is not None else None
    for each in cluster.value.extensions if cluster is not None else ():
        if each.name == EXTENSION and isinstance(each.extension, dict):
            return str(each.extension.get("scheduler") or "")
    return ""


async def _list_all(connection: Connection, on_page: OnPage | None) -> list[api.Object]:
    async with HttpClient(connection, on_page=on_page) as client:
        listings = await asyncio.gather(*(_list(client, kind) for kind in READ))
    forbidden = [endpoint_of(kind).plural for kind, found in zip(READ, listings, strict=True) if found is None]
    if forbidden:
        warnings.warn(f"decisions may differ: you may not list {', '.join(forbidden)}", stacklevel=1)
    return [each for found in listings for each in found or ()]


async def _list(client: HttpClient, kind: type[api.Object]) -> Sequence[api.Object] | None:
    """The objects of a kind; None if they may not be read."""
    try:
        listing = await client.list(kind)
    except ApiError as error:
        if kind in REQUIRED or error.code not in (403, 404):
            raise
        return None if error.code == 403 else ()
    for each in listing.malformed:
        warnings.warn(f"{endpoint_of(kind)} {each.key} is ignored: {each.problem}", stacklevel=1)
    return listing.items


def run_apart(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end; in a thread of its own where an event loop runs already, as in a notebook.

    Elsewhere it runs in this thread, where Ctrl-C ends it at once.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
