"""Decoding of what the API server sends: pages of a list, lines of a watch, refusals.

Each object is decoded once, straight into its Struct. One that does not fit is reported by name and skipped, so that
the scheduler still sees all the others.
"""

from __future__ import annotations

import re
from functools import cache
from http import HTTPStatus
from typing import Generic, TypeVar

import msgspec

from kubesched.api import objects as api
from kubesched.client.protocol import ApiError, Malformed, WatchEvent, WatchType

O = TypeVar("O", bound=api.Object)  # noqa: E741 - the one-letter name for "some kind of object", as in the protocol


T = TypeVar("T")

# --- any JSON ---------------------------------------------------------------------------------------------------------

MAX_DEPTH = 200
"""How deep JSON is read if the decoder cannot read all of it. Kubernetes objects have at most about forty levels."""

_TOKENS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{}\]]', re.DOTALL)


def decode_json(decoder: msgspec.json.Decoder[T], data: bytes | msgspec.Raw) -> T:
    """Decode JSON of any depth. What lies too deep for the decoder is null; bytes that are not UTF-8 are replaced.

    API servers take thousands of levels, for instance in custom resources. One such object must not hide all others.
    """
    try:
        return decoder.decode(data)
    except RecursionError:
        return decoder.decode(_shallow(bytes(data)))
    except UnicodeDecodeError:
        return decode_json(decoder, bytes(data).decode("utf-8", "replace").encode())


def _shallow(data: bytes) -> bytes:
    parts: list[bytes] = []
    depth = start = 0
    for token in _TOKENS.finditer(data):
        first = token[0][:1]
        if first in (b"{", b"["):
            if depth == MAX_DEPTH:
                parts += (data[start : token.start()], b"null")
            depth += 1
        elif first in (b"}", b"]"):
            depth -= 1
            if depth == MAX_DEPTH:
                start = token.end()
    return b"".join((*parts, data[start:] if depth < MAX_DEPTH else b""))


# --- lists ------------------------------------------------------------------------------------------------------------


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct, frozen=True):
    """One page of a list. Its items are not decoded yet: decoding all at once would block the event loop."""

    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] | None = None


_page_decoder = msgspec.json.Decoder(Page)


def decode_page(body: bytes) -> Page:
    try:
        return decode_json(_page_decoder, body)
    except msgspec.MsgspecError as error:
        raise ApiError(200, "InvalidAnswer", f"the API server's response is not a list: {error}") from None


def decode_object(kind: type[O], data: bytes | msgspec.Raw) -> O | Malformed:
    """An object, or the reason why it cannot be read."""
    decoder: msgspec.json.Decoder[O] = _decoder(kind)
    try:
        return decode_json(decoder, data)
    except msgspec.MsgspecError:
        return _decode_slowly(kind, bytes(data))


@cache
def _decoder(kind: type[O]) -> msgspec.json.Decoder[O]:
    return msgspec.json.Decoder(kind)


def _decode_slowly(kind: type[O], data: bytes) -> O | Malformed:
    try:
        return api.decode_as(kind, data)
    except api.InvalidObject as error:
        if not error.key and (shallow := _shallow(data)) != data:
            return _decode_slowly(kind, shallow)  # it was too deep even to find its name
        return Malformed(error.key, str(error))


# --- watches ----------------------------------------------------------------------------------------------------------


BOOKMARK = WatchType.BOOKMARK  # slow to look up for each event


class _Line(msgspec.Struct, Generic[O], frozen=True):
    type: WatchType
    object: O


class _RawLine(msgspec.Struct, frozen=True):
    type: str = ""
    object: msgspec.Raw = msgspec.Raw()


_raw_line_decoder = msgspec.json.Decoder(_RawLine)


@cache
def _line_decoder(kind: type[O]) -> msgspec.json.Decoder[_Line[O]]:
    return msgspec.json.Decoder(_Line[kind])  # type: ignore[valid-type]  # the class is known only when running


def decode_line(kind: type[api.Object], line: bytes) -> WatchEvent:
    """One line of a watch. An ERROR event is raised; garbage is an event without object and version."""
    try:
        event = decode_json(_line_decoder(kind), line)
    except msgspec.MsgspecError:
        return _decode_line_slowly(kind, line)
    change, found = event.type, event.object
    return WatchEvent(change, None if change is BOOKMARK else found, found.metadata.resource_version)


def raw_object(line: bytes) -> msgspec.Raw:
    """The undecoded object in a line of a watch."""
    return decode_json(_raw_line_decoder, line).object


def _decode_line_slowly(kind: type[api.Object], line: bytes) -> WatchEvent:
    """Decode what the fast decoder refuses: errors, bookmarks with null fields, malformed objects."""
    try:
        raw = decode_json(_raw_line_decoder, line)
    except msgspec.MsgspecError as error:
        problem = f"a line of the watch cannot be read: {error}"
        return WatchEvent(WatchType.BOOKMARK, None, "", Malformed("", problem))
    data = bytes(raw.object)
    if raw.type == "ERROR":
        raise error_of(500, data)
    try:
        change = WatchType(raw.type)
    except ValueError:
        return WatchEvent(WatchType.BOOKMARK, None, "", Malformed("", f"unknown kind of watch event: {raw.type!r}"))
    metadata = decode_object(_MetadataOnly, data)
    version = "" if isinstance(metadata, Malformed) else metadata.metadata.resource_version
    if change is WatchType.BOOKMARK:
        return WatchEvent(change, None, version)
    found = decode_object(kind, data)
    if isinstance(found, Malformed):
        return WatchEvent(change, None, version, found)
    return WatchEvent(change, found, version)


class _MetadataOnly(api.Object, frozen=True):
    """Just enough of an object to get its name and version."""


# --- refusals ---------------------------------------------------------------------------------------------------------


MAX_RETRY_AFTER = 600.0
"""The longest Retry-After that is respected, in seconds."""


class _Details(msgspec.Struct, frozen=True, rename="camel"):
    retry_after_seconds: float = 0


class _Status(msgspec.Struct, frozen=True):
    kind: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""
    details: _Details | None = None


_status_decoder = msgspec.json.Decoder(_Status)

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    409: "Conflict",
    410: "Gone",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
"""Kubernetes' reason for a code, for responses of proxies and plain handlers, which have none."""


def error_of(code: int, body: bytes, retry_after: str | None = None) -> ApiError:
    """The error in a response: its Status if it has one, otherwise its text."""
    try:
        status = decode_json(_status_decoder, body)
    except msgspec.MsgspecError:
        status = _Status()
    if status.kind != "Status":
        text = " ".join(body[:512].decode(errors="replace").split()) or _phrase(code)
        return ApiError(code, REASONS.get(code, "Unknown"), text, _seconds(retry_after))
    code = status.code or code
    seconds = _seconds(retry_after)
    if seconds is None and status.details is not None and status.details.retry_after_seconds:
        seconds = _bounded(status.details.retry_after_seconds)
    return ApiError(
        code, status.reason or REASONS.get(code, "Unknown"), status.message or _phrase(code), retry_after=seconds
    )


def _phrase(code: int) -> str:
    try:
        return HTTPStatus(code).phrase
    except ValueError:
        return f"HTTP status {code}"


def _seconds(header: str | None) -> float | None:
    """A Retry-After header in seconds. The API server never sends a date there."""
    try:
        return _bounded(float(header)) if header else None
    except ValueError:
        return None


def _bounded(seconds: float) -> float:
    """A mistake in a proxy must not silence the scheduler for good."""
    return min(seconds, MAX_RETRY_AFTER) if seconds >= 0 else 0.0
