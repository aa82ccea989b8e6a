"""The files of other simulators: kube-scheduler-simulator's export, kwok's patches, simkube's trace.

The record of kube-scheduler-simulator has the lines of our own recordings, and kwok's snapshot is plain YAML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from statistics import median
from typing import Any

import msgspec

from kubesched.apiserver.kinds.registry import BUILT_IN, ApiResource
from kubesched.apiserver.kinds.schema import type_of
from kubesched.apiserver.rest.patch import strategic_merge
from kubesched.base.annotations import RUN_TIME
from kubesched.base.clocks import START
from kubesched.base.types import JSON
from kubesched.config.validation import REMOVED
from kubesched.snapshots.contents import Contents, Event, Item, Key, ObjectChange
from kubesched.snapshots.versions import Raw

# --- kube-scheduler-simulator -----------------------------------------------------------------------------------------

EXPORTED = {
    "namespaces": ("v1", "Namespace"),
    "priorityClasses": ("scheduling.k8s.io/v1", "PriorityClass"),
    "storageClasses": ("storage.k8s.io/v1", "StorageClass"),
    "pvcs": ("v1", "PersistentVolumeClaim"),
    "pvs": ("v1", "PersistentVolume"),
    "nodes": ("v1", "Node"),
    "pods": ("v1", "Pod"),
}
CONFIG = "schedulerConfig"


def is_export(data: Raw) -> bool:
    """Whether an object without a kind is an export: it has lists of nodes or pods."""
    try:
        fields = msgspec.json.decode(data, type=dict[str, msgspec.Raw]) if isinstance(data, bytes) else data
    except msgspec.MsgspecError:
        return False
    return set(fields) <= {*EXPORTED, CONFIG} and not set(fields).isdisjoint(EXPORTED)


def export(tree: Mapping[str, Any], where: str) -> Contents:
    """The objects of an export, which have no kind of their own, and the scheduler's configuration."""
    found = Contents()
    for name, (version, kind) in EXPORTED.items():
        listed = tree.get(name) or []
        if not isinstance(listed, list):
            raise ValueError(f"{name}: expected a list, got {listed!r}")
        for index, obj in enumerate(listed):
            if not isinstance(obj, dict):
                raise ValueError(f"{name}[{index}]: expected an object, got {obj!r}")
            found.items.append(Item(version, kind, obj, f"{where} {name}[{index}]".lstrip()))
    config = tree.get(CONFIG)
    found.config = _without_removed_plugins(config) if isinstance(config, dict) else None
    return found


def _without_removed_plugins(tree: Any) -> Any:
    """A configuration without the plugins that an older kube-scheduler had: an export lists all of them by name."""
    if isinstance(tree, dict):
        return {key: _without_removed_plugins(value) for key, value in tree.items()}
    if not isinstance(tree, list):
        return tree
    return [
        _without_removed_plugins(each) for each in tree if not (isinstance(each, dict) and each.get("name") in REMOVED)
    ]


# --- kwok -------------------------------------------------------------------------------------------------------------

MOST_SECONDS = 100 * 365 * 86_400
"""A change that comes later after the first is a mistake, and the clock could not show its time."""
_OFFSET = re.compile(rb"\$\(time-offset-nanosecond (-?\d{1,18})\)")
"""How kwok writes all times in a file: since the moment at which it began to write."""
_METHODS = {"create": Event.ADD, "patch": Event.UPDATE, "delete": Event.DELETE}


def with_times(text: bytes) -> bytes:
    """A file of kwok with times instead of offsets from the start of a replay; any other file as it is."""
    return _OFFSET.sub(lambda found: _time(int(found[1])), text) if b"$(time-offset-nanosecond " in text else text


