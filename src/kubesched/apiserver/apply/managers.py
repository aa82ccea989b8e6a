"""Managers of fields, and the two ways to write: apply, which may conflict, and update, which takes what it changes.

Ownership is recorded from the creation on if the creator names a field manager, as kubectl and Helm do, otherwise from
the first apply on: for programs that create thousands of objects it would cost more than it is worth. What such an
object had before its first apply belongs to the manager `before-first-apply`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import msgspec

from kubesched.apiserver.apply.fields import Leaves, Path, decode, encode, leaves, merge, shown, without
from kubesched.apiserver.apply.shapes import MergeShape
from kubesched.apiserver.validation.validate import annotations_fit
from kubesched.apiserver.wire.status import Cause, StatusError
from kubesched.base.documents import REQUEST, DocumentError, read_json
from kubesched.base.types import JSON

BEFORE = "before-first-apply"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_IDENTITY = frozenset(
    ("f:metadata", f"f:{name}")
    for name in (
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "name",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
    )
)


@dataclass(frozen=True, slots=True)
class Manager:
    """A manager of fields and the fields that it owns."""

    name: str
    operation: str
    version: str
    subresource: str = ""
    time: str = ""
    fields: frozenset[Path] = field(default=frozenset())

    def is_same(self, other: Manager) -> bool:
        """Whether both are entries of one manager."""
        mine = (self.name, self.operation, self.version, self.subresource)
        return mine == (other.name, other.operation, other.version, other.subresource)

    def to_json(self) -> JSON:
        body: JSON = {"manager": self.name, "operation": self.operation, "apiVersion": self.version}
        if self.time:
            body["time"] = self.time
        body |= {"fieldsType": "FieldsV1", "fieldsV1": encode(self.fields)}
        return {**body, "subresource": self.subresource} if self.subresource else body

    def __str__(self) -> str:
        if self.operation == "Apply":
            return f'"{self.name}"'
        part = f' with subresource "{self.subresource}"' if self.subresource else ""
        return f'"{self.name}"{part} using {self.version}'


def managers_of(obj: JSON) -> list[Manager]:
    """The managers recorded in an object."""
    entries = (obj.get("metadata") or {}).get("managedFields") or []
    return [
        Manager(
            entry.get("manager") or "",
            entry.get("operation") or "",
            entry.get("apiVersion") or "",
            entry.get("subresource") or "",
            entry.get("time") or "",
            frozenset(decode(entry.get("fieldsV1"))),
        )
        for entry in entries
    ]


def _write(obj: JSON, managers: Iterable[Manager]) -> None:
    """Record the managers that own something, in upstream's order."""
    ordered = sorted(managers, key=lambda each: (each.operation, each.time, each.name, each.version, each.subresource))
    kept = [manager.to_json() for manager in ordered if manager.fields]
    obj["metadata"] = {**obj["metadata"], "managedFields": kept}


def _owned(obj: JSON, shape: MergeShape) -> Leaves:
    """The fields that can be owned: all but those that identify the object."""
    return {
        path: value
        for path, value in leaves(obj, shape).items()
        if path[:2] not in _IDENTITY and path[0] not in ("f:apiVersion", "f:kind") and path != ("f:metadata",)
    }


# --- apply ------------------------------------------------------------------------------------------------------------


def apply(live: JSON, wanted: JSON, shape: MergeShape, manager: Manager, *, force: bool) -> JSON:
    """`live` as one manager wants it. Raises 409 if that changes fields of others, unless by `force`."""
    known = managers_of(live) or [_before(live, shape, manager.version)]
    before = next((each for each in known if each.is_same(manager)), None)
    others = [each for each in known if each is not before]
    ours = frozenset(_owned(wanted, shape))
    result = merge(live, wanted, shape)
    if before is not None:
        result = _pruned(result, before.fields - ours, ours, others, shape)
    old = _owned(live, shape)
    changed = {path for path, value in _owned(result, shape).items() if path not in old or old[path] != value} & ours
    contested = changed - (_last_applied(live, shape) if manager.name == "kubectl" else set())
    conflicts = [(each, path) for each in others for path in sorted(contested & each.fields)]
    if conflicts and not force:
        raise _conflict(conflicts)
    others = [replace(each, fields=each.fields - changed) for each in others]
    if before is not None and before.fields == ours:
        manager = before
    _write(result, [*others, replace(manager, fields=ours)])
    if manager.name == "kubectl":
        _update_last_applied(result, wanted)
    return _with_old_times(live, result)


def _before(live: JSON, shape: MergeShape, version: str) -> Manager:
    """The manager of everything that an object had before its first apply. Nobody owns its status yet."""
    found = frozenset(path for path in _owned(live, shape) if path[0] != "f:status")
    return Manager(BEFORE, "Update", version, fields=found)


