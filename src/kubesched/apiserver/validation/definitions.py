"""Rules for CustomResourceDefinitions: a definition that passes can be served."""

from __future__ import annotations

from collections.abc import Callable

from kubesched.apiserver.crd.rules import compile_rule
from kubesched.apiserver.kinds.registry import BUILT_IN
from kubesched.apiserver.validation.naming import label_errors, subdomain_errors
from kubesched.apiserver.validation.problems import IMMUTABLE, Problems
from kubesched.base.types import JSON
from kubesched.cel import CELError
from kubesched.cel.errors import EvaluationError
from kubesched.cel.regexes import compiled

_SCOPES = ("Cluster", "Namespaced")
_BUILT_IN = frozenset((resource.group, resource.plural) for resource in BUILT_IN)


def check_definition(obj: JSON, problems: Problems) -> None:
    spec = obj["spec"]
    group, names = spec.get("group") or "", spec["names"]
    name, expected = obj["metadata"].get("name") or "", f"{names.get('plural') or ''}.{group}"
    if name and name != expected:
        problems.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    _check_group(group, names.get("plural") or "", problems)
    if not spec.get("scope"):
        problems.required("spec.scope")
    elif spec["scope"] not in _SCOPES:
        problems.unsupported("spec.scope", spec["scope"], _SCOPES)
    versions = spec.get("versions") or []
    _check_versions(versions, problems)
    _check_names(names, problems)
    if not any(version.get("storage") for version in versions):
        problems.invalid("status.storedVersions", None, "must have at least one stored version")


def _check_group(group: str, plural: str, problems: Problems) -> None:
    if not group:
        problems.required("spec.group")
        return
    for error in subdomain_errors(group):
        problems.invalid("spec.group", group, error)
    if "." not in group:
        problems.invalid("spec.group", group, "should be a domain with at least one dot")
    if (group, plural) in _BUILT_IN:
        problems.invalid("spec.names.plural", plural, f"is built into this API server in the group {group}")


def _check_names(names: JSON, problems: Problems) -> None:
    for field in ("plural", "singular", "kind", "listKind"):
        value = names.get(field) or ""
        if not value:
            problems.required(f"spec.names.{field}")
        for error in label_errors(value.lower()) if value else ():
            problems.invalid(f"spec.names.{field}", value, error)


def _check_patterns(schema: object, path: str, problems: Problems) -> None:
    """Refuse patterns that Go's regular expressions do not have, and rules that are not CEL."""
    if not isinstance(schema, dict):
        return
    if isinstance(pattern := schema.get("pattern"), str):
        try:
            compiled(pattern)
        except EvaluationError as error:
            reason = f"must be a valid regular expression, but isn't: {error}"
            problems.invalid(f"{path}.pattern", pattern, reason)
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        _check_rule(rule, f"{path}.x-kubernetes-validations[{index}]", problems)
    for name in ("items", "additionalProperties", "not"):
        _check_patterns(schema.get(name), f"{path}.{name}", problems)
    if isinstance(properties := schema.get("properties"), dict):
        for name, part in properties.items():
            _check_patterns(part, f"{path}.properties[{name}]", problems)


def _check_rule(rule: JSON, path: str, problems: Problems) -> None:
    for field in ("rule", "messageExpression"):
        source = rule.get(field) or ""
        if field == "rule" and not source.strip():
            problems.required(f"{path}.rule")
            continue
        try:
            if source:
                compile_rule(source)
        except CELError as error:
            problems.invalid(f"{path}.{field}", source, f"compilation failed: {error}")


def _check_versions(versions: list[JSON], problems: Problems) -> None:
    seen: set[str] = set()
    for index, version in enumerate(versions):
        name, path = version.get("name") or "", f"spec.versions[{index}].name"
        for error in label_errors(name):
            problems.invalid(path, name, error)
        if name in seen:
            problems.duplicate(path, name)
        seen.add(name)
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        _check_patterns(schema, f"spec.versions[{index}].schema.openAPIV3Schema", problems)
    if sum(1 for version in versions if version.get("storage")) != 1:
        problems.invalid(
            "spec.versions",
            [v.get("name") for v in versions] or None,
            "must have exactly one version marked as storage version",
        )


def compare_definitions(old: JSON, new: JSON, problems: Problems) -> None:
    for path in (("group",), ("scope",), ("names", "kind"), ("names", "plural")):
        before, after = old["spec"], new["spec"]
        for part in path:
            before, after = (before or {}).get(part), (after or {}).get(part)
        if before != after:
            problems.invalid(".".join(("spec", *path)), after, IMMUTABLE)


CHECKS: dict[str, Callable[[JSON, Problems], None]] = {
    "apiextensions.k8s.io/customresourcedefinitions": check_definition
}
COMPARISONS: dict[str, Callable[[JSON, JSON, Problems], None]] = {
    "apiextensions.k8s.io/customresourcedefinitions": compare_definitions
}
