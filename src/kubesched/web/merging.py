"""A user's edit of an object, applied to the object as it is now."""

from __future__ import annotations

from typing import Any, Final

MISSING: Final = object()


class EditConflictError(ValueError):
    """The user and another writer have changed the same fields."""

    def __init__(self, fields: list[str]) -> None:
        self.fields = fields
        super().__init__(
            f"another client has changed {', '.join(fields)} since you opened this object; "
            "press Discard to see the new version, then make your change again"
        )


def merged(opened: Any, edited: Any, current: Any) -> Any:
    """The edit on top of the current object. Other writers' changes to fields that the user left alone are kept.

    A list is one field. Raises EditConflictError with the fields that both have changed.
    """
    conflicts: list[str] = []
    result = _merge(opened, edited, current, "", conflicts)
    if conflicts:
        raise EditConflictError(conflicts)
    return result


def _merge(opened: Any, edited: Any, current: Any, path: str, conflicts: list[str]) -> Any:
    if edited == opened:
        return current
    if current in (opened, edited):
        return edited
    if isinstance(edited, dict) and isinstance(current, dict):
        before = opened if isinstance(opened, dict) else {}
        found = {}
        for key in {**current, **edited}:
            old, wanted, now = (each.get(key, MISSING) for each in (before, edited, current))
            value = _merge(old, wanted, now, f"{path}.{key}" if path else str(key), conflicts)
            if value is not MISSING:
                found[key] = value
        return found
    conflicts.append(path)
    return current