def _pruned(
    obj: JSON, dropped: Iterable[Path], ours: frozenset[Path], others: list[Manager], shape: MergeShape
) -> JSON:
    """Remove what the manager no longer wants, unless another manager owns it or something in it."""
    kept: set[Path] = set()
    for path in (*ours, *(path for each in others for path in each.fields)):
        kept.update(path[:end] for end in range(1, len(path) + 1))
    pruned: JSON = without(obj, set(dropped) - kept, shape)
    return pruned


def _last_applied(live: JSON, shape: MergeShape) -> set[Path]:
    """The fields that a client-side apply wrote and nobody has changed since. The same client may take them over."""
    text = ((live.get("metadata") or {}).get("annotations") or {}).get(_LAST_APPLIED)
    try:
        found = read_json(text.encode(), REQUEST) if isinstance(text, str) else None
    except DocumentError:
        return set()
    if not isinstance(found, dict):
        return set()
    now = _owned(live, shape)
    return {path for path, value in _owned(found, shape).items() if path in now and now[path] == value}


def _update_last_applied(obj: JSON, wanted: JSON) -> None:
    """Keep the annotation of client-side apply current, for a kubectl that goes back to it; drop it if too long."""
    annotations = obj["metadata"].get("annotations") or {}
    if _LAST_APPLIED not in annotations:
        return
    wanted = copy.deepcopy(wanted)
    (wanted["metadata"].get("annotations") or {}).pop(_LAST_APPLIED, None)
    text = msgspec.json.encode(wanted, order="deterministic").decode() + "\n"
    for character in "<>&":  # as Go's encoder writes them
        text = text.replace(character, f"\\u{ord(character):04x}")
    annotations = {**annotations, _LAST_APPLIED: text}
    if not annotations_fit(annotations):
        del annotations[_LAST_APPLIED]
    obj["metadata"] = {**obj["metadata"], "annotations": annotations}


def _with_old_times(live: JSON, result: JSON) -> JSON:
    """An apply that changes nothing must not change the times of its entries either."""
    old, new = ({**obj, "metadata": dict(obj["metadata"])} for obj in (live, result))
    for obj in (old, new):
        entries = obj["metadata"].get("managedFields") or []
        obj["metadata"]["managedFields"] = [{**entry, "time": ""} for entry in entries]
    return copy.deepcopy(live) if old == new else result


def _conflict(conflicts: list[tuple[Manager, Path]]) -> StatusError:
    causes = [Cause("FieldManagerConflict", f"conflict with {each}", shown(path)) for each, path in conflicts]
    if len(conflicts) == 1:
        ((manager, path),) = conflicts
        message = f"Apply failed with 1 conflict: conflict with {manager}: {shown(path)}"
    else:
        lines = []
        for manager in sorted({each for each, _ in conflicts}, key=str):
            lines.append(f"conflicts with {manager}:")
            lines += [f"- {shown(path)}" for each, path in conflicts if each is manager]
        message = f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
    return StatusError(409, message, reason="Conflict", details={}, causes=causes)


def created(wanted: JSON, shape: MergeShape, manager: Manager) -> JSON:
    """A new object that is applied."""
    result = {**wanted, "metadata": dict(wanted["metadata"])}
    _write(result, [replace(manager, fields=frozenset(_owned(wanted, shape)))])
    return result


# --- update -----------------------------------------------------------------------------------------------------------


def track_creation(obj: JSON, shape: MergeShape, manager: Manager) -> None:
    """Record in a new object that its creator owns everything but the status."""
    fields = frozenset(path for path in _owned(obj, shape) if path[0] != "f:status")
    _write(obj, [replace(manager, fields=fields)])


def track(old: JSON, new: JSON, shape: MergeShape, manager: Manager) -> None:
    """Record in `new` who owns what after an update. An object that was never applied has no record."""
    sent = new["metadata"].get("managedFields")
    if sent == [{}]:
        new["metadata"].pop("managedFields")
        return
    if not old["metadata"].get("managedFields"):
        return
    known = managers_of(new) if sent else managers_of(old)
    before, after = _owned(old, shape), _owned(new, shape)
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    removed = before.keys() - after.keys()
    mine = next((each for each in known if each.is_same(manager)), manager)
    others = [each for each in known if each is not mine]
    if changed:
        mine = replace(mine, time=manager.time)
    own = (mine.fields | changed) - removed
    gone = changed | removed
    _write(new, [*(replace(each, fields=each.fields - gone) for each in others), replace(mine, fields=own)])
