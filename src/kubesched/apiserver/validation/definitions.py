"""Rules for CustomResourceDefinitions: a definition that passes can be served."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from kubesched.apiserver.crd.rules import checked
from kubesched.apiserver.crd.schema import without_nulls
from kubesched.apiserver.crd.types import declared_type
from kubesched.apiserver.kinds.registry import BUILT_IN
from kubesched.apiserver.validation.checks import each
from kubesched.apiserver.validation.containers import one_of
from kubesched.apiserver.validation.naming import host_label_errors, subdomain_errors
from kubesched.apiserver.validation.problems import IMMUTABLE, Problems
from kubesched.apiserver.validation.rule_costs import RuleCosts, repeated, times_in
from kubesched.apiserver.validation.structural_schemas import check_schema
from kubesched.apiserver.validation.webhooks import check_client
from kubesched.base.types import JSON
from kubesched.cel import CELError
from kubesched.cel.errors import EvaluationError
from kubesched.cel.regexes import compiled
from kubesched.cel.types import BOOL, DYN, STRING

_ROOT = re.compile(r"\.openAPIV3Schema\.x-kubernetes-validations\[\d+\]$")
_EXPRESSIONS = (
    ("rule", BOOL, "", "cel expression must evaluate to a bool"),
    ("messageExpression", STRING, "messageExpression ", "messageExpression must evaluate to a string"),
)
_APPROVED = "api-approved.kubernetes.io"
_APPROVALS = "https://github.com/kubernetes/enhancements/pull/1111"
_COLUMN_TYPES = "boolean,date,integer,number,string"
_OLD_FIELD = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
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
    if _is_protected(group):
        _check_approval((obj["metadata"].get("annotations") or {}).get(_APPROVED) or "", problems)
    versions = spec.get("versions") or []
    _check_versions(versions, problems)
    if spec.get("preserveUnknownFields"):
        problems.invalid("spec.preserveUnknownFields", True, _OLD_FIELD)
    _check_schemas(versions, problems)
    for columns, path in _per_version(versions, "additionalPrinterColumns"):
        _check_columns(columns or [], path, problems)
    for subresources, path in _per_version(versions, "subresources"):
        _check_scale((subresources or {}).get("scale"), f"{path}.scale", problems)
    _check_conversion(spec.get("conversion") or {}, problems)
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
        for error in host_label_errors(value.lower()) if value else ():
            problems.invalid(f"spec.names.{field}", value, error)
    for field in ("shortNames", "categories"):
        for index, value in enumerate(names.get(field) or []):
            for error in host_label_errors(value):
                problems.invalid(f"spec.names.{field}[{index}]", value, error)


def _check_patterns(schema: object, path: str, costs: RuleCosts, times: int | None) -> None:
    """Refuse patterns that Go's regular expressions do not have, and rules that are not CEL or cost too much.

    The schema applies to so many places of an object at most; None if there is no limit.
    """
    if not isinstance(schema, dict):
        return
    problems = costs.problems
    if isinstance(pattern := schema.get("pattern"), str):
        try:
            compiled(pattern)
        except EvaluationError as error:
            reason = f"must be a valid regular expression, but isn't: {error}"
            problems.invalid(f"{path}.pattern", pattern, reason)
    inner = times_in(schema, times)
    for name in ("additionalProperties", "not"):
        _check_patterns(schema.get(name), f"{path}.{name}", costs, inner)
    if isinstance(properties := schema.get("properties"), dict):
        for name, part in properties.items():
            _check_patterns(part, f"{path}.properties[{name}]", costs, inner)
    _check_patterns(schema.get("items"), f"{path}.items", costs, inner)
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        _check_rule(rule, schema, f"{path}.x-kubernetes-validations[{index}]", costs, times)


def _check_rule(rule: JSON, schema: JSON, path: str, costs: RuleCosts, times: int | None) -> None:
    problems = costs.problems
    is_root = _ROOT.search(path) is not None or bool(schema.get("x-kubernetes-embedded-resource"))
    about, is_old_optional = declared_type(schema, "self", is_root=is_root), rule.get("optionalOldSelf") is True
    if not (rule.get("rule") or "").strip():
        problems.required(f"{path}.rule")
        return
    for field, expected, prefix, wrong in _EXPRESSIONS:
        source, where = rule.get(field) or "", f"{path}.{field}"
        if not source:
            continue
        try:
            program = checked(source, about, is_old_optional)
        except CELError as error:
            problems.invalid(where, _as_struct(rule), f"{prefix}compilation failed: {error}")
            continue
        if program.result_type != expected:
            problems.invalid(where, _as_struct(rule), wrong)
            continue
        cost = program.cost_in(about or DYN).max
        costs.add(field, repeated(cost, schema, times) if field == "rule" else cost, where)


def _as_struct(rule: JSON) -> JSON:
    """A rule as upstream prints it."""
    texts = {field[0].upper() + field[1:]: rule.get(field) or "" for field in ("rule", "message", "messageExpression")}
    others = {"Reason": rule.get("reason"), "FieldPath": rule.get("fieldPath") or ""}
    return {**texts, **others, "OptionalOldSelf": rule.get("optionalOldSelf")}


def _per_version(versions: list[JSON], field: str) -> Iterator[tuple[Any, str]]:
    """A field of each version and where it is. What all versions share has one place of its own, as upstream."""
    values = [version.get(field) for version in versions]
    if values and all(value == values[0] for value in values):
        yield values[0], f"spec.{'validation' if field == 'schema' else field}"
        return
    yield from ((value, f"spec.versions[{index}].{field}") for index, value in enumerate(values))


def _check_schemas(versions: list[JSON], problems: Problems) -> None:
    """Check the schemas, and their rules if they are right."""
    for index, version in enumerate(versions):
        if (version.get("schema") or {}).get("openAPIV3Schema") is None:
            problems.required(f"spec.versions[{index}].schema.openAPIV3Schema")
    for value, path in _per_version(versions, "schema"):
        schema, found = (value or {}).get("openAPIV3Schema"), Problems()
        if schema is not None:
            check_schema(without_nulls(schema), f"{path}.openAPIV3Schema", found)
        if not found.found:
            costs = RuleCosts(found)
            _check_patterns(schema, f"{path}.openAPIV3Schema", costs, 1)
            costs.finish(f"{path}.openAPIV3Schema")
        problems.found += found.found


def _is_protected(group: str) -> bool:
    """Whether a group belongs to the Kubernetes project."""
    return f".{group}".endswith((".k8s.io", ".kubernetes.io"))


def _check_approval(approval: str, problems: Problems) -> None:
    path, start = f"metadata.annotations[{_APPROVED}]", f'protected groups must have approval annotation "{_APPROVED}"'
    if not approval:
        problems.required(path, f"{start}, see {_APPROVALS}")
    elif not approval.startswith("unapproved") and not (urlsplit(approval).scheme and urlsplit(approval).netloc):
        detail = f'{start} with either a URL or a reason starting with "unapproved", see {_APPROVALS}'
        problems.invalid(path, approval, detail)


def _check_columns(columns: list[JSON], path: str, problems: Problems) -> None:
    for column, here in each(columns, path):
        if not column.get("name"):
            problems.required(f"{here}.name")
        if not column.get("type"):
            problems.required(f"{here}.type", f"must be one of {_COLUMN_TYPES}")
        elif column["type"] not in _COLUMN_TYPES.split(","):
            problems.invalid(f"{here}.type", column["type"], f"must be one of {_COLUMN_TYPES}")
        _check_json_path(column.get("jsonPath") or "", "", f"{here}.JSONPath", problems)


def _check_scale(scale: JSON | None, path: str, problems: Problems) -> None:
    for field, under in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")) if scale is not None else ():
        _check_json_path((scale or {}).get(field) or "", under, f"{path}.{field}", problems)


def _check_json_path(text: str, under: str, path: str, problems: Problems) -> None:
    if not text:
        problems.required(path)
    elif not text.startswith("."):
        problems.invalid(path, text, "must be a simple json path starting with .")
    elif not text.startswith(f"{under}."):
        problems.invalid(path, text, f"should be a json path under {under}")


def _check_conversion(conversion: JSON, problems: Problems) -> None:
    """Check how versions are converted. Upstream names the fields as an old version had them."""
    strategy, webhook = conversion.get("strategy"), conversion.get("webhook") or {}
    one_of(conversion, "strategy", ("None", "Webhook"), "spec.conversion", problems)
    known, path = webhook.get("conversionReviewVersions") or [], "spec.conversion.conversionReviewVersions"
    if strategy != "Webhook":
        if known:
            problems.forbidden(path, "should not be set when strategy is not set to Webhook")
        return
    if webhook.get("clientConfig") is None:
        detail = "required when strategy is set to Webhook"
        problems.required("spec.conversion.webhookClientConfig", detail)
    else:
        check_client(webhook["clientConfig"], "spec.conversion.webhookClientConfig", problems)
    if not known:
        problems.required(path)
    elif not {"v1", "v1beta1"} & set(known):
        problems.invalid(path, known, "must include at least one of v1, v1beta1")


def _check_versions(versions: list[JSON], problems: Problems) -> None:
    seen: set[str] = set()
    for index, version in enumerate(versions):
        name, path = version.get("name") or "", f"spec.versions[{index}].name"
        for error in host_label_errors(name):
            problems.invalid(path, name, error)
        if name in seen:
            problems.duplicate(path, name)
        seen.add(name)
        if version.get("deprecationWarning") is not None and not version.get("deprecated"):
            path, warning = f"spec.versions[{index}].deprecationWarning", version["deprecationWarning"]
            problems.invalid(path, warning, "can only be set for deprecated versions")
    # The first version is also the one of an old field of its own.
    for error in host_label_errors(versions[0].get("name") or "") if versions else ():
        problems.invalid("spec.version", versions[0].get("name") or "", error)
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
