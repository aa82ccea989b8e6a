"""Sends TokenReviews and SubjectAccessReviews to the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from kubesched.base.types import JSON
from kubesched.client.protocol import ApiError

TIMEOUT: Final = 10.0
DELAYS: Final = (0.5, 0.75, 1.125, 1.7)
"""Seconds between tries, as upstream; four delays mean five tries."""


class Api(Protocol):
    """The part of an HTTP client that reviews use."""

    async def post(self, path: str, body: JSON) -> JSON: ...


class ReviewError(Exception):
    """The API server could not be reached, or its response has no status."""


async def review(api: Api, path: str, kind: str, spec: JSON) -> JSON:
    """Create a review and return its status. Raises `ReviewError`."""
    group = path.removeprefix("/apis/").rpartition("/")[0]
    body: JSON = {"apiVersion": group, "kind": kind, "spec": spec}
    try:
        async with asyncio.timeout(TIMEOUT):
            answer = await _with_retries(lambda: api.post(path, body))
    except (ApiError, OSError) as problem:
        raise ReviewError(str(problem) or "no answer in time") from problem
    status = answer.get("status")
    if not isinstance(status, dict):
        raise ReviewError(f"the API server's {kind} has no status")
    return status


async def _with_retries(ask: Callable[[], Awaitable[JSON]]) -> JSON:
    for delay in DELAYS:
        try:
            return await ask()
        except ApiError as problem:
            if problem.code < 500 and problem.code != 429:
                raise
        except ConnectionResetError:
            # The connection had been idle for too long. Other network errors last longer than a request may wait.
            pass
        await asyncio.sleep(delay)
    return await ask()
