"""Content negotiation: the object, a Table, or metadata alone, always as JSON.

Clients list protobuf or a Table first and plain JSON last, so the first acceptable clause wins. A client that accepts
only protobuf gets 406, as upstream answers for a kind that has no protobuf form.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from kubesched.apiserver.wire.status import StatusError

_META_GROUP = "meta.k8s.io"
_VERSIONS = ("v1", "v1beta1")
_JSON_TYPES = ("application/json", "*/*", "application/*")


@dataclass(frozen=True, slots=True)
class Form:
    """The form of the response: ``""`` for the object itself, ``Table``, or ``PartialObjectMetadata``."""

    kind: str = ""
    version: str = "v1"


PLAIN = Form()


@lru_cache(maxsize=256)
def negotiate(accept: str) -> Form:
    """The first form in an Accept header that this server supports."""
    if not accept.strip():
        return PLAIN
    for clause in accept.split(","):
        form = _form(clause)
        if form is not None:
            return form
    raise StatusError(
        406,
        "only the following media types are accepted: application/json, application/json;stream=watch,"
        " application/json;as=Table;g=meta.k8s.io;v=v1, application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
    )


def not_acceptable() -> StatusError:
    """The refusal of another form than the object itself, for kinds that have no other."""
    return StatusError(406, "only the following media types are accepted: application/json")


def _form(clause: str) -> Form | None:
    media, *parameters = (part.strip() for part in clause.split(";"))
    if media.lower() not in _JSON_TYPES:
        return None
    values = dict(parameter.partition("=")[::2] for parameter in parameters)
    kind = values.get("as", "")
    if not kind:
        return PLAIN
    known = kind in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
    if not known or values.get("g") != _META_GROUP or values.get("v") not in _VERSIONS:
        return None
    return Form(kind.removesuffix("List"), values["v"])
