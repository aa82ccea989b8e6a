"""Line charts as SVG, without scripts, for pages that stand by themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 720, 220
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 30, 26
TICKS = 4
MOST_POINTS = 700
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Line:
    """A value over time. It keeps each value until the next point."""

    name: str
    color: str
    points: Sequence[Point]


def line_chart(
    title: str, lines: Sequence[Line], end: float, time: Callable[[float], str], value: Callable[[float], str]
) -> str:
    """A chart from time 0 to `end`. Its text is for screen readers too."""
    top = max((y for line in lines for _, y in line.points), default=0) or 1
    if isinstance(top, int):
        top = -(-top // TICKS) * TICKS  # whole numbers at the ticks
    span = end or 1

    def x_of(seconds: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * seconds / span

    def y_of(amount: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * amount / top

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" xmlns="http://www.w3.org/2000/svg">']
    parts.append(f"<title>{escape(title)}</title>")
    parts.append(f'<text x="{LEFT}" y="14" font-weight="bold">{escape(title)}</text>')
    for index in range(TICKS + 1):
        x, y = x_of(span * index / TICKS), y_of(top * index / TICKS)
        anchor = "start" if not index else "end" if index == TICKS else "middle"
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#8884" fill="none"/>')
        parts.append(
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{escape(value(top * index / TICKS))}</text>'
        )
        parts.append(
            f'<text x="{x:.1f}" y="{HEIGHT - 8}" text-anchor="{anchor}">{escape(time(span * index / TICKS))}</text>'
        )
    legend = WIDTH - RIGHT
    for line in reversed(lines):
        path = _path([(x_of(t), y_of(v)) for t, v in thinned(line.points)], x_of(span))
        parts.append(f'<path d="{path}" stroke="{line.color}" stroke-width="1.5" fill="none"/>')
        place = f'x="{legend}" y="14" text-anchor="end"'
        parts.append(f'<text {place} style="fill:{line.color}">\u25a0 {escape(line.name)}</text>')
        legend -= 7 * len(line.name) + 28
    return "".join(parts) + "</svg>"


def _path(points: Sequence[Point], end: float) -> str:
    if not points:
        return ""
    (x, y), *rest = points
    steps = "".join(f"H{right:.1f}V{up:.1f}" for right, up in rest)
    return f"M{x:.1f} {y:.1f}{steps}H{end:.1f}"


def thinned(points: Sequence[Point]) -> list[Point]:
    """Not more points than can be seen: of neighbours the highest, so that no peak is lost."""
    size = -(-len(points) // MOST_POINTS)
    if size <= 1:
        return list(points)
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return [(group[0][0], max(value for _, value in group)) for group in groups]
