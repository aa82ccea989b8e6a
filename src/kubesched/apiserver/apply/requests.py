"""Reading requests of server-side apply, and the names of field managers."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator

from kubesched.apiserver.apply.shapes import MergeShape
from kubesched.apiserver.auth.rbac import AccessRequest
from kubesched.apiserver.kinds.registry import ApiResource
from kubesched.apiserver.kinds.schema import type_of
from kubesched.apiserver.rest.body import check_kind, custom_type, parse_yaml, unknown_kind
from kubesched.apiserver.rest.duplicates import yaml_duplicates
from kubesched.apiserver.rest.options import MAX_MANAGER
from kubesched.apiserver.validation.typecheck import WrongTypeError, drop_unknown
from kubesched.apiserver.wire.request import ApiRequest, RequestTarget
from kubesched.apiserver.wire.status import StatusError, bad_request
from kubesched.base.types import JSON

Dropped = Callable[[ApiResource, JSON], list[str]]
"""The fields of a custom object that its schema does not declare."""


def read_applied(request: ApiRequest, target: RequestTarget, resource: ApiResource, dropped: Dropped) -> JSON:
    """The object in the body of an apply, without the parts that the path does not write."""
    obj = parse_yaml(request.body, "error decoding YAML: ")
    if obj is None:
        obj = {}
    if not isinstance(obj, dict):
        raise bad_request("the body of an apply must be an object")
    named = obj.get("apiVersion") and obj.get("kind")
    if not named or unknown_kind(obj, resource.group_version, resource.kind):
        group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={obj.get('kind') or ''}")
    repeated = yaml_duplicates(request.body)
    if repeated and request.query.get("fieldValidation") == "Strict":
        lines = "".join(f"\n  {line}" for line in repeated)
        raise bad_request(f"error decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:{lines}")
    check_kind(obj, resource.group_version, resource.kind)
    _check_declared(obj, target, resource, dropped)
    meta = obj["metadata"]
    if meta.get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    if meta.setdefault("name", target.name) != target.name:
        raise bad_request(f"the name of the object ({meta['name']}) does not match the name on the URL ({target.name})")
    return _written_part(obj, target.subresource, resource)


def _check_declared(obj: JSON, target: RequestTarget, resource: ApiResource, dropped: Dropped) -> None:
    """An apply needs to know every field, so others are refused whatever fieldValidation says."""
    try:
        unknown = drop_unknown(obj, type_of(resource.schema) or custom_type())
    except WrongTypeError as error:
        raise _not_typed(target, resource, error.typed) from None
    found = [*unknown, *dropped(resource, copy.deepcopy(obj))]
    if found:
        raise _not_typed(target, resource, undeclared(found))


def undeclared(paths: list[str]) -> str:
    """The problem of fields that the type does not have."""
    lines = [f".{path}: field not declared in schema" for path in paths]
    return lines[0] if len(lines) == 1 else "errors:\n" + "\n".join(f"  {line}" for line in lines)


def check_no_duplicates(obj: JSON, shape: MergeShape, target: RequestTarget, resource: ApiResource) -> None:
    """Refuse lists in which two items have the same key: an apply could not tell them apart."""
    found = list(_duplicates(obj, shape, ""))
    if found:
        text = found[0] if len(found) == 1 else "errors:\n" + "\n".join(f"  {line}" for line in found)
        raise _not_typed(target, resource, text)


def _duplicates(value: object, shape: MergeShape, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from _duplicates(part, shape.field(name)[0], f"{path}.{name}")
    elif isinstance(value, list) and shape.keys is not None:
        seen: set[str] = set()
        for item in value:
            key = _key_text(shape.key_of(item))
            if key in seen:
                yield f"{path}: duplicate entries for key {key}"
            seen.add(key)
            yield from _duplicates(item, shape.item, f"{path}{key}")


def _key_text(key: str) -> str:
    """The key of an item as messages show it: ``[name="a"]``, or ``[="a"]`` for an item of a set."""
    values = json.loads(key[2:])
    keyed = values if key.startswith("k:") else {"": values}
    return f"[{','.join(f'{name}={json.dumps(value)}' for name, value in keyed.items())}]"


def _not_typed(target: RequestTarget, resource: ApiResource, problem: str) -> StatusError:
    version = resource.group_version if resource.group else f"/{resource.version}"
    where = f"{target.key}; {version}, Kind={resource.kind}"
    return StatusError(500, f"failed to create typed patch object ({where}): {problem}", reason="")


def _written_part(obj: JSON, subresource: str, resource: ApiResource) -> JSON:
    if subresource == "status":
        return {key: value for key, value in obj.items() if key in ("apiVersion", "kind", "metadata", "status")}
    if not subresource and resource.has_status:
        return {key: value for key, value in obj.items() if key != "status"}
    return obj


def apply_manager(request: ApiRequest) -> str:
    """The field manager, which an apply must name."""
    return request.query["fieldManager"]


def update_manager(request: ApiRequest) -> str:
    """The field manager of another write: named, or the program of the client."""
    agent = request.headers.get("user-agent", "").partition("/")[0].strip()
    return request.query.get("fieldManager", "") or agent[:MAX_MANAGER] or "unknown"


def creation(target: RequestTarget) -> AccessRequest:
    """What a user must be allowed to do for an apply that creates an object."""
    return AccessRequest("create", target.group, target.plural, namespace=target.namespace)
