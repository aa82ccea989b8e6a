"""Requests and responses independent of HTTP, and the meaning of paths and queries.

The HTTP server and the in-process client both use them, so a test can run with or without a socket.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import unquote

from kubesched.apiserver.wire.status import bad_request

JSON_TYPE = "application/json"
TEXT_TYPE = "text/plain; charset=utf-8"
_NUMBER = re.compile("[-+]?[0-9]+")
_MAX_DIGITS = 20
ANONYMOUS_NAME = "system:anonymous"

Query = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class UserInfo:
    """An authenticated user."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class ApiRequest:
    """One request. Header names are in lower case; `certificate` is the user of a verified client certificate.

    A request that arrives over a network has `receive`, which returns its body. It is called only after the request has
    been authenticated and authorized.
    """

    method: str
    path: str
    query: Query = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    certificate: UserInfo | None = None
    user: UserInfo = UserInfo(ANONYMOUS_NAME, ("system:unauthenticated",))
    warnings: list[str] = field(default_factory=list)
    receive: Callable[[], Awaitable[bytes]] | None = None
    address: str = ""
    repeated_fields: list[str] = field(default_factory=list)
    """What is to be said about repeated fields of a custom object, together with what its schema does not know."""
    unknown_fields: list[str] = field(default_factory=list)
    """The paths of unknown fields in the metadata of a custom object."""

    @property
    def client(self) -> str:
        """Whose requests are counted together: those of a user, or of an address if the user is anonymous."""
        return self.user.name if self.user.name != ANONYMOUS_NAME else f"{ANONYMOUS_NAME} at {self.address}"

    def flag(self, name: str) -> bool:
        """A query parameter that is true or false: whatever is neither false nor 0 is true, as upstream."""
        return self.query.get(name, "0").lower() not in ("0", "false")

    def number(self, name: str) -> int | None:
        """A query parameter that is a number, or None."""
        text = self.query.get(name, "")
        if not text:
            return None
        if not _NUMBER.fullmatch(text):
            raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
        if len(text) > _MAX_DIGITS or not -(2**63) <= int(text) < 2**63:
            raise bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
        return int(text)

    @property
    def dry_run(self) -> bool:
        return self.query.get("dryRun") == "All"


@dataclass(slots=True)
class ApiResponse:
    """A response: a body, or a stream of chunks for a watch."""

    status: int = 200
    body: bytes = b""
    content_type: str = JSON_TYPE
    headers: dict[str, str] = field(default_factory=dict)
    stream: AsyncIterator[bytes] | None = None
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """What a path names: a resource, one object or its subresource, or a path that is not a resource."""

    path: str
    is_resource: bool = False
    group: str = ""
    version: str = ""
    namespace: str = ""
    plural: str = ""
    name: str = ""
    subresource: str = ""
    is_watch: bool = False
    """Whether the path has the old form of a watch: ``/api/v1/watch/pods``."""

    @property
    def group_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@lru_cache(maxsize=256)
def parse_path(path: str) -> RequestTarget:
    """Parse a path as upstream's request resolver does. ``/api/v1`` itself and the like are not resources."""
    parts = [unquote(part) for part in path.split("/") if part]
    if len(parts) >= 3 and parts[0] == "api":
        return _resource_target(path, "", parts[1], parts[2:])
    if len(parts) >= 4 and parts[0] == "apis":
        return _resource_target(path, parts[1], parts[2], parts[3:])
    return RequestTarget(path)


_NAMESPACE_SUBRESOURCES = ("status", "finalize")


def _resource_target(path: str, group: str, version: str, rest: list[str]) -> RequestTarget:
    is_watch = rest[0] == "watch" and len(rest) > 1
    if is_watch:
        rest = rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
        namespace, rest = rest[1], rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    # What follows a proxy is a path of its own.
    subresource = "proxy" if rest[2:3] == ["proxy"] else "/".join(rest[2:])
    return RequestTarget(path, True, group, version, namespace, rest[0], name, subresource, is_watch)


_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "HEAD": "get", "GET": "get", "DELETE": "delete"}


def verb_of(request: ApiRequest, target: RequestTarget) -> str:
    """The verb for authorization."""
    if not target.is_resource:
        return request.method.lower()
    verb = _VERBS.get(request.method, request.method.lower())
    if verb == "get" and is_watch(request, target):
        return "watch"
    if verb == "get" and not target.name:
        return "list"
    return "deletecollection" if verb == "delete" and not target.name else verb


def is_watch(request: ApiRequest, target: RequestTarget) -> bool:
    """Whether a GET is a watch, by its query or by the old form of path."""
    return target.is_watch or (request.flag("watch") and not target.subresource)
