"""`kubesched record`: writes a running cluster and every change in it, until stopped."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path
from typing import Any

import click

from kubesched.cli.snapshot import expected_errors, source_of, with_source_options
from kubesched.config.duration import Duration
from kubesched.snapshots.live import SnapshotSource
from kubesched.snapshots.recording import RecordingWriter
from kubesched.snapshots.writing import Change, renaming, write_recording


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
        except asyncio.CancelledError:
            raise SystemExit(130) from None
        finally:
            writer.close()
    click.echo(f"{output}: {writer.lines} lines in {time.time() - writer.started:.0f} s", err=True)


def _seconds(text: str) -> float:
    try:
        return Duration.parse(text).seconds
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--duration") from None


async def _record(source: SnapshotSource, writer: RecordingWriter, change: Change, seconds: float | None) -> None:
    stop = asyncio.Event()
    loop, this = asyncio.get_running_loop(), asyncio.current_task()
    assert this is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, this.cancel)

    def started() -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        if seconds is not None:
            loop.call_later(seconds, stop.set)
        click.echo(f"recording; {writer.lines} objects at the start; Ctrl-C stops it", err=True)

    await write_recording(source, writer, change, stop, started)
