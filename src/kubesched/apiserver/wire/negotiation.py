"""Content negotiation: the object, a Table, or metadata alone, as JSON or YAML.

Clients list protobuf or a Table first and plain JSON last, so the first acceptable clause of the highest quality wins.
A client that accepts only protobuf gets 406, as upstream answers for a kind that has no protobuf form.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from kubesched.apiserver.wire.request import JSON_TYPE, ApiRequest
from kubesched.apiserver.wire.status import StatusError, method_not_allowed

YAML_TYPE = "application/yaml"
_META_GROUP = "meta.k8s.io"
_VERSIONS = ("v1", "v1beta1")
_JSON_TYPES = (JSON_TYPE, "*/*", "application/*")
_PROTOBUF = "application/vnd.kubernetes.protobuf"
ALL_FORMS = (JSON_TYPE, YAML_TYPE, _PROTOBUF)
_ONLY = "only the following media types are accepted: application/json"
_FORMS = (
    f"{_ONLY}, application/json;stream=watch, application/json;as=Table;g=meta.k8s.io;v=v1,"
    " application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
)


@dataclass(frozen=True, slots=True)
class Form:
    """The form of the response: ``""`` for the object itself, ``Table``, or ``PartialObjectMetadata``."""

    kind: str = ""
    version: str = "v1"
    yaml: bool = False


PLAIN = Form()


@lru_cache(maxsize=256)
def negotiate(accept: str) -> Form:
    """The form in an Accept header that the client likes best of those that this server supports."""
    if not accept.strip():
        return PLAIN
    clauses = sorted((_parsed(clause) for clause in accept.split(",")), key=lambda clause: -_quality(clause[1]))
    for media, values in clauses:
        form = _form(media, values)
        if form is not None:
            return form
    if any(media in (*_JSON_TYPES, YAML_TYPE, _PROTOBUF) for media, _ in clauses):
        raise StatusError(406, _FORMS)
    raise _none_of(ALL_FORMS)


def check_readable(request: ApiRequest, forms: tuple[str, ...]) -> None:
    """Refuse everything but a GET that accepts one of these media types, at a path that is not a resource."""
    if request.method != "GET":
        raise method_not_allowed()
    accepted = [_parsed(clause)[0] for clause in request.headers.get("accept", "").split(",") if clause.strip()]
    if accepted and not any(media in ("*/*", "application/*", *forms) for media in accepted):
        raise _none_of(forms)


def _none_of(forms: tuple[str, ...]) -> StatusError:
    text = f"406: Not Acceptable\n\nAvailable representations: {', '.join(forms)}"
    return StatusError(406, text, details={})


def wants_yaml(accept: str) -> bool:
    """Whether a client likes YAML best."""
    if YAML_TYPE not in accept:
        return False
    with suppress(StatusError):
        return negotiate(accept).yaml
    return False


def not_acceptable() -> StatusError:
    """The refusal of another form than the object itself, for kinds that have no other."""
    return StatusError(406, _ONLY)


def no_yaml_watch() -> StatusError:
    """The refusal of a watch as YAML."""
    return StatusError(406, f"{_ONLY};stream=watch, {_PROTOBUF};stream=watch")


def _parsed(clause: str) -> tuple[str, dict[str, str]]:
    media, *parameters = (part.strip() for part in clause.split(";"))
    return media.lower(), dict(parameter.partition("=")[::2] for parameter in parameters)


def _quality(values: dict[str, str]) -> float:
    try:
        return float(values.get("q", "1"))
    except ValueError:
        return 1.0


def _form(media: str, values: dict[str, str]) -> Form | None:
    if media not in _JSON_TYPES and media != YAML_TYPE:
        return None
    kind, yaml = values.get("as", ""), media == YAML_TYPE
    if not kind:
        return Form(yaml=yaml)
    known = kind in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
    if not known or values.get("g") != _META_GROUP or values.get("v") not in _VERSIONS:
        return None
    return Form(kind.removesuffix("List"), values["v"], yaml)
