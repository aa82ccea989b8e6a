"""Validation of labels and of selectors of labels and nodes."""

from __future__ import annotations

from kubesched.api.names import label_key_errors, label_value_errors
from kubesched.apiserver.validation.checks import each
from kubesched.apiserver.validation.naming import subdomain_errors
from kubesched.apiserver.validation.problems import Problems
from kubesched.base.types import JSON

_LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_NODE_OPERATORS = (*_LABEL_OPERATORS, "Gt", "Lt")


def check_labels(labels: JSON | None, path: str, problems: Problems) -> None:
    """Check keys and values of labels or of a simple selector."""
    for key, value in (labels or {}).items():
        for error in label_key_errors(key):
            problems.invalid(path, key, error)
        for error in label_value_errors(str(value)):
            problems.invalid(path, value, error)


def check_label_selector(selector: JSON | None, path: str, problems: Problems) -> None:
    """Check a label selector inside an object."""
    if selector is None:
        return
    check_labels(selector.get("matchLabels"), f"{path}.matchLabels", problems)
    for index, expression in enumerate(selector.get("matchExpressions") or []):
        check_expression(expression, f"{path}.matchExpressions[{index}]", _LABEL_OPERATORS, problems)


def check_node_selector(selector: JSON, path: str, problems: Problems) -> None:
    """Check the node selector of a pod or volume."""
    if not selector.get("nodeSelectorTerms"):
        problems.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(selector.get("nodeSelectorTerms") or []):
        check_node_term(term, f"{path}.nodeSelectorTerms[{index}]", problems)


def check_node_term(term: JSON, path: str, problems: Problems) -> None:
    """Check one term of a node selector."""
    for index, expression in enumerate(term.get("matchExpressions") or []):
        check_expression(expression, f"{path}.matchExpressions[{index}]", _NODE_OPERATORS, problems)
    for field, where in each(term.get("matchFields"), f"{path}.matchFields"):
        _check_field(field, where, problems)


def _check_field(field: JSON, path: str, problems: Problems) -> None:
    """Check a requirement on the name of a node."""
    key, operator, values = field.get("key") or "", field.get("operator") or "", field.get("values") or []
    if operator not in ("In", "NotIn"):
        problems.invalid(f"{path}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        problems.required(f"{path}.values", detail)
    if key != "metadata.name":
        problems.invalid(f"{path}.key", key, "not a valid field selector key")
        return
    for name, where in each(values, f"{path}.values"):
        for error in subdomain_errors(name):
            problems.invalid(where, name, error)


def check_expression(expression: JSON, path: str, operators: tuple[str, ...], problems: Problems) -> None:
    """Check one requirement of a selector."""
    operator, values = expression.get("operator"), expression.get("values") or []
    if operator not in operators:
        problems.invalid(f"{path}.operator", operator or "", "not a valid selector operator")
    if operator in ("In", "NotIn") and not values:
        problems.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    if operator in ("Exists", "DoesNotExist") and values:
        problems.forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    if operator in ("Gt", "Lt") and len(values) != 1:
        problems.required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    for error in label_key_errors(expression.get("key") or ""):
        problems.invalid(f"{path}.key", expression.get("key") or "", error)
    for value, where in each(values if operator in _LABEL_OPERATORS else (), f"{path}.values"):
        for error in label_value_errors(value):
            problems.invalid(where, value, error)
