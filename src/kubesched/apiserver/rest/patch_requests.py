"""Requests that patch an object: reading the patch, applying it, and refusing what it made of the object.

An object that a patch has given a value of the wrong type, or with `fieldValidation=Strict` an unknown field, is
refused with 422 and the field `patch`. kubectl edit opens its editor again on that code; others end it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from kubesched.apiserver.kinds.registry import ApiResource
from kubesched.apiserver.kinds.schema import type_of
from kubesched.apiserver.rest import patch as patches
from kubesched.apiserver.rest.body import (
    check_depth,
    check_kind,
    custom_type,
    media_type,
    not_an_object,
    parse_json,
    report_strict,
    unknown_kind,
)
from kubesched.apiserver.rest.duplicates import json_duplicates, unknown_words
from kubesched.apiserver.validation.problems import Problems
from kubesched.apiserver.validation.typecheck import WrongTypeError, drop_unknown, go_text, json_word
from kubesched.apiserver.wire.request import ApiRequest
from kubesched.apiserver.wire.status import StatusError, bad_request
from kubesched.base.merge import merge_patch
from kubesched.base.types import JSON

_OPERATION_FIELDS = frozenset(("op", "path", "from", "value"))
_MOST_OPERATIONS = 10_000
_GO_MAP = "map[string]interface {}"


class PatchRequest:
    """The patch of a request for an object of one kind."""

    def __init__(self, request: ApiRequest, resource: ApiResource, group_version: str = "", schema: str = "") -> None:
        """`group_version` and `schema` are those of the object, if it is not the resource's own: a Scale."""
        self._request = request
        self._form = _form(request, resource)
        self._type = type_of(schema or resource.schema)
        self._group_version = group_version or resource.group_version
        self._kind = self._type.short_name if schema and self._type else resource.kind
        self._patch: Any = parse_json(request.body, "error decoding patch: ")
        if self._patch is None and self._form == patches.JSON_PATCH:
            self._patch = []
        _check_patch(self._form, self._patch)

    def apply(self, old: JSON) -> JSON:
        """The patched object, of which only known fields are left."""
        with suppress(WrongTypeError):
            drop_unknown(old, self._type or custom_type())
        patched = self._patched(old)
        if not isinstance(patched, dict):
            raise self._refusal(patched, not_an_object(patched))
        check_depth(patched)
        if why := unknown_kind(patched, self._group_version, self._kind):
            raise self._refusal(patched, why)
        check_kind(patched, self._group_version, self._kind)
        try:
            unknown = drop_unknown(patched, self._type or custom_type())
        except WrongTypeError as error:
            why = error.converted if self._form == patches.STRATEGIC else str(error)
            raise self._refusal(patched, why) from None
        self._unknown = unknown
        if self._type is not None:
            self._report(patched, [*self._body_words(), *unknown_words(unknown)])
        return patched

    def report_dropped(self, patched: JSON, dropped: list[str]) -> None:
        """Report the fields of a custom object that are repeated, and those that its schema does not know."""
        if self._type is None:
            self._report(patched, [*self._body_words(), *unknown_words(sorted([*self._unknown, *dropped]))])

    def _patched(self, old: JSON) -> Any:
        if self._form == patches.JSON_PATCH:
            return patches.json_patch(old, self._patch)
        if self._form == patches.MERGE_PATCH:
            return dict(merge_patch(old, self._patch))
        return patches.strategic_merge(copy.deepcopy(old), self._patch, self._type)

    def _body_words(self) -> Iterator[str]:
        """Fields that the patch repeats, and fields that operations of a JSON patch do not have."""
        prefix = "json patch " if self._form == patches.JSON_PATCH else ""
        for word in json_duplicates(self._request.body, self._patch):
            yield f"{prefix}{word}"
        for index, operation in enumerate(self._patch if prefix else ()):
            for name in operation:
                if name not in _OPERATION_FIELDS:
                    yield f'{prefix}unknown field "[{index}].{name}"'

    def _report(self, patched: JSON, words: list[str]) -> None:
        report_strict(self._request, words, partial(self._refusal, patched))

    def _refusal(self, patched: Any, why: str) -> StatusError:
        shown = go_text(self._patch) if self._form == patches.STRATEGIC else msgspec.json.encode(patched).decode()
        problems = Problems()
        problems.invalid("patch", shown, why)
        (cause,) = problems.found
        return StatusError(422, f' "" is invalid: patch: {cause.message}', details={}, causes=[cause])


def _form(request: ApiRequest, resource: ApiResource) -> str:
    """The media type of the patch. Custom resources have no strategic merge patch."""
    form = media_type(request.headers.get("content-type", ""))
    known = [patches.JSON_PATCH, patches.MERGE_PATCH, *(() if resource.custom else (patches.STRATEGIC,))]
    if form not in known:
        accepted = ", ".join((*known, patches.APPLY))
        why = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
        raise StatusError(415, why if resource.custom else "415: Unsupported Media Type")
    return form


def _check_patch(form: str, patch: Any) -> None:
    start = "" if form == patches.STRATEGIC else "error decoding patch: "
    if form != patches.JSON_PATCH:
        if not isinstance(patch, dict):
            raise bad_request(f"{start}json: cannot unmarshal {json_word(patch)} into Go value of type {_GO_MAP}")
        return
    if not isinstance(patch, list):
        into = "Go value of type []handlers.jsonPatchOp"
        raise bad_request(f"{start}json: cannot unmarshal {json_word(patch)} into {into}")
    if wrong := [each for each in patch if not isinstance(each, dict)]:
        into = "Go value of type handlers.jsonPatchOp"
        raise bad_request(f"{start}json: cannot unmarshal {json_word(wrong[0])} into {into}")
    for operation in patch:
        for field in ("op", "path", "from"):
            value = operation.get(field)
            if value is not None and not isinstance(value, str):
                into = f"Go struct field jsonPatchOp.{field} of type string"
                raise bad_request(f"{start}json: cannot unmarshal {json_word(value)} into {into}")
    if len(patch) > _MOST_OPERATIONS:
        allowed = f"Request entity too large: The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}"
        raise StatusError(413, f"{allowed}, got {len(patch)}")
