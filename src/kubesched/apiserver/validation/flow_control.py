"""Validation of FlowSchemas and PriorityLevelConfigurations."""

from __future__ import annotations

from math import ceil, log2

from kubesched.apiserver.validation.checks import Check, each, require_name
from kubesched.apiserver.validation.naming import label_errors, subdomain_errors
from kubesched.apiserver.validation.problems import Problems
from kubesched.base.types import JSON

_EXEMPT = "exempt"
_METHODS = ("ByNamespace", "ByUser")
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_SUBJECTS = {"ServiceAccount": "serviceAccount", "User": "user", "Group": "group"}
_TYPES = ("Exempt", "Limited")
_RESPONSES = ("Queue", "Reject")
_MAX_PRECEDENCE, _MAX_QUEUES, _MAX_HASH_BITS = 10_000, 10_000_000, 60


def _flow_schema(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    precedence, path = spec.get("matchingPrecedence") or 0, "spec.matchingPrecedence"
    if precedence <= 0:
        problems.invalid(path, precedence, "must be a positive value")
    if precedence > _MAX_PRECEDENCE:
        problems.invalid(path, precedence, f"must not be greater than {_MAX_PRECEDENCE}")
    if precedence == 1 and obj["metadata"].get("name") != _EXEMPT:
        problems.invalid(path, precedence, "only the schema named 'exempt' may have matchingPrecedence 1")
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in _METHODS:
        problems.unsupported("spec.distinguisherMethod.type", {"Type": method.get("type") or ""}, _METHODS)
    level = (spec.get("priorityLevelConfiguration") or {}).get("name")
    where = "spec.priorityLevelConfiguration.name"
    require_name(level, subdomain_errors, where, problems, "must reference a priority level")
    for rule, where in each(spec.get("rules"), "spec.rules"):
        _rule(rule, where, problems)


def _rule(rule: JSON, path: str, problems: Problems) -> None:
    for subject, where in each(rule.get("subjects"), f"{path}.subjects"):
        _subject(subject, where, problems)
    if not rule.get("subjects"):
        problems.required(f"{path}.subjects", "subjects must contain at least one value")
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        problems.required(path, "at least one of resourceRules and nonResourceRules has to be non-empty")
    for part, where in each(rule.get("resourceRules"), f"{path}.resourceRules"):
        _check_verbs(part, where, problems)
        _resources(part, where, problems)
    for part, where in each(rule.get("nonResourceRules"), f"{path}.nonResourceRules"):
        _check_verbs(part, where, problems)
        _paths(part, f"{where}.nonResourceURLs", problems)


def _subject(subject: JSON, path: str, problems: Problems) -> None:
    kind = subject.get("kind") or ""
    own = _SUBJECTS.get(kind)
    if own is None:
        problems.unsupported(f"{path}.kind", kind, sorted(_SUBJECTS))
        return
    part, where = subject.get(own), f"{path}.{own}"
    if part is None:
        problems.required(where, f"{own} is required when subject kind is '{kind}'")
    elif own == "serviceAccount":
        name = part.get("name")
        require_name(name if name != "*" else "a", subdomain_errors, f"{where}.name", problems)
        detail = "must specify namespace for service account"
        require_name(part.get("namespace"), label_errors, f"{where}.namespace", problems, detail)
    elif not part.get("name"):
        problems.required(f"{where}.name")
    for other, field in _SUBJECTS.items():
        if field != own and subject.get(field) is not None:
            problems.forbidden(f"{path}.{field}", f"{field} is forbidden when subject kind is not '{other}'")


def _check_verbs(rule: JSON, path: str, problems: Problems) -> None:
    verbs = rule.get("verbs") or []
    if not verbs:
        problems.required(f"{path}.verbs", "verbs must contain at least one value")
    elif "*" in verbs:
        _alone(verbs, f"{path}.verbs", "verbs", problems)
    elif not set(verbs) <= set(_VERBS):
        problems.unsupported(f"{path}.verbs", verbs, _VERBS)


def _alone(values: list[str], path: str, what: str, problems: Problems) -> None:
    if len(values) > 1 and "*" in values:
        problems.invalid(path, values, f"if '*' is present, must not specify other {what}")


def _resources(rule: JSON, path: str, problems: Problems) -> None:
    for field, one in (("apiGroups", "api group"), ("resources", "resource")):
        if not rule.get(field):
            problems.required(f"{path}.{field}", f"resource rules must supply at least one {one}")
        _alone(rule.get(field) or [], f"{path}.{field}", f"{one}s", problems)
    names, where = rule.get("namespaces") or [], f"{path}.namespaces"
    if not names and not rule.get("clusterScope"):
        detail = "resource rules that are not cluster scoped must supply at least one namespace"
        problems.required(where, detail)
    _alone(names, where, "namespaces", problems)
    for name, here in each(names if "*" not in names else (), where):
        for error in label_errors(name):
            problems.invalid(here, name, f"each member of this list must be '*' or a DNS-1123 label; {error}")


def _paths(rule: JSON, path: str, problems: Problems) -> None:
    texts = rule.get("nonResourceURLs") or []
    if not texts:
        problems.required(path, "nonResourceURLs must contain at least one value")
    _alone(texts, path, "non-resource URLs", problems)
    for text, where in each(texts if "*" not in texts else (), path):
        if error := _path_error(text):
            problems.invalid(where, text, error)


def _path_error(text: str) -> str:
    if not text:
        return "must not be empty"
    if not text.startswith("/"):
        return "must start with slash"
    if " " in text:
        return "must not contain white-space"
    if "//" in text:
        return "must not contain double slash"
    stars = text.count("*")
    return "wildcard can only do suffix matching" if stars > 1 or (stars and not text.endswith("/*")) else ""


# --- priority levels --------------------------------------------------------------------------------------------------


def _priority_level(obj: JSON, problems: Problems) -> None:
    spec = obj.get("spec") or {}
    kind, limited, exempt = spec.get("type") or "", spec.get("limited"), spec.get("exempt")
    if (obj["metadata"].get("name") == _EXEMPT) != (kind == "Exempt"):
        problems.invalid("spec.type", kind, "must be 'Exempt' if and only if `name` is 'exempt'")
    if kind and kind not in _TYPES:
        problems.unsupported("spec.type", kind, _TYPES)
    if kind == "Exempt" and exempt is not None:
        _shares(exempt, "spec.exempt", problems)
        _lendable(exempt, "spec.exempt", problems)
    if kind == "Limited" and limited is not None:
        _limited(limited, "spec.limited", problems)
    if not kind:
        problems.required("spec.type")
    elif kind == "Exempt" and limited is not None:
        problems.forbidden("spec.limited", "must be nil if the type is not Limited")
    elif kind == "Limited" and exempt is not None:
        problems.forbidden("spec.exempt", "must be nil if the type is Limited")
    elif kind == "Limited" and limited is None:
        problems.required("spec.limited", "must not be empty when type is Limited")


def _shares(part: JSON, path: str, problems: Problems) -> None:
    shares = part.get("nominalConcurrencyShares") or 0
    if shares < 0:
        problems.invalid(f"{path}.nominalConcurrencyShares", shares, "must be a non-negative integer")


def _lendable(part: JSON, path: str, problems: Problems) -> None:
    percent = part.get("lendablePercent") or 0
    if not 0 <= percent <= 100:
        problems.invalid(f"{path}.lendablePercent", percent, "must be between 0 and 100, inclusive")


def _limited(part: JSON, path: str, problems: Problems) -> None:
    _shares(part, path, problems)
    response = part.get("limitResponse") or {}
    kind, queuing, where = response.get("type") or "", response.get("queuing"), f"{path}.limitResponse"
    if kind and kind not in _RESPONSES:
        problems.unsupported(f"{where}.type", kind, _RESPONSES)
    if kind == "Queue" and queuing is not None:
        _queuing(queuing, f"{where}.queuing", problems)
    _lendable(part, path, problems)
    borrowed = part.get("borrowingLimitPercent")
    if borrowed is not None and borrowed < 0:
        problems.invalid(f"{path}.borrowingLimitPercent", borrowed, "if specified, must be a non-negative integer")
    if not kind:
        problems.required(f"{where}.type")
    elif kind == "Reject" and queuing is not None:
        problems.forbidden(f"{where}.queuing", "must be nil if limited.limitResponse.type is not Limited")
    elif kind == "Queue" and queuing is None:
        problems.required(f"{where}.queuing", "must not be empty if limited.limitResponse.type is Limited")


def _queuing(queuing: JSON, path: str, problems: Problems) -> None:
    length, queues, hand = (queuing.get(field) or 0 for field in ("queueLengthLimit", "queues", "handSize"))
    for field, number in (("queueLengthLimit", length), ("queues", queues), ("handSize", hand)):
        if number <= 0:
            problems.invalid(f"{path}.{field}", number, "must be positive")
        elif field == "queues" and queues > _MAX_QUEUES:
            problems.invalid(f"{path}.queues", queues, f"must not be greater than {_MAX_QUEUES}")
    if hand > max(queues, 0):
        problems.invalid(f"{path}.handSize", hand, f"should not be greater than queues ({queues})")
    elif hand > 0 and ceil(log2(queues) * hand) > _MAX_HASH_BITS:
        detail = f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than"
        problems.invalid(f"{path}.handSize", hand, f"{detail} {_MAX_HASH_BITS}")


CHECKS: dict[str, Check] = {
    "flowcontrol.apiserver.k8s.io/flowschemas": _flow_schema,
    "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations": _priority_level,
}
