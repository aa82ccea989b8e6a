"""Expectations of a scenario, and how they are checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from kubesched.apiserver.kinds.registry import ApiResource
from kubesched.apiserver.storage.store import Record, Store
from kubesched.base.types import JSON
from kubesched.config.errors import Problem, join, suggest

MISSING = "nothing"
ENDED = ("Succeeded", "Failed")
PHASES = ("Pending", "Running", *ENDED, "Unknown")


class NamedObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object as scenarios name it."""

    pod: str = ""
    """Short for ``kind: Pod`` and a name."""
    node: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = "default"

    @property
    def resource(self) -> str:
        """The kind of the object."""
        return self.kind or ("Node" if self.node else "Pod")

    @property
    def name_of(self) -> str:
        """The name of the object; empty if there are several."""
        return self.pod or self.node or self.name


class Expectation(NamedObject, frozen=True, rename="camel", kw_only=True):
    """About one object, or with `labels` or `count` about several of a kind. Every given field must hold."""

    labels: dict[str, str] = {}
    on_node: object = None
    """The node of the pod, or a list of acceptable nodes."""
    pending: bool | None = None
    """Whether a pod waits for a node."""
    because: str = ""
    """Part of the reason why a pod is pending."""
    phase: str = ""
    exists: bool | None = None
    count: int | None = None
    """The number of objects for which all other fields hold."""
    fields: dict[str, object] = {}
    """Values by their path in the object: ``spec.replicas: 3``."""

    @property
    def asks_only_pending(self) -> bool:
        """Whether it asks nothing about pods but whether they wait."""
        asks_more = self.nodes or self.because or self.phase or self.fields
        return self.resource == "Pod" and self.pending is not None and not asks_more

    @property
    def nodes(self) -> Sequence[str]:
        """The acceptable nodes."""
        if isinstance(self.on_node, str):
            return (self.on_node,)
        return tuple(self.on_node) if isinstance(self.on_node, list | tuple | set) else ()

    def problems(self, path: str) -> Iterator[Problem]:
        """Yield contradictions and omissions."""
        if sum(map(bool, (self.pod, self.node, self.name))) > 1:
            yield Problem(path, "names more than one object", hint="use one of pod, node, or kind and name")
        if not self.name_of and not self.labels and self.count is None and not self.kind:
            yield Problem(path, "names no object", hint="add pod: NAME, node: NAME, or kind with name, labels or count")
        if self.on_node is not None and not isinstance(self.on_node, str | list | tuple | set):
            yield Problem(join(path, "onNode"), "expected a node's name or a list of names", self.on_node)
        if self.count is not None and self.count < 0:
            yield Problem(join(path, "count"), "must not be negative", self.count)
        if self.count is not None and self.name_of:
            hint = f"leave out count, or the name {self.name_of}"
            yield Problem(join(path, "count"), "cannot be combined with a name", self.count, hint)
        if self.phase and self.phase not in PHASES and self.resource.lower() in ("pod", "pods", "po"):
            hint = suggest(self.phase, PHASES) or f"expected one of {', '.join(PHASES)}"
            yield Problem(join(path, "phase"), "pods have no such phase", self.phase, hint)

    def __str__(self) -> str:
        subject = f"{self.resource} {self.name_of}".strip()
        if not self.name_of:
            subject = " ".join([f"{self.resource}s", *(f"{key}={value}" for key, value in self.labels.items())])
        return f"{subject}: {', '.join(self._conditions()) or 'there'}"

    def _conditions(self) -> Iterator[str]:
        if self.count is not None:
            yield f"{self.count} of them"
        if self.exists is not None:
            yield "exists" if self.exists else "does not exist"
        if self.nodes:
            yield f"on {' or '.join(self.nodes)}"
        if self.pending is not None:
            yield "pending" if self.pending else "not pending"
        if self.because:
            yield f'because "{self.because}"'
        if self.phase:
            yield self.phase
        yield from (f"{field} = {_shown(value)}" for field, value in self.fields.items())


class Finding(msgspec.Struct, frozen=True):
    """One difference between what was expected and what was found."""

    about: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.about}: expected {self.expected}, found {self.found}"


