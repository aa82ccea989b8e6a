"""Flame graphs: where the scheduler's CPU time goes in a workload that runs in process, as an SVG file.

A timer interrupts the process once per millisecond of CPU time. Samples of the API server and of the measurement itself
are left out, so that the picture shows the scheduler alone.
"""

from __future__ import annotations

import signal
from collections import Counter
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from types import FrameType

from kubesched.bench.perf.executor import Executor
from kubesched.bench.perf.format import PerfRun
from kubesched.bench.perf.in_process import in_process_cluster

INTERVAL = 0.001
WIDTH, ROW, MARGIN = 1200, 17, 40
SMALLEST = 1.5
"""Pixels. Narrower boxes are left out."""
LEFT_OUT = ("kubesched.apiserver", "kubesched.bench")
COLOURS = {
    "scheduler": "#f4a582",
    "queue": "#fddbc7",
    "engine": "#92c5de",
    "framework": "#d1e5f0",
    "plugins": "#a6dba0",
    "cluster": "#c2a5cf",
    "client": "#ffe08a",
    "api": "#e7d4e8",
}
OTHER_COLOUR = "#e0e0e0"

Stack = tuple[str, ...]


class FlameSampler:
    """Counts stacks of the scheduler while it is switched on."""

    def __init__(self) -> None:
        self.samples: Counter[Stack] = Counter()
        self._on = False

    def switch(self) -> None:
        """Switch it on, or off if it is on. Works only in the main thread."""
        self._on = not self._on
        if self._on:
            signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, *((INTERVAL, INTERVAL) if self._on else (0.0, 0.0)))

    def _sample(self, number: int, frame: FrameType | None) -> None:
        stack = stack_of(frame)
        if stack:
            self.samples[stack] += 1


def stack_of(frame: FrameType | None) -> Stack:
    """The functions from the scheduler's outermost to the innermost; nothing for a sample that is left out."""
    names = []
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith(LEFT_OUT):
            return ()
        names.append(f"{module.removeprefix('kubesched.')}:{frame.f_code.co_name}")
        frame = frame.f_back
    names.reverse()
    own = [index for index, name in enumerate(names) if name.partition(":")[0].partition(".")[0] in COLOURS]
    return tuple(names[own[0] :]) if own else ("event loop",)


@dataclass(slots=True)
class FlameNode:
    """A function in the place where it was called, with the samples in it and in what it calls."""

    samples: int = 0
    children: dict[str, FlameNode] = field(default_factory=dict)

    def add(self, stack: Stack, samples: int) -> None:
        """Count samples of a stack."""
        self.samples += samples
        node = self
        for name in stack:
            node = node.children.setdefault(name, FlameNode())
            node.samples += samples

    def depth(self) -> int:
        """The number of levels below it."""
        return max((1 + child.depth() for child in self.children.values()), default=0)


async def sample_run(run: PerfRun) -> Counter[Stack]:
    """Run a workload in process and sample the scheduler while the workload measures."""
    sampler = FlameSampler()
    async with in_process_cluster(run) as client, Executor(client, run, settle=1.0) as executor:
        executor.on_measuring = sampler.switch
        await executor.run()
    return sampler.samples


def draw(title: str, samples: Counter[Stack]) -> str:
    """The flame graph as SVG. Boxes have their share as a tooltip."""
    root = FlameNode()
    for stack, count in samples.items():
        root.add(stack, count)
    height = MARGIN + ROW * root.depth() + 10
    scale = (WIDTH - 20) / max(root.samples, 1)
    boxes: list[str] = []
    _draw_children(root, 10.0, height - 10 - ROW, scale, root.samples, boxes)
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="monospace"'
            ' font-size="11">',
            f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
            f'<text x="10" y="20" font-size="14">{escape(title)}: {root.samples} ms of CPU</text>',
            *boxes,
            "</svg>\n",
        )
    )


def _draw_children(parent: FlameNode, left: float, top: float, scale: float, total: int, boxes: list[str]) -> None:
    for name, node in sorted(parent.children.items()):
        width = node.samples * scale
        if width >= SMALLEST:
            boxes.append(_box(name, node, left, top, width, total))
            _draw_children(node, left, top - ROW, scale, total, boxes)
        left += width


def _box(name: str, node: FlameNode, left: float, top: float, width: float, total: int) -> str:
    colour = COLOURS.get(name.partition(":")[0].partition(".")[0], OTHER_COLOUR)
    room = int(width / 6.7)
    short = name.rpartition(":")[2]
    text = name if len(name) <= room else short if len(short) <= room else ""
    label = f'<text x="{left + 2:.1f}" y="{top + 12:.1f}">{escape(text)}</text>' if text else ""
    share = f"{100 * node.samples / total:.1f} %"
    return (
        f'<g><title>{escape(name)}: {share}</title><rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}"'
        f' height="{ROW - 1}" fill="{colour}"/>{label}</g>'
    )


def flame_file(folder: Path, run: PerfRun) -> Path:
    """The file that the flame graph of a workload goes to."""
    return folder / f"{run.name.replace('/', '-').lower()}.svg"
