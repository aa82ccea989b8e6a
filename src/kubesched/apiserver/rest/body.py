"""Reading request bodies: JSON, YAML or protobuf, with unknown fields handled by fieldValidation."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from kubesched.apiserver.kinds.registry import BUILT_IN, ApiResource
from kubesched.apiserver.kinds.schema import Field, ObjectType, ValueType, type_of
from kubesched.apiserver.rest.duplicates import json_duplicates, unknown_words, with_unknown, yaml_duplicates
from kubesched.apiserver.validation.typecheck import WrongTypeError, drop_unknown, json_word
from kubesched.apiserver.wire import protobuf
from kubesched.apiserver.wire.request import ApiRequest
from kubesched.apiserver.wire.status import StatusError, bad_request
from kubesched.base.documents import REQUEST, DocumentError, read_json, read_yaml, within_depth
from kubesched.base.types import JSON

PROTOBUF = "application/vnd.kubernetes.protobuf"
_YAML = "application/yaml"
_MOST_STRICT = 100
"""How many problems of fields upstream's decoder collects."""
_YAML_ERRORS = "yaml: unmarshal errors:"
_NO_KIND = "couldn't get version/kind; json parse error"
_GO_TYPE = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
_MOST_SHOWN = 128
"""Bytes of an unreadable body that the message about it shows."""


def media_type(header: str) -> str:
    """A content type without its parameters."""
    return header.partition(";")[0].strip().lower()


def parse(request: ApiRequest, type_: ObjectType | None = None, kind: str = "") -> JSON:
    """The body as an object. Protobuf needs a described type; Go clients send nothing else.

    `kind` is what the object must be, for the message about a body that is no object.
    """
    sent = media_type(request.headers.get("content-type", ""))
    if sent == PROTOBUF and type_ is not None:
        return _parse_protobuf(request.body, type_)
    if sent not in ("", "application/json", _YAML):
        raise StatusError(
            415,
            "the body of the request was in an unknown format - accepted media types include:"
            f" application/json, {_YAML}, {PROTOBUF}",
        )
    try:
        body = parse_yaml(request.body) if sent == _YAML else parse_json(request.body)
    except StatusError as error:
        raise _unrecognized(request, error.message, kind) from None
    if body is None and kind:
        return {}
    if not isinstance(body, dict):
        raise _unrecognized(request, not_an_object(body), kind)
    return body


def not_an_object(value: Any) -> str:
    """The problem of a JSON value where an object was expected."""
    return f"{_NO_KIND}: json: cannot unmarshal {json_word(value)} into Go value of type {_GO_TYPE}"


def _unrecognized(request: ApiRequest, why: str, kind: str) -> StatusError:
    if not kind:
        return bad_request(why)
    data = request.body
    shown = data[:_MOST_SHOWN].decode(errors="replace") if data[:1] == b"{" else data[:_MOST_SHOWN].hex()
    more = " ..." if len(data) > _MOST_SHOWN else ""
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind}): {why} ({shown or '<empty>'}{more})"
    )


def _parse_protobuf(data: bytes, type_: ObjectType) -> JSON:
    try:
        return protobuf.decode(data, type_)
    except (protobuf.ProtobufError, DocumentError) as error:
        raise bad_request(f"the body of the request is not a protobuf object: {error}") from None


def parse_json(data: bytes, start: str = "couldn't get version/kind; json parse error: ") -> Any:
    """A JSON document. `start` begins the message about one that cannot be read."""
    try:
        return read_json(data, REQUEST)
    except DocumentError as error:
        why = "unexpected end of JSON input" if "truncated" in str(error) else str(error)
        raise bad_request(f"{start}{why}") from None


def parse_yaml(data: bytes, start: str = "") -> Any:
    """A YAML document. `start` begins the message about one that cannot be read."""
    try:
        return read_yaml(data, REQUEST)
    except DocumentError as error:
        raise bad_request(f"{start}error converting YAML to JSON: {error}") from None


def check_depth(obj: JSON) -> JSON:
    """The same object, unless a patch has made it deeper than any that could be sent."""
    try:
        within_depth(obj, REQUEST)
    except DocumentError as error:
        raise bad_request(f"the patched object is {error}") from None
    return obj


def read_object(request: ApiRequest, resource: ApiResource, *, encoded_here: bool = False) -> JSON:
    """The object in a request to create or replace one. What is `encoded_here` cannot repeat a field."""
    type_ = type_of(resource.schema)
    obj = parse(request, type_, resource.kind)
    repeated = [] if encoded_here else duplicates(request, obj)
    check_kind(obj, resource.group_version, resource.kind)
    check_fields(request, obj, resource.group_version, resource.kind, type_, repeated)
    return obj


def duplicates(request: ApiRequest, obj: JSON) -> list[str]:
    """The fields that a body repeats, in upstream's words."""
    sent = media_type(request.headers.get("content-type", ""))
    if sent == PROTOBUF or request.query.get("fieldValidation") == "Ignore":
        return []
    if sent == _YAML:
        lines = yaml_duplicates(request.body)
        return ["".join((_YAML_ERRORS, *(f"\n  {line}" for line in lines)))] if lines else []
    return json_duplicates(request.body, obj)


