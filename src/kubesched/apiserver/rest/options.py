"""The options in a request's query, checked as upstream checks them before it reads the body."""

from __future__ import annotations

from kubesched.apiserver.rest.body import media_type
from kubesched.apiserver.rest.patch import APPLY
from kubesched.apiserver.validation.problems import Problems
from kubesched.apiserver.wire.request import ApiRequest, RequestTarget, is_watch
from kubesched.apiserver.wire.status import invalid

MAX_MANAGER = 128
_GROUP = "meta.k8s.io"
_KINDS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}
_FIELD_VALIDATIONS = ("", "Ignore", "Strict", "Warn")
_EXACT, _NOT_OLDER = "Exact", "NotOlderThan"


def check_query(request: ApiRequest, target: RequestTarget) -> None:
    """Refuse wrong options of a write, a list, a watch or the selection of a deletion."""
    problems = Problems()
    if request.method in _KINDS:
        kind = _KINDS[request.method]
        _check_write(request, problems)
    elif not target.name:
        kind = "ListOptions"
        _check_list(request, problems, watch=is_watch(request, target))
    else:
        return
    if problems.found:
        raise invalid(kind, _GROUP, "", problems.found)


def _check_write(request: ApiRequest, problems: Problems) -> None:
    manager = request.query.get("fieldManager", "")
    if request.method == "PATCH":
        applies = media_type(request.headers.get("content-type", "")) == APPLY
        if applies and not manager:
            problems.required("fieldManager", "is required for apply patch")
        if not applies and "force" in request.query:
            problems.forbidden("force", "may not be specified for non-apply patch")
    if len(manager.encode()) > MAX_MANAGER:
        problems.add("FieldValueTooLong", "fieldManager", f"Too long: may not be more than {MAX_MANAGER} bytes")
    for index, character in enumerate(manager):
        if not character.isprintable():
            where = f"invalid character U+{ord(character):04X} (at position {index})"
            problems.invalid("fieldManager", manager, where)
    if "dryRun" in request.query:
        check_dry_run([request.query["dryRun"]], problems)
    validation = request.query.get("fieldValidation", "")
    if validation not in _FIELD_VALIDATIONS:
        problems.unsupported("fieldValidation", validation, _FIELD_VALIDATIONS)


def check_dry_run(stages: list[str], problems: Problems) -> None:
    """Check that a dry run is for all stages."""
    if any(stage != "All" for stage in stages):
        problems.unsupported("dryRun", stages, ("All",))


def _check_list(request: ApiRequest, problems: Problems, *, watch: bool) -> None:
    """Check the options of a list or a watch."""
    request.number("limit")
    request.number("timeoutSeconds")
    match, sends_initial = request.query.get("resourceVersionMatch", ""), "sendInitialEvents" in request.query
    if watch:
        _check_watch(request, match, sends_initial, problems)
        return
    if match:
        _check_match(request, match, problems)
    if sends_initial:
        problems.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")


def _check_match(request: ApiRequest, match: str, problems: Problems) -> None:
    field, version = "resourceVersionMatch", request.query.get("resourceVersion", "")
    if not version:
        problems.forbidden(field, "resourceVersionMatch is forbidden unless resourceVersion is provided")
    if request.query.get("continue"):
        problems.forbidden(field, "resourceVersionMatch is forbidden when continue is provided")
    if match not in (_EXACT, _NOT_OLDER):
        problems.unsupported(field, match, (_EXACT, _NOT_OLDER, ""))
    if match == _EXACT and version == "0":
        problems.forbidden(field, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')


def _check_watch(request: ApiRequest, match: str, sends_initial: bool, problems: Problems) -> None:
    field = "resourceVersionMatch"
    if sends_initial and match != _NOT_OLDER:
        problems.forbidden(field, f"sendInitialEvents requires setting resourceVersionMatch to {_NOT_OLDER}")
    if not match:
        return
    if not sends_initial:
        problems.forbidden(field, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
    if match != _NOT_OLDER:
        problems.unsupported(field, match, (_NOT_OLDER,))
    if request.query.get("continue"):
        problems.forbidden(field, "resourceVersionMatch is forbidden when continue is provided")