def _time(nanoseconds: int) -> bytes:
    return datetime.fromtimestamp(START + nanoseconds // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ").encode()


def is_patch(version: str, kind: str) -> bool:
    """Whether an object is a change that kwok recorded."""
    return kind == "ResourcePatch" and version.startswith("action.kwok.x-k8s.io/")


def patch(contents: Contents, latest: dict[Key, Item], tree: Mapping[str, Any], where: str) -> None:
    """Add a recorded change. `latest` has the objects as they are then: a patch is applied to one of them."""
    resource, target = tree.get("resource") or {}, tree.get("target") or {}
    event, nanoseconds = _METHODS.get(str(tree.get("method"))), tree.get("durationNanosecond") or 0
    if event is None or not isinstance(nanoseconds, int):
        raise ValueError("ResourcePatch: method must be create, patch or delete, and durationNanosecond a number")
    if abs(nanoseconds) > MOST_SECONDS * 1e9:
        raise ValueError("ResourcePatch: durationNanosecond is more than a hundred years")
    template = tree.get("template") or {}
    parts = resource, target, template, (isinstance(template, dict) and template.get("metadata")) or {}
    if not all(isinstance(each, dict) for each in parts):
        raise ValueError("ResourcePatch: resource, target, template and its metadata must be objects")
    known = _resource(str(resource.get("group") or ""), str(resource.get("resource") or ""))
    if known is None:
        return  # a kind that is none of Kubernetes' own
    name = {key: str(target[key]) for key in ("name", "namespace") if target.get(key)}
    if event is not Event.ADD:  # the last state of what is deleted is kept
        body = _patched(latest, known, name, template)
    else:
        body = {**template, "metadata": {**(template.get("metadata") or {}), **name}}
    item = Item(known.group_version, known.kind, {"apiVersion": known.group_version, "kind": known.kind, **body}, where)
    seconds = nanoseconds / 1e9
    latest[item.key] = item
    contents.changes.append(ObjectChange(seconds, event, item))
    contents.seconds = max(contents.seconds, seconds)


def _patched(latest: Mapping[Key, Item], resource: ApiResource, name: Mapping[str, str], template: JSON) -> JSON:
    before = latest.get((resource.group, resource.kind, name.get("namespace", ""), name.get("name", "")))
    body = {"metadata": dict(name)} if before is None else before.body()
    return strategic_merge(body, template, type_of(resource.schema))


def _resource(group: str, plural: str) -> ApiResource | None:
    return next((each for each in BUILT_IN if (each.group, each.plural) == (group, plural)), None)


# --- simkube ----------------------------------------------------------------------------------------------------------

_MAPS = (*range(0x80, 0x90), 0xDE, 0xDF)
"""The first byte of a map in msgpack. No text begins with one of the former."""


class _Event(msgspec.Struct):
    ts: float
    applied_objs: list[dict[str, Any]] | None = None
    deleted_objs: list[dict[str, Any]] | None = None


class _Trace(msgspec.Struct):
    events: list[_Event]
    pod_lifecycles: dict[Any, Any] | None = None


def is_simkube(data: bytes) -> bool:
    """Whether the data is a trace, in msgpack or in the JSON that its tools convert it to."""
    if data[:1] == b"" or b"applied_objs" not in data:
        return False
    return data[0] in _MAPS or (data.lstrip()[:1] == b"{" and b"trackedObjects" in data)


def simkube(data: bytes) -> Contents:
    """The objects that were applied and deleted, at their times. Pods of an owner run as long as its pods did.

    It has no pods that controllers made, and no decisions.
    """
    try:
        tree = msgspec.msgpack.decode(data) if data[0] in _MAPS else msgspec.json.decode(data)
        if not isinstance(tree, dict) or not isinstance(tree.get("events"), list):
            raise ValueError("not a simkube trace of version 2: it has no list of events")
        trace = msgspec.convert(tree, _Trace)
    except msgspec.MsgspecError as error:
        raise ValueError(f"not a simkube trace: {error}") from None
    lasting = dict(_run_times(trace.pod_lifecycles or {}))
    found = Contents()
    known: set[Any] = set()
    start = trace.events[0].ts if trace.events else 0.0
    for each in trace.events:
        seconds = each.ts - start
        if not abs(seconds) <= MOST_SECONDS:
            raise ValueError(f"not a simkube trace: an event is {seconds:g} s after the first")
        found.seconds = max(found.seconds, seconds)
        for obj in each.applied_objs or ():
            item = _lasting(Item.read(str(obj.get("apiVersion")), str(obj.get("kind")), obj), lasting)
            if seconds == 0.0:
                found.items.append(item)
            else:
                event = Event.UPDATE if item.key in known else Event.ADD
                found.changes.append(ObjectChange(seconds, event, item))
            known.add(item.key)
        for obj in each.deleted_objs or ():
            gone = Item.read(str(obj.get("apiVersion")), str(obj.get("kind")), obj)
            found.changes.append(ObjectChange(seconds, Event.DELETE, gone))
    found.started = start or None
    found.workloads_only = True
    return found


def _run_times(lifecycles: Mapping[Any, Any]) -> Iterator[tuple[tuple[str, str], float]]:
    """For each owner (its kind, its name) of pods that ended, how long they ran: the median."""
    for owner, by_hash in lifecycles.items():
        by_owner = by_hash.values() if isinstance(by_hash, dict) else ()
        lives = [life for several in by_owner if isinstance(several, list | tuple) for life in several]
        seconds = [_seconds(life) for life in lives]
        ended = [each for each in seconds if each is not None]
        if ended and isinstance(owner, tuple | list) and len(owner) == 2:
            yield (str(owner[0]).rpartition(".")[2], str(owner[1])), median(ended)


def _seconds(life: Any) -> float | None:
    """How long a pod ran; None if it runs still. Rust writes ``{"Finished": [start, end]}``, the documentation a map
    with both."""
    if not isinstance(life, dict):
        return None
    both = life.get("Finished") or (life.get("start_ts"), life.get("end_ts"))
    if not isinstance(both, tuple | list) or len(both) != 2 or not all(isinstance(each, int | float) for each in both):
        return None
    return float(max(both[1] - both[0], 0)) if abs(both[1] - both[0]) <= MOST_SECONDS else None


def _lasting(item: Item, run_times: Mapping[tuple[str, str], float]) -> Item:
    _, kind, namespace, name = item.key
    seconds = run_times.get((kind, f"{namespace}/{name}"))
    if seconds is None:
        return item
    body = item.body()
    template = body if kind == "Pod" else (body.get("spec") or {}).get("template")
    if isinstance(template, dict):
        metadata = template.setdefault("metadata", {})
        metadata["annotations"] = {**(metadata.get("annotations") or {}), RUN_TIME: f"{seconds:g}s"}
    return Item(item.version, item.kind, body, item.where)
