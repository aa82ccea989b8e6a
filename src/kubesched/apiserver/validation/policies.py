"""Rules for admission policies and their bindings: a policy that passes can be evaluated."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from kubesched.api.names import label_key_errors
from kubesched.apiserver.policies.expressions import CELError, Expressions, WrongResultError
from kubesched.apiserver.validation.checks import check_choice, too_many
from kubesched.apiserver.validation.naming import path_segment_errors, subdomain_errors
from kubesched.apiserver.validation.problems import Problems
from kubesched.apiserver.validation.selectors import check_label_selector
from kubesched.base.types import JSON
from kubesched.cel.patches import JSON_PATCH, OBJECT
from kubesched.cel.types import BOOL, STRING, Type, list_of

_GROUP = "admissionregistration.k8s.io"
_FAILURE_POLICIES = ("Fail", "Ignore")
_MATCH_POLICIES = ("Equivalent", "Exact")
_REINVOCATION = ("IfNeeded", "Never")
_PATCH_TYPES = {"ApplyConfiguration": "applyConfiguration", "JSONPatch": "jsonPatch"}
_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")
_ACTIONS = ("Audit", "Deny", "Warn")
_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_MUTATING_OPERATIONS = ("*", "CONNECT", "CREATE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")
_NOT_FOUND_ACTIONS = ("Deny", "Allow")
_MAX_CONDITIONS = 64
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED = frozenset(
    """true false null in as break const continue else for function if import let loop package namespace return var
    void while""".split()  # noqa: SIM905
)
_NOTHING_TO_DO = "validations or auditAnnotations must contain at least one item"
_BOTH_ACTIONS = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response and"
    " headers serves no purpose)"
)


def check_validating_policy(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    expressions = _check_policy(spec, problems)
    rules, annotations = spec.get("validations") or [], spec.get("auditAnnotations") or []
    if not rules and not annotations:
        problems.required("spec.validations", _NOTHING_TO_DO)
        problems.required("spec.auditAnnotations", _NOTHING_TO_DO)
    for index, rule in enumerate(rules):
        _check_rule(rule, expressions, f"spec.validations[{index}]", problems)
    keys: set[str] = set()
    for index, each in enumerate(annotations):
        path = f"spec.auditAnnotations[{index}]"
        key = each.get("key") or ""
        for error in label_key_errors(f"{obj['metadata'].get('name') or ''}/{key}"):
            problems.invalid(f"{path}.key", f"{obj['metadata'].get('name') or ''}/{key}", error)
        _check_expression(each.get("valueExpression"), expressions, None, f"{path}.valueExpression", problems)
        if key in keys:
            problems.duplicate(f"{path}.key", key)
        keys.add(key)


def check_mutating_policy(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    expressions = _check_policy(spec, problems)
    _check_mutating_operations(spec.get("matchConstraints") or {}, "spec.matchConstraints", problems)
    mutations = spec.get("mutations") or []
    if not mutations:
        problems.required("spec.mutations", "mutations must contain at least one item")
    for index, mutation in enumerate(mutations):
        _check_mutation(mutation, expressions, f"spec.mutations[{index}]", problems)
    if not spec.get("reinvocationPolicy"):
        problems.required("spec.reinvocationPolicy")
    else:
        check_choice(spec["reinvocationPolicy"], _REINVOCATION, "spec.reinvocationPolicy", problems)


def check_binding(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    name = spec.get("policyName") or ""
    if not name:
        problems.required("spec.policyName")
    for error in subdomain_errors(name) if name else ():
        problems.invalid("spec.policyName", name, error)
    _check_reference(spec.get("paramRef"), "spec.paramRef", problems)
    if spec.get("matchResources") is not None:
        _check_match(spec["matchResources"], "spec.matchResources", problems)


def check_validating_binding(obj: JSON, problems: Problems) -> None:
    check_binding(obj, problems)
    path, actions = "spec.validationActions", (obj.get("spec") or {}).get("validationActions") or []
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            problems.unsupported(f"{path}[{index}]", action, _ACTIONS)
        if action in actions[:index]:
            problems.duplicate(f"{path}[{index}]", action)
    if {"Deny", "Warn"} <= set(actions):
        problems.invalid(path, actions, _BOTH_ACTIONS)
    if not actions:
        problems.required(path, "at least one validation action is required")


def check_mutating_binding(obj: JSON, problems: Problems) -> None:
    check_binding(obj, problems)
    _check_mutating_operations((obj.get("spec") or {}).get("matchResources") or {}, "spec.matchResources", problems)


# --- what both kinds of policies share --------------------------------------------------------------------------------


def _check_policy(spec: JSON, problems: Problems) -> Expressions:
    """Check the common parts. Returns what compiles further expressions."""
    check_choice(spec.get("failurePolicy"), _FAILURE_POLICIES, "spec.failurePolicy", problems)
    kind: JSON | None = spec.get("paramKind")
    for field in ("apiVersion", "kind"):
        if kind is not None and not kind.get(field):
            problems.required(f"spec.paramKind.{field}")
    match = spec.get("matchConstraints")
    if match is None:
        problems.required("spec.matchConstraints")
    else:
        _check_match(match, "spec.matchConstraints", problems)
        if not match.get("resourceRules"):
            problems.required("spec.matchConstraints.resourceRules")
    expressions = Expressions(kind is not None)
    check_conditions(spec.get("matchConditions") or [], expressions, "spec.matchConditions", problems)
    for index, variable in enumerate(spec.get("variables") or []):
        _check_variable(variable, expressions, f"spec.variables[{index}]", problems)
    return expressions


def _check_match(match: JSON, path: str, problems: Problems) -> None:
    check_choice(match.get("matchPolicy"), _MATCH_POLICIES, f"{path}.matchPolicy", problems)
    for field in ("namespaceSelector", "objectSelector"):
        check_label_selector(match.get(field), f"{path}.{field}", problems)
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(match.get(field) or []):
            check_resource_rule(rule, f"{path}.{field}[{index}]", problems)


def check_resource_rule(rule: JSON, path: str, problems: Problems) -> None:
    """Check which requests a policy or webhook is for."""
    for index, name in enumerate(rule.get("resourceNames") or []):
        for error in path_segment_errors(name):
            problems.invalid(f"{path}.resourceNames[{index}]", name, error)
        if name in rule["resourceNames"][:index]:
            problems.duplicate(f"{path}.resourceNames[{index}]", name)
    operations = rule.get("operations") or []
    if not operations:
        problems.required(f"{path}.operations")
    if len(operations) > 1 and "*" in operations:
        problems.invalid(f"{path}.operations", operations, "if '*' is present, must not specify other operations")
    for index, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            problems.unsupported(f"{path}.operations[{index}]", operation, _OPERATIONS)
    for field, words in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values = rule.get(field) or []
        if not values:
            problems.required(f"{path}.{field}")
        if len(values) > 1 and "*" in values:
            problems.invalid(f"{path}.{field}", values, f"if '*' is present, must not specify other {words}")
        for index, version in enumerate(values if field == "apiVersions" else ()):
            if not version:
                problems.required(f"{path}.{field}[{index}]")
    _check_resources(rule.get("resources") or [], f"{path}.resources", problems)
    if rule.get("scope") is not None and rule["scope"] not in _SCOPES:
        problems.unsupported(f"{path}.scope", rule["scope"], _SCOPES)


def _check_resources(resources: list[str], path: str, problems: Problems) -> None:
    """A star may not cover what is also named."""
    if not resources:
        problems.required(path)
    stars: set[str] = set()
    for index, resource in enumerate(resources):
        where, (name, slash, part) = f"{path}[{index}]", resource.partition("/")
        if not resource:
            problems.required(where)
        for star in (f"{name}/*", f"*/{part}") if slash else ():
            if star in stars:
                problems.invalid(where, resource, f"if '{star}' is present, must not specify {resource}")
        if slash and "*" in (name, part):
            stars |= {f"{name}/*"} if part == "*" else set()
            stars |= {f"*/{part}"} if name == "*" else set()
    if len(resources) > 1 and "*/*" in resources:
        problems.invalid(path, resources, "if '*/*' is present, must not specify other resources")
    plain = [resource for resource in resources if resource and "/" not in resource]
    if "*" in plain and plain[-1] != "*":
        detail = "if '*' is present, must not specify other resources without subresources"
        problems.invalid(path, resources, detail)


def _check_mutating_operations(match: JSON, path: str, problems: Problems) -> None:
    """A deletion has no object to change."""
    for rule in match.get("resourceRules") or []:
        for operation in rule.get("operations") or []:
            if operation not in _MUTATING_OPERATIONS:
                problems.unsupported(f"{path}.resourceRules.operations", operation, _MUTATING_OPERATIONS)


def _check_reference(reference: JSON | None, path: str, problems: Problems) -> None:
    if reference is None:
        return
    name, selector = reference.get("name") or "", reference.get("selector")
    for error in path_segment_errors(name) if name else ():
        problems.invalid(f"{path}.name", name, error)
    if name and selector is not None:
        problems.forbidden(f"{path}.name", "name and selector are mutually exclusive")
        problems.forbidden(f"{path}.selector", "name and selector are mutually exclusive")
    elif not name and selector is None:
        problems.required(path, "one of name or selector must be specified")
    check_label_selector(selector, f"{path}.selector", problems)
    check_choice(
        reference.get("parameterNotFoundAction"), _NOT_FOUND_ACTIONS, f"{path}.parameterNotFoundAction", problems
    )


# --- expressions ------------------------------------------------------------------------------------------------------


def check_conditions(conditions: list[JSON], expressions: Expressions, path: str, problems: Problems) -> None:
    """Check the conditions under which a policy or webhook applies."""
    too_many(conditions, _MAX_CONDITIONS, path, problems)
    names: set[str] = set()
    for index, condition in enumerate(conditions):
        where = f"{path}[{index}]"
        source = (condition.get("expression") or "").strip()
        _check_compiles(source, expressions.compile_condition, f"{where}.expression", problems)
        name = condition.get("name") or ""
        if not name:
            problems.required(f"{where}.name")
        for error in label_key_errors(name) if name else ():
            problems.invalid(f"{where}.name", name, error)
        if name in names:
            problems.duplicate(f"{where}.name", name)
        names.add(name)


def _check_variable(variable: JSON, expressions: Expressions, path: str, problems: Problems) -> None:
    name, source = variable.get("name") or "", variable.get("expression") or ""
    if not name.strip():
        problems.required(f"{path}.name", "name is not specified")
    elif not _IDENTIFIER.fullmatch(name) or name in _RESERVED:
        problems.invalid(f"{path}.name", name, "must be a valid CEL identifier")
    if not source.strip():
        problems.required(f"{path}.expression", "expression is not specified")
    else:
        _check_compiles(source, partial(expressions.add_variable, name), f"{path}.expression", problems)


def _check_rule(rule: JSON, expressions: Expressions, path: str, problems: Problems) -> None:
    source, words = rule.get("expression") or "", rule.get("messageExpression") or ""
    if not source.strip():
        problems.required(f"{path}.expression", "expression is not specified")
    else:
        _check_expression(source, expressions, BOOL, f"{path}.expression", problems)
    if words and not words.strip():
        problems.invalid(f"{path}.messageExpression", words, "must be non-empty if specified")
    elif words:
        _check_expression(words, expressions, STRING, f"{path}.messageExpression", problems)
    message = rule.get("message") or ""
    if message and not message.strip():
        problems.invalid(f"{path}.message", message, "must be non-empty if specified")
    elif re.search(r"[\n\r]", message.strip()):
        problems.invalid(f"{path}.message", message, "must not contain line breaks")
    if rule.get("reason") is not None and rule["reason"] not in _REASONS:
        problems.unsupported(f"{path}.reason", rule["reason"], _REASONS)


def _check_mutation(mutation: JSON, expressions: Expressions, path: str, problems: Problems) -> None:
    kind = mutation.get("patchType") or ""
    if not kind or kind not in _PATCH_TYPES:
        check_choice(kind, tuple(_PATCH_TYPES), f"{path}.patchType", problems)
        return
    own = _PATCH_TYPES[kind]
    other = next(field for field in _PATCH_TYPES.values() if field != own)
    if mutation.get(own) is None:
        problems.required(f"{path}.{own}", f"must be specified when patchType is {kind}")
    else:
        result = list_of(JSON_PATCH) if kind == "JSONPatch" else OBJECT
        source = (mutation[own].get("expression") or "").strip()
        _check_expression(source, expressions, result, f"{path}.{own}.expression", problems, patches=True)
    if mutation.get(other) is not None:
        detail = f"must not be specified when patchType is {kind}"
        problems.invalid(f"{path}.{other}", f"{{{other}}}", detail)


def _check_expression(
    source: str | None,
    expressions: Expressions,
    result: Type | None,
    path: str,
    problems: Problems,
    *,
    patches: bool = False,
) -> None:
    _check_compiles(source or "", partial(expressions.compile, result=result, patches=patches), path, problems)


def _check_compiles(source: str, compile_source: Callable[[str], object], path: str, problems: Problems) -> None:
    if not source.strip():
        problems.required(path)
        return
    try:
        compile_source(source)
    except WrongResultError as error:
        problems.invalid(path, source, str(error))
    except CELError as error:
        problems.invalid(path, source, f"compilation failed: {error}")


CHECKS: dict[str, Callable[[JSON, Problems], None]] = {
    f"{_GROUP}/validatingadmissionpolicies": check_validating_policy,
    f"{_GROUP}/validatingadmissionpolicybindings": check_validating_binding,
    f"{_GROUP}/mutatingadmissionpolicies": check_mutating_policy,
    f"{_GROUP}/mutatingadmissionpolicybindings": check_mutating_binding,
}
