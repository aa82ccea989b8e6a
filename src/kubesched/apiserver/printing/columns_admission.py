"""Columns of admission policies and webhooks, flow control, API services, address ranges and device taints."""

from __future__ import annotations

from collections.abc import Callable

from kubesched.apiserver.printing.table import NONE, UNSET, Cell, Columns, age, columns, selector_text, since
from kubesched.base.types import JSON


def _webhooks(obj: JSON, now: float) -> list[Cell]:
    return [len(obj.get("webhooks") or []), age(obj, now)]


def _policy(part: str) -> Callable[[JSON, float], list[Cell]]:
    """The row of a policy whose rules are in this part of its spec."""

    def row(obj: JSON, now: float) -> list[Cell]:
        spec = obj.get("spec") or {}
        kind = spec.get("paramKind")
        shown = f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else UNSET
        return [len(spec.get(part) or []), shown, age(obj, now)]

    return row


def _binding(obj: JSON, now: float) -> list[Cell]:
    spec = obj.get("spec") or {}
    reference, shown = spec.get("paramRef") or {}, UNSET
    if reference.get("name"):
        shown = f"{reference.get('namespace') or '*'}/{reference['name']}"
    elif reference.get("selector") is not None:
        shown = selector_text(reference["selector"])
    return [spec.get("policyName", ""), shown, age(obj, now)]


def _flow_schema(obj: JSON, now: float) -> list[Cell]:
    spec = obj.get("spec") or {}
    conditions = (obj.get("status") or {}).get("conditions") or []
    return [
        (spec.get("priorityLevelConfiguration") or {}).get("name", ""),
        spec.get("matchingPrecedence", 0),
        (spec.get("distinguisherMethod") or {}).get("type") or NONE,
        age(obj, now),
        next((each.get("status", "") for each in conditions if each.get("type") == "Dangling"), "?"),
    ]


def _precedence(obj: JSON) -> tuple[int, str]:
    """The order in which flow schemas are tried."""
    return obj["spec"].get("matchingPrecedence", 0), obj["metadata"]["name"]


def _priority_level(obj: JSON, now: float) -> list[Cell]:
    spec = obj.get("spec") or {}
    limited = spec.get("limited")
    queuing = ((limited or {}).get("limitResponse") or {}).get("queuing") or {}
    shares = NONE if limited is None else limited.get("nominalConcurrencyShares", 0)
    queues = [queuing.get(part, NONE) for part in ("queues", "handSize", "queueLengthLimit")]
    return [spec.get("type", ""), shares, *queues, age(obj, now)]


def _api_service(obj: JSON, now: float) -> list[Cell]:
    service = (obj.get("spec") or {}).get("service")
    conditions = (obj.get("status") or {}).get("conditions") or []
    available: JSON = next((each for each in conditions if each.get("type") == "Available"), {})
    state = available.get("status", "Unknown")
    if state != "True" and available.get("reason"):
        state = f"{state} ({available['reason']})"
    where = f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local"
    return [where, state, age(obj, now)]


def _service_range(obj: JSON, now: float) -> list[Cell]:
    return [",".join((obj.get("spec") or {}).get("cidrs") or []), age(obj, now)]


def _address(obj: JSON, now: float) -> list[Cell]:
    """The age has no column of its own, as upstream."""
    parent = (obj.get("spec") or {}).get("parentRef")
    if not parent:
        return [NONE, age(obj, now)]
    kind = ".".join(filter(None, (parent.get("resource"), parent.get("group")))).lower()
    return ["/".join(filter(None, (kind, parent.get("namespace"), parent.get("name")))), age(obj, now)]


def _taint_rule(obj: JSON, now: float) -> list[Cell]:
    taint = (obj.get("spec") or {}).get("taint") or {}
    words: list[Cell] = [taint.get(part, "") for part in ("key", "value", "effect")]
    return [*words, since(taint.get("timeAdded"), now), age(obj, now)]


_ADMISSION = "admissionregistration.k8s.io"
_BINDING = "PolicyName, ParamRef, Age"

COLUMNS: dict[str, Columns] = {
    f"{_ADMISSION}/mutatingwebhookconfigurations": columns("Webhooks:integer, Age", _webhooks),
    f"{_ADMISSION}/validatingwebhookconfigurations": columns("Webhooks:integer, Age", _webhooks),
    f"{_ADMISSION}/mutatingadmissionpolicies": columns("Mutations:integer, ParamKind, Age", _policy("mutations")),
    f"{_ADMISSION}/validatingadmissionpolicies": columns("Validations:integer, ParamKind, Age", _policy("validations")),
    f"{_ADMISSION}/mutatingadmissionpolicybindings": columns(_BINDING, _binding),
    f"{_ADMISSION}/validatingadmissionpolicybindings": columns(_BINDING, _binding),
    "flowcontrol.apiserver.k8s.io/flowschemas": columns(
        "PriorityLevel, MatchingPrecedence, DistinguisherMethod, Age, MissingPL", _flow_schema, order=_precedence
    ),
    "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations": columns(
        "Type, NominalConcurrencyShares, Queues, HandSize, QueueLengthLimit, Age", _priority_level
    ),
    "apiregistration.k8s.io/apiservices": columns("Service, Available, Age", _api_service),
    "networking.k8s.io/servicecidrs": columns("CIDRs, Age", _service_range),
    "networking.k8s.io/ipaddresses": columns("ParentRef", _address),
    "resource.k8s.io/devicetaintrules": columns("Key, Value, Effect, TimeAdded, Age", _taint_rule),
}