class Checked(msgspec.Struct, frozen=True):
    """The result of checking an expectation."""

    time: float
    expected: str
    findings: Sequence[Finding] = ()

    @property
    def holds(self) -> bool:
        return not self.findings

    @property
    def message(self) -> str:
        """The expectation, with what was found instead."""
        return f"{self.expected}; " + "; ".join(map(str, self.findings)) if self.findings else self.expected


def check(expectation: Expectation, store: Store, resource: ApiResource) -> Sequence[Finding]:
    """Return all differences; empty if the expectation holds."""
    storage = resource.storage
    if expectation.name_of:
        key = resource.key(expectation.namespace, expectation.name_of)
        return tuple(_check_one(expectation, key, store.get(storage, key)))
    where = expectation.namespace if resource.namespaced else ""
    records = [each for each in store.records(storage, where) if expectation.labels.items() <= each.labels.items()]
    if expectation.count is None:
        if not records:
            return (Finding(str(expectation), "at least one", "none"),)
        return tuple(finding for each in records for finding in _check_one(expectation, each.key, each))
    good = sum(not any(_check_one(expectation, each.key, each)) for each in records)
    if good == expectation.count:
        return ()
    return (Finding(expectation.resource + "s", str(expectation.count), f"{good} (of {len(records)})"),)


def _check_one(expectation: Expectation, key: str, record: Record | None) -> Iterator[Finding]:
    if record is None:
        if expectation.exists is not False:
            yield Finding(key, "an object", "none of that name")
        return
    if expectation.exists is False:
        yield Finding(key, "no object", "one")
        return
    if expectation.asks_only_pending and _waits(record) == expectation.pending:
        return
    obj = record.load()
    if expectation.nodes and node_of(obj) not in expectation.nodes:
        yield Finding(key, f"on {' or '.join(expectation.nodes)}", placement_of(obj))
    if expectation.pending is not None and is_pending(obj) != expectation.pending:
        yield Finding(key, "pending" if expectation.pending else "not pending", placement_of(obj))
    if expectation.because and expectation.because not in why_pending(obj):
        yield Finding(key, f'the reason "{expectation.because}"', why_pending(obj) or placement_of(obj))
    if expectation.phase and phase_of(obj) != expectation.phase:
        yield Finding(key, f"phase {expectation.phase}", f"phase {phase_of(obj)}; {placement_of(obj)}")
    for field, wanted in expectation.fields.items():
        if (found := _at(obj, field.split("."))) != wanted:
            yield Finding(f"{key} {field}", _shown(wanted), _shown(found))


def _waits(record: Record) -> bool:
    """The same as `is_pending` for a stored pod, without decoding it."""
    return not record.fields.get("spec.nodeName") and record.fields.get("status.phase") not in ENDED


def node_of(pod: JSON) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")


def phase_of(pod: JSON) -> str:
    return str((pod.get("status") or {}).get("phase") or "")


def is_pending(pod: JSON) -> bool:
    """Whether a pod waits for a node."""
    return not node_of(pod) and phase_of(pod) not in ENDED


def why_pending(pod: JSON) -> str:
    """Return the scheduler's last message about a pod without a node."""
    for condition in (pod.get("status") or {}).get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason") or "")
    return ""


def placement_of(pod: JSON) -> str:
    """Describe where a pod is, or why it has no node."""
    if node := node_of(pod):
        return f"on {node}"
    if not is_pending(pod):
        return phase_of(pod)
    why = why_pending(pod)
    return f"pending: {why}" if why else "pending, not tried yet"


def _at(value: Any, parts: Sequence[str]) -> object:
    """Return the value at a path. Keys may contain dots, as labels do; the longest existing key wins."""
    if not parts:
        return value
    if isinstance(value, list) and parts[0].isdecimal() and int(parts[0]) < len(value):
        return _at(value[int(parts[0])], parts[1:])
    if isinstance(value, Mapping):
        for end in range(len(parts), 0, -1):
            if (key := ".".join(parts[:end])) in value:
                return _at(value[key], parts[end:])
    return None


def _shown(value: object) -> str:
    return MISSING if value is None else msgspec.json.encode(value).decode()
