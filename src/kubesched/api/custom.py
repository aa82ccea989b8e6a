"""Kinds that are known only by name: custom resources, and built-in ones that scheduling does not read."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final, cast

import msgspec

from kubesched.api.meta import Object

_NAME: Final = re.compile(r"([a-z0-9-]+)\.(v[a-z0-9]+)\.([a-z0-9.-]*)")


class CustomObject(Object, frozen=True):
    """An object without a class of its own. For other fields than these, derive a class from `Object`."""

    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}
    data: dict[str, Any] = {}


@cache
def custom_kind(resource: str) -> type[CustomObject]:
    """The class of a resource that is named as upstream does: ``foos.v1.example.com``, ``configmaps.v1.``."""
    match = _NAME.fullmatch(resource)
    if match is None:
        raise ValueError(
            f"{resource!r} names no kind; write plural, version and group, as in 'foos.v1.example.com', "
            "or 'configmaps.v1.' for a kind of the core group"
        )
    plural, version, group = match.groups()
    names = {"api_version": f"{group}/{version}" if group else version, "plural": plural}
    made = msgspec.defstruct(plural.capitalize(), [], bases=(CustomObject,), namespace=names, frozen=True, gc=False)
    return cast(type[CustomObject], made)


def resource_name(kind: type[Object]) -> str:
    """The name of a kind's resource, as `custom_kind` takes it."""
    group, _, version = kind.api_version.rpartition("/")
    return f"{kind.plural or kind.__name__}.{version}.{group}"
