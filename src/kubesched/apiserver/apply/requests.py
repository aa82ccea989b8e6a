"""Reading requests of server-side apply, and the names of field managers."""

from __future__ import annotations

import copy
from collections.abc import Callable

from kubesched.apiserver.auth.rbac import AccessRequest
from kubesched.apiserver.kinds.registry import ApiResource
from kubesched.apiserver.kinds.schema import type_of
from kubesched.apiserver.rest.body import check_kind, custom_type, parse_yaml
from kubesched.apiserver.rest.duplicates import yaml_duplicates
from kubesched.apiserver.validation.typecheck import WrongTypeError, drop_unknown
from kubesched.apiserver.wire.request import ApiRequest, RequestTarget
from kubesched.apiserver.wire.status import Cause, StatusError, bad_request, invalid
from kubesched.base.types import JSON

_MAX_MANAGER = 128


Dropped = Callable[[ApiResource, JSON], list[str]]
"""The fields of a custom object that its schema does not declare."""


def read_applied(request: ApiRequest, target: RequestTarget, resource: ApiResource, dropped: Dropped) -> JSON:
    """The object in the body of an apply, without the parts that the path does not write."""
    obj = parse_yaml(request.body)
    if not isinstance(obj, dict):
        raise bad_request("the body of an apply must be an object")
    if not obj.get("apiVersion") or not obj.get("kind"):
        raise bad_request("invalid object type: the body of an apply must have apiVersion and kind")
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
    name = request.query.get("fieldManager", "")
    problem = None
    if not name:
        problem = Cause("FieldValueRequired", "Required value: is required for apply patch", "fieldManager")
    elif len(name) > _MAX_MANAGER:
        problem = Cause("FieldValueTooLong", f"Too long: may not be more than {_MAX_MANAGER} bytes", "fieldManager")
    if problem is not None:
        raise invalid("PatchOptions", "meta.k8s.io", "", [problem])
    return name


def update_manager(request: ApiRequest) -> str:
    """The field manager of another write: named, or the program of the client."""
    agent = request.headers.get("user-agent", "").partition("/")[0].strip()
    return request.query.get("fieldManager", "") or agent[:_MAX_MANAGER] or "unknown"


def creation(target: RequestTarget) -> AccessRequest:
    """What a user must be allowed to do for an apply that creates an object."""
    return AccessRequest("create", target.group, target.plural, namespace=target.namespace)
