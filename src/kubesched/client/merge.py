"""Applying a patch to JSON, as far as a scheduler's patches go.

Plain merge patches (RFC 7386) are done in full. Of strategic merge patches only what a scheduler sends is: lists of
conditions are merged by their type, every other list is replaced.
"""

from __future__ import annotations

from kubesched.base.types import JSON

_MERGE_KEYS = {"conditions": "type"}


def merge_patch(target: JSON, patch: JSON) -> JSON:
    """`target` with `patch` applied; null deletes. Neither is changed."""
    return _merge(target, patch, merge_keys={})


def strategic_merge(target: JSON, patch: JSON) -> JSON:
    """`target` with a strategic merge `patch` applied. Neither is changed."""
    return _merge(target, patch, merge_keys=_MERGE_KEYS)


def _merge(target: JSON, patch: JSON, merge_keys: dict[str, str]) -> JSON:
    result = dict(target)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif key.startswith("$") and merge_keys:
            continue
        elif isinstance(value, dict):
            old = result.get(key)
            result[key] = _merge(old if isinstance(old, dict) else {}, value, merge_keys)
        elif isinstance(value, list) and key in merge_keys:
            result[key] = _merge_list(result.get(key) or [], value, merge_keys[key])
        else:
            result[key] = value
    return result


def _merge_list(old: list[JSON], new: list[JSON], merge_key: str) -> list[JSON]:
    result = {item.get(merge_key): item for item in old}
    for item in new:
        name = item.get(merge_key)
        if item.get("$patch") == "delete":
            result.pop(name, None)
        else:
            result[name] = _merge(result.get(name, {}), item, _MERGE_KEYS)
    return list(result.values())
