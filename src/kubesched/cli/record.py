"""`kubesched record`: writes a running cluster and every change in it, until stopped."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click

from kubesched.base.types import JSON
from kubesched.cli.snapshot import expected_errors, renaming, source_of, with_source_options
from kubesched.config.duration import Duration
from kubesched.snapshots.contents import Event
from kubesched.snapshots.live import SnapshotSource
from kubesched.snapshots.recording import RecordingWriter

FLUSH_SECONDS = 5.0


@click.command()
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), metavar="FILE")
@click.option("--duration", metavar="TIME", help="Stop after this time, such as 1h. Default: when interrupted.")
@with_source_options
def command(output: Path, duration: str | None, anonymise: bool, key: str, **given: Any) -> None:
    """Write a running cluster and every change in it with its time, until Ctrl-C.

    The file has JSON lines, {"time", "event", "resource"}, the first of them the cluster at the start. With a name that
    ends in .gz it is compressed. What is never written, and the selectors, are those of kubesched snapshot. Replay it
    with kubesched simulate, compare configurations on it with kubesched compare.

    \b
    kubesched record -o monday.jsonl.gz --duration 8h
    kubesched simulate monday.jsonl.gz --arrivals
    """
    source = source_of(given)
    seconds = None if duration is None else _seconds(duration)
    with expected_errors():
        writer = RecordingWriter(output, time.time)
        try:
            asyncio.run(_record(source, writer, renaming(anonymise, key), seconds))
        finally:
            writer.close()
    click.echo(f"{output}: {writer.lines} lines in {time.time() - writer.started:.0f} s", err=True)


def _seconds(text: str) -> float:
    try:
        return Duration.parse(text).seconds
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--duration") from None


async def _record(
    source: SnapshotSource, writer: RecordingWriter, change: Callable[[JSON], JSON], seconds: float | None
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    flushing = asyncio.create_task(_flush(writer))

    def started(objects: Iterable[JSON]) -> None:
        for each in objects:
            writer.initial(change(each))
        writer.flush()
        if seconds is not None:
            loop.call_later(seconds, stop.set)
        click.echo(f"recording; {writer.lines} objects at the start; Ctrl-C stops it", err=True)

    def changed(event: Event, obj: JSON) -> None:
        writer.change(event, change(obj))

    try:
        await source.follow(started, changed, stop)
    finally:
        flushing.cancel()


async def _flush(writer: RecordingWriter) -> None:
    """Write to disk now and then, so that little is lost if the machine stops."""
    while True:
        await asyncio.sleep(FLUSH_SECONDS)
        writer.flush()
