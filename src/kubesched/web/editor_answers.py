"""The answers of the page with objects: lists, YAML, changes, and whole clusters."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

from aiohttp import web

from kubesched.base.documents import read_json
from kubesched.base.types import JSON
from kubesched.web.changes import ObjectEditor

Answer = Callable[[web.Request], Awaitable[JSON]]


async def body_of(request: web.Request) -> JSON:
    """The JSON object that the page sent. Raises ValueError."""
    body = read_json(await request.read())
    if not isinstance(body, dict):
        raise ValueError("expected a JSON object")
    return body


class EditorAnswers:
    """Passes the page's wishes on."""

    def __init__(self, editor: ObjectEditor) -> None:
        self._editor = editor

    def routes(self) -> Iterator[tuple[str, str, Answer]]:
        """Method, path below /api/ and handler."""
        yield "GET", "objects/kinds", self._kinds
        yield "GET", "objects", self._list
        yield "GET", "object", self._read
        yield "POST", "objects", self._create
        yield "PUT", "object", self._replace
        yield "DELETE", "object", self._delete
        yield "GET", "export", self._export
        yield "POST", "import", self._import
        yield "POST", "reset", self._reset

    async def _kinds(self, request: web.Request) -> JSON:
        kinds = await self._editor.kinds()
        return {
            "name": [each.name for each in kinds],
            "kind": [each.kind for each in kinds],
            "apiVersion": [each.api_version for each in kinds],
            "namespaced": [each.namespaced for each in kinds],
        }

    async def _list(self, request: web.Request) -> JSON:
        return await self._editor.listed(request.query["kind"])

    async def _read(self, request: web.Request) -> JSON:
        query = request.query
        return await self._editor.text(query["kind"], query.get("namespace", ""), query["name"])

    async def _create(self, request: web.Request) -> JSON:
        return await self._editor.create(str((await body_of(request))["text"]))

    async def _replace(self, request: web.Request) -> JSON:
        body = await body_of(request)
        return await self._editor.replace(str(body["text"]), str(body["opened"]))

    async def _delete(self, request: web.Request) -> JSON:
        query = request.query
        return await self._editor.delete(query["kind"], query.get("namespace", ""), query["name"])

    async def _export(self, request: web.Request) -> JSON:
        return await self._editor.export()

    async def _import(self, request: web.Request) -> JSON:
        return await self._editor.replace_all(await body_of(request))

    async def _reset(self, request: web.Request) -> JSON:
        return await self._editor.reset()
