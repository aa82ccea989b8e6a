"""OpenAPI v3 as protobuf. The tables list the fields that we fill, for each message of OpenAPI's proto file."""

from __future__ import annotations

from typing import Any

from kubesched.apiserver.openapi.protobuf import (
    METHODS,
    Fields,
    any_value,
    by_name,
    double,
    each,
    inside,
    integer,
    message,
    of,
    schema_or_flag,
    text,
)
from kubesched.base.protobuf import nested
from kubesched.base.types import JSON


def document(body: JSON) -> bytes:
    """An OpenAPI v3 document, as protobuf."""
    return message(body, _DOCUMENT)


_SCHEMA = Fields()


def _schema(number: int, value: JSON) -> bytes:
    """A schema, or a reference to one."""
    if "$ref" in value:
        return nested(number, nested(2, text(1, value["$ref"])))
    return nested(number, nested(1, message(value, _SCHEMA)))


def _default(number: int, value: Any) -> bytes:
    """A default. The message has no place for lists and objects."""
    if isinstance(value, bool):
        return nested(number, integer(2, value))
    if isinstance(value, int | float):
        return nested(number, double(1, value))
    return nested(number, text(3, value)) if isinstance(value, str) else b""


_SCHEMA.extensions = 36
_SCHEMA.update(
    {
        "nullable": (1, integer),
        "title": (9, text),
        "multipleOf": (10, double),
        "maximum": (11, double),
        "exclusiveMaximum": (12, integer),
        "minimum": (13, double),
        "exclusiveMinimum": (14, integer),
        "maxLength": (15, integer),
        "minLength": (16, integer),
        "pattern": (17, text),
        "maxItems": (18, integer),
        "minItems": (19, integer),
        "uniqueItems": (20, integer),
        "maxProperties": (21, integer),
        "minProperties": (22, integer),
        "required": (23, each(text)),
        "enum": (24, each(any_value)),
        "type": (25, text),
        "allOf": (26, each(_schema)),
        "oneOf": (27, each(_schema)),
        "anyOf": (28, each(_schema)),
        "not": (29, of(_SCHEMA)),
        "items": (30, lambda number, value: nested(number, _schema(1, value))),
        "properties": (31, by_name(1, _schema)),
        "additionalProperties": (32, schema_or_flag(_schema)),
        "default": (33, _default),
        "description": (34, text),
        "format": (35, text),
    }
)
_PARAMETER = Fields({"name": (1, text), "in": (2, text), "description": (3, text), "required": (4, integer)})
_PARAMETER["schema"] = (10, _schema)
_parameters = each(inside(1, encoder=of(_PARAMETER)))
_content = by_name(1, of(Fields({"schema": (1, _schema)})))
_RESPONSE = Fields({"description": (1, text), "content": (3, _content)})
_BODY = Fields({"content": (2, _content), "required": (3, integer)})
_OPERATION = Fields(
    {
        "tags": (1, each(text)),
        "description": (3, text),
        "operationId": (5, text),
        "parameters": (6, _parameters),
        "requestBody": (7, inside(1, encoder=of(_BODY))),
        "responses": (8, by_name(2, inside(1, encoder=of(_RESPONSE)))),
    }
)
_OPERATION.extensions = 13
_PATH = Fields({method: (number, of(_OPERATION)) for number, method in enumerate(METHODS, 4)})
_PATH["parameters"] = (13, _parameters)
_DOCUMENT = Fields(
    {
        "openapi": (1, text),
        "info": (2, of(Fields({"title": (1, text), "version": (6, text)}))),
        "paths": (4, by_name(1, of(_PATH))),
        "components": (5, of(Fields({"schemas": (1, by_name(1, _schema))}))),
    }
)
