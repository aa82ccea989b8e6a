"""A recording that the scheduler writes itself, with its attempts: `kubesched run --record`, `kubesched up --record`.

Objects are written with the fields that scheduling reads. Lines are encoded at once and written by a thread, so that
the scheduler never waits for a disk.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import msgspec

from kubesched.api import objects as api
from kubesched.base.clock import Clock
from kubesched.base.features import DEFAULT_FEATURES, Features, gate_name
from kubesched.base.log import ERROR, Log
from kubesched.base.types import JSON
from kubesched.config import dump
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.snapshots.cleaning import ANNOTATIONS, FORBIDDEN_KINDS, Cleaner
from kubesched.snapshots.contents import Event, StepKind
from kubesched.snapshots.recording import RecordingWriter

DECIDING = ("profiles", "percentageOfNodesToScore", "podInitialBackoffSeconds", "podMaxBackoffSeconds")
"""The fields of a configuration that matter in a replay."""
CLOSE_SECONDS = 60.0
MOST_WAITING = 500_000
"""Lines in memory while the disk is slow: the objects of a large cluster at the start, and more."""
_CLEAN = Cleaner()
Line = tuple[Event | StepKind | None, bytes, float]
"""An event with its object and its time; no event for an object that exists at the start."""


class JournalFile:
    """Writes a journal. Close it to end it."""

    def __init__(
        self, path: Path, config: KubeSchedulerConfiguration, features: Features, clock: Clock, log: Log
    ) -> None:
        """Raises OSError if the file cannot be written. A file that exists gets another name."""
        self._log = log
        self._path = path
        self._offset = clock.now() - clock.monotonic()
        _make_way(path)
        self._writer = RecordingWriter(path, lambda: self._offset + clock.monotonic(), _header(config, features))
        self.is_synced: Callable[[], bool] = lambda: False
        """Whether all objects of the start have been seen."""
        self._lines: SimpleQueue[Line | None] = SimpleQueue()
        self._ended = False
        self._thread = threading.Thread(target=self._write_all, name="recording", daemon=True)
        self._thread.start()

    def event(self, old: api.Object | None, new: api.Object | None, moment: float) -> None:
        """Write a cluster event."""
        obj = old if new is None else new
        assert obj is not None
        if obj.kind in FORBIDDEN_KINDS:
            return
        event = Event.DELETE if new is None else Event.ADD if old is None else Event.UPDATE
        initial = event is Event.ADD and not self.is_synced()
        self._put((None if initial else event, encoded(obj), moment))

    def attempt(self, attempted: JSON, moment: float) -> None:
        """Write that a pod has left the queue."""
        self._put((StepKind.ATTEMPT, msgspec.json.encode(attempted), moment))

    def decision(self, decided: JSON, moment: float) -> None:
        """Write a decision."""
        self._put((StepKind.DECISION, msgspec.json.encode(decided), moment))

    def call(self, called: JSON, result: api.Object | None, moment: float) -> None:
        """Write a response of the API server."""
        body = called if result is None else {**called, "result": msgspec.Raw(encoded(result))}
        self._put((StepKind.CALL, msgspec.json.encode(body), moment))

    def turn(self, taken: JSON, moment: float) -> None:
        """Write that a task beside the scheduling cycles goes on."""
        self._put((StepKind.TURN, msgspec.json.encode(taken), moment))

    def close(self) -> None:
        """Write the rest, and the end."""
        self._lines.put(None)
        self._thread.join(CLOSE_SECONDS)

    def _put(self, line: Line) -> None:
        """Queue a line. A recording with a gap could not be replayed, so one that falls too far behind ends."""
        if not self._ended and self._lines.qsize() >= MOST_WAITING:
            self._ended = True
            self._log(ERROR, "The recording ends here: it cannot be written fast enough", file=str(self._path))
        if not self._ended:
            self._lines.put(line)

    def _write_all(self) -> None:
        try:
            while (line := self._lines.get()) is not None:
                event, data, moment = line
                if event is None:
                    self._writer.initial(msgspec.Raw(data))
                else:
                    self._writer.change(event, msgspec.Raw(data), self._offset + moment)
            self._writer.close()
        except Exception as problem:
            self._ended, self._lines = True, SimpleQueue()
            self._log(ERROR, "The recording ends here: it cannot be written", file=str(self._path), err=problem)


def encoded(obj: api.Object) -> bytes:
    """An object as JSON, without annotations and parameters of devices that may contain secrets."""
    if not ANNOTATIONS.isdisjoint(obj.metadata.annotations):
        kept = {name: text for name, text in obj.metadata.annotations.items() if name not in ANNOTATIONS}
        obj = msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, annotations=kept))
    kind = msgspec.json.encode({"apiVersion": obj.api_version, "kind": obj.kind or type(obj).__name__})
    data = msgspec.json.encode(obj)
    if b'"opaque":' in data:
        data = msgspec.json.encode(_CLEAN(msgspec.json.decode(data)))
    return kind[:-1] + b"," + data[1:]


def _header(config: KubeSchedulerConfiguration, features: Features) -> Mapping[str, Any]:
    tree = dump.to_builtins(dump.without_secrets(config))
    gates = {
        gate_name(each.name): getattr(features, each.name)
        for each in fields(features)
        if getattr(features, each.name) != getattr(DEFAULT_FEATURES, each.name)
    }
    return {"config": {name: tree[name] for name in DECIDING if name in tree}, "featureGates": gates}


def _make_way(path: Path) -> None:
    """Rename an older recording: day.jsonl.gz becomes day.1.jsonl.gz, or has the next free number."""
    if not path.is_file():
        return
    stem, dot, suffixes = path.name.partition(".")
    number = 1
    while (other := path.with_name(f"{stem}.{number}{dot}{suffixes}")).exists():
        number += 1
    path.rename(other)
