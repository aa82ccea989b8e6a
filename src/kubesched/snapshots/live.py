"""Reads a running cluster with the user's kubeconfig: once, or with every change until it is stopped.

Objects are read whole and cleaned at once, so that nothing of what `cleaning` removes is ever written.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from kubesched.api import objects as api
from kubesched.apiserver.kinds.registry import BUILT_IN
from kubesched.apiserver.rest.selectors import parse_labels
from kubesched.base.types import JSON
from kubesched.client.connection import Connection, resolve
from kubesched.client.endpoints import Endpoint
from kubesched.client.http import HttpClient
from kubesched.client.informer import Informer
from kubesched.client.kubeconfig import Kubeconfig, KubeconfigError, load_file, load_files
from kubesched.client.protocol import ApiError
from kubesched.client.whole import WholeObjects
from kubesched.snapshots.cleaning import Cleaner
from kubesched.snapshots.contents import Event

KINDS: Final = (
    *("Namespace", "Node", "PriorityClass", "StorageClass", "CSIDriver", "CSINode", "CSIStorageCapacity"),
    *("VolumeAttachment", "PersistentVolume", "PersistentVolumeClaim", "Service", "LimitRange", "ResourceQuota"),
    *("DeviceClass", "ResourceSlice", "ResourceClaimTemplate", "ResourceClaim", "PodDisruptionBudget", "Workload"),
    *("PodGroup", "CronJob", "Job", "Deployment", "StatefulSet", "DaemonSet", "ControllerRevision", "ReplicaSet"),
    *("ReplicationController", "Pod"),
)
"""What a snapshot has: what scheduling reads, and the workloads that create pods."""
REQUIRED: Final = ("Node", "Pod")
SYNC_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class ObjectSelection:
    """Which objects to read. Kinds without namespaces are always read."""

    namespaces: tuple[str, ...] = ()
    labels: str = ""
    """A label selector for all objects in namespaces, as kubectl's ``-l``."""
    nodes: str = ""
    """A label selector for nodes. Pods on other nodes are left out."""


@dataclass(slots=True)
class _Filter:
    """Applies a selection. It learns the names of the nodes as they come, which is before the pods."""

    selection: ObjectSelection
    names: set[str] = field(default_factory=set)

    def __call__(self, kind: str, obj: JSON) -> bool:
        meta, chosen = obj.get("metadata") or {}, self.selection
        labels = meta.get("labels") or {}
        if kind == "Node" and chosen.nodes:
            fits = _matches(chosen.nodes, labels)
            if fits:
                self.names.add(str(meta.get("name")))
            return fits
        if not meta.get("namespace"):
            return True
        if chosen.namespaces and meta["namespace"] not in chosen.namespaces:
            return False
        if chosen.labels and not _matches(chosen.labels, labels):
            return False
        node = (obj.get("spec") or {}).get("nodeName") if kind == "Pod" else ""
        return not (chosen.nodes and node and node not in self.names)


def _matches(selector: str, labels: JSON) -> bool:
    return parse_labels(selector).matches(labels)


@dataclass(frozen=True, slots=True)
class SnapshotSource:
    """A running cluster: how to reach it, and what of it to read."""

    connection: Connection
    selection: ObjectSelection = ObjectSelection()
    warn: Callable[[str], None] = print

    async def read(self) -> list[JSON]:
        """All selected objects, cleaned. Raises `ApiError` if nodes or pods may not be read."""
        wanted, clean, found = _Filter(self.selection), Cleaner(), []
        whole = WholeObjects({kind: lambda _obj: True for kind in _types()})
        async with HttpClient(self.connection, whole=whole, qps=-1) as client:
            for kind in _types():
                for each in await self._list(client, kind):
                    body = _body(whole, each, clean)
                    if wanted(kind.kind, body):
                        found.append(body)
        places = {each["metadata"].get("namespace") for each in found}
        for name in self.selection.namespaces:
            if name not in places:
                self.warn(f"nothing was found in namespace {name}")
        return found

    async def _list(self, client: HttpClient, kind: type[api.Object]) -> Sequence[api.Object]:
        try:
            return (await client.list(kind)).items
        except ApiError as error:
            if kind.kind in REQUIRED or error.code not in (403, 404):
                raise
            if error.code == 403:
                self.warn(f"left out: {error.message}")
            return ()

    async def follow(
        self,
        started: Callable[[Iterable[JSON]], None],
        changed: Callable[[Event, JSON], None],
        stop: asyncio.Event,
    ) -> None:
        """Call `started` with all objects, then `changed` with every change until `stop` is set.

        Raises `ApiError` or `OSError` if the cluster cannot be reached, or nodes or pods may not be read.
        """
        wanted, clean = _Filter(self.selection), Cleaner()
        whole = WholeObjects({kind: lambda _obj: True for kind in _types()})
        async with HttpClient(self.connection, whole=whole, qps=-1) as client:
            await _reach(client)
            handlers = [_Handler(whole, kind.kind, wanted, clean) for kind in _types()]
            informers = [Informer(client, kind, each) for kind, each in zip(_types(), handlers, strict=True)]
            # One after the other: the names of the nodes must be known before the pods.
            tasks = []
            try:
                for informer in informers:
                    tasks.append(asyncio.create_task(informer.run(), name=informer.resource))
                    async with asyncio.timeout(SYNC_SECONDS):
                        await informer.wait_until_settled()
                    self._check(informer)
                started(body for handler in handlers for body in handler.take_initial())
                for handler in handlers:
                    handler.go_live(changed)
                await stop.wait()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def _check(self, informer: Informer[Any]) -> None:
        error = informer.missing
        if error is None:
            return
        if informer.kind.kind in REQUIRED:
            raise error
        if error.code == 403:
            self.warn(f"left out: {error.message}")


