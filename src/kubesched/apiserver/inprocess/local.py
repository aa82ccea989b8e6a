"""Requests to an API server in the same process: the whole path of a request without the socket.

Scenarios and most tests use it. Authentication, RBAC, admission and validation are the real ones, and refusals are
raised as `StatusError`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any

import msgspec

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.auth.authentication import MASTERS
from kubesched.apiserver.kinds.conversion import is_converted, served_object
from kubesched.apiserver.kinds.registry import ApiResource
from kubesched.apiserver.rest.body import read_object, report_dropped
from kubesched.apiserver.rest.patch import MERGE_PATCH
from kubesched.apiserver.storage.store import decode, encode
from kubesched.apiserver.wire.request import JSON_TYPE, TEXT_TYPE, ApiRequest, ApiResponse, UserInfo
from kubesched.apiserver.wire.status import Cause, NoSuchPageError, StatusError
from kubesched.base.types import JSON

LOCAL_USER = UserInfo("system:kubesched", (MASTERS,))
STRICT = {"fieldValidation": "Strict"}
"""As kubectl requests it: an unknown field is an error."""


class LocalClient:
    """Sends requests as one user, by default one who may do everything."""

    def __init__(self, api: ApiServer, user: UserInfo = LOCAL_USER) -> None:
        self._api = api
        self._user = user

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        content_type: str = JSON_TYPE,
    ) -> ApiResponse:
        """Send a request and return its response, whatever its code. The path may have a query."""
        path, _, text = path.partition("?")
        parsed = dict(part.partition("=")[::2] for part in text.split("&") if part)
        data = b"" if body is None else body if isinstance(body, bytes) else encode(body)
        sent = {**(headers or {}), "content-type": content_type}
        request = ApiRequest(method, path, {**parsed, **(query or {})}, sent, data, certificate=self._user)
        return await self._api.handle(request)

    async def call(self, method: str, path: str, body: Any = None, **options: Any) -> JSON:
        """Send a request and return the object in the response. Raises `StatusError` if refused."""
        response = await self.send(method, path, body, **options)
        if response.status >= 400:
            raise _refused(response)
        return decode(response.body)

    async def get(self, path: str, **options: Any) -> JSON:
        return await self.call("GET", path, **options)

    async def create(self, path: str, obj: JSON, **options: Any) -> JSON:
        return await self.call("POST", path, obj, **options)

    async def create_stored(self, resource: ApiResource, namespace: str, obj: JSON) -> JSON:
        """Create an object of a kind that is stored, with strict field validation, and return it as `create` does.

        Admission and validation are those of a request. Only for a user who may do everything: rights are not checked.
        """
        request = ApiRequest("POST", "", STRICT, body=encode(obj), user=self._user)
        sent = read_object(request, resource, encoded_here=True)
        report = partial(report_dropped, request, resource)
        record = self._api.writer.create(resource, namespace, sent, user=self._user, report_unknown=report)
        await self._api.store.durable()
        # The writer has completed and stored this very object, unless it was converted or a policy replaced it.
        is_stored = sent["metadata"].get("resourceVersion") == str(record.version) and not is_converted(resource)
        return sent if is_stored else served_object(resource, record)

    async def replace(self, path: str, obj: JSON, **options: Any) -> JSON:
        return await self.call("PUT", path, obj, **options)

    async def patch(self, path: str, patch: Any, content_type: str = MERGE_PATCH, **options: Any) -> JSON:
        return await self.call("PATCH", path, patch, content_type=content_type, **options)

    async def delete(self, path: str, options: JSON | None = None, **more: Any) -> JSON:
        return await self.call("DELETE", path, options, **more)

    async def watch(self, path: str, **query: str) -> AsyncIterator[JSON]:
        """The events of a watch, one by one, until its timeout."""
        response = await self.send("GET", path, query={"watch": "true", **query})
        if response.stream is None:
            raise _refused(response)
        stream = response.stream
        async with aclosing(stream) as chunks:  # type: ignore[type-var]  # every stream here is a generator
            async for chunk in chunks:
                for line in chunk.splitlines():
                    event: JSON = msgspec.json.decode(line)
                    yield event


def _refused(response: ApiResponse) -> StatusError:
    if response.content_type == TEXT_TYPE:
        return NoSuchPageError()
    status = decode(response.body)
    details = status.get("details") or {}
    causes = [Cause(c.get("reason", ""), c.get("message", ""), c.get("field", "")) for c in details.get("causes") or []]
    return StatusError(
        response.status,
        status.get("message", ""),
        reason=status.get("reason", ""),
        details={key: value for key, value in details.items() if key != "causes"},
        causes=causes,
        retry_after=details.get("retryAfterSeconds", 0),
    )
