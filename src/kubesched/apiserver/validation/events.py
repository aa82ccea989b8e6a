"""Validation of Events, which are served in two groups with rules of their own."""

from __future__ import annotations

from kubesched.api.names import label_key_errors
from kubesched.apiserver.validation.checks import Check
from kubesched.apiserver.validation.problems import Problems
from kubesched.base.types import JSON

_MAX_WORDS, _MAX_NOTE = 128, 1024
_UNSET = {"deprecatedFirstTimestamp": "firstTimestamp", "deprecatedLastTimestamp": "lastTimestamp"}
_UNSET |= {"deprecatedCount": "count", "deprecatedSource": "source"}


def _event(obj: JSON, problems: Problems) -> None:
    newer = obj.get("apiVersion") != "v1"
    about = (obj.get("regarding" if newer else "involvedObject") or {}).get("namespace") or ""
    namespace = obj["metadata"].get("namespace") or ""
    if not obj.get("eventTime"):
        if namespace != (about or "default"):
            problems.invalid("involvedObject.namespace", about, "does not match event.namespace")
    else:
        if not about and namespace not in ("default", "kube-system"):
            problems.invalid("involvedObject.namespace", about, "does not match event.namespace")
        _described(obj, newer, problems)
    if newer:
        _newer(obj, problems)


def _described(obj: JSON, newer: bool, problems: Problems) -> None:
    """An event with a time also says who reports it, what was done and why."""
    field = "reportingController" if newer else "reportingComponent"
    name = obj.get(field) or ""
    if not name:
        problems.required(field)
    for error in label_key_errors(name):
        problems.invalid(field, name, error)
    for part in ("reportingInstance", "action", "reason"):
        text = obj.get(part) or ""
        if not text:
            problems.required(part)
        if len(text) > _MAX_WORDS:
            problems.invalid(part, "", f"can have at most {_MAX_WORDS} characters")
    if len(obj.get("note" if newer else "message") or "") > _MAX_NOTE:
        problems.invalid("message", "", f"can have at most {_MAX_NOTE} characters")


def _newer(obj: JSON, problems: Problems) -> None:
    series = obj.get("series")
    if series is not None and (series.get("count") or 0) < 2:
        problems.invalid("series.count", "", "should be at least 2")
    if series is not None and not series.get("lastObservedTime"):
        problems.required("series.lastObservedTime")
    if not obj.get("eventTime"):
        problems.required("eventTime")
    if obj.get("type") not in ("Normal", "Warning"):
        problems.invalid("type", "", f"has invalid value: {obj.get('type') or ''}")
    for field, shown in _UNSET.items():
        if any((obj[field] or {}).values()) if field == "deprecatedSource" and obj.get(field) else obj.get(field):
            problems.invalid(shown, "", "needs to be unset")


NEW: dict[str, Check] = {"/events": _event}
