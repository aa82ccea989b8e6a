"""kube-scheduler-simulator's HTTP interface, so that its clients and scripts work with `kubesched up`.

Its paths, methods, bodies and status codes. It is served beside the Kubernetes API and behind the same authentication;
`open_port` serves it without any, as the simulator does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

from kubesched.apiserver.apiserver import ApiServer, ExtraRoute
from kubesched.apiserver.rest.listing import parse_version
from kubesched.apiserver.storage.store import ChangeType, Record, Shelf, encode
from kubesched.apiserver.wire.request import ApiRequest, ApiResponse
from kubesched.apiserver.wire.status import StatusError
from kubesched.base.documents import DocumentError, DocumentLimits, read_json
from kubesched.base.types import JSON
from kubesched.daemon.setup import SetupError
from kubesched.local.scheduler import LocalScheduler
from kubesched.local.snapshots import STORAGES, Checkpoint, export, load, without_kind

IMPORT = DocumentLimits(size=256 << 20, values=10_000_000)
_JSON = "application/json; charset=UTF-8"
_WATCHED = {
    "pods": "pods",
    "nodes": "nodes",
    "pvs": "persistentvolumes",
    "pvcs": "persistentvolumeclaims",
    "storageClasses": "storageclasses",
    "priorityClasses": "priorityclasses",
    "namespaces": "namespaces",
}
_PARAMETERS = {"storageClasses": "scs", "priorityClasses": "pcs", "namespaces": "namespace"}
_BATCH = 256
_WAIT_SECONDS = 30.0

Handle = Callable[[ApiRequest], Awaitable[ApiResponse]]


class SimulatorApi:
    """The simulator's interface to one cluster. Changes are made one after the other."""

    def __init__(self, api: ApiServer, scheduler: LocalScheduler) -> None:
        self._api = api
        self._scheduler = scheduler
        self._initial = Checkpoint(api.store)
        self._changing = asyncio.Lock()

    def install(self) -> None:
        """Add the paths to the API server."""
        routes: tuple[tuple[str, str, Handle, int], ...] = (
            ("GET", "export", self._export, 0),
            ("POST", "import", self._import, IMPORT.size),
            ("PUT", "reset", self._reset, 0),
            ("GET", "schedulerconfiguration", self._get_config, 0),
            ("POST", "schedulerconfiguration", self._post_config, 0),
            ("GET", "listwatchresources", self._watch, 0),
        )
        for method, name, handle, size in routes:
            route = ExtraRoute(_with_messages(handle), size) if size else ExtraRoute(_with_messages(handle))
            self._api.extra_routes[method, f"/api/v1/{name}"] = route

    # --- what clients of this process use -----------------------------------------------------------------------------

    def exported(self) -> JSON:
        """Everything that the simulator exports."""
        return export(self._api.store, self._scheduler.config)

    async def replace(self, content: JSON) -> None:
        """Replace the cluster, and the configuration if there is one. Raises `StatusError` and changes nothing then."""
        config = _config_in(content)
        async with self._changing:
            if config is not None and (problems := self._scheduler.problems(config)):
                raise StatusError(400, "schedulerConfig: " + "; ".join(problems))
            load(self._api, content)
            await self._api.store.durable()
            if config is not None:
                await self._configure(config)

    async def reset(self) -> None:
        """Restore the cluster and the configuration as they were at the start."""
        async with self._changing:
            self._initial.restore()
            await self._api.store.durable()
            await self._configure(None)

    async def configure(self, config: JSON) -> None:
        """Restart the scheduler with other profiles and extenders. Raises `StatusError` if they cannot be used."""
        async with self._changing:
            await self._configure(config)

    async def _configure(self, config: JSON | None) -> None:
        try:
            await self._scheduler.configure(config)
        except SetupError as error:
            raise StatusError(400, "; ".join(error.problems)) from None

    # --- requests -----------------------------------------------------------------------------------------------------

    async def _export(self, _request: ApiRequest) -> ApiResponse:
        return _json(self.exported())

    async def _import(self, request: ApiRequest) -> ApiResponse:
        await self.replace(_body(request))
        return ApiResponse(200, content_type=_JSON)

    async def _reset(self, _request: ApiRequest) -> ApiResponse:
        await self.reset()
        return ApiResponse(202, content_type=_JSON)

    async def _get_config(self, _request: ApiRequest) -> ApiResponse:
        return _json(self._scheduler.config)

    async def _post_config(self, request: ApiRequest) -> ApiResponse:
        await self.configure(_body(request))
        return ApiResponse(202, content_type=_JSON)

    # --- watching -----------------------------------------------------------------------------------------------------

    async def _watch(self, request: ApiRequest) -> ApiResponse:
        given = {name.lower(): value for name, value in request.query.items()}
        starts = {}
        for name in _WATCHED:
            text = given.get(f"{_PARAMETERS.get(name, name)}lastresourceversion") or ""
            starts[name] = parse_version(text) if text else None
        return ApiResponse(stream=self._merged(starts))

    async def _merged(self, starts: dict[str, int | None]) -> AsyncIterator[bytes]:
        """The changes of all kinds. The stream ends when a version is too old, as the simulator's does."""
        lines: asyncio.Queue[bytes | None] = asyncio.Queue(maxsize=16)
        tasks = [asyncio.create_task(self._follow(name, start, lines)) for name, start in starts.items()]
        try:
            yield b""
            while (line := await lines.get()) is not None:
                yield line
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self, name: str, version: int | None, lines: asyncio.Queue[bytes | None]) -> None:
        shelf = self._api.store.shelf(STORAGES[name])
        with suppress(StatusError):
            if version is None:
                version = self._api.store.visible
                for record in list(shelf.at(version).values()):
                    await lines.put(_line(name, ChangeType.ADDED, record))
            await self._follow_from(shelf, shelf.position_after(version), name, lines)
        await lines.put(None)

    async def _follow_from(self, shelf: Shelf, position: int, name: str, lines: asyncio.Queue[bytes | None]) -> None:
        while not self._api.rest.closing:
            events = shelf.events_from(position, _BATCH)
            if events:
                position += len(events)
                await lines.put(b"".join(_line(name, event.change, event.record) for event in events))
            else:
                await shelf.wait(_WAIT_SECONDS)


def _line(name: str, change: ChangeType, record: Record) -> bytes:
    return encode({"Kind": _WATCHED[name], "EventType": change.name, "Obj": without_kind(record)}) + b"\n"


def _with_messages(handle: Handle) -> Handle:
    """Answer refusals in the simulator's form."""

    async def handled(request: ApiRequest) -> ApiResponse:
        try:
            return await handle(request)
        except StatusError as error:
            return _json({"message": error.message}, error.code)

    return handled


def _json(value: JSON, status: int = 200) -> ApiResponse:
    return ApiResponse(status, encode(value) + b"\n", _JSON)


def _body(request: ApiRequest) -> JSON:
    try:
        body = read_json(request.body, IMPORT)
    except DocumentError as error:
        raise StatusError(400, f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise StatusError(400, "the body is not a JSON object")
    return body


def _config_in(content: JSON) -> JSON | None:
    config = content.get("schedulerConfig")
    if config is not None and not isinstance(config, dict):
        raise StatusError(400, "schedulerConfig: expected an object")
    return config
