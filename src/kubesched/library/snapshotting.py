"""A running cluster in a file, from Python: `kubesched snapshot` and `kubesched record` as functions."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Any, Self

from kubesched.base.types import JSON
from kubesched.library.live import run_apart
from kubesched.library.tables import as_frame, as_html
from kubesched.snapshots.live import ObjectSelection, SnapshotSource, connect
from kubesched.snapshots.recording import RecordingWriter
from kubesched.snapshots.writing import Change, renaming, write_list, write_recording

FilePath = str | PathLike[str]


class Snapshot(Sequence[JSON]):
    """The objects of a cluster at one moment, as dicts. `kubesched.Cluster` takes them: ``Cluster(*snapshot)``."""

    def __init__(self, objects: Iterable[JSON]) -> None:
        self._objects = tuple(objects)

    def __getitem__(self, index: Any) -> Any:
        return self._objects[index]

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[JSON]:
        return iter(self._objects)

    def write(self, path: FilePath) -> None:
        """Write a List, as ``kubectl get -o json`` prints it; compressed if the name ends in ``.gz``."""
        write_list(Path(path), self._objects)

    def to_frame(self) -> Any:
        """A data frame with a row per object: kind, namespace, name, and the node of a pod."""
        return as_frame([_row(each) for each in self])

    def _repr_html_(self) -> str:
        return as_html(str(self), [_row(each) for each in self])

    def __str__(self) -> str:
        kinds = Counter(str(each["kind"]) for each in self)
        return ", ".join(f"{number} {kind}" for kind, number in kinds.most_common()) or "no objects"

    def __repr__(self) -> str:
        return f"<Snapshot: {self}>"


def _row(obj: JSON) -> dict[str, object]:
    meta = obj.get("metadata") or {}
    return {
        "kind": obj["kind"],
        "namespace": meta.get("namespace", ""),
        "name": meta.get("name", ""),
        "node": (obj.get("spec") or {}).get("nodeName", "") if obj["kind"] == "Pod" else "",
    }


def snapshot(
    path: FilePath | None = None,
    *,
    kubeconfig: FilePath | None = None,
    context: str | None = None,
    namespaces: Iterable[str] = (),
    labels: str = "",
    nodes: str = "",
    anonymise: bool = False,
    key: str = "",
) -> Snapshot:
    """Read a running cluster, and write it to a file if there is a `path`.

    Secrets are not read; environment, commands and arguments are left out. `labels` selects objects in namespaces and
    `nodes` nodes, both as kubectl does. With `anonymise` names are replaced; the same `key` gives the same names.
    """
    source = _source(kubeconfig, context, namespaces, labels, nodes)
    taken = Snapshot(map(renaming(anonymise, key), run_apart(source.read())))
    if path is not None:
        taken.write(path)
    return taken


def record(
    path: FilePath,
    *,
    kubeconfig: FilePath | None = None,
    context: str | None = None,
    namespaces: Iterable[str] = (),
    labels: str = "",
    nodes: str = "",
    anonymise: bool = False,
    key: str = "",
) -> Recording:
    """Write a running cluster and every change in it, until the recording is stopped. The options are `snapshot`'s.

    ``with kubesched.record("monday.jsonl.gz"): …`` records while the block runs.
    """
    source = _source(kubeconfig, context, namespaces, labels, nodes)
    return Recording(Path(path), source, renaming(anonymise, key))


def _source(
    kubeconfig: FilePath | None, context: str | None, namespaces: Iterable[str], labels: str, nodes: str
) -> SnapshotSource:
    selection = ObjectSelection(tuple(namespaces), labels, nodes)
    return SnapshotSource(connect(kubeconfig, context), selection, lambda text: warnings.warn(text, stacklevel=2))


class Recording:
    """A recording that goes on in a thread. `stop` it, or use it as a context manager."""

    def __init__(self, path: Path, source: SnapshotSource, change: Change) -> None:
        self.path = path
        self._source = source
        self._change = change
        self._writer = RecordingWriter(path, time.time)
        self._started = Event()
        self._problem: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._thread = Thread(target=self._run, name=f"recording {path.name}", daemon=True)
        self._thread.start()
        self._started.wait()
        self._raise()

    @property
    def lines(self) -> int:
        """How many objects and changes have been written."""
        return self._writer.lines

    def stop(self) -> None:
        """Write the end. Raises what has gone wrong meanwhile."""
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._raise()

    def _run(self) -> None:
        try:
            asyncio.run(self._record())
        except BaseException as problem:
            self._problem = problem
        finally:
            self._writer.close()
            self._started.set()

    async def _record(self) -> None:
        self._loop = asyncio.get_running_loop()
        await write_recording(self._source, self._writer, self._change, self._stop, self._started.set)

    def _raise(self) -> None:
        problem, self._problem = self._problem, None
        if problem is not None:
            raise problem

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()
