"""Rendering records as responses: one object, a list or a watch, in the form that the client accepts."""

from __future__ import annotations

from collections.abc import Callable

from kubesched.apiserver.kinds.conversion import is_converted, served_bytes, served_object
from kubesched.apiserver.kinds.registry import ApiResource
from kubesched.apiserver.printing.columns_admission import COLUMNS as ADMISSION_COLUMNS
from kubesched.apiserver.printing.columns_core import COLUMNS as CORE_COLUMNS
from kubesched.apiserver.printing.columns_pods import COLUMNS as POD_COLUMNS
from kubesched.apiserver.printing.columns_policies import COLUMNS as POLICY_COLUMNS
from kubesched.apiserver.printing.table import Columns, Tabulator, partial
from kubesched.apiserver.rest.listing import ListPage
from kubesched.apiserver.storage.store import Record, encode
from kubesched.apiserver.wire.negotiation import Form
from kubesched.apiserver.wire.request import ApiResponse
from kubesched.base.types import JSON

_COLUMNS = {**CORE_COLUMNS, **POD_COLUMNS, **POLICY_COLUMNS, **ADMISSION_COLUMNS}


class Renderer:
    """Renders objects of one resource in one form."""

    def __init__(
        self,
        resource: ApiResource,
        form: Form,
        columns: Columns | None,
        include_object: str,
        now: Callable[[], float],
    ) -> None:
        self._resource = resource
        self._form = form
        self._table = Tabulator(columns or _COLUMNS.get(resource.storage), form.version, include_object, now)
        self._columns_sent = False

    def one(self, record: Record, status: int = 200) -> ApiResponse:
        """One object."""
        if self._form.kind == "Table":
            meta = {"resourceVersion": str(record.version)}
            return ApiResponse(status, encode(self._table.table([self._object(record)], meta)))
        if self._form.kind:
            return ApiResponse(status, encode(partial(self._object(record))))
        return ApiResponse(status, served_bytes(self._resource, record.data))

    def page(self, page: ListPage) -> ApiResponse:
        """A list, or part of one."""
        meta: JSON = {"resourceVersion": str(page.version)}
        if page.next:
            meta["continue"] = page.next
            if page.remaining:
                meta["remainingItemCount"] = page.remaining
        if self._form.kind == "Table":
            objects = map(self._object, page.records)
            return ApiResponse(body=encode(self._table.table(objects, meta)))
        if self._form.kind:
            items = [partial(self._object(record)) for record in page.records]
            kind = "PartialObjectMetadataList"
            return ApiResponse(
                body=encode({"kind": kind, "apiVersion": "meta.k8s.io/v1", "metadata": meta, "items": items})
            )
        return ApiResponse(body=self._plain_list(page, meta))

    def _plain_list(self, page: ListPage, meta: JSON) -> bytes:
        resource = self._resource
        head = {"kind": f"{resource.kind}List", "apiVersion": resource.group_version, "metadata": meta}
        items = b",".join(served_bytes(resource, record.data) for record in page.records)
        return b"".join((encode(head)[:-1], b',"items":[', items, b"]}"))

    def watch_render(self) -> Callable[[Record], bytes] | None:
        """How a watch renders an object, or None if as stored."""
        if self._form.kind == "Table":
            return self._table_row
        if self._form.kind:
            return lambda record: encode(partial(self._object(record)))
        if is_converted(self._resource):
            return lambda record: served_bytes(self._resource, record.data)
        return None

    def bookmark(self, obj: JSON) -> JSON:
        """A bookmark in the form of the watch's other events."""
        if self._form.kind == "Table":
            row = {"cells": [], "object": partial(obj)}
            table = self._table.table([], {"resourceVersion": obj["metadata"]["resourceVersion"]}, with_columns=False)
            return {**table, "rows": [row]}
        return partial(obj) if self._form.kind else obj

    def _table_row(self, record: Record) -> bytes:
        """One event of a watch as a Table. Only the first has the column definitions."""
        first, self._columns_sent = not self._columns_sent, True
        meta = {"resourceVersion": str(record.version)}
        return encode(self._table.table([self._object(record)], meta, with_columns=first))

    def _object(self, record: Record) -> JSON:
        return served_object(self._resource, record)
