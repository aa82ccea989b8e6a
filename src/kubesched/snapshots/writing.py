"""Writes a running cluster to files: once as a List, or as a recording with every change."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from kubesched.base.private_files import open_private
from kubesched.base.types import JSON
from kubesched.snapshots.anonymise import Anonymiser
from kubesched.snapshots.contents import Event
from kubesched.snapshots.live import SnapshotSource
from kubesched.snapshots.recording import RecordingWriter

FLUSH_SECONDS = 5.0
Change = Callable[[JSON], JSON]


def renaming(anonymise: bool, key: str) -> Change:
    """What is done to each object before it is written."""
    return Anonymiser(key) if anonymise or key else lambda obj: obj


def as_list(objects: Iterable[JSON]) -> bytes:
    """The objects as kubectl prints them, one per line."""
    lines = b",\n".join(msgspec.json.encode(each) for each in objects)
    return b'{"apiVersion":"v1","kind":"List","metadata":{},"items":[\n' + lines + b"\n]}\n"


def write_list(path: Path, objects: Iterable[JSON]) -> None:
    """Write a List, compressed if the name ends in .gz."""
    text = as_list(objects)
    with open_private(path) as file:
        file.write(gzip.compress(text, 6) if path.name.endswith(".gz") else text)


async def write_recording(
    source: SnapshotSource, writer: RecordingWriter, change: Change, stop: asyncio.Event, started: Callable[[], None]
) -> None:
    """Record until `stop` is set. `started` is called once the objects of the start are written."""

    def begin(objects: Iterable[JSON]) -> None:
        for each in objects:
            writer.initial(change(each))
        writer.flush()
        started()

    def changed(event: Event, obj: JSON) -> None:
        writer.change(event, change(obj))

    flushing = asyncio.create_task(_flush(writer))
    try:
        await source.follow(begin, changed, stop)
    finally:
        flushing.cancel()


async def _flush(writer: RecordingWriter) -> None:
    """Write to disk now and then, so that little is lost if the machine stops."""
    while True:
        await asyncio.sleep(FLUSH_SECONDS)
        writer.flush()
