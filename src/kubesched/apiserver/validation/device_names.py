"""Checks that claims, classes and slices of devices share: names, lists and parameters, with upstream's messages."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import msgspec

from kubesched.api.names import label_key_errors, label_value_errors
from kubesched.apiserver.validation.checks import each, too_long, too_many
from kubesched.apiserver.validation.naming import label_errors, subdomain_errors
from kubesched.apiserver.validation.problems import Problems
from kubesched.base.types import JSON

EFFECTS = ("NoExecute", "NoSchedule", "None")
_MAX_DRIVER, _MAX_POOL, _MAX_IDENTIFIER, _MAX_PARAMETERS = 63, 253, 32, 10 * 1024
_MAX_CONDITIONS = 4
_IDENTIFIER = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_IDENTIFIER_RULE = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters"
    " or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"
)


def limited(items: list[Any] | None, limit: int, path: str, problems: Problems) -> Iterator[tuple[Any, str]]:
    """Yield items with their paths. Of a list that is too long, none is checked."""
    if not too_many(items or [], limit, path, problems):
        yield from each(items, path)


def unique(keys: Iterable[tuple[Hashable, str]], problems: Problems) -> None:
    """Report keys that occur again. Each comes with its path."""
    seen: set[Hashable] = set()
    for key, path in keys:
        if key in seen:
            problems.duplicate(path, key)
        seen.add(key)


def check_label(name: Any, path: str, problems: Problems) -> None:
    """Check the name of a request, device or counter."""
    for error in label_errors(name or ""):
        problems.invalid(path, name or "", error)


def check_driver(name: str | None, path: str, problems: Problems) -> None:
    if not name:
        problems.required(path)
        return
    if len(name) > _MAX_DRIVER:
        too_long(path, _MAX_DRIVER, problems)
    for error in subdomain_errors(name.lower()):
        problems.invalid(path, name, error)


def check_pool(name: str | None, path: str, problems: Problems) -> None:
    if not name:
        problems.required(path)
        return
    if len(name) > _MAX_POOL:
        too_long(path, _MAX_POOL, problems)
    for part in name.split("/"):
        for error in subdomain_errors(part):
            problems.invalid(path, part, error)


def check_qualified(name: str, path: str, problems: Problems) -> None:
    """Check the name of an attribute or capacity, with or without a domain."""
    parts = name.split("/")
    if len(parts) == 1:
        _check_identifier(parts[0], path, problems)
    elif len(parts) == 2:
        if not parts[0]:
            problems.invalid(path, "", "the domain must not be empty")
        else:
            check_driver(parts[0], path, problems)
        if not parts[1]:
            problems.invalid(path, "", "the name must not be empty")
        else:
            _check_identifier(parts[1], path, problems)


def check_fully_qualified(name: str, path: str, problems: Problems) -> None:
    check_qualified(name, path, problems)
    if "/" not in name:
        problems.invalid(path, name, "a fully qualified name must be a domain and a name separated by a slash")


def _check_identifier(name: str, path: str, problems: Problems) -> None:
    if len(name) > _MAX_IDENTIFIER:
        too_long(path, _MAX_IDENTIFIER, problems)
    if not _IDENTIFIER.fullmatch(name):
        problems.invalid(path, name, _IDENTIFIER_RULE)


def check_label_key(key: str | None, path: str, problems: Problems) -> None:
    for error in label_key_errors(key or ""):
        problems.invalid(path, key or "", error)


def check_label_value(value: str | None, path: str, problems: Problems) -> None:
    for error in label_value_errors(value or ""):
        problems.invalid(path, value or "", error)


def check_taint(taint: JSON, path: str, problems: Problems) -> None:
    check_label_key(taint.get("key"), f"{path}.key", problems)
    check_label_value(taint.get("value"), f"{path}.value", problems)
    effect = taint.get("effect")
    if not effect:
        problems.required(f"{path}.effect")
    elif effect not in EFFECTS:
        problems.unsupported(f"{path}.effect", effect, EFFECTS)


def check_opaque(config: JSON, path: str, problems: Problems) -> None:
    """Check a configuration for a driver."""
    opaque = config.get("opaque")
    if opaque is None:
        problems.required(f"{path}.opaque")
        return
    check_driver(opaque.get("driver"), f"{path}.opaque.driver", problems)
    check_parameters(opaque.get("parameters"), f"{path}.opaque.parameters", problems)


def check_parameters(value: Any, path: str, problems: Problems) -> None:
    """Check that free-form data is an object that is not too large."""
    if value is None:
        problems.required(path)
    elif len(msgspec.json.encode(value)) > _MAX_PARAMETERS:
        too_long(path, _MAX_PARAMETERS, problems)
    elif not isinstance(value, dict):
        problems.invalid(path, "<value omitted>", "must be a valid JSON object")


def check_binding_conditions(part: JSON, path: str, problems: Problems) -> None:
    """Check the conditions that a device waits for before its pod is bound, and those that end the waiting."""
    listed = {}
    for field in ("bindingConditions", "bindingFailureConditions"):
        listed[field] = part.get(field) or []
        for condition, where in limited(listed[field], _MAX_CONDITIONS, f"{path}.{field}", problems):
            check_label_key(condition, where, problems)
        unique(each(listed[field], f"{path}.{field}"), problems)
    wanted, failures = listed.values()
    for failure, where in each(failures, f"{path}.bindingFailureConditions"):
        if failure in wanted:
            problems.invalid(where, failure, "bindingFailureConditions must not overlap with bindingConditions")
    if failures and not wanted:
        detail = "bindingConditions are required to use bindingFailureConditions"
        problems.invalid(f"{path}.bindingConditions", wanted, detail)
    if wanted and not failures:
        detail = "bindingFailureConditions are required to use bindingConditions"
        problems.invalid(f"{path}.bindingFailureConditions", failures, detail)
