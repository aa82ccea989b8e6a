"""OpenAPI v2 as protobuf, the only form that kubectl accepts.

kubectl requests it when /openapi/v3 does not have a kind: for a `kind: List`, whose items it checks itself, and for a
kind that is not served. The tables list the fields that we fill, for each message of OpenAPI's proto file.
"""

from __future__ import annotations

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
from kubesched.base.types import JSON


def document(body: JSON) -> bytes:
    """An OpenAPI v2 document, as protobuf."""
    return message(body, _DOCUMENT)


_SCHEMA = Fields()
_schema = of(_SCHEMA)


_SCHEMA.extensions = 31
_SCHEMA.update(
    {
        "$ref": (1, text),
        "format": (2, text),
        "title": (3, text),
        "description": (4, text),
        "default": (5, any_value),
        "multipleOf": (6, double),
        "maximum": (7, double),
        "exclusiveMaximum": (8, integer),
        "minimum": (9, double),
        "exclusiveMinimum": (10, integer),
        "maxLength": (11, integer),
        "minLength": (12, integer),
        "pattern": (13, text),
        "maxItems": (14, integer),
        "minItems": (15, integer),
        "uniqueItems": (16, integer),
        "maxProperties": (17, integer),
        "minProperties": (18, integer),
        "required": (19, each(text)),
        "enum": (20, each(any_value)),
        "additionalProperties": (21, schema_or_flag(_schema)),
        "type": (22, inside(1, encoder=text)),
        "items": (23, inside(1, encoder=_schema)),
        "allOf": (24, each(_schema)),
        "properties": (25, by_name(1, _schema)),
    }
)
_BODY = Fields({"name": (2, text), "in": (3, text), "required": (4, integer), "schema": (5, _schema)})
_QUERY = Fields({"in": (2, text), "name": (4, text), "type": (6, text), "uniqueItems": (20, integer)})
_IN_PATH = Fields({"required": (1, integer), "in": (2, text), "description": (3, text), "name": (4, text)})
_IN_PATH |= {"type": (5, text), "uniqueItems": (19, integer)}
_PARAMETERS = {
    "body": inside(1, 1, encoder=of(_BODY)),
    "query": inside(1, 2, 3, encoder=of(_QUERY)),
    "path": inside(1, 2, 4, encoder=of(_IN_PATH)),
}


def _parameter(number: int, value: JSON) -> bytes:
    return _PARAMETERS[value["in"]](number, value)


_RESPONSE = Fields({"description": (1, text), "schema": (2, inside(1, encoder=_schema))})
_OPERATION = Fields(
    {
        "tags": (1, each(text)),
        "description": (3, text),
        "operationId": (5, text),
        "produces": (6, each(text)),
        "consumes": (7, each(text)),
        "parameters": (8, each(_parameter)),
        "responses": (9, by_name(1, inside(1, encoder=of(_RESPONSE)))),
        "schemes": (10, each(text)),
    }
)
_OPERATION.extensions = 13
_PATH = Fields({method: (number, of(_OPERATION)) for number, method in enumerate(METHODS, 2)})
_PATH["parameters"] = (9, each(_parameter))
_DOCUMENT = Fields(
    {
        "swagger": (1, text),
        "info": (2, of(Fields({"title": (1, text), "version": (2, text)}))),
        "paths": (8, by_name(2, of(_PATH))),
        "definitions": (9, by_name(1, _schema)),
    }
)