async def _reach(client: HttpClient) -> None:
    """Raise at once what is wrong with the address or the credentials: an informer would try again and again."""
    try:
        await client.get("/version")
    except ApiError as error:
        if error.code == 401:
            raise


class _Handler:
    """Collects the objects of a kind until all kinds are there; passes changes on after that."""

    def __init__(self, whole: WholeObjects, kind: str, wanted: _Filter, clean: Cleaner) -> None:
        self._clean = clean
        self._whole = whole
        self._kind = kind
        self._wanted = wanted
        self._last: dict[str, JSON] = {}
        self._changed: Callable[[Event, JSON], None] | None = None

    def take_initial(self) -> list[JSON]:
        return list(self._last.values())

    def go_live(self, changed: Callable[[Event, JSON], None]) -> None:
        self._changed = changed
        # Deletions are recorded whole, so the last state is still needed; but only its name.
        self._last = {key: _name_only(body) for key, body in self._last.items()}

    def on_add(self, obj: api.Object, is_initial_list: bool) -> None:
        self._put(Event.ADD, obj)

    def on_update(self, old: api.Object, new: api.Object) -> None:
        self._put(Event.UPDATE, new)

    def on_delete(self, obj: api.Object) -> None:
        body = self._last.pop(obj.key, None)
        if body is not None and self._changed is not None:
            body["metadata"]["resourceVersion"] = obj.metadata.resource_version
            self._changed(Event.DELETE, body)

    def _put(self, event: Event, obj: api.Object) -> None:
        body = _body(self._whole, obj, self._clean)
        if not self._wanted(self._kind, body):
            return
        event = Event.UPDATE if obj.key in self._last else Event.ADD
        if self._changed is None:
            self._last[obj.key] = body
        else:
            self._last[obj.key] = _name_only(body)
            self._changed(event, body)


def _name_only(body: JSON) -> JSON:
    names = {key: body["metadata"][key] for key in ("name", "namespace", "uid") if body["metadata"].get(key)}
    return {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": names}


def _body(whole: WholeObjects, obj: api.Object, clean: Cleaner) -> JSON:
    data = whole(obj)
    fields: JSON = {} if data is None else msgspec.json.decode(data)
    return {"apiVersion": obj.api_version, "kind": obj.kind, **clean(fields)}


_TYPES: list[type[api.Object]] = []


def _types() -> list[type[api.Object]]:
    """A class per kind, with no fields of its own: the client keeps the text of the whole object beside it."""
    if not _TYPES:
        for name in KINDS:
            known = next(each for each in BUILT_IN if each.kind == name and each.is_stored)
            endpoint = Endpoint(known.group_version, known.plural, known.namespaced)
            names = {
                "api_version": known.group_version,
                "kind": name,
                "plural": known.plural,
                "namespaced": known.namespaced,
                "endpoint": endpoint,
            }
            made: Any = msgspec.defstruct(f"Whole{name}", [], bases=(api.Object,), namespace=names, frozen=True)
            _TYPES.append(made)
    return _TYPES


def connect(path: str | os.PathLike[str] | None, context: str | None) -> Connection:
    """The way to a cluster, from a kubeconfig as kubectl finds it. Raises KubeconfigError."""
    return resolve(kubeconfig_of(path, context))


def kubeconfig_of(path: str | os.PathLike[str] | None, context: str | None) -> Kubeconfig:
    """A kubeconfig as kubectl finds it, with a context. Raises KubeconfigError."""
    if path is not None:
        config = load_file(str(path))
    else:
        listed = os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
        config = load_files(listed.split(os.pathsep))
        if not config.files:
            raise KubeconfigError(listed, "", "no such file", "name a kubeconfig with --kubeconfig or KUBECONFIG")
    if context is None:
        return config
    if context not in config.contexts:
        known = ", ".join(sorted(config.contexts)) or "none"
        raise KubeconfigError(
            ", ".join(config.files), "contexts", f"there is no context {context!r}", f"there are: {known}"
        )
    return replace(config, current_context=context)
