"""Status conditions: setting one of them the way the Kubernetes API expects."""

from __future__ import annotations

from kubesched.base.types import JSON


def set_condition(conditions: list[JSON], new: JSON, now: str, *, updated: bool = False) -> list[JSON]:
    """Return the conditions with one of them set. Its transition time changes only when its status does."""
    kind = new["type"]
    for index, old in enumerate(conditions):
        if old.get("type") == kind:
            same = old.get("status") == new["status"]
            since = old.get("lastTransitionTime", now) if same else now
            merged = {**new, "lastTransitionTime": since}
            if updated:
                unchanged = same and old.get("reason") == new.get("reason") and old.get("message") == new.get("message")
                merged["lastUpdateTime"] = old.get("lastUpdateTime", now) if unchanged else now
            changed = conditions.copy()
            changed[index] = merged
            return changed
    return [*conditions, {**new, "lastTransitionTime": now, **({"lastUpdateTime": now} if updated else {})}]
