"""Recordings: JSON lines with the time, what happened, and the object.

The lines are those of kube-scheduler-simulator's recorder: ``{"time", "event", "resource"}``. Ours begin with a line of
kind Recording, which has the time of the start, and end with an ``End``, which has the time of the end. Objects that
existed at the start are added at that time.

A recording that our scheduler writes itself has its configuration in the first line, and three more events: ``Attempt``
(a pod leaves the queue), ``Decision`` and ``Call`` (the API server has responded to the scheduler). All lines are in
the order in which the scheduler handled them.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Annotated, Any, cast

import msgspec

from kubesched.api.decoding import kind_of
from kubesched.base.private_files import open_private
from kubesched.base.types import JSON
from kubesched.snapshots.contents import Contents, Event, Item, ObjectChange, SchedulerStep, StepKind

API_VERSION = "kubesched.io/v1alpha1"
KIND = "Recording"
END = "End"
FLUSH_LINES = 200
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]
"""Times without a zone cannot be compared with the others."""


class _Line(msgspec.Struct, rename="camel"):
    time: _Moment | None = None
    event: str = ""
    resource: msgspec.Raw = msgspec.Raw(b"{}")
    kind: str = ""
    config: JSON | None = None
    feature_gates: dict[str, bool] | None = None


class _Meta(msgspec.Struct, rename="camel"):
    creation_timestamp: _Moment | None = None


class _Object(msgspec.Struct):
    metadata: _Meta | None = None


_decoder = msgspec.json.Decoder(_Line)
_STEPS = frozenset(each.value for each in StepKind)


def is_recording(text: bytes) -> bool:
    """Whether the first line is one of a recording."""
    first = text.lstrip()[:1_000_000].partition(b"\n")[0]
    if not first.startswith(b"{"):
        return False
    try:
        line = _decoder.decode(first)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return line.time is not None and (line.kind == KIND or bool(line.event))


def read_recording(text: bytes, where: str) -> Contents:
    """The objects at the start and all changes. A last line that was cut off is ignored."""
    found = Contents()
    lines = text.splitlines()
    began: datetime | None = None
    is_ours = False
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            each = _decoder.decode(line)
        except msgspec.MsgspecError as error:
            if number == len(lines):
                break
            raise ValueError(f"line {number}: {error}") from None
        if each.time is None:
            raise ValueError(f"line {number}: has no time")
        began = each.time if began is None else began
        seconds = max((each.time - began).total_seconds(), 0.0)
        found.seconds = max(found.seconds, seconds)
        if each.kind:
            is_ours = True
            found.config, found.feature_gates = each.config, each.feature_gates or {}
        elif each.event in _STEPS:
            step = SchedulerStep(seconds, len(found.changes), StepKind(each.event), bytes(each.resource))
            found.steps.append(step)
        elif each.event != END:
            is_initial = seconds == 0.0 or (not is_ours and _is_older(each, began))
            _take(found, each, 0.0 if is_initial else seconds, f"{where}:{number}")
    found.started = None if began is None else began.timestamp()
    found.changes.sort(key=lambda change: change.seconds)
    if not is_ours:
        _keep_last_states(found)
    return found


def _keep_last_states(found: Contents) -> None:
    """Give objects that are deleted the state that they had last: kube-scheduler-simulator writes only their names."""
    latest = {each.key: each for each in found.items}
    for index, change in enumerate(found.changes):
        key = change.item.key
        if change.event is not Event.DELETE:
            latest[key] = change.item
        elif not change.item.meta.uid and key in latest:
            found.changes[index] = replace(change, item=latest.pop(key))


def _is_older(line: _Line, began: datetime) -> bool:
    """Whether an object was there before a recording began. kube-scheduler-simulator's adds the objects of one kind
    after the other; its own times say when it saw them.
    """
    try:
        meta = msgspec.json.decode(line.resource, type=_Object).metadata
    except msgspec.MsgspecError:
        return False
    created = None if meta is None else meta.creation_timestamp
    # Creation times are whole seconds.
    return line.event == Event.ADD.value and created is not None and began - created >= timedelta(seconds=1)


def _take(found: Contents, line: _Line, seconds: float, where: str) -> None:
    try:
        event = Event(line.event)
    except ValueError:
        known = ", ".join(each.value for each in Event)
        raise ValueError(f"{where}: event {line.event!r} is not known; the events are {known}") from None
    data = bytes(line.resource)
    item = Item.read(*kind_of(data), data, where)
    if event is Event.ADD and seconds == 0.0:
        found.items.append(item)
    else:
        found.changes.append(ObjectChange(seconds, event, item))


class RecordingWriter:
    """Writes a recording line by line. Close it to end it."""

    def __init__(self, path: Path, now: Callable[[], float], header: Mapping[str, Any] | None = None) -> None:
        """`header` is added to the first line."""
        self._now = now
        compressed = path.name.endswith(".gz")
        plain = open_private(path)
        self._file: IO[bytes] = (
            cast(IO[bytes], gzip.GzipFile(fileobj=plain, mode="wb", compresslevel=6)) if compressed else plain
        )
        self._plain = plain
        self._unwritten = 0
        self.lines = 0
        self.started = now()
        self._write({"apiVersion": API_VERSION, "kind": KIND, "time": _text(self.started), **(header or {})})

    def initial(self, obj: JSON | msgspec.Raw) -> None:
        """Write an object that exists at the start."""
        self._write({"time": _text(self.started), "event": Event.ADD.value, "resource": obj})
        self.lines += 1

    def change(self, event: Event | StepKind, obj: JSON | msgspec.Raw, moment: float | None = None) -> None:
        """Write what happens now, or at a given time."""
        # An object that is added at the very start would count as one that was there before.
        moment = max(self._now() if moment is None else moment, self.started + 1e-6)
        self._write({"time": _text(moment), "event": event.value, "resource": obj})
        self.lines += 1

    def close(self) -> None:
        """Write the end."""
        self._write({"time": _text(self._now()), "event": END})
        self._file.close()
        self._plain.close()

    def flush(self) -> None:
        """Write to disk what has been recorded."""
        self._file.flush()
        self._unwritten = 0

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(msgspec.json.encode(line) + b"\n")
        self._unwritten += 1
        if self._unwritten >= FLUSH_LINES:
            self.flush()


def _text(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
