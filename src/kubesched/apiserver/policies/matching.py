"""Which writes a policy applies to: rules for resources, and selectors for namespaces and objects."""

from __future__ import annotations

import msgspec

from kubesched.api import objects
from kubesched.api.selectors import SelectorError, label_selector
from kubesched.apiserver.policies.attributes import AdmissionAttributes
from kubesched.apiserver.storage.store import Store
from kubesched.base.types import JSON


def matches(store: Store, match: JSON | None, attributes: AdmissionAttributes) -> bool:
    """Whether a write is among those that a policy or binding names. Without a match, all are."""
    if match is None:
        return True
    rules, excluded = match.get("resourceRules"), match.get("excludeResourceRules") or []
    if any(_rule_matches(rule, attributes) for rule in excluded):
        return False
    if rules and not any(_rule_matches(rule, attributes) for rule in rules):
        return False
    return _namespace_matches(store, match, attributes) and _object_matches(match, attributes)


def _rule_matches(rule: JSON, attributes: AdmissionAttributes) -> bool:
    resource = attributes.resource
    names = rule.get("resourceNames") or []
    return (
        _among(attributes.operation, rule.get("operations"))
        and _among(resource.group, rule.get("apiGroups"))
        and _among(resource.version, rule.get("apiVersions"))
        and any(_names(each, attributes) for each in rule.get("resources") or [])
        and rule.get("scope", "*") in ("*", "Namespaced" if resource.namespaced else "Cluster")
        and (not names or attributes.name in names)
    )


def _among(value: str, wanted: list[str] | None) -> bool:
    return value in (wanted or ()) or "*" in (wanted or ())


def _names(pattern: str, attributes: AdmissionAttributes) -> bool:
    """``pods``, ``pods/status``, ``*/scale``, ``pods/*``, ``*`` (no subresource) or ``*/*``."""
    plural, _, subresource = pattern.partition("/")
    return plural in ("*", attributes.resource.plural) and subresource in (
        attributes.subresource,
        "*" if "/" in pattern else attributes.subresource,
    )


def _namespace_matches(store: Store, match: JSON, attributes: AdmissionAttributes) -> bool:
    selector = match.get("namespaceSelector")
    if not selector or not attributes.namespace:
        return True
    if attributes.resource.storage == "/namespaces":
        labels = attributes.metadata.get("labels") or {}
    else:
        record = store.get("/namespaces", attributes.namespace)
        labels = {} if record is None else record.labels
    return selects(selector, labels)


def _object_matches(match: JSON, attributes: AdmissionAttributes) -> bool:
    selector = match.get("objectSelector")
    if not selector:
        return True
    both = (attributes.obj, attributes.old)
    return any(selects(selector, each["metadata"].get("labels") or {}) for each in both if each is not None)


def selects(selector: JSON, labels: dict[str, str]) -> bool:
    """Whether a label selector in JSON matches. A malformed one matches nothing."""
    try:
        return label_selector(msgspec.convert(selector, objects.LabelSelector)).matches(labels)
    except (msgspec.ValidationError, SelectorError):
        return False