def check_kind(obj: JSON, group_version: str, kind: str) -> None:
    """Check that the object's kind is the one of the path, and fill in missing apiVersion, kind and metadata."""
    if obj.get("apiVersion") != group_version or obj.get("kind") != kind:
        _check_other_kind(obj, group_version, kind)
    obj["apiVersion"], obj["kind"] = group_version, kind
    meta = obj.setdefault("metadata", {})
    if meta is None:
        obj["metadata"] = {}


def _check_other_kind(obj: JSON, group_version: str, kind: str) -> None:
    sent_version, sent_kind = str(obj.get("apiVersion") or group_version), str(obj.get("kind") or kind)
    if why := unknown_kind(obj, group_version, kind):
        version = sent_version.rpartition("/")[2]
        raise bad_request(f'{sent_kind} in version "{version}" cannot be handled as a {kind}: {why}')
    if sent_kind != kind:
        version = sent_version.rpartition("/")[2]
        raise bad_request(
            f'{sent_kind} in version "{version}" cannot be handled as a {kind}:'
            f" converting ({version}.{sent_kind}) to ({_internal_group(group_version)}.{kind}): unknown conversion"
        )
    if sent_version != group_version:
        raise bad_request(
            f"the API version in the data ({sent_version}) does not match the expected API version ({group_version})"
        )


@cache
def _built_in() -> frozenset[tuple[str, str]]:
    """The groups and kinds that upstream knows, though perhaps in versions that are no longer served."""
    parts = {(part.group, part.kind) for resource in BUILT_IN for part in resource.subresources if part.kind}
    return frozenset(parts | {(resource.group, resource.kind) for resource in BUILT_IN})


def not_registered(kind: str, group_version: str) -> str:
    """The problem of a kind that no group has."""
    return f'no kind "{kind}" is registered for version "{group_version}" in scheme "pkg/runtime/scheme.go:111"'


def unknown_kind(obj: JSON, group_version: str, kind: str) -> str:
    """The problem of an object of a kind that does not exist, sent as an object of a built-in kind."""
    sent_version, sent_kind = str(obj.get("apiVersion") or group_version), str(obj.get("kind") or kind)
    sent, wanted = (
        (version.rpartition("/")[0], word) for version, word in ((sent_version, sent_kind), (group_version, kind))
    )
    if sent in _built_in() or wanted not in _built_in():
        return ""
    return not_registered(sent_kind, sent_version)


def _internal_group(group_version: str) -> str:
    return group_version.partition("/")[0].partition(".")[0] if "/" in group_version else "core"


def check_fields(
    request: ApiRequest,
    obj: JSON,
    group_version: str,
    kind: str,
    type_: ObjectType | None,
    repeated: list[str] | None = None,
) -> None:
    """Refuse wrong types and drop unknown fields. Refuse, warn about or ignore repeated and unknown fields."""
    try:
        unknown = drop_unknown(obj, type_ or custom_type())
    except WrongTypeError as error:
        raise bad_request(f"{_cannot_be_handled(group_version, kind)}: {error}") from None
    if type_ is None:
        request.repeated_fields, request.unknown_fields = (repeated or [])[:_MOST_STRICT], unknown
        return  # reported with the fields that the schema does not know
    if unknown or repeated:
        words = with_unknown(request.body, repeated or [], unknown)[:_MOST_STRICT]
        report_strict(request, words, lambda why: bad_request(f"{_cannot_be_handled(group_version, kind)}: {why}"))


@cache
def custom_type() -> ObjectType:
    """The part of a custom resource's type that its definition does not describe: the metadata."""
    metadata = Field("metadata", ValueType("object", object=type_of("meta.ObjectMeta")))
    return ObjectType("", {"metadata": metadata}, preserve_unknown=True)


def _cannot_be_handled(group_version: str, kind: str) -> str:
    return f'{kind} in version "{group_version.rpartition("/")[2]}" cannot be handled as a {kind}'


def report_dropped(request: ApiRequest, resource: ApiResource, _obj: JSON, dropped: list[str]) -> None:
    """Report the fields of a custom object that are repeated, and those that its schema does not know."""
    if not (dropped or request.repeated_fields or request.unknown_fields):
        return
    handled = _cannot_be_handled(resource.version, resource.kind)
    words = [*request.repeated_fields, *unknown_words(sorted([*request.unknown_fields, *dropped]))]
    report_strict(request, words, lambda why: bad_request(f"{handled}: {why}"))


def report_strict(request: ApiRequest, words: list[str], refusal: Callable[[str], StatusError]) -> None:
    """Refuse, warn about or ignore unknown and repeated fields, as fieldValidation says."""
    mode = request.query.get("fieldValidation") or "Warn"
    if not words or mode == "Ignore":
        return
    if mode == "Strict":
        raise refusal(f"strict decoding error: {', '.join(words)}")
    for word in words:
        # Each line about repeated keys in YAML is a warning of its own.
        start, *lines = word.splitlines()
        request.warnings.extend(map(str.strip, lines) if start == _YAML_ERRORS else [word])
