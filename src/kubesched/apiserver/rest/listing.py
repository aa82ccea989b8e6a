"""Lists: selecting and paging.

Every page of a long list shows the cluster as it was when the first page was made.
"""

from __future__ import annotations

import base64
from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import msgspec

from kubesched.api.selectors import EVERYTHING, Selector
from kubesched.apiserver.kinds.registry import ApiResource
from kubesched.apiserver.rest.selectors import NAME, NAMESPACE, FieldSelector, fields_match, parse_fields, parse_labels
from kubesched.apiserver.storage.store import Record, Shelf, Store, encode
from kubesched.apiserver.wire.request import ApiRequest
from kubesched.apiserver.wire.status import StatusError, bad_request, continue_expired, version_too_large
from kubesched.base.documents import REQUEST, read_json


@dataclass(frozen=True, slots=True)
class Selection:
    """Selects objects of a kind."""

    namespace: str = ""
    labels: Selector = EVERYTHING
    fields: FieldSelector = ()
    name: str = ""
    name_requirements: FieldSelector = ()
    """Further field requirements on name and namespace."""

    @property
    def is_everything(self) -> bool:
        return not self.namespace and self.is_unfiltered

    @property
    def is_by_key(self) -> bool:
        """Whether the key alone decides. Then an update never moves an object into or out of the selection."""
        return not (self.fields or self.labels.requirements)

    @property
    def is_unfiltered(self) -> bool:
        """Whether all objects are selected, or all of a namespace."""
        return not (self.name or self.name_requirements or self.fields or self.labels.requirements)

    def matches(self, record: Record) -> bool:
        if self.namespace and not record.key.startswith(f"{self.namespace}/"):
            return False
        if self.name and record.name != self.name:
            return False
        if self.name_requirements and not fields_match(
            self.name_requirements, {NAME: record.name, NAMESPACE: record.namespace}
        ):
            return False
        return self.labels.matches(record.labels) and (not self.fields or fields_match(self.fields, record.fields))


def selection_of(request: ApiRequest, resource: ApiResource, namespace: str) -> Selection:
    """The selection in a request's path and query."""
    wanted = parse_fields(request.query.get("fieldSelector", ""), resource.field_paths, namespaced=resource.namespaced)
    name, fields, places = "", [], []
    for field, equal, value in wanted:
        if field == NAME and equal and not name:
            name = value
        elif field == NAMESPACE and equal and not namespace and resource.namespaced:
            namespace = value
        elif field in (NAME, NAMESPACE):
            places.append((field, equal, value))
        else:
            fields.append((".".join(resource.field_paths[field]), equal, value))
    labels = parse_labels(request.query.get("labelSelector", ""))
    return Selection(namespace if resource.namespaced else "", labels, tuple(fields), name, tuple(places))


# --- lists ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListPage:
    """Part of a list, the version it shows, and where the next page starts."""

    records: list[Record]
    version: int
    next: str = ""
    remaining: int = 0


class _Continue(msgspec.Struct):
    """The content of a continue token: the version of the list, the last key of the previous page, and the time.

    Version 0 continues with the newest objects, though the list is then not consistent.
    """

    rv: int
    start: str
    at: int = 0


TOKEN_SECONDS = 300
"""How long a token is good for, as long as etcd keeps old versions in a real cluster."""


def list_page(store: Store, shelf: Shelf, request: ApiRequest, selection: Selection, now: float) -> ListPage:
    """The requested page of a list."""
    limit = request.number("limit") or 0
    token = request.query.get("continue", "")
    version, start = store.version, ""
    records = shelf.records
    if token:
        parsed = _parse_token(token)
        if request.query.get("resourceVersion", "") not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        version, start = parsed.rv or store.version, parsed.start
        if version != store.version:
            records = _earlier(shelf, parsed, now)
    else:
        exact = _wanted_version(request, store.version)
        if exact is not None and exact != store.version:
            version, records = exact, shelf.at(exact)
    keys = sorted(records) if records is not shelf.records else shelf.sorted_keys()
    return _page(keys, records, selection, _Continue(version, start, int(now)), limit)


def _earlier(shelf: Shelf, token: _Continue, now: float) -> dict[str, Record]:
    """The objects at the version of a token. The refusal of an expired one has a token to continue nevertheless."""
    try:
        if now - token.at > TOKEN_SECONDS:
            raise continue_expired()
        return shelf.at(token.rv)
    except StatusError:
        raise continue_expired(_token(0, token.start, int(now))) from None


def _page(keys: list[str], records: dict[str, Record], selection: Selection, token: _Continue, limit: int) -> ListPage:
    everything = selection.is_everything
    found: list[Record] = []
    version, start = token.rv, token.start
    for index in range(bisect_right(keys, start) if start else 0, len(keys)):
        record = records[keys[index]]
        if not everything and not selection.matches(record):
            continue
        if limit and len(found) == limit:
            rest = _count_from(keys, index, selection.namespace) if selection.is_unfiltered else 0
            return ListPage(found, version, _token(version, found[-1].key, token.at), rest)
        found.append(record)
    return ListPage(found, version)


def _count_from(keys: list[str], index: int, namespace: str) -> int:
    # The keys of a namespace are contiguous. "0" is the character after "/" and ends them.
    end = bisect_left(keys, f"{namespace}0") if namespace else len(keys)
    return end - index


def _wanted_version(request: ApiRequest, current: int) -> int | None:
    """The version that must be matched exactly, or None. A minimum version is only checked."""
    text, match = request.query.get("resourceVersion", ""), request.query.get("resourceVersionMatch", "")
    if text in ("", "0"):
        return None
    version = parse_version(text)
    if version > current:
        raise version_too_large(version, current)
    return version if match == "Exact" else None


_MAX_DIGITS = 20


def parse_version(text: str) -> int:
    digits = text.isascii() and text.isdecimal()
    if not digits or len(text) > _MAX_DIGITS or int(text) >= 2**64:
        problem = "value out of range" if digits else "invalid syntax"
        raise bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{text}":'
            f' strconv.ParseUint: parsing "{text}": {problem}'
        )
    return int(text)


def _token(version: int, key: str, at: int) -> str:
    return base64.urlsafe_b64encode(encode(_Continue(version, key, at))).decode().rstrip("=")


def _parse_token(token: str) -> _Continue:
    try:
        data = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        return msgspec.convert(read_json(data, REQUEST), _Continue)
    except (ValueError, msgspec.MsgspecError):
        raise bad_request(
            "invalid continue token: continue key is not valid: a token of this server was expected"
        ) from None
