"""What a file says about a cluster: objects, and changes of objects over time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Self

import msgspec

from kubesched.api.decoding import InvalidObject, decode_as
from kubesched.base.types import JSON
from kubesched.snapshots.versions import Raw, current_form

Key = tuple[str, str, str, str]
"""Group, kind, namespace and name."""


class Event(Enum):
    """What happens to an object, in the words of recordings."""

    ADD = "Add"
    UPDATE = "Update"
    DELETE = "Delete"


class _Meta(msgspec.Struct, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    resource_version: str | None = None
    creation_timestamp: Any = None
    uid: str | None = None


class _Head(msgspec.Struct):
    metadata: _Meta | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """An object as JSON text or as a dict. Text is decoded when it is needed: a snapshot may have gigabytes of it."""

    version: str
    kind: str
    data: Raw
    where: str = ""
    """File, document and index, for messages."""

    @classmethod
    def read(cls, version: str, kind: str, data: Raw, where: str = "") -> Self:
        """An object as it was found, which may be in an older version than the one that is read."""
        version, data = current_form(version, kind, data)
        return cls(version, kind, data, where)

    def body(self) -> JSON:
        """The object, as a dict of its own."""
        found: JSON = msgspec.json.decode(self.data) if isinstance(self.data, bytes) else deepcopy(dict(self.data))
        return {**found, "apiVersion": self.version, "kind": self.kind}

    @property
    def meta(self) -> _Meta:
        """Name, namespace and version; empty if they cannot be read."""
        try:
            return decode_as(_Head, self.data).metadata or _Meta()
        except InvalidObject:
            return _Meta()

    @property
    def key(self) -> Key:
        """What tells this object from all others."""
        meta = self.meta
        return self.version.rpartition("/")[0], self.kind, meta.namespace or "", meta.name or ""

    @property
    def was_read(self) -> bool:
        """Whether the object was read from a cluster and not written by hand. kwok removes versions."""
        meta = self.meta
        return bool(meta.uid and (meta.resource_version or meta.creation_timestamp))


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """One change of an object, some seconds after the start. A deleted object may have only its name: its recording may
    begin after it was created."""

    seconds: float
    event: Event
    item: Item


class StepKind(Enum):
    """What a scheduler does, in the words of recordings that it writes itself."""

    ATTEMPT = "Attempt"
    """A pod leaves the queue."""
    DECISION = "Decision"
    CALL = "Call"
    """The API server has responded to the scheduler."""
    TURN = "Turn"
    """A task beside the scheduling cycles goes on."""


@dataclass(frozen=True, slots=True)
class SchedulerStep:
    """One step of the recorded scheduler."""

    seconds: float
    after: int
    """How many changes it had handled."""
    kind: StepKind
    data: bytes


@dataclass(slots=True)
class Contents:
    """The objects at the start, and what changes after it."""

    items: list[Item] = field(default_factory=list)
    changes: list[ObjectChange] = field(default_factory=list)
    config: JSON | None = None
    """A KubeSchedulerConfiguration, if the file has one."""
    feature_gates: dict[str, bool] = field(default_factory=dict)
    """The recorded scheduler's, where they are not the defaults."""
    steps: list[SchedulerStep] = field(default_factory=list)
    """What the scheduler did, if it wrote the recording itself."""
    started: float | None = None
    """When the recording began, in seconds since 1970."""
    seconds: float = 0.0
    """How long the recording is."""
    workloads_only: bool = False
    """Whether the changes have workloads without their pods, whatever pods the objects at the start have."""

    @property
    def is_recording(self) -> bool:
        """Whether anything changes."""
        return bool(self.changes)

    @property
    def has_pods(self) -> bool:
        """Whether pods were recorded. If not, controllers have to make them."""
        if self.workloads_only:
            return False
        return any(each.kind == "Pod" for each in self.items) or any(each.item.kind == "Pod" for each in self.changes)

    def at(self, seconds: float = float("inf")) -> list[Item]:
        """The objects as they are after so many seconds; without an argument, at the end."""
        if not self.changes:
            return self.items
        found = {each.key: each for each in self.items}
        for change in self.changes:
            if change.seconds > seconds:
                break
            if change.event is Event.DELETE:
                found.pop(change.item.key, None)
            else:
                found[change.item.key] = change.item
        return list(found.values())

    def add(self, other: Contents) -> None:
        """Add what another file has. Times of all files count from their own start."""
        # The order of steps and changes is known only within one file.
        self.steps = [] if self.changes and other.changes else self.steps or other.steps
        self.feature_gates = self.feature_gates | other.feature_gates
        self.items += other.items
        self.changes = sorted([*self.changes, *other.changes], key=lambda change: change.seconds)
        self.config = other.config if self.config is None else self.config
        self.started = other.started if self.started is None else self.started
        self.seconds = max(self.seconds, other.seconds)
        self.workloads_only = self.workloads_only or other.workloads_only


def of_objects(objects: Iterable[Mapping[str, Any]]) -> Contents:
    """Contents of objects that are already decoded."""
    return Contents([Item.read(str(each.get("apiVersion", "")), str(each.get("kind", "")), each) for each in objects])
